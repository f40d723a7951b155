//! Session files of pi.
//!
//! Early files are a plain list; later ones a tree, whose conversation is the path to the last leaf.

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult};
use rustc_hash::FxHashMap;

use crate::chat::PlacedParts;
use crate::conversation::{Builder, Conversation, Dialect, MessageLayout, PartSlot};
use crate::image::pixels;
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource) -> Conversation {
    let mut builder = Builder::new(source);
    let elements = std::mem::take(&mut builder.source.elements);
    names(&mut builder, &elements);
    for element in path(&builder.source.text, &elements) {
        read_line(&mut builder, &elements[element], element);
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Pi)
}

/// No two lines share a name: links to it would lead to either.
fn names(builder: &mut Builder, elements: &[JsonNode]) {
    let text = builder.source.text.clone();
    let mut seen: FxHashMap<String, usize> = FxHashMap::default();
    for (at, node) in elements.iter().enumerate() {
        let Some(id) = string(&text, node, "id") else { continue };
        if let Some(first) = seen.get(&id) {
            let first = builder.source.element(*first);
            let what = format!("the id {id:?} is used in {first} already");
            builder.wrong(format!("{}.id", builder.source.element(at)), what);
        } else {
            seen.insert(id, at);
        }
    }
}

/// Whether a line can be the leaf: it has a name and is not the header.
pub(crate) fn is_entry(text: &str, node: &JsonNode) -> bool {
    string(text, node, "id").is_some()
        && !node.get(text, "type").is_some_and(|kind| kind.is(text, "session"))
}

fn string(text: &str, node: &JsonNode, key: &str) -> Option<String> {
    Some(node.get(text, key)?.str(text)?.into_owned())
}

/// The elements of the conversation, oldest first.
pub(crate) fn path(text: &str, elements: &[JsonNode]) -> Vec<usize> {
    let by_id: FxHashMap<String, usize> = elements
        .iter()
        .enumerate()
        .filter(|(_, node)| is_entry(text, node))
        .filter_map(|(at, node)| Some((string(text, node, "id")?, at)))
        .collect();
    let mut next = by_id.values().max().copied();
    if next.is_none() {
        return (0..elements.len()).collect();
    }
    let mut path = Vec::new();
    while let Some(at) = next.filter(|_| path.len() < elements.len()) {
        path.push(at);
        // A parent stands before its children, or the file is damaged.
        let parent =
            string(text, &elements[at], "parentId").and_then(|parent| by_id.get(&parent).copied());
        next = parent.filter(|parent| *parent < at);
    }
    path.reverse();
    path
}

fn read_line(builder: &mut Builder, line: &JsonNode, element: usize) {
    let text = builder.source.text.clone();
    match line.get(&text, "type").and_then(|kind| kind.str(&text)).as_deref() {
        Some("message") => {}
        Some("branch_summary") => return note(builder, line, "summary", element),
        Some("custom_message") => return note(builder, line, "content", element),
        _ => return,
    }
    let Some(message) = line.get(&text, "message").filter(|value| value.kind == JsonKind::Object)
    else {
        return;
    };
    let message = builder.source.node(message);
    let hidden = message.get(&text, "excludeFromContext");
    if hidden.is_some_and(|value| &text[value.span()] == "true") {
        return;
    }
    let name = format!("{}.message", builder.source.element(element));
    let content = message.get(&text, "content");
    let mut made = PlacedParts::default();
    let role = message.get(&text, "role").and_then(|value| value.str(&text));
    let role = match role.as_deref() {
        Some("user") => {
            parts(builder, content, &mut made);
            Role::User
        }
        Some("assistant") => {
            parts(builder, content, &mut made);
            Role::Assistant
        }
        Some("toolResult") => {
            let call =
                message.get(&text, "toolCallId").and_then(|value| builder.source.string(value));
            if call.is_none() {
                builder.wrong(
                    format!("{name}.toolCallId"),
                    "a tool result must name the call it answers",
                );
            }
            let mut inner = PlacedParts::default();
            parts(builder, content, &mut inner);
            let result = ToolResult {
                call: call.unwrap_or_default(),
                content: inner.parts,
                raw: content.map_or_else(Text::default, |value| builder.source.raw(value)),
                error: message
                    .get(&text, "isError")
                    .is_some_and(|value| &text[value.span()] == "true"),
                fixed: false,
            };
            made.add(
                Part::Result(result),
                content.map_or(PartSlot::Fixed, |value| PartSlot::Blocks(value.span())),
            );
            Role::Tool
        }
        // Commands that the person ran, and notes of extensions: the model sees them as user turns.
        _ => {
            made.add(builder.source.other(message.value), PartSlot::Fixed);
            Role::User
        }
    };
    // An aborted reply has nothing in it and is not sent.
    if made.parts.is_empty() {
        return;
    }
    let message = Message::new(role, None, made.parts, builder.source.raw(line.value));
    builder.push(
        message,
        MessageLayout { elements: vec![element], slots: made.slots, ..MessageLayout::default() },
    );
}

/// Reads what stands for a branch that was left, or what an extension says: user turns to the model.
fn note(builder: &mut Builder, line: &JsonNode, key: &str, element: usize) {
    let mut made = PlacedParts::default();
    parts(builder, line.get(&builder.source.text, key), &mut made);
    if made.parts.is_empty() {
        return;
    }
    let raw = builder.source.raw(line.value);
    let message = Message::new(Role::User, None, made.parts, raw);
    builder.push(
        message,
        MessageLayout { elements: vec![element], slots: made.slots, ..MessageLayout::default() },
    );
}

fn parts(builder: &mut Builder, content: Option<JsonValue>, made: &mut PlacedParts) {
    let Some(content) = content else { return };
    if let Some(text) = builder.source.string(content) {
        return made.add(Part::Text(text), PartSlot::Text(content.span()));
    }
    let text = builder.source.text.clone();
    for node in builder.source.nodes(content) {
        let string =
            |key: &str| node.get(&text, key).and_then(|value| builder.source.string(value));
        let kind = node.get(&text, "type").and_then(|value| value.str(&text)).unwrap_or_default();
        match (kind.as_ref(), node.get(&text, "text"), node.get(&text, "arguments")) {
            ("text", Some(value), _) if value.kind == JsonKind::String => {
                made.add(
                    Part::Text(string("text").unwrap_or_default()),
                    PartSlot::Text(value.span()),
                );
            }
            ("thinking", ..) => {
                let thinking = Thinking {
                    text: string("thinking").unwrap_or_default(),
                    seal: string("thinkingSignature"),
                };
                made.add(Part::Thinking(thinking), PartSlot::Fixed);
            }
            ("toolCall", _, Some(arguments)) => {
                let call = ToolCall {
                    id: string("id").unwrap_or_default(),
                    name: string("name").unwrap_or_default(),
                    arguments: builder.source.raw(arguments),
                    freeform: false,
                };
                made.add(Part::Call(call), PartSlot::Object(arguments.span()));
            }
            ("image", ..) => {
                let data = string("data").unwrap_or_default();
                let data = data.decode();
                let image = Image { pixels: pixels(&data), low_detail: false, bytes: data.len() };
                made.add(Part::Image(image), PartSlot::Fixed);
            }
            _ => made.add(builder.source.other(node.value), PartSlot::Fixed),
        }
    }
}
