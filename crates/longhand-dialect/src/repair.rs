//! Calls without results and results without calls, mended.

use std::collections::BTreeMap;
use std::ops::Range;

use longhand_core::json::{self, JsonCursor, JsonKind, JsonValue};
use longhand_core::{Part, Role, Text, ToolResult};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::check::{
    At, is_compaction, is_paired, is_reasoning, may_follow_reasoning, unasked_approvals,
    unpaired_server_tools,
};
use crate::conversation::Conversation;
use crate::render::{input_message, text_block};
use crate::{Dialect, DialectError, read};

/// The text of a result that never came.
const NO_RESULT: &str = "[longhand repair: no result was recorded for this call]";
const NO_WORDS: &str = "[longhand repair: this message was empty]";
const NO_START: &str = "[longhand repair: what came before is not here]";
const NO_PARTNER: &str =
    "[longhand repair: a call and its result belong together; one was missing]";

impl Conversation {
    /// Answers calls that have no result, quotes results that have no call, and moves results to where
    /// their provider wants them. A result that exists is never made up.
    ///
    /// What needs no mending comes out byte for byte.
    pub fn repair(&self) -> Result<Self, DialectError> {
        let pieces = match self.dialect {
            Dialect::Chat => self.repair_chat(),
            Dialect::Responses => self.repair_responses(),
            Dialect::Anthropic => self.repair_anthropic(),
            // A log may well end in the middle of a call; whoever reads it mends that.
            Dialect::ClaudeCode | Dialect::Codex | Dialect::Pi => {
                (0..self.elements.len()).map(RepairedElement::Own).collect()
            }
        };
        read(self.written(&pieces).into_bytes(), Some(self.dialect))
    }

    /// Writes the conversation with other elements in its list; neighbours keep what stood between them.
    fn written(&self, pieces: &[RepairedElement]) -> String {
        let (Some(first), Some(last)) = (self.elements.first(), self.elements.last()) else {
            return self.source.to_string();
        };
        let second = self.elements.get(1);
        let separator = second.map_or(",", |second| &self.source[first.end..second.start]);
        let mut out = self.source[..first.start].to_owned();
        let mut before: Option<usize> = None;
        for (index, piece) in pieces.iter().enumerate() {
            let element = piece.element();
            match (before, element) {
                (Some(before), Some(next)) if before + 1 == next => {
                    out.push_str(
                        &self.source[self.elements[before].end..self.elements[next].start],
                    );
                }
                _ if index > 0 => out.push_str(separator),
                _ => {}
            }
            out.push_str(match piece {
                RepairedElement::Own(element) => &self.source[self.elements[*element].clone()],
                RepairedElement::Changed(_, text) | RepairedElement::New(text) => text,
            });
            before = element;
        }
        out + &self.source[last.end..]
    }

    /// The messages that are elements.
    fn turns(&self) -> Vec<usize> {
        (0..self.messages.len()).filter(|at| !self.layout[*at].elements.is_empty()).collect()
    }

    /// A message as a piece, with new ids for calls and results that shared one.
    fn piece(&self, at: usize, pairs: &Pairs) -> RepairedElement {
        let element = self.layout[at].elements[0];
        let raw = self.messages[at].raw.raw();
        let key = if self.dialect == Dialect::Chat { "tool_call_id" } else { "call_id" };
        let changed = if self.dialect == Dialect::Chat && self.messages[at].role != Role::Tool {
            with_call_ids(raw, &pairs.calls(at).map(|call| pairs.new_id(call)).collect::<Vec<_>>())
        } else {
            pairs.new_id((at, 0)).map(|id| with_id(raw, key, id))
        };
        changed
            .map_or(RepairedElement::Own(element), |text| RepairedElement::Changed(element, text))
    }

    fn repair_chat(&self) -> Vec<RepairedElement> {
        let is_result = |at: usize| self.messages[at].role == Role::Tool && !self.is_function(at);
        let pairs = Pairs::of(self);
        let mut out = Vec::new();
        let mut at = 0;
        while at < self.messages.len() {
            let asker = (!is_result(at)).then_some(at);
            out.extend(asker.map(|asker| self.piece(asker, &pairs)));
            let start = at + usize::from(asker.is_some());
            at = (start..self.messages.len())
                .find(|at| !is_result(*at))
                .unwrap_or(self.messages.len());
            // Its results as they stand, those that stand elsewhere, and those that stand nowhere.
            let is_answer = |result: &usize| {
                pairs.call_of((*result, 0)).is_some_and(|call| Some(call.0) == asker)
            };
            out.extend((start..at).filter(is_answer).map(|result| self.piece(result, &pairs)));
            for call in asker.into_iter().flat_map(|asker| pairs.calls(asker)) {
                match pairs.result_of(call) {
                    Some((result, _)) if (start..at).contains(&result) => {}
                    Some((result, _)) => out.push(self.piece(result, &pairs)),
                    None => out.extend(self.answer(call, &pairs).map(RepairedElement::New)),
                }
            }
            // What nobody asked for is quoted after the results that it stood among.
            for orphan in (start..at).filter(|result| pairs.call_of((*result, 0)).is_none()) {
                let quoted = json::quote(&self.quoted(orphan, 0));
                out.push(RepairedElement::New(format!(r#"{{"role":"user","content":{quoted}}}"#)));
            }
        }
        out
    }

    fn repair_responses(&self) -> Vec<RepairedElement> {
        let pairs = Pairs::of(self);
        let mut out: Vec<(RepairedElement, Option<usize>)> = Vec::new();
        // Results for calls that stand side by side, and quotes: they wait for a gap.
        let (mut results, mut quotes) = (Vec::new(), Vec::new());
        let unasked: FxHashSet<usize> =
            unasked_approvals(self).into_iter().map(|(at, _)| at).collect();
        for at in self.turns() {
            let message = &self.messages[at];
            if unasked.contains(&at) {
                quotes.push((RepairedElement::New(input_message(NO_PARTNER)), None));
                continue;
            }
            let call = message.calls().next().map(|_| (at, 0));
            if call.is_none() {
                out.append(&mut results);
            }
            if message.results().next().is_some() {
                let stays = match pairs.call_of((at, 0)) {
                    Some(call) => call.0 < at,
                    None => self.continues_at(at) || !is_paired(message),
                };
                if stays {
                    out.push((self.piece(at, &pairs), Some(at)));
                } else if pairs.call_of((at, 0)).is_none() {
                    quotes.push((RepairedElement::New(input_message(&self.quoted(at, 0))), None));
                }
                continue;
            }
            // Nothing may come between reasoning and what it led to.
            let leads_on = |last: &(RepairedElement, Option<usize>)| {
                last.1.is_some_and(|at| is_reasoning(&self.messages[at]))
            };
            let held = out.last().is_some_and(leads_on) && may_follow_reasoning(message);
            if call.is_none() && !held {
                out.append(&mut quotes);
            }
            let answer = call.map(|call| (pairs.result_of(call), self.answer(call, &pairs)));
            let has_id = call.is_some_and(|call| !pairs.id(call).is_empty());
            match answer {
                Some((None, None)) if has_id && is_paired(message) => {
                    while out.last().is_some_and(leads_on) {
                        out.pop();
                    }
                    quotes.push((RepairedElement::New(input_message(NO_PARTNER)), None));
                    continue;
                }
                Some((None, Some(text))) => results.push((RepairedElement::New(text), None)),
                Some((Some((result, _)), _)) if result < at => {
                    results.push((self.piece(result, &pairs), Some(result)));
                }
                _ => {}
            }
            out.push((self.piece(at, &pairs), Some(at)));
        }
        out.append(&mut results);
        out.append(&mut quotes);
        self.without_idle_reasoning(out)
    }

    /// A result for a call that never got one. `None` for a call without an id, and for a built-in tool, whose
    /// results only the provider can write.
    fn answer(&self, call: At, pairs: &Pairs) -> Option<String> {
        let Part::Call(asked) = &self.messages[call.0].parts[call.1] else { return None };
        let id = Some(pairs.id(call)).filter(|id| !id.is_empty()).map(json::quote)?;
        let text = json::quote(NO_RESULT);
        let kind = match self.dialect {
            Dialect::Chat => {
                return Some(format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#));
            }
            Dialect::Anthropic => {
                return Some(format!(
                    r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}}}"#
                ));
            }
            _ if self.messages[call.0].parts.len() > 1 => return None,
            _ if asked.freeform => "custom_tool_call_output",
            _ => "function_call_output",
        };
        Some(format!(r#"{{"type":"{kind}","call_id":{id},"output":{text}}}"#))
    }

    /// Drops reasoning whose item was removed, since providers refuse it alone.
    fn without_idle_reasoning(
        &self,
        pieces: Vec<(RepairedElement, Option<usize>)>,
    ) -> Vec<RepairedElement> {
        let mut kept: Vec<(RepairedElement, Option<usize>)> = Vec::new();
        for (piece, at) in pieces.into_iter().rev() {
            let message = |at: Option<usize>| at.map(|at| &self.messages[at]);
            let next = kept.last().and_then(|(_, next)| message(*next));
            if message(at).is_some_and(is_reasoning) && !next.is_some_and(may_follow_reasoning) {
                continue;
            }
            kept.push((piece, at));
        }
        kept.into_iter().rev().map(|(piece, _)| piece).collect()
    }

    fn repair_anthropic(&self) -> Vec<RepairedElement> {
        let pairs = Pairs::of(self);
        let turns = self.turns();
        let alone = unpaired_server_tools(&self.messages, &turns);
        let alone: FxHashSet<At> = alone.into_iter().map(|(place, _)| place).collect();
        let user = |blocks: &[String]| {
            RepairedElement::New(format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(",")))
        };
        let mut out = Vec::new();
        let mut asker = None;
        for &at in &turns {
            let message = &self.messages[at];
            let mut owed = self.owed(asker, Some(at), &pairs);
            if !owed.is_empty() && (message.role != Role::User || !self.has_blocks(at)) {
                out.push(user(&owed));
                owed.clear();
            }
            let mended = self.mended(at, asker, owed, &pairs, &alone);
            if out.is_empty()
                && mended.is_some()
                && message.role == Role::Assistant
                && !is_compaction(message.parts.first())
            {
                out.push(user(&[text_block(&json::quote(NO_START))]));
            }
            out.extend(mended);
            asker = Some(at);
        }
        let owed = self.owed(asker, None, &pairs);
        if !owed.is_empty() {
            out.push(user(&owed));
        }
        out
    }

    /// The results of `asker` that the message after it lacks: from elsewhere, or from nowhere.
    fn owed(&self, asker: Option<usize>, next: Option<usize>, pairs: &Pairs) -> Vec<String> {
        let takes = |at: &usize| self.messages[*at].role == Role::User && self.has_blocks(*at);
        let next = next.filter(takes);
        let calls = asker.into_iter().flat_map(|asker| pairs.calls(asker));
        let block = |call: At| match pairs.result_of(call) {
            Some((at, _)) if Some(at) == next => None,
            Some((at, part)) => Some(self.block(at, part, pairs)),
            None => self.answer(call, pairs),
        };
        calls.filter_map(block).collect()
    }

    /// A message with its results first and without blank texts; `None` if all its blocks belong elsewhere.
    fn mended(
        &self,
        at: usize,
        asker: Option<usize>,
        owed: Vec<String>,
        pairs: &Pairs,
        alone: &FxHashSet<At>,
    ) -> Option<RepairedElement> {
        let element = self.layout[at].elements[0];
        let message = &self.messages[at];
        if !self.has_blocks(at) {
            return Some(RepairedElement::Own(element));
        }
        let in_place = |index: &usize| {
            let call = pairs.call_of((at, *index));
            message.role == Role::User && call.is_some_and(|call| Some(call.0) == asker)
        };
        let block = |index: usize| self.block(at, index, pairs);
        let mut blocks: Vec<String> =
            (0..message.parts.len()).filter(in_place).map(block).collect();
        blocks.extend(owed);
        let mut moved = false;
        for (index, part) in message.parts.iter().enumerate() {
            match part {
                Part::Result(_) if in_place(&index) => {}
                Part::Result(_) if pairs.call_of((at, index)).is_some() => moved = true,
                Part::Result(_) => blocks.push(text_block(&json::quote(&self.quoted(at, index)))),
                Part::Text(text) | Part::FixedText(text) if text.is_blank() => {}
                _ if alone.contains(&(at, index)) => {
                    blocks.push(text_block(&json::quote(NO_PARTNER)));
                }
                _ => blocks.push(block(index)),
            }
        }
        if blocks.is_empty() {
            if moved {
                return None;
            }
            blocks.push(text_block(&json::quote(NO_WORDS)));
        }
        let unchanged = (0..message.parts.len()).map(|index| self.raw_block(at, index));
        if unchanged.eq(blocks.iter().cloned()) {
            return Some(RepairedElement::Own(element));
        }
        let (range, list) = (self.elements[element].clone(), blocks.join(","));
        let content = self.layout[at]
            .content
            .as_ref()
            .map_or(range.end..range.end, |content| content.span.clone());
        let (head, tail) = (range.start..content.start, content.end..range.end);
        let (head, tail) = (&self.source[head], &self.source[tail]);
        Some(RepairedElement::Changed(element, format!("{head}[{list}]{tail}")))
    }

    /// Whether a message has content that blocks can be added to.
    fn has_blocks(&self, at: usize) -> bool {
        let content = self.layout[at].content.as_ref();
        content.is_some_and(|content| {
            content.blocks.is_some() || self.source[content.span.clone()].starts_with('"')
        })
    }

    /// A block as it stands; a string counts as one.
    fn raw_block(&self, at: usize, index: usize) -> String {
        let content = self.layout[at].content.as_ref();
        match content.map(|content| (content, content.blocks.as_deref())) {
            Some((_, Some(blocks))) => self.source[blocks[index].clone()].to_owned(),
            Some((content, None)) => text_block(&self.source[content.span.clone()]),
            None => String::new(),
        }
    }

    /// A block with its new id, if it has one, and without blank texts in a result.
    fn block(&self, at: usize, index: usize, pairs: &Pairs) -> String {
        let mut block = self.raw_block(at, index);
        let (key, part) = match &self.messages[at].parts[index] {
            part @ Part::Call(_) => ("id", part),
            part => ("tool_use_id", part),
        };
        if let Some(id) = pairs.new_id((at, index)) {
            block = with_id(&block, key, id);
        }
        match part {
            Part::Result(result)
                if result.content.iter().any(is_blank) && !result.raw.raw().starts_with('"') =>
            {
                without_blanks(&block, result)
            }
            _ => block,
        }
    }

    /// The words of a result that answers nothing, every line quoted, so that they are nobody's.
    fn quoted(&self, at: usize, part: usize) -> String {
        let Part::Result(result) = &self.messages[at].parts[part] else { return String::new() };
        let words: Vec<String> = result.content.iter().map(words_of).collect();
        let words = words.join("\n").replace("\r\n", "\n");
        let breaks =
            |c| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let quoted: Vec<String> = words.split(breaks).map(|line| format!("> {line}")).collect();
        let id = result.call.decode();
        let id: String = id.chars().filter(|c| !c.is_control() && *c != ']').take(80).collect();
        format!("[longhand repair: this result of {id:?} has no call here]\n{}", quoted.join("\n"))
    }
}

/// An element of the mended list.
enum RepairedElement {
    /// One that was there, as it was.
    Own(usize),
    /// One that was there, changed.
    Changed(usize, String),
    New(String),
}

impl RepairedElement {
    fn element(&self) -> Option<usize> {
        match self {
            RepairedElement::Own(element) | RepairedElement::Changed(element, _) => Some(*element),
            RepairedElement::New(_) => None,
        }
    }
}

/// Which result answers which call, and what both are called.
#[derive(Default)]
struct Pairs {
    ids: BTreeMap<At, String>,
    by_call: FxHashMap<At, At>,
    by_result: FxHashMap<At, At>,
    new_ids: FxHashMap<At, String>,
}

impl Pairs {
    /// A result belongs to the nearest call before it that is still open, else to the next one after it.
    fn of(conversation: &Conversation) -> Self {
        let mut pairs = Self::default();
        let mut open: FxHashMap<String, Vec<At>> = FxHashMap::default();
        let mut early: Vec<(At, String)> = Vec::new();
        for (at, message) in conversation.messages.iter().enumerate() {
            if conversation.is_function(at) {
                continue;
            }
            for (index, part) in message.parts.iter().enumerate() {
                let place = (at, index);
                match part {
                    Part::Call(call) => {
                        let id = call.id.decode().into_owned();
                        open.entry(id.clone()).or_default().push(place);
                        pairs.ids.insert(place, id);
                    }
                    Part::Result(result) => {
                        let id = result.call.decode().into_owned();
                        match open.get_mut(&id).and_then(take_nearest) {
                            Some(call) => pairs.join(call, place),
                            None => early.push((place, id)),
                        }
                    }
                    _ => {}
                }
            }
        }
        for (result, id) in early {
            let calls = open.entry(id).or_default();
            if let Some(found) = calls.iter().position(|call| *call > result) {
                pairs.join(calls.remove(found), result);
            }
        }
        pairs.rename();
        pairs
    }

    fn join(&mut self, call: At, result: At) {
        self.by_call.insert(call, result);
        self.by_result.insert(result, call);
    }

    /// Gives calls that share an id one each.
    fn rename(&mut self) {
        let mut taken: FxHashSet<String> = self.ids.values().cloned().collect();
        let mut seen: FxHashMap<String, usize> = FxHashMap::default();
        for (call, id) in &mut self.ids {
            let count = seen.entry(id.clone()).or_insert(0);
            *count += 1;
            if *count == 1 || id.is_empty() {
                continue;
            }
            let stem: String = id.chars().take(56).collect();
            let new = loop {
                let new = format!("{stem}_{count}");
                if taken.insert(new.clone()) {
                    break new;
                }
                *count += 1;
            };
            self.new_ids.extend(self.by_call.get(call).map(|result| (*result, new.clone())));
            self.new_ids.insert(*call, new.clone());
            *id = new;
        }
    }

    fn calls(&self, message: usize) -> impl Iterator<Item = At> + '_ {
        self.ids.range((message, 0)..(message + 1, 0)).map(|(call, _)| *call)
    }

    /// The id of a call, the new one if it has one.
    fn id(&self, call: At) -> &str {
        self.ids.get(&call).map_or("", String::as_str)
    }

    fn new_id(&self, place: At) -> Option<&str> {
        self.new_ids.get(&place).map(String::as_str)
    }

    fn result_of(&self, call: At) -> Option<At> {
        self.by_call.get(&call).copied()
    }

    fn call_of(&self, result: At) -> Option<At> {
        self.by_result.get(&result).copied()
    }
}

/// The first open call of the newest message.
fn take_nearest(open: &mut Vec<At>) -> Option<At> {
    let newest = open.last()?.0;
    let first = open.partition_point(|call| call.0 < newest);
    Some(open.remove(first))
}

fn words_of(part: &Part) -> String {
    match part {
        Part::Text(text) | Part::FixedText(text) => text.decode().into_owned(),
        Part::Other(other) => other.raw.decode().into_owned(),
        Part::Image(_) => "(an image)".to_owned(),
        Part::Media(_) => "(a recording)".to_owned(),
        _ => "(a file)".to_owned(),
    }
}

fn is_blank(part: &Part) -> bool {
    part.text().is_some_and(Text::is_blank)
}

/// A result's block without the blank texts in its list.
fn without_blanks(block: &str, result: &ToolResult) -> String {
    let node = JsonCursor::new(block).node().unwrap_or_default();
    let Some(content) = node.get(block, "content") else { return block.to_owned() };
    let spans = spans(block, content);
    let kept: Vec<&str> = (spans.iter().zip(&result.content))
        .filter(|(_, part)| !is_blank(part))
        .map(|(span, _)| &block[span.clone()])
        .collect();
    let span = content.span();
    format!("{}[{}]{}", &block[..span.start], kept.join(","), &block[span.end..])
}

fn spans(source: &str, list: JsonValue) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    if list.kind == JsonKind::Array {
        // It was checked when it was read.
        let _ = JsonCursor::at(source, list.span().start).elements(|cursor| {
            spans.push(cursor.value()?.span());
            Ok(())
        });
    }
    spans
}

/// An object with another id in the field `key`.
fn with_id(object: &str, key: &str, id: &str) -> String {
    let node = JsonCursor::new(object).node().unwrap_or_default();
    match node.get(object, key) {
        Some(old) => {
            let span = old.span();
            format!("{}{}{}", &object[..span.start], json::quote(id), &object[span.end..])
        }
        None => object.to_owned(),
    }
}

/// A message of Chat with other ids for some of its calls; `None` if none has another.
fn with_call_ids(message: &str, ids: &[Option<&str>]) -> Option<String> {
    if ids.iter().all(Option::is_none) {
        return None;
    }
    let node = JsonCursor::new(message).node().ok()?;
    let calls = spans(message, node.get(message, "tool_calls")?);
    let mut out = message.to_owned();
    for (span, id) in calls.into_iter().zip(ids).rev() {
        if let Some(id) = id {
            out.replace_range(span.clone(), &with_id(&message[span], "id", id));
        }
    }
    Some(out)
}
