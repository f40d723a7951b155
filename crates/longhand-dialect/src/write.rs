//! Messages of any origin in one wire format.

use longhand_core::json::quote;
use longhand_core::{MediaKind, Message, Part, Role};

use crate::Dialect;
use crate::render::{input_message, text_block};

/// A message with the format that its bytes are in.
pub type Sourced<'m> = (Dialect, &'m Message);

/// Writes messages in a wire format: a list for Chat Completions and Responses, a request with `system`
/// and `messages` for Anthropic. A message that is in that format already keeps its bytes.
///
/// Pictures and attachments do not cross from one format to another; a note takes their place.
pub fn write(messages: &[Sourced], dialect: Dialect) -> String {
    write_with_sources(messages, dialect).0
}

/// The same, and for each message after the leading system messages, which one it was made of; the last, if of several.
pub fn write_with_sources(messages: &[Sourced], dialect: Dialect) -> (String, Vec<usize>) {
    match dialect {
        Dialect::Anthropic | Dialect::ClaudeCode => anthropic(messages),
        Dialect::Responses | Dialect::Codex => list(messages, Dialect::Responses, responses),
        Dialect::Chat | Dialect::Pi => list(messages, Dialect::Chat, chat),
    }
}

fn list(
    messages: &[Sourced],
    dialect: Dialect,
    convert: impl Fn(&Message) -> Vec<String>,
) -> (String, Vec<usize>) {
    let lead = messages.iter().take_while(|(_, message)| message.role == Role::System).count();
    let (mut items, mut sources) = (Vec::new(), Vec::new());
    for (at, (source, message)) in messages.iter().enumerate() {
        let written =
            if *source == dialect { vec![message.raw.raw().to_owned()] } else { convert(message) };
        sources.extend(written.iter().filter(|_| at >= lead).map(|_| at));
        items.extend(written);
    }
    (format!("[{}]", items.join(",")), sources)
}

/// The text of a message, with a note for each part that is not text.
fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::FixedText(text) => Some(text.decode().into_owned()),
        Part::Image(_) => Some("[image]".to_owned()),
        Part::Media(media) => Some(match (&media.transcript, media.kind) {
            (Some(text), _) => text.decode().into_owned(),
            (None, MediaKind::Audio) => "[audio]".to_owned(),
            (None, MediaKind::Video) => "[video]".to_owned(),
        }),
        Part::File(_) => Some("[file]".to_owned()),
        Part::Other(other) => Some(other.raw.decode().into_owned()),
        Part::Thinking(_) | Part::Call(_) | Part::Result(_) => None,
    });
    texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn chat(message: &Message) -> Vec<String> {
    let mut out: Vec<String> = message
        .results()
        .map(|result| {
            let (id, content) = (quote(&result.call.decode()), quote(&words(&result.content)));
            format!(r#"{{"role":"tool","tool_call_id":{id},"content":{content}}}"#)
        })
        .collect();
    let text = words(&message.parts);
    let calls: Vec<String> = message
        .calls()
        .map(|call| {
            let (id, name) = (quote(&call.id.decode()), quote(&call.name.decode()));
            let arguments = quote(&arguments_of(call));
            format!(r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#)
        })
        .collect();
    let role = if message.role == Role::Tool { "user" } else { message.role.as_str() };
    if !calls.is_empty() {
        let content = if text.is_empty() { "null".to_owned() } else { quote(&text) };
        out.push(format!(
            r#"{{"role":"assistant","content":{content},"tool_calls":[{}]}}"#,
            calls.join(",")
        ));
    } else if !text.is_empty() {
        out.push(format!(r#"{{"role":"{role}","content":{}}}"#, quote(&text)));
    }
    out
}

fn responses(message: &Message) -> Vec<String> {
    let mut out: Vec<String> = message
        .results()
        .map(|result| {
            let (id, output) = (quote(&result.call.decode()), quote(&words(&result.content)));
            format!(r#"{{"type":"function_call_output","call_id":{id},"output":{output}}}"#)
        })
        .collect();
    let text = words(&message.parts);
    if !text.is_empty() {
        out.push(match message.role {
            Role::User | Role::Tool => input_message(&text),
            role => format!(r#"{{"role":"{}","content":{}}}"#, role.as_str(), quote(&text)),
        });
    }
    out.extend(message.calls().map(|call| {
        let (id, name) = (quote(&call.id.decode()), quote(&call.name.decode()));
        let arguments = quote(&arguments_of(call));
        format!(
            r#"{{"type":"function_call","call_id":{id},"name":{name},"arguments":{arguments}}}"#
        )
    }));
    out
}

/// Arguments as a JSON object, whatever they were.
fn arguments_of(call: &longhand_core::ToolCall) -> String {
    let arguments = call.arguments.decode().into_owned();
    if call.freeform || arguments.trim().is_empty() {
        format!(r#"{{"input":{}}}"#, quote(&arguments))
    } else {
        arguments
    }
}

fn anthropic(messages: &[Sourced]) -> (String, Vec<usize>) {
    let mut system = Vec::new();
    let mut turns: Vec<(Role, Vec<String>)> = Vec::new();
    let mut sources = Vec::new();
    for (at, (source, message)) in messages.iter().enumerate() {
        if message.role == Role::System {
            system.push(text_block(&quote(&words(&message.parts))));
            continue;
        }
        let role = if message.role == Role::Assistant { Role::Assistant } else { Role::User };
        let blocks =
            if *source == Dialect::Anthropic { own_blocks(message) } else { blocks(message) };
        match turns.last_mut() {
            Some((last, gathered)) if *last == role => gathered.extend(blocks),
            _ if blocks.is_empty() => continue,
            _ => {
                turns.push((role, blocks));
                sources.push(at);
            }
        }
        if let Some(newest) = sources.last_mut() {
            *newest = at;
        }
    }
    if turns.first().is_some_and(|(role, _)| *role == Role::Assistant) {
        turns.insert(0, (Role::User, vec![text_block(&quote("(the conversation begins here)"))]));
        sources.insert(0, 0);
    }
    let turns: Vec<String> = turns
        .iter()
        .map(|(role, blocks)| {
            format!(r#"{{"role":"{}","content":[{}]}}"#, role.as_str(), blocks.join(","))
        })
        .collect();
    let system = if system.is_empty() {
        String::new()
    } else {
        format!(r#""system":[{}],"#, system.join(","))
    };
    (format!(r#"{{{system}"messages":[{}]}}"#, turns.join(",")), sources)
}

/// The blocks of a message that is in this format already, as they came.
fn own_blocks(message: &Message) -> Vec<String> {
    let source = message.raw.raw();
    let node = longhand_core::json::JsonCursor::new(source).node().unwrap_or_default();
    let Some(content) = node.get(source, "content") else { return blocks(message) };
    if content.kind == longhand_core::json::JsonKind::String {
        return vec![text_block(&source[content.span()])];
    }
    let mut list = Vec::new();
    let _ = longhand_core::json::JsonCursor::at(source, content.span().start).elements(|cursor| {
        list.push(source[cursor.value()?.span()].to_owned());
        Ok(())
    });
    list
}

fn blocks(message: &Message) -> Vec<String> {
    let id = |id: &longhand_core::Text| {
        let legal =
            |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        quote(&id.decode().chars().map(legal).collect::<String>())
    };
    let mut out: Vec<String> = message
        .results()
        .map(|result| {
            let content = quote(&words(&result.content));
            format!(
                r#"{{"type":"tool_result","tool_use_id":{},"content":{content}}}"#,
                id(&result.call)
            )
        })
        .collect();
    let text = words(&message.parts);
    if !text.is_empty() {
        out.push(text_block(&quote(&text)));
    }
    out.extend(message.calls().map(|call| {
        let name = quote(&call.name.decode());
        format!(
            r#"{{"type":"tool_use","id":{},"name":{name},"input":{}}}"#,
            id(&call.id),
            arguments_of(call)
        )
    }));
    out
}
