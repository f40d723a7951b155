//! Session files of Claude Code.
//!
//! A message is spread over lines, one block each, that share its id; results come between them. The
//! parent chain runs through progress lines and loses results where calls were parallel, so messages
//! are put together by id and results by the call they answer. Summaries of earlier compactions are
//! left out: what they stand for is in the file.

use std::sync::Arc;

use longhand_core::json::{JsonKind, JsonNode};
use longhand_core::{Message, Part, Role, Text};
use rustc_hash::FxHashMap;

use crate::anthropic::blocks;
use crate::chat::PlacedParts;
use crate::conversation::{Builder, Conversation, Dialect, MessageLayout};
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource) -> Conversation {
    let mut builder = Builder::new(source);
    let text = builder.source.text.clone();
    let elements = std::mem::take(&mut builder.source.elements);
    let is_side = |node: &JsonNode| {
        node.get(&text, "isSidechain").is_some_and(|value| &text[value.span()] == "true")
    };
    let speaks = |node: &JsonNode| {
        let kind = node.get(&text, "type");
        kind.is_some_and(|kind| kind.is(&text, "user") || kind.is(&text, "assistant"))
            && node.get(&text, "message").is_some_and(|value| value.kind == JsonKind::Object)
            && node.get(&text, "isCompactSummary").is_none_or(|value| &text[value.span()] != "true")
    };
    // A file of a sub-agent is all side chain.
    let all_side = !elements.iter().any(|node| speaks(node) && !is_side(node));
    let mut by_id: FxHashMap<String, usize> = FxHashMap::default();
    for (element, line) in elements.iter().enumerate() {
        if speaks(line) && (all_side || !is_side(line)) {
            read_line(&mut builder, line, element, &mut by_id);
        }
    }
    builder.source.elements = elements;
    builder.model = None;
    order(&mut builder);
    builder.finish(Dialect::ClaudeCode)
}

fn read_line(
    builder: &mut Builder,
    line: &JsonNode,
    element: usize,
    by_id: &mut FxHashMap<String, usize>,
) {
    let text = builder.source.text.clone();
    let name = builder.source.element(element);
    let Some(inner) = line.get(&text, "message").map(|value| builder.source.node(value)) else {
        return;
    };
    let role = match inner.get(&text, "role").and_then(|value| value.str(&text)).as_deref() {
        Some("assistant") => Role::Assistant,
        Some("user") => Role::User,
        _ => return builder.wrong(format!("{name}.message.role"), "expected user or assistant"),
    };
    let Some(content) = inner.get(&text, "content") else {
        return builder.wrong(format!("{name}.message.content"), "a message needs content");
    };
    let mut made = PlacedParts::default();
    let graves = builder.findings.len();
    blocks(builder, content, Some(element), &format!("{name}.message.content"), &mut made);
    // A log may hold blank blocks; they are not sent.
    builder.findings.truncate(graves);
    let raw = builder.source.raw(line.value);
    let id = inner
        .get(&text, "id")
        .and_then(|value| value.str(&text))
        .filter(|_| role == Role::Assistant);
    if let Some(&earlier) = id.as_deref().and_then(|id| by_id.get(id)) {
        let message = &mut builder.messages[earlier];
        message.parts.extend(made.parts);
        message.raw = Text::from(format!("{}\n{}", message.raw.raw(), raw.raw()));
        let layout = Arc::make_mut(&mut builder.layout[earlier]);
        layout.elements.push(element);
        layout.slots.extend(made.slots);
        return;
    }
    if let Some(id) = id {
        by_id.insert(id.into_owned(), builder.messages.len());
    }
    let message = Message::new(role, None, made.parts, raw);
    builder.push(
        message,
        MessageLayout { elements: vec![element], slots: made.slots, ..MessageLayout::default() },
    );
}

/// Puts results directly after the message whose calls they answer.
fn order(builder: &mut Builder) {
    let mut asked: FxHashMap<String, usize> = FxHashMap::default();
    for (at, message) in builder.messages.iter().enumerate() {
        for call in message.calls() {
            asked.insert(call.id.decode().into_owned(), at);
        }
    }
    let home = |at: usize| {
        let first = builder.messages[at].parts.first();
        match first {
            Some(Part::Result(result)) => {
                asked.get(result.call.decode().as_ref()).copied().filter(|call| *call < at)
            }
            _ => None,
        }
    };
    let mut order: Vec<(usize, bool, usize)> = (0..builder.messages.len())
        .map(|at| home(at).map_or((at, false, at), |call| (call, true, at)))
        .collect();
    order.sort_unstable();
    let mut messages: Vec<_> =
        std::mem::take(&mut builder.messages).into_iter().map(Some).collect();
    let mut layout: Vec<_> = std::mem::take(&mut builder.layout).into_iter().map(Some).collect();
    for (_, _, at) in order {
        builder.messages.extend(messages[at].take());
        builder.layout.extend(layout[at].take());
    }
}
