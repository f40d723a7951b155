//! Session files of Codex.
//!
//! Every compaction leaves a shortened history behind. Read as the agent loads it, a file is the newest of
//! these that was not rolled back, and what follows; read whole, it is what was said. Turns that were rolled
//! back are left out of both.

use std::sync::Arc;

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{Message, Part, Role, Text};

use crate::Reading;
use crate::conversation::{Builder, Conversation, Dialect, MessageLayout, PartSlot};
use crate::loaded::{LoadedSession, Opening, UsageReading, first_of_answer, sum_of};
use crate::responses::item;
use crate::source::RequestSource;

/// How messages begin that the agent puts in by itself.
const INSERTED: [&str; 7] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
    "<subagent_notification>",
];

/// The history before a compaction, which comes back if that is rolled back.
struct Compacted {
    messages: Vec<Message>,
    layout: Vec<Arc<MessageLayout>>,
    /// How many messages the compaction left.
    left: usize,
}

pub(crate) fn read(source: RequestSource, reading: Reading) -> Conversation {
    let mut builder = Builder::new(source);
    let text = builder.source.text.clone();
    let elements = std::mem::take(&mut builder.source.elements);
    let is = |payload: &JsonNode, kind: &str| {
        payload.get(&text, "type").is_some_and(|value| value.is(&text, kind))
    };
    let mut instructed = false;
    let mut compactions: Vec<Compacted> = Vec::new();
    let mut loaded =
        LoadedSession { unread: builder.source.unread.clone(), ..LoadedSession::default() };
    let mut off = vec![false; elements.len()];
    for (element, line) in elements.iter().enumerate() {
        let kind = line.get(&text, "type").and_then(|value| value.str(&text));
        let Some(payload) =
            line.get(&text, "payload").filter(|value| value.kind == JsonKind::Object)
        else {
            continue;
        };
        let payload = builder.source.node(payload);
        match kind.as_deref() {
            // A snapshot of the files is for undo; the model never sees it.
            Some("response_item") if !is(&payload, "ghost_snapshot") => {
                off[element] = true;
                let graves = builder.findings.len();
                let name = format!("{}.payload", builder.source.element(element));
                item(&mut builder, &payload, &name, element);
                // Items that only the log knows are never sent.
                builder.findings.truncate(graves);
                if let Some(message) = builder.messages.last_mut() {
                    message.raw = builder.source.raw(line.value);
                }
            }
            Some("session_meta") if !instructed => {
                let base =
                    payload.get(&text, "base_instructions").map(|value| builder.source.node(value));
                let words = base
                    .and_then(|base| base.get(&text, "text"))
                    .and_then(|value| builder.source.string(value));
                if let Some(words) = words {
                    let raw = words.clone();
                    let message = Message::new(Role::System, None, vec![Part::Text(words)], raw);
                    builder.push(
                        message,
                        MessageLayout { slots: vec![PartSlot::Fixed], ..MessageLayout::default() },
                    );
                    instructed = true;
                }
            }
            Some("turn_context") => {
                builder.model = payload
                    .get(&text, "model")
                    .and_then(|value| Some(value.str(&text)?.into_owned()));
            }
            Some("compacted") if reading == Reading::AsLoaded => {
                loaded.compactions += 1;
                loaded.usage.clear();
                let (messages, layout) = (builder.messages.clone(), builder.layout.clone());
                compact(&mut builder, &payload, element);
                compactions.push(Compacted { messages, layout, left: builder.messages.len() });
            }
            Some("event_msg") if is(&payload, "token_count") => {
                note_usage(&builder, &payload, &mut loaded);
            }
            Some("event_msg") if is(&payload, "thread_rolled_back") => {
                let turns = payload
                    .get(&text, "num_turns")
                    .and_then(|value| text[value.span()].parse().ok());
                roll_back(&mut builder, &mut compactions, turns.unwrap_or(0));
                let left = builder.messages.len();
                loaded.usage.retain(|usage| usage.message < left);
            }
            _ => {}
        }
    }
    if reading == Reading::AsLoaded {
        // Newer versions count the lines, so that none can be taken out.
        let is_counted = elements.iter().any(|line| line.get(&text, "ordinal").is_some());
        loaded.has_own_order = is_counted || !compactions.is_empty();
        for layout in &builder.layout {
            layout.elements.iter().for_each(|element| off[*element] = false);
        }
        loaded.set_off(&elements, off);
        builder.loaded = Some(Box::new(loaded));
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Codex)
}

/// Puts the history that a compaction left in the place of what came before.
fn compact(builder: &mut Builder, payload: &JsonNode, element: usize) {
    let text = builder.source.text.clone();
    let lead = builder.messages.iter().take_while(|message| message.role == Role::System).count();
    let name = format!("{}.payload.replacement_history", builder.source.element(element));
    let history = payload.get(&text, "replacement_history");
    if let Some(history) = history.filter(|value| value.kind == JsonKind::Array) {
        builder.messages.truncate(lead);
        builder.layout.truncate(lead);
        for (at, node) in builder.source.nodes(history).iter().enumerate() {
            let (graves, before) = (builder.findings.len(), builder.messages.len());
            item(builder, node, &format!("{name}[{at}]"), element);
            builder.findings.truncate(graves);
            if builder.messages.len() > before {
                is_within(builder, node.value);
            }
        }
    } else {
        // Earlier versions kept what the user said, and the summary.
        let kept: Vec<bool> = builder.messages.iter().map(is_kept).collect();
        let mut kept_messages = kept.iter();
        builder.messages.retain(|_| kept_messages.next() == Some(&true));
        let mut kept_layout = kept.iter();
        builder.layout.retain(|_| kept_layout.next() == Some(&true));
        let summary = payload.get(&text, "message");
        let Some(words) = summary.and_then(|value| builder.source.string(value)) else {
            return;
        };
        let quoted = longhand_core::json::quote(&words.decode());
        let raw = line_of(&crate::render::input_message_of(&quoted));
        let message = Message::new(Role::User, None, vec![Part::Text(words)], Text::from(raw));
        let layout = MessageLayout {
            elements: vec![element],
            slots: vec![PartSlot::Fixed],
            ..MessageLayout::default()
        };
        builder.push(message, layout);
    }
}

fn is_kept(message: &Message) -> bool {
    message.role == Role::System || message.is_user_turn()
}

/// Notes that the newest message is one of several in its line.
fn is_within(builder: &mut Builder, item: JsonValue) {
    let raw = line_of(&builder.source.text[item.span()]);
    if let (Some(message), Some(layout)) = (builder.messages.last_mut(), builder.layout.last_mut())
    {
        message.raw = Text::from(raw);
        Arc::make_mut(layout).item = Some(item.span());
    }
}

fn line_of(item: &str) -> String {
    format!(r#"{{"type":"response_item","payload":{item}}}"#)
}

fn note_usage(builder: &Builder, payload: &JsonNode, loaded: &mut LoadedSession) {
    let text = &*builder.source.text;
    let within = |node: &JsonNode, key: &str| {
        let value = node.get(text, key).filter(|value| value.kind == JsonKind::Object)?;
        Some(builder.source.node(value))
    };
    let usage = within(payload, "info").and_then(|info| within(&info, "last_token_usage"));
    let Some(usage) = usage else { return };
    let reading = UsageReading {
        message: first_of_answer(&builder.messages),
        input_tokens: sum_of(text, &usage, &["input_tokens"]),
        output_tokens: sum_of(text, &usage, &["output_tokens"]),
    };
    let is_first = !loaded.usage.iter().any(|earlier| earlier.input_tokens > 0);
    if reading.input_tokens > 0 && is_first {
        let messages = builder.messages[..reading.message].to_vec();
        loaded.opening = Some(Opening { messages, input_tokens: reading.input_tokens });
    }
    loaded.usage.retain(|earlier| earlier.message < reading.message);
    loaded.note_usage(reading);
}

/// Takes back the newest turns, each a message that the user sent and all after it, compactions included.
fn roll_back(builder: &mut Builder, compactions: &mut Vec<Compacted>, turns: usize) {
    for _ in 0..turns {
        let mut start = builder.messages.iter().rposition(is_of_user);
        while let Some(last) = compactions.last()
            && start.is_none_or(|start| start < last.left)
            && let Some(last) = compactions.pop()
        {
            (builder.messages, builder.layout) = (last.messages, last.layout);
            start = builder.messages.iter().rposition(is_of_user);
        }
        let Some(start) = start else { return };
        builder.messages.truncate(start);
        builder.layout.truncate(start);
    }
}

/// Whether the user sent a message, and not the agent in the user's name.
fn is_of_user(message: &Message) -> bool {
    let words = message.parts.iter().find_map(Part::text).map(|text| text.decode());
    let is_inserted = words
        .is_some_and(|words| INSERTED.iter().any(|start| words.trim_start().starts_with(start)));
    message.is_user_turn() && !is_inserted
}
