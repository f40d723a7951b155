//! Calls without results and results without calls, mended.

use longhand_core::json::{self, Cursor};
use longhand_core::{Message, Part, Role};
use rustc_hash::FxHashMap;

use crate::conversation::Conversation;
use crate::render::{input_message, text_block};
use crate::{Dialect, DialectError, read};

/// What is said in the place of a result that never came.
const NO_RESULT: &str = "[longhand repair: no result was recorded for this call]";

impl Conversation {
    /// Answers calls that have no result, quotes results that have no call, and moves results to where
    /// their provider wants them. A result that exists is never made up.
    pub fn repair(&self) -> Result<Self, DialectError> {
        let elements = match self.dialect {
            Dialect::Chat => self.repair_chat(),
            Dialect::Responses => self.repair_responses(),
            Dialect::Anthropic => self.repair_anthropic(),
            // A log may well end in the middle of a call; whoever reads it mends that.
            Dialect::ClaudeCode | Dialect::Codex | Dialect::Pi => return self.with_elements(None),
        };
        self.with_elements(Some(elements))
    }

    /// Reads the conversation anew with other elements in its list.
    fn with_elements(&self, elements: Option<Vec<String>>) -> Result<Self, DialectError> {
        let text = match (elements, self.elements.as_slice()) {
            (Some(elements), [first, .., last]) => {
                let separator = &self.source[first.end..self.elements[1].start];
                let (head, tail) = (&self.source[..first.start], &self.source[last.end..]);
                format!("{head}{}{tail}", elements.join(separator))
            }
            (Some(elements), [only]) => {
                format!(
                    "{}{}{}",
                    &self.source[..only.start],
                    elements.join(","),
                    &self.source[only.end..]
                )
            }
            _ => self.source.to_string(),
        };
        read(text.into_bytes(), Some(self.dialect))
    }

    /// Messages that are elements, in order.
    fn turns(&self) -> impl Iterator<Item = &Message> {
        let has_element = |at: &usize| !self.layout[*at].elements.is_empty();
        (0..self.messages.len()).filter(has_element).map(|at| &self.messages[at])
    }

    fn repair_chat(&self) -> Vec<String> {
        let mut results = Results::of(self.turns(), |message, _| message.raw.raw().to_owned());
        let mut out = Vec::new();
        // What nobody asked for is quoted after the results that it stood among.
        let mut orphans = Vec::new();
        let user = |text: &String| format!(r#"{{"role":"user","content":{}}}"#, json::quote(text));
        for message in self.turns() {
            if message.role == Role::Tool {
                orphans.extend(message.results().filter_map(|result| results.orphan(result)));
                continue;
            }
            out.extend(orphans.iter().map(user));
            orphans.clear();
            out.push(message.raw.raw().to_owned());
            for call in message.calls() {
                let id = call.id.decode();
                out.push(results.take(&id).unwrap_or_else(|| {
                    let (id, text) = (json::quote(&id), json::quote(NO_RESULT));
                    format!(r#"{{"role":"tool","tool_call_id":{id},"content":{text}}}"#)
                }));
            }
        }
        out.extend(orphans.iter().map(user));
        out
    }

    fn repair_responses(&self) -> Vec<String> {
        let mut results = Results::of(self.turns(), |message, _| message.raw.raw().to_owned());
        let is_result = |message: &Message| message.results().next().is_some();
        let mut out = Vec::new();
        let mut orphans: Vec<String> = Vec::new();
        for message in self.turns() {
            if is_result(message) {
                orphans.extend(message.results().filter_map(|result| results.orphan(result)));
                continue;
            }
            // Nothing may come between reasoning and what it led to.
            if message.role != Role::Assistant {
                out.extend(orphans.drain(..).map(|text| input_message(&text)));
            }
            out.push(message.raw.raw().to_owned());
            for call in message.calls() {
                let id = call.id.decode();
                let kind =
                    if call.freeform { "custom_tool_call_output" } else { "function_call_output" };
                out.push(results.take(&id).unwrap_or_else(|| {
                    format!(
                        r#"{{"type":"{kind}","call_id":{},"output":{}}}"#,
                        json::quote(&id),
                        json::quote(NO_RESULT)
                    )
                }));
            }
        }
        out.extend(orphans.iter().map(|text| input_message(text)));
        out
    }

    fn repair_anthropic(&self) -> Vec<String> {
        let mut results = Results::of(self.turns(), block);
        let mut out = Vec::new();
        let mut answers: Vec<String> = Vec::new();
        for message in self.turns() {
            let mut blocks = std::mem::take(&mut answers);
            if message.role != Role::User && !blocks.is_empty() {
                out.push(format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(",")));
                blocks.clear();
            }
            let answered = blocks.len();
            for (index, part) in message.parts.iter().enumerate() {
                match part {
                    Part::Result(result) => {
                        blocks.extend(
                            results.orphan(result).map(|text| text_block(&json::quote(&text))),
                        );
                    }
                    Part::Text(text) if text.is_blank() => {}
                    _ => blocks.push(block(message, index)),
                }
            }
            if blocks.is_empty() {
                blocks.push(text_block(&json::quote("[longhand repair: this message was empty]")));
            }
            let same = answered == 0
                && blocks.len() == message.parts.len()
                && message.results().next().is_none();
            out.push(if same {
                message.raw.raw().to_owned()
            } else {
                with_content(message, &blocks)
            });
            for call in message.calls() {
                let id = call.id.decode();
                answers.push(results.take(&id).unwrap_or_else(|| {
                    let (id, text) = (json::quote(&id), json::quote(NO_RESULT));
                    format!(r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}}}"#)
                }));
            }
        }
        if !answers.is_empty() {
            out.push(format!(r#"{{"role":"user","content":[{}]}}"#, answers.join(",")));
        }
        out
    }
}

/// Results by the call they answer, the first of each; the others are orphans.
struct Results {
    by_call: FxHashMap<String, String>,
    asked: FxHashMap<String, bool>,
}

impl Results {
    fn of<'m>(
        turns: impl Iterator<Item = &'m Message>,
        raw: impl Fn(&Message, usize) -> String,
    ) -> Self {
        let mut by_call = FxHashMap::default();
        let mut asked = FxHashMap::default();
        for message in turns {
            for (index, part) in message.parts.iter().enumerate() {
                match part {
                    Part::Result(result) => {
                        by_call
                            .entry(result.call.decode().into_owned())
                            .or_insert_with(|| raw(message, index));
                    }
                    Part::Call(call) => drop(asked.insert(call.id.decode().into_owned(), false)),
                    _ => {}
                }
            }
        }
        Self { by_call, asked }
    }

    /// The result of a call, once.
    fn take(&mut self, id: &str) -> Option<String> {
        self.by_call.remove(id)
    }

    /// The words of a result that answers nothing, quoted; `None` for one that has its place.
    fn orphan(&mut self, result: &longhand_core::ToolResult) -> Option<String> {
        let id = result.call.decode();
        if let Some(placed) = self.asked.get_mut(id.as_ref())
            && !std::mem::replace(placed, true)
        {
            return None;
        }
        let words: Vec<String> = result.content.iter().map(words_of).collect();
        let quoted: Vec<String> =
            words.join("\n").lines().map(|line| format!("> {line}")).collect();
        let id: String = id.chars().filter(|c| !c.is_control() && *c != ']').take(80).collect();
        Some(format!(
            "[longhand repair: this result of {id:?} has no call here]\n{}",
            quoted.join("\n")
        ))
    }
}

fn words_of(part: &Part) -> String {
    match part {
        Part::Text(text) | Part::Other(text) => text.decode().into_owned(),
        Part::Image(_) => "(an image)".to_owned(),
        _ => "(a file)".to_owned(),
    }
}

/// A block of a message, or its string as a block.
fn block(message: &Message, index: usize) -> String {
    let source = message.raw.raw();
    let node = Cursor::new(source).node().unwrap_or_default();
    let Some(content) = node.get(source, "content") else { return String::new() };
    if content.kind == json::Kind::String {
        return text_block(&source[content.span()]);
    }
    let mut spans = Vec::new();
    let _ = Cursor::at(source, content.span().start).elements(|cursor| {
        spans.push(cursor.value()?.span());
        Ok(())
    });
    spans.get(index).map(|span| source[span.clone()].to_owned()).unwrap_or_default()
}

/// A message with other blocks.
fn with_content(message: &Message, blocks: &[String]) -> String {
    let source = message.raw.raw();
    let node = Cursor::new(source).node().unwrap_or_default();
    let list = format!("[{}]", blocks.join(","));
    match node.get(source, "content") {
        Some(content) => {
            let span = content.span();
            format!("{}{list}{}", &source[..span.start], &source[span.end..])
        }
        None => {
            format!(r#"{{"role":"{}","content":{list}}}"#, message.role.as_str())
        }
    }
}
