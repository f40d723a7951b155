//! Session files of pi.
//!
//! Early files are a plain list; later ones a tree, whose conversation is the path to the last leaf.

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{Image, Message, Part, Role, Text, Thinking, ToolCall, ToolResult};
use rustc_hash::FxHashMap;

use crate::Reading;
use crate::chat::PlacedParts;
use crate::conversation::{Builder, Conversation, Dialect, MessageLayout, PartSlot};
use crate::image::pixels;
use crate::loaded::{LoadedSession, ModelAnswer, Opening, UsageReading, sum_of};
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource, reading: Reading) -> Conversation {
    let mut builder = Builder::new(source);
    let text = builder.source.text.clone();
    let elements = std::mem::take(&mut builder.source.elements);
    names(&mut builder, &elements);
    let path = path(&text, &elements);
    match reading {
        Reading::Everything => {
            for element in path {
                read_line(&mut builder, &elements[element], element);
            }
        }
        Reading::AsLoaded => read_loaded(&mut builder, &elements, &path),
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Pi)
}

/// Reads what the agent loads: the summary of the newest compaction, what that kept, and what came after it.
fn read_loaded(builder: &mut Builder, elements: &[JsonNode], path: &[usize]) {
    let text = builder.source.text.clone();
    let is = |at: usize, kind: &str| {
        elements[at].get(&text, "type").is_some_and(|value| value.is(&text, kind))
    };
    let mut loaded = LoadedSession {
        compactions: (0..elements.len()).filter(|at| is(*at, "compaction")).count(),
        unread: builder.source.unread.clone(),
        opening: opening(builder, elements, path),
        dangling: dangling(&text, elements),
        ..LoadedSession::default()
    };
    let compaction = path.iter().rposition(|at| is(*at, "compaction"));
    loaded.has_own_order = compaction.is_some();
    let mut sent: Vec<usize> = path.to_vec();
    if let Some(at) = compaction {
        note(builder, &elements[path[at]], "summary", path[at]);
        sent = path[first_kept(&text, elements, path, at)..at].to_vec();
        sent.extend(&path[at + 1..]);
    }
    for element in sent {
        read_line(builder, &elements[element], element);
    }
    let mut off: Vec<bool> = (0..elements.len()).map(|at| is(at, "message")).collect();
    let mut since = Vec::new();
    for (message, layout) in builder.layout.iter().enumerate() {
        layout.elements.iter().for_each(|element| off[*element] = false);
        let answer = layout.elements.last().map(|element| answer_of(builder, &elements[*element]));
        let Some(Some((model, usage))) = answer else { continue };
        let usage = UsageReading { message, ..usage };
        loaded.note_usage(usage);
        builder.model = model.clone().or(builder.model.take());
        let last = layout.elements.last();
        if compaction.is_none_or(|at| last.is_some_and(|last| *last > path[at])) {
            since.push(ModelAnswer { model, usage });
        }
    }
    if let Some(newer) = Opening::since_change_of_model(&builder.messages, &since) {
        loaded.opening = Some(newer);
    }
    loaded.set_off(elements, off);
    builder.loaded = Some(Box::new(loaded));
}

/// Where in the path begins what a compaction kept.
fn first_kept(text: &str, elements: &[JsonNode], path: &[usize], compaction: usize) -> usize {
    let line = &elements[path[compaction]];
    if let Some(id) = string(text, line, "firstKeptEntryId") {
        let kept = path[..compaction]
            .iter()
            .position(|at| string(text, &elements[*at], "id").as_deref() == Some(&id));
        return kept.unwrap_or(compaction);
    }
    // Early files count their lines.
    let index = line.get(text, "firstKeptEntryIndex");
    let index = index.and_then(|value| text[value.span()].parse::<usize>().ok());
    let kept = index.and_then(|index| path[..compaction].iter().position(|at| *at >= index));
    kept.unwrap_or(compaction)
}

fn dangling(text: &str, elements: &[JsonNode]) -> usize {
    let names: rustc_hash::FxHashSet<String> =
        elements.iter().filter_map(|line| string(text, line, "id")).collect();
    let parents = elements.iter().filter_map(|line| string(text, line, "parentId"));
    parents.filter(|parent| !names.contains(parent)).count()
}

/// The model of an answer, and what the provider counted for it.
fn answer_of(builder: &Builder, line: &JsonNode) -> Option<(Option<String>, UsageReading)> {
    let text = &*builder.source.text;
    let object = |node: &JsonNode, key: &str| {
        let value = node.get(text, key).filter(|value| value.kind == JsonKind::Object)?;
        Some(builder.source.node(value))
    };
    let message = object(line, "message")?;
    let usage = object(&message, "usage")?;
    let reading = UsageReading {
        message: 0,
        input_tokens: sum_of(text, &usage, &["input", "cacheRead", "cacheWrite"]),
        output_tokens: sum_of(text, &usage, &["output"]),
    };
    Some((string(text, &message, "model"), reading))
}

/// Reads the messages before the first answer that the provider counted.
fn opening(builder: &mut Builder, elements: &[JsonNode], path: &[usize]) -> Option<Opening> {
    let counted = |at: &usize| {
        let tokens = answer_of(builder, &elements[*at])?.1.input_tokens;
        Some(tokens).filter(|tokens| *tokens > 0)
    };
    let (end, input_tokens) =
        path.iter().enumerate().find_map(|(end, at)| Some((end, counted(at)?)))?;
    let graves = builder.findings.len();
    for at in &path[..end] {
        read_line(builder, &elements[*at], *at);
    }
    builder.layout.clear();
    builder.findings.truncate(graves);
    Some(Opening { messages: std::mem::take(&mut builder.messages), input_tokens })
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
                loads_tools: false,
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
