//! Answers of Responses.

use std::collections::BTreeMap;

use longhand_core::json::quote;

use super::filter::Before;
use super::{Pushed, Reply, ReplyCall, ReplyEvent, ReplyPart, Stop, Usage};
use crate::edits::Edits;
use crate::tools;
use crate::view::View;

pub(super) fn read(view: View) -> Option<Reply> {
    let output = view.get("output")?;
    Some(reply(output.raw(), output, &Attributes::of(view)))
}

/// An answer as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponsesStream {
    items: BTreeMap<u64, String>,
    /// The text of items, by their place.
    said: BTreeMap<u64, String>,
    /// What else has come of items that are not complete: arguments, reasoning.
    unfinished: BTreeMap<u64, String>,
    begun: Attributes,
    ended: Option<(Attributes, String)>,
}

#[derive(Clone, Debug, Default)]
struct Attributes {
    id: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    status: Option<String>,
    reason: Option<String>,
}

impl Attributes {
    fn of(response: View) -> Self {
        let reason = response.get("incomplete_details");
        Self {
            id: response.string("id"),
            usage: response.get("usage").map(usage),
            model: response.string("model"),
            status: response.string("status"),
            reason: reason.and_then(|reason| reason.string("reason")),
        }
    }
}

impl ResponsesStream {
    pub(super) fn push(&mut self, view: View) -> Pushed {
        let place = view.number("output_index");
        let index = place.unwrap_or(self.items.len() as u64);
        let of_item = |begins| place.map(|index| ReplyEvent::Part { index, begins });
        let mut text = String::new();
        let kind = view.string("type");
        let event = match kind.as_deref() {
            Some("response.output_text.delta" | "response.refusal.delta") => {
                text = view.string("delta").unwrap_or_default();
                self.said.entry(index).or_default().push_str(&text);
                of_item(None)
            }
            Some("response.output_item.added") => of_item(view.get("item").map(part)),
            Some("response.output_item.done") => {
                let item = view.get("item");
                self.unfinished.remove(&index);
                if let Some(item) = item {
                    self.items.insert(index, item.raw().to_owned());
                }
                of_item(item.map(part))
            }
            Some("response.created") => {
                self.begun = view.get("response").map(Attributes::of).unwrap_or_default();
                Some(ReplyEvent::Start)
            }
            Some("response.in_progress" | "response.queued") => Some(ReplyEvent::Start),
            Some("response.completed" | "response.incomplete" | "response.done") => {
                if let Some(response) = view.get("response") {
                    let output = response.get("output").map_or("[]", View::raw).to_owned();
                    self.ended = Some((Attributes::of(response), output));
                }
                Some(ReplyEvent::End)
            }
            _ => {
                if let Some(delta) = view.string("delta") {
                    self.unfinished.entry(index).or_default().push_str(&delta);
                }
                of_item(None)
            }
        };
        let is_read = kind.is_some_and(|kind| kind.starts_with("response."));
        Pushed { text, event: event.unwrap_or(ReplyEvent::Other), is_read }
    }

    /// The items that are complete, as a list.
    pub(super) fn output(&self) -> String {
        let items: Vec<&str> = self.items.values().map(String::as_str).collect();
        format!("[{}]", items.join(","))
    }

    pub(super) fn is_done(&self) -> bool {
        self.ended.is_some()
    }

    /// The items, if they came to their end.
    ///
    /// Items that came in their own events are preferred: the list at the end may lack encrypted content. Other items
    /// are taken from that list, and if it lacks them too, from the text so far.
    pub(super) fn finish(mut self) -> Option<Reply> {
        let (mut attributes, output) = self.ended.take()?;
        attributes.id = attributes.id.or_else(|| self.begun.id.take());
        for (index, item) in (0..).zip(View::parse(&output)?.elements()) {
            if !self.items.values().any(|known| is_same(known, item)) {
                self.items.entry(index).or_insert_with(|| item.raw().to_owned());
            }
        }
        self.add_said();
        let output = self.output();
        let view = View::parse(&output)?;
        Some(reply(&output, view, &attributes))
    }

    /// Adds the text of items that never came whole.
    fn add_said(&mut self) {
        for (index, text) in std::mem::take(&mut self.said) {
            let is_known = self.items.values().any(|item| says(item, &text));
            if !text.trim().is_empty() && !is_known {
                self.items.entry(index).or_insert_with(|| output_message(&text));
            }
        }
    }

    /// What has come of items that are incomplete, and reasoning that led to nothing yet.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let last = self.items.values().rev().take_while(|item| is_reasoning(item));
        last.chain(self.unfinished.values()).cloned().collect()
    }

    /// About how many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.items.values().chain(self.said.values()).chain(self.unfinished.values());
        texts.map(String::len).sum::<usize>()
            + self.ended.as_ref().map_or(0, |(_, text)| text.len())
    }

    /// The items as far as they have come: those that are complete, and the text of others.
    pub(super) fn partial(mut self) -> Option<Reply> {
        self.add_said();
        let mut items: Vec<String> = self.items.into_values().collect();
        // Reasoning is refused without what it led to.
        while items.last().is_some_and(|item| is_reasoning(item)) {
            items.pop();
        }
        let output = format!("[{}]", items.join(","));
        Some(reply(&output, View::parse(&output)?, &self.begun))
    }
}

fn is_reasoning(item: &str) -> bool {
    View::parse(item).is_some_and(|item| item.is("type", "reasoning"))
}

/// Whether two items are one.
fn is_same(item: &str, other: View) -> bool {
    let id = |view: View| view.string("id").filter(|id| !id.is_empty());
    item == other.raw()
        || View::parse(item).and_then(id).is_some_and(|found| id(other) == Some(found))
}

/// Whether an item has a text among its parts.
fn says(item: &str, text: &str) -> bool {
    let parts = View::parse(item).and_then(|item| item.get("content")).map(View::elements);
    let said = |part: &View| part.string("text").or_else(|| part.string("refusal"));
    parts.unwrap_or_default().iter().any(|part| said(part).is_some_and(|said| said == text))
}

/// What an item is.
pub(super) fn part(item: View) -> ReplyPart {
    match item.string("type").as_deref() {
        Some("function_call") => ReplyPart::Call(item.string("name").unwrap_or_default()),
        Some("reasoning") => ReplyPart::Reasoning,
        _ => ReplyPart::Other,
    }
}

/// The calls among items.
pub(super) fn calls(items: View) -> Vec<ReplyCall> {
    let waits = |item: &View| {
        let waiting = ["function_call", "mcp_approval_request"];
        item.get("call_id").is_some() || waiting.iter().any(|kind| item.is("type", kind))
    };
    let call = |item: View| ReplyCall {
        name: item.string("name").filter(|_| item.is("type", "function_call")).unwrap_or_default(),
        arguments: item.string("arguments").unwrap_or_default(),
    };
    items.elements().into_iter().filter(waits).map(call).collect()
}

/// Writes a whole response so that the items of earlier ones come first and none of a tool is left.
///
/// `done` is the list of items that came before the end of a stream; the list in the last event may be empty.
pub(super) fn join(response: View, done: &str, edits: &mut Edits, before: &Before) {
    let output = response.get("output").map(View::elements).filter(|items| !items.is_empty());
    let items = output.or_else(|| Some(View::parse(done)?.elements())).unwrap_or_default();
    let Some(joined) = before.joined(&items, part) else { return };
    edits.set(response, "output", &joined);
    if let Some(billed) = response.get("usage") {
        before.write_usage(billed, edits, usage(billed), |all| {
            vec![
                (&["input_tokens"], all.input),
                (&["input_tokens_details", "cached_tokens"], all.cached_input),
                (&["input_tokens_details", "cache_write_tokens"], all.cache_write),
                (&["output_tokens"], all.output),
                (&["total_tokens"], all.input.saturating_add(all.output)),
            ]
        });
    }
}

/// Removes a tool from the copy of the request in a response.
pub(super) fn hide_tool(response: View, edits: &mut Edits, tool: &str) {
    let listed = response.get("tools").map(View::elements).unwrap_or_default();
    let gone: Vec<bool> = listed.iter().map(|listed| tools::goes_by(*listed, tool)).collect();
    edits.remove(&listed, &gone);
}

/// The id and the sequence numbers of a stream's events, which continue through all answers.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// The id of the first answer, as JSON: clients expect one id in all events.
    id: Option<String>,
    sequence: Option<u64>,
}

impl Numbering {
    /// Names and numbers an event after the one before, once some events were left out.
    pub(super) fn write(&mut self, event: View, edits: &mut Edits, goes_on: bool, changes: bool) {
        if let Some(id) = event.path(&["response", "id"]) {
            match &self.id {
                Some(first) if goes_on => edits.replace(id, first.as_str()),
                Some(_) => {}
                None => self.id = Some(id.raw().to_owned()),
            }
        }
        if let Some(number) = event.number("sequence_number") {
            let next = self.sequence.map(|last| last + 1).filter(|_| changes).unwrap_or(number);
            if next != number {
                edits.set(event, "sequence_number", &next.to_string());
            }
            self.sequence = Some(next);
        }
    }
}

/// An item that says something.
fn output_message(text: &str) -> String {
    let text = quote(text);
    format!(
        r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":{text}}}]}}"#
    )
}

fn reply(raw: &str, output: View, attributes: &Attributes) -> Reply {
    let items = output.elements();
    let parts = || items.iter().filter_map(|item| item.get("content")).flat_map(View::elements);
    let words = |kind: &str, key: &str| -> String {
        parts().filter(|part| part.is("type", kind)).filter_map(|part| part.string(key)).collect()
    };
    let refusal = words("refusal", "refusal");
    let has_more =
        items.iter().any(|item| !item.is("type", "message") && !item.is("type", "reasoning"));
    let calls = ["function_call", "custom_tool_call"];
    let stop = match (attributes.status.as_deref(), attributes.reason.as_deref()) {
        _ if !refusal.is_empty() => Stop::Refused,
        (_, Some("max_output_tokens")) => Stop::Length,
        (_, Some("content_filter")) => Stop::Refused,
        (_, Some(other)) => Stop::Other(other.to_owned()),
        (Some("completed") | None, _)
            if items.iter().any(|item| calls.iter().any(|call| item.is("type", call))) =>
        {
            Stop::Tools
        }
        (Some("completed") | None, _) => Stop::End,
        (Some(other), _) => Stop::Other(other.to_owned()),
    };
    Reply {
        id: attributes.id.clone(),
        text: words("output_text", "text") + &refusal,
        message: raw.to_owned(),
        usage: attributes.usage,
        stop,
        model: attributes.model.clone(),
        has_more,
    }
}

fn usage(view: View) -> Usage {
    let details = view.get("input_tokens_details");
    let detail = |key: &str| details.and_then(|details| details.number(key)).unwrap_or(0);
    Usage {
        input: view.number("input_tokens").unwrap_or(0),
        cached_input: detail("cached_tokens"),
        cache_write: detail("cache_write_tokens"),
        output: view.number("output_tokens").unwrap_or(0),
    }
}
