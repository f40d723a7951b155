//! Which format an input is in.

use longhand_core::json::{JsonKind, JsonNode};

use crate::source::{RequestShape, RequestSource};
use crate::{Dialect, DialectError};

/// How many types of lines an error names.
const KINDS_MAX: usize = 6;
/// The most characters of one.
const KIND_CHARS_MAX: usize = 40;

/// Finds the dialect by the first thing that only one of them has.
pub(crate) fn detect(source: &RequestSource) -> Result<Dialect, DialectError> {
    match source.shape {
        RequestShape::Input => Ok(Dialect::Responses),
        RequestShape::Lines => lines(source),
        RequestShape::Array | RequestShape::Messages => Ok(messages(source)),
    }
}

fn messages(source: &RequestSource) -> Dialect {
    let text = &source.text;
    if source.field("system").is_some() || source.field("anthropic_version").is_some() {
        return Dialect::Anthropic;
    }
    if let Some(tool) =
        source.field("tools").and_then(|tools| source.nodes(tools).into_iter().next())
    {
        if tool.get(text, "input_schema").is_some() {
            return Dialect::Anthropic;
        }
        if tool.get(text, "function").is_some() {
            return Dialect::Chat;
        }
    }
    let telling = source.elements.iter().find_map(|node| of_message(source, node));
    telling.unwrap_or(Dialect::Chat)
}

fn of_message(source: &RequestSource, node: &JsonNode) -> Option<Dialect> {
    let text = &source.text;
    let get = |key: &str| node.get(text, key);
    let kind = get("type").and_then(|value| value.str(text));
    if kind.is_some() && (get("role").is_none() || kind.as_deref() == Some("message")) {
        return Some(Dialect::Responses);
    }
    let role = get("role").and_then(|value| value.str(text));
    if get("tool_calls").is_some()
        || matches!(role.as_deref(), Some("tool" | "function" | "developer"))
    {
        return Some(Dialect::Chat);
    }
    let content = get("content").filter(|value| value.kind == JsonKind::Array)?;
    source.nodes(content).iter().find_map(|block| {
        match block.get(text, "type").and_then(|value| value.str(text)).as_deref()? {
            "image_url" | "input_audio" | "refusal" | "file" => Some(Dialect::Chat),
            "input_text" | "output_text" | "input_image" | "input_file" => Some(Dialect::Responses),
            "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image"
            | "document" | "server_tool_use" | "search_result" => Some(Dialect::Anthropic),
            _ => None,
        }
    })
}

fn lines(source: &RequestSource) -> Result<Dialect, DialectError> {
    let text = &source.text;
    for node in &source.elements {
        let has = |key: &str| node.get(text, key).is_some();
        let kind = node.get(text, "type").and_then(|value| value.str(text));
        match kind.as_deref() {
            Some("session") => return Ok(Dialect::Pi),
            Some(_) if has("payload") => return Ok(Dialect::Codex),
            Some("message") if has("message") => return Ok(Dialect::Pi),
            Some("user" | "assistant") if has("message") => return Ok(Dialect::ClaudeCode),
            Some(_) if has("sessionId") || has("parentUuid") || has("leafUuid") => {
                return Ok(Dialect::ClaudeCode);
            }
            _ => {}
        }
    }
    let seen = kinds(source);
    let seen =
        if seen.is_empty() { String::new() } else { format!("; its lines have the types {seen}") };
    Err(DialectError::NotAConversation(format!(
        "expected a list of messages, a request with `messages` or `input`, or a session file of Claude Code, \
         Codex, pi or Copilot{seen}"
    )))
}

/// The types of lines, in the order in which they come first.
fn kinds(source: &RequestSource) -> String {
    let mut kinds: Vec<String> = Vec::new();
    for node in &source.elements {
        let kind = node.get(&source.text, "type").and_then(|value| value.str(&source.text));
        let Some(kind) = kind.filter(|kind| !kinds.iter().any(|known| **known == **kind)) else {
            continue;
        };
        if kinds.len() == KINDS_MAX {
            kinds.push("…".to_owned());
            break;
        }
        kinds.push(kind.chars().take(KIND_CHARS_MAX).collect());
    }
    kinds.join(", ")
}
