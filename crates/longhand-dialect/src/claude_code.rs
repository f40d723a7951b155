//! Session files of Claude Code.
//!
//! A message is spread over lines, one block each, that share its id; results come between them. The
//! parent chain runs through progress lines and loses results where calls were parallel, so messages
//! are put together by id and results by the call they answer. Read as the agent loads it, a file is the
//! path from its leaf to the newest compaction; read whole, the summaries of compactions are left out,
//! since what they stand for is there.

mod path;

use std::sync::Arc;

use longhand_core::json::{JsonKind, JsonNode};
use longhand_core::{Message, Part, Role, Text};
use rustc_hash::FxHashMap;

use self::path::LoadedPath;
use crate::Reading;
use crate::anthropic::blocks;
use crate::chat::PlacedParts;
use crate::conversation::{Builder, Conversation, Dialect, MessageLayout, PartSlot};
use crate::loaded::{CLEARED, LoadedSession, ModelAnswer, Opening, UsageReading, sum_of};
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource, reading: Reading) -> Conversation {
    let mut builder = Builder::new(source);
    let text = builder.source.text.clone();
    let elements = std::mem::take(&mut builder.source.elements);
    let is_said =
        |node: &JsonNode| speaks(&text, node) && !is_true(&text, node, "isCompactSummary");
    // A file of a sub-agent is all side chain.
    let all_side = !elements.iter().any(|node| is_said(node) && !is_side(&text, node));
    let is_here = |node: &JsonNode| all_side || !is_side(&text, node);
    match reading {
        Reading::Everything => {
            let mut by_id = FxHashMap::default();
            for (element, line) in elements.iter().enumerate() {
                if is_said(line) && is_here(line) {
                    read_line(&mut builder, line, element, &mut by_id);
                }
            }
            builder.model = None;
            order(&mut builder);
        }
        Reading::AsLoaded => read_loaded(&mut builder, &elements, all_side),
    }
    builder.source.elements = elements;
    builder.finish(Dialect::ClaudeCode)
}

/// Whether a line holds a message.
fn speaks(text: &str, node: &JsonNode) -> bool {
    let kind = node.get(text, "type");
    kind.is_some_and(|kind| kind.is(text, "user") || kind.is(text, "assistant"))
        && node.get(text, "message").is_some_and(|value| value.kind == JsonKind::Object)
}

fn is_true(text: &str, node: &JsonNode, key: &str) -> bool {
    node.get(text, key).is_some_and(|value| &text[value.span()] == "true")
}

fn is_side(text: &str, node: &JsonNode) -> bool {
    is_true(text, node, "isSidechain")
}

/// Reads what the agent loads.
fn read_loaded(builder: &mut Builder, elements: &[JsonNode], all_side: bool) {
    let text = builder.source.text.clone();
    let unread = builder.source.unread.clone();
    let opening = opening(builder, elements, all_side);
    let is_here = |node: &JsonNode| all_side || !is_side(&text, node);
    let path = LoadedPath::of(&text, elements, all_side).unwrap_or_else(|| LoadedPath {
        elements: (0..elements.len()).filter(|at| is_here(&elements[*at])).collect(),
        boundaries: Vec::new(),
        cleared: rustc_hash::FxHashSet::default(),
        changed: None,
        dangling: 0,
        has_own_order: false,
    });
    let mut by_id = FxHashMap::default();
    let mut off: Vec<bool> = elements.iter().map(|line| speaks(&text, line)).collect();
    for element in &path.elements {
        let line = &elements[*element];
        off[*element] = false;
        if speaks(&text, line) && !is_true(&text, line, "isApiErrorMessage") {
            read_line(builder, line, *element, &mut by_id);
        } else {
            read_inserted(builder, line, *element);
        }
    }
    order(builder);
    let mut loaded = LoadedSession {
        compactions: path.boundaries.len(),
        dangling: path.dangling,
        has_own_order: path.has_own_order,
        opening,
        unread,
        cleared: clear(builder, &path),
        ..LoadedSession::default()
    };
    loaded.set_off(elements, off);
    path.boundaries.iter().for_each(|at| loaded.off[*at] = true);
    builder.model = None;
    let mut since = Vec::new();
    for (message, layout) in builder.layout.iter().enumerate() {
        let Some(element) = layout.elements.last() else { continue };
        let Some(answer) = answer_of(builder, &elements[*element]) else { continue };
        let Answer { model, input_tokens, output_tokens } = answer;
        let usage = UsageReading { message, input_tokens, output_tokens };
        loaded.note_usage(usage);
        builder.model = model.clone().or(builder.model.take());
        if path.changed.is_none_or(|changed| changed < *element) && input_tokens > 0 {
            since.push(ModelAnswer { model, usage });
        }
    }
    if let Some(newer) = Opening::since_change_of_model(&builder.messages, &since) {
        loaded.opening = Some(newer);
    }
    builder.loaded = Some(Box::new(loaded));
}

/// What a line of an answer tells of it.
struct Answer {
    model: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
}

fn answer_of(builder: &Builder, line: &JsonNode) -> Option<Answer> {
    const INPUT: [&str; 3] =
        ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let text = &*builder.source.text;
    if !line.get(text, "type")?.is(text, "assistant") {
        return None;
    }
    let message = builder.source.node(line.get(text, "message")?);
    let model = message.get(text, "model").and_then(|model| model.str(text));
    let usage = message.get(text, "usage").map(|usage| builder.source.node(usage));
    let usage = usage.unwrap_or_default();
    Some(Answer {
        model: model.filter(|model| model != "<synthetic>").map(std::borrow::Cow::into_owned),
        input_tokens: sum_of(text, &usage, &INPUT),
        output_tokens: sum_of(text, &usage, &["output_tokens"]),
    })
}

/// Reads the messages before the first answer that the provider counted.
fn opening(builder: &mut Builder, elements: &[JsonNode], all_side: bool) -> Option<Opening> {
    let text = builder.source.text.clone();
    let is_here = |line: &JsonNode| all_side || !is_side(&text, line);
    let counted =
        |line: &JsonNode| answer_of(builder, line).map_or(0, |answer| answer.input_tokens);
    let mut lines = elements.iter().enumerate().filter(|(_, line)| is_here(line));
    let (first, input_tokens) =
        lines.find_map(|(at, line)| Some((at, counted(line))).filter(|(_, tokens)| *tokens > 0))?;
    let mut by_id = FxHashMap::default();
    for (at, line) in elements[..first].iter().enumerate() {
        if is_here(line) && speaks(&text, line) {
            read_line(builder, line, at, &mut by_id);
        }
    }
    builder.layout.clear();
    builder.findings.clear();
    builder.continues = None;
    Some(Opening { messages: std::mem::take(&mut builder.messages), input_tokens })
}

/// Reads what the client puts between the messages: attachments, and what commands printed.
fn read_inserted(builder: &mut Builder, line: &JsonNode, element: usize) {
    let text = builder.source.text.clone();
    let is =
        |key: &str, name: &str| line.get(&text, key).is_some_and(|value| value.is(&text, name));
    let value = if is("type", "attachment") {
        line.get(&text, "attachment")
    } else if is("subtype", "local_command") {
        line.get(&text, "content")
    } else {
        None
    };
    let Some(value) = value else { return };
    let part = match builder.source.string(value) {
        Some(words) => Part::FixedText(words),
        None => builder.source.other(value),
    };
    let message = Message::new(Role::User, None, vec![part], builder.source.raw(line.value));
    let layout = MessageLayout {
        elements: vec![element],
        slots: vec![PartSlot::Fixed],
        ..MessageLayout::default()
    };
    builder.push(message, layout);
}

/// Empties the results that the agent has cleared; returns how many.
fn clear(builder: &mut Builder, path: &LoadedPath) -> usize {
    let mut count = 0;
    for part in builder.messages.iter_mut().flat_map(|message| &mut message.parts) {
        let Part::Result(result) = part else { continue };
        if path.cleared.contains(result.call.decode().as_ref()) {
            result.content = vec![Part::Text(Text::from(CLEARED.to_owned()))];
            result.fixed = true;
            count += 1;
        }
    }
    count
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
