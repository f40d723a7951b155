//! What a compaction did.

use std::fmt;

use longhand_core::anchor::{Anchor, mine};
use longhand_core::{Budget, Edit, Message, Part, Plan, Text, Tokens, grouped};
use longhand_dialect::Conversation;
use serde_json::{Value, json};
use std::collections::HashSet;

use crate::weigh::NamedMeter;

pub(crate) struct Report<'r> {
    pub(crate) conversation: &'r Conversation,
    pub(crate) window: &'r Conversation,
    pub(crate) plan: &'r Plan,
    pub(crate) budget: Budget,
    pub(crate) meter: &'r NamedMeter,
    pub(crate) before: Tokens,
    pub(crate) after: Tokens,
}

/// Anchors of the conversation, by what became of them.
struct Anchors {
    total: usize,
    kept: usize,
    restored: usize,
}

impl Report<'_> {
    pub(crate) fn to_json(&self) -> String {
        let size = |conversation: &Conversation, tokens: Tokens| {
            json!({
                "messages": conversation.messages.len(),
                "tokens": tokens.0,
                "bytes": conversation.bytes().len(),
            })
        };
        let (mut stubbed, mut folded, mut clipped, mut unthought) = (vec![], vec![], vec![], 0);
        for edit in &self.plan.edits {
            match edit {
                Edit::Stub { at, handle, .. } => stubbed.push(self.place(at.message, at.part, *handle)),
                Edit::Clip { at, handle, .. } => clipped.push(self.place(at.message, at.part, *handle)),
                Edit::Fold { messages, handle, .. } => folded.push(json!({
                    "messages": messages.iter().map(|range| [range.start, range.end]).collect::<Vec<_>>(),
                    "count": messages.iter().map(ExactSizeIterator::len).sum::<usize>(),
                    "handle": handle.to_string(),
                })),
                Edit::Unthink { .. } => unthought += 1,
            }
        }
        let anchors = self.anchors();
        let report = json!({
            "dialect": self.conversation.dialect.as_str(),
            "meter": self.meter.name,
            "exact": self.meter.is_exact,
            "budget": self.budget.limit.0,
            "reserve": self.budget.reserve.0,
            "before": size(self.conversation, self.before),
            "after": size(self.window, self.after),
            "fits": self.plan.fits(),
            "floor": self.plan.floor.min(self.after).0,
            "shortfall": self.plan.shortfall.0,
            "stubbed": stubbed,
            "folded": folded,
            "clipped": clipped,
            "thinking_removed": unthought,
            "anchors": {
                "total": anchors.total,
                "kept": anchors.kept,
                "restored": anchors.restored,
                "dropped": anchors.total - anchors.kept - anchors.restored,
            },
        });
        format!("{report:#}")
    }

    fn place(&self, message: usize, part: usize, handle: longhand_core::Handle) -> Value {
        let kind = match &self.conversation.messages[message].parts[part] {
            Part::Result(_) => "result",
            Part::Call(_) => "arguments",
            _ => "text",
        };
        json!({
            "at": self.conversation.name_of(message),
            "message": message,
            "part": part,
            "kind": kind,
            "handle": handle.to_string(),
        })
    }

    fn anchors(&self) -> Anchors {
        let mut before = Vec::new();
        self.conversation.messages.iter().for_each(|message| texts(message, &mut before));
        let mut after = Vec::new();
        self.window.messages.iter().for_each(|message| texts(message, &mut after));
        let all: HashSet<Anchor> = before.iter().flat_map(|text| mine(text)).collect();
        let markers: HashSet<Anchor> = after
            .iter()
            .filter(|text| text.contains("[longhand "))
            .flat_map(|text| mine(text))
            .collect();
        let plain: HashSet<Anchor> = after
            .iter()
            .filter(|text| !text.contains("[longhand "))
            .flat_map(|text| mine(text))
            .collect();
        let kept = all.intersection(&plain).count();
        let restored = all.intersection(&markers).filter(|anchor| !plain.contains(anchor)).count();
        Anchors { total: all.len(), kept, restored }
    }
}

/// Gathers all that can be read of a message.
fn texts(message: &Message, into: &mut Vec<String>) {
    fn of(part: &Part, into: &mut Vec<String>) {
        let mut add = |text: &Text| into.push(text.decode().into_owned());
        match part {
            Part::Text(text) | Part::FixedText(text) => add(text),
            Part::Other(other) => add(&other.raw),
            Part::Call(call) => add(&call.arguments),
            Part::Result(result) => result.content.iter().for_each(|part| of(part, into)),
            Part::Media(media) => media.transcript.iter().for_each(add),
            Part::Thinking(_) | Part::Image(_) | Part::File(_) => {}
        }
    }
    message.parts.iter().for_each(|part| of(part, into));
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |tokens: Tokens| grouped(tokens.0 as usize);
        write!(
            f,
            "longhand: {} -> {} tokens of {} ({}, {})",
            self.meter.figure(self.before),
            self.meter.figure(self.after),
            number(self.budget.limit),
            self.conversation.dialect,
            self.meter.name
        )?;
        if self.plan.is_noop() && self.plan.fits() {
            return f.write_str("; it fits as it is");
        }
        let (mut stubs, mut clips, mut folded, mut thoughts) = (0, 0, 0, 0);
        for edit in &self.plan.edits {
            match edit {
                Edit::Stub { .. } => stubs += 1,
                Edit::Clip { .. } => clips += 1,
                Edit::Fold { messages, .. } => {
                    folded += messages.iter().map(ExactSizeIterator::len).sum::<usize>();
                }
                Edit::Unthink { .. } => thoughts += 1,
            }
        }
        let counts = [
            (stubs, "stubbed"),
            (clips, "clipped"),
            (folded, "messages folded"),
            (thoughts, "thinking blocks removed"),
        ];
        let done: Vec<_> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", grouped(*count)))
            .collect();
        if !done.is_empty() {
            write!(f, "; {}", done.join(", "))?;
        }
        if !self.plan.fits() {
            write!(
                f,
                "\ndoes not fit: {} over; the smallest window is {} tokens\nhint: --budget {} would do, or another --policy or a smaller --keep-tail",
                self.meter.figure(self.plan.shortfall),
                self.meter.figure(self.plan.floor.min(self.after)),
                self.plan.floor.min(self.after).0 + self.budget.reserve.0
            )?;
        }
        Ok(())
    }
}
