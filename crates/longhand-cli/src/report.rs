//! The report of `compact`.

use std::fmt;

use longhand::receipt::FoldReceipt;
use longhand_core::anchor::identifiers;
use longhand_core::{
    Batch, Budget, EditKind, Message, Part, Plan, Tally, Text, Tokens, folded_messages, grouped,
    shown_edits,
};
use longhand_dialect::Conversation;
use serde_json::{Value, json};
use std::collections::HashSet;

use crate::output::{counted, harmless_line};
use crate::weigh::{Counted, NamedMeter};

pub(crate) struct CompactReport<'r> {
    pub(crate) conversation: &'r Conversation,
    pub(crate) window: &'r Conversation,
    pub(crate) plan: &'r Plan,
    pub(crate) budget: Budget,
    pub(crate) meter: &'r NamedMeter,
    /// The batches that the window shows, the new one too.
    pub(crate) live: &'r [Batch],
    /// How many thinking blocks it does not show of messages that it shows.
    pub(crate) thinking_removed: usize,
    pub(crate) before: Counted,
    pub(crate) after: Tokens,
    pub(crate) summary: Summaries,
}

/// The models that were asked for a summary.
pub(crate) struct Summaries {
    /// Who wrote the summary that is used, with its tokens and cost.
    pub(crate) account: Option<FoldReceipt>,
    /// Why others were not used, each with its name.
    pub(crate) refused: Vec<String>,
}

impl Summaries {
    /// A line for each model that was asked.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .refused
            .iter()
            .map(|why| format!("summary not used: {}", harmless_line(why)))
            .collect();
        let Some(FoldReceipt { summary, .. }) = &self.account else { return lines };
        if summary.model.is_some() {
            let number = |tokens: Option<u64>| grouped(tokens.unwrap_or(0) as usize);
            let cost = summary.cost_micros.map_or_else(
                || "at an unknown price".to_owned(),
                |micros| format!("for ${}.{:06}", micros / 1_000_000, micros % 1_000_000),
            );
            let others = match summary.written {
                Some(written @ 2..) => format!(" (the last of {written})"),
                _ => String::new(),
            };
            lines.push(format!(
                "summary by {}{others}: {} tokens read, {} written, {cost}",
                harmless_line(&summary.summariser),
                number(summary.input_tokens),
                number(summary.output_tokens)
            ));
        } else if !self.refused.is_empty() {
            lines.push("summary by the built-in summariser, which needs no model".to_owned());
        }
        lines
    }
}

/// Anchors of the conversation, by what became of them.
struct Anchors {
    total: usize,
    kept: usize,
    restored: usize,
}

impl CompactReport<'_> {
    pub(crate) fn to_json(&self) -> Value {
        let size = |conversation: &Conversation, tokens: Tokens| {
            json!({
                "messages": conversation.messages.len(),
                "tokens": tokens.0,
                "bytes": conversation.bytes().len(),
            })
        };
        let (mut stubbed, mut folded, mut clipped) = (vec![], vec![], vec![]);
        for edit in shown_edits(self.live) {
            let handle = edit.handle().map(|handle| handle.to_string());
            match edit.kind() {
                EditKind::Stub(at) => stubbed.extend(self.place(at, handle.as_deref())),
                EditKind::Clip(at) => clipped.extend(self.place(at, handle.as_deref())),
                EditKind::Fold(spans) => {
                    let path = self.conversation.path();
                    let ranges: Vec<[usize; 2]> = spans
                        .iter()
                        .map(|span| [path.from(span.first), path.after(span.last)])
                        .collect();
                    let count = self.folded();
                    folded.push(json!({"messages": ranges, "count": count, "handle": handle}));
                }
                EditKind::Insert => {}
            }
        }
        let mut before = size(self.conversation, self.before.tokens);
        if self.before.is_estimate {
            before["estimated"] = true.into();
        }
        let anchors = self.anchors();
        json!({
            "dialect": self.conversation.dialect.as_str(),
            "meter": self.meter.name,
            "exact": self.meter.is_exact,
            "budget": self.budget.limit.0,
            "reserve": self.budget.reserve.0,
            "before": before,
            "after": size(self.window, self.after),
            "fits": self.plan.fits(),
            "floor": self.plan.floor.min(self.after).0,
            "shortfall": self.plan.shortfall.0,
            "stubbed": stubbed,
            "folded": folded,
            "clipped": clipped,
            "thinking_removed": self.thinking_removed,
            "summary": {"used": self.summary.account, "refused": self.summary.refused},
            "anchors": {
                "total": anchors.total,
                "kept": anchors.kept,
                "restored": anchors.restored,
                "dropped": anchors.total - anchors.kept - anchors.restored,
            },
        })
    }

    /// How many messages are folded: each fold takes over what the one before it had.
    fn folded(&self) -> u64 {
        let newest = self.live.iter().rev().find(|batch| batch.fold().is_some());
        newest.map_or(0, folded_messages)
    }

    fn place(&self, at: longhand_core::Place, handle: Option<&str>) -> Option<Value> {
        let (message, part) = self.conversation.path().find(at)?;
        let kind = match &self.conversation.messages[message].parts[part] {
            Part::Result(_) => "result",
            Part::Call(_) => "arguments",
            _ => "text",
        };
        Some(json!({
            "at": self.conversation.name_of(message),
            "message": message,
            "part": part,
            "kind": kind,
            "handle": handle,
        }))
    }

    fn anchors(&self) -> Anchors {
        let mut before = Vec::new();
        self.conversation.messages.iter().for_each(|message| texts(message, &mut before));
        let mut after = Vec::new();
        self.window.messages.iter().for_each(|message| texts(message, &mut after));
        let all: HashSet<&str> = before.iter().flat_map(|text| identifiers(text)).collect();
        let markers: HashSet<&str> = after
            .iter()
            .filter(|text| text.contains("[longhand "))
            .flat_map(|text| identifiers(text))
            .collect();
        let plain: HashSet<&str> = after
            .iter()
            .filter(|text| !text.contains("[longhand "))
            .flat_map(|text| identifiers(text))
            .collect();
        let kept = all.intersection(&plain).count();
        let restored = all.intersection(&markers).filter(|name| !plain.contains(*name)).count();
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

impl fmt::Display for CompactReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |tokens: Tokens| grouped(tokens.0 as usize);
        write!(
            f,
            "longhand: {} -> {} tokens of {} ({}, {})",
            if self.before.is_estimate {
                format!("≈{}", number(self.before.tokens))
            } else {
                self.meter.figure(self.before.tokens)
            },
            self.meter.figure(self.after),
            number(self.budget.limit),
            self.conversation.dialect,
            self.meter.name
        )?;
        if self.live.is_empty() && self.plan.fits() {
            return f.write_str("; it fits as it is");
        }
        let tally = Tally::of(shown_edits(self.live));
        let folded = self.folded() as usize;
        let counts = [
            (tally.stubs, "stub", ""),
            (tally.clips, "clip", ""),
            (folded, "message", " folded"),
            (self.thinking_removed, "thinking block", " removed"),
        ];
        let done: Vec<_> = counts
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, noun, what)| format!("{}{what}", counted(*count, noun)))
            .collect();
        if !done.is_empty() {
            write!(f, "; {}", done.join(", "))?;
        }
        if !self.plan.fits() {
            write!(
                f,
                "\ndoes not fit: {} over; the smallest window is {} tokens\nhint: --budget {} is enough; another --policy or a smaller --keep-tail may help",
                self.meter.figure(self.plan.shortfall),
                self.meter.figure(self.plan.floor.min(self.after)),
                self.plan.floor.min(self.after).0 + self.budget.reserve.0
            )?;
        }
        Ok(())
    }
}
