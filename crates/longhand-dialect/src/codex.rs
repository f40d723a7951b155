//! Session files of Codex.
//!
//! Every compaction leaves a shortened history behind; what it stands for is in the file, so the
//! conversation is read whole. Turns that were rolled back are left out.

use longhand_core::json::{JsonKind, JsonNode};
use longhand_core::{Message, Part, Role};

use crate::conversation::{Builder, Conversation, Dialect, MessageLayout, PartSlot};
use crate::responses::item;
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource) -> Conversation {
    let mut builder = Builder::new(source);
    let text = builder.source.text.clone();
    let elements = std::mem::take(&mut builder.source.elements);
    let is = |payload: &JsonNode, kind: &str| {
        payload.get(&text, "type").is_some_and(|value| value.is(&text, kind))
    };
    let mut instructed = false;
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
            Some("event_msg") if is(&payload, "thread_rolled_back") => {
                let turns = payload
                    .get(&text, "num_turns")
                    .and_then(|value| text[value.span()].parse().ok());
                roll_back(&mut builder, turns.unwrap_or(0));
            }
            _ => {}
        }
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Codex)
}

/// Takes back the newest turns, each a user message and all after it.
fn roll_back(builder: &mut Builder, turns: usize) {
    for _ in 0..turns {
        let Some(start) = builder.messages.iter().rposition(Message::is_user_turn) else { return };
        builder.messages.truncate(start);
        builder.layout.truncate(start);
    }
}
