//! What a request has besides its messages, read to be looked at: the system prompt and each tool.

use serde_json::Value;

/// A part of what comes before the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptPart {
    pub(super) kind: PromptKind,
    /// The name of a tool, or of a setting.
    pub(super) name: Option<String>,
    /// What it says, or its definition as JSON.
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptKind {
    System,
    /// A tool of the client's own.
    Tool,
    /// A tool of an MCP server.
    OfServer(String),
    /// Another setting that a model is sent, such as the form of the answer.
    Setting,
}

/// Reads what [`crate::preamble::write`] wrote; what is something else has no parts.
pub(super) fn prompt_parts(written: &str) -> Vec<PromptPart> {
    let content: Value = serde_json::from_str(written).unwrap_or_default();
    let pieces = content["with"].as_array().into_iter().flatten().filter_map(Value::as_str);
    pieces.flat_map(parts_of).collect()
}

fn parts_of(piece: &str) -> Vec<PromptPart> {
    let system = |text: String| PromptPart { kind: PromptKind::System, name: None, text };
    match serde_json::from_str(piece) {
        Ok(Value::Array(items)) if items.iter().any(is_tool) => items.iter().map(tool).collect(),
        Ok(Value::Array(blocks)) => vec![system(texts(&Value::Array(blocks)))],
        Ok(Value::String(text)) => vec![system(text)],
        Ok(Value::Object(fields)) if fields.contains_key("content") => {
            vec![system(texts(&fields["content"]))]
        }
        Ok(Value::Object(fields)) => {
            let name = fields.get("type").and_then(Value::as_str).map(str::to_owned);
            vec![PromptPart { kind: PromptKind::Setting, name, text: piece.to_owned() }]
        }
        _ => vec![system(piece.to_owned())],
    }
}

/// Whether it is the definition of a tool, and no block of text.
fn is_tool(item: &Value) -> bool {
    item.get("name").is_some() || item.get("function").is_some() || item.get("text").is_none()
}

fn tool(item: &Value) -> PromptPart {
    let named = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let kind_of = || item.get("type").and_then(Value::as_str).map(str::to_owned);
    let name = item.get("function").and_then(named).or_else(|| named(item)).or_else(kind_of);
    // The provider calls such a server itself.
    let label = item.get("server_label").and_then(Value::as_str);
    let server = label.or_else(|| name.as_deref().and_then(server_of)).map(str::to_owned);
    let kind = server.map_or(PromptKind::Tool, PromptKind::OfServer);
    PromptPart { kind, name, text: item.to_string() }
}

/// The MCP server that a tool's name tells: `mcp__github__search` is of `github`.
pub(super) fn server_of(tool: &str) -> Option<&str> {
    let rest = tool.strip_prefix("mcp__")?;
    let (server, tool) = rest.split_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some(server)
}

/// The text of a content: a string, or blocks of text.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| match block {
                Value::String(text) => Some(text.as_str()),
                block => block.get("text").and_then(Value::as_str),
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each part as `kind name text`.
    fn shown(pieces: &[&str]) -> Vec<String> {
        let written = crate::preamble::write("m", pieces.iter().copied());
        let one = |part: PromptPart| {
            let PromptPart { kind, name, text } = part;
            let text: String = text.chars().take(12).collect();
            format!("{kind:?} {} {text}", name.unwrap_or_default())
        };
        prompt_parts(&written).into_iter().map(one).collect()
    }

    #[test]
    fn prompts_and_tools_of_every_format_are_read() {
        let chat = [
            r#"{"role":"system","content":"Be brief."}"#,
            r#"[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"mcp__github__search"}}]"#,
            r#"{"type":"json_object"}"#,
        ];
        assert_eq!(
            shown(&chat),
            [
                "System  Be brief.",
                "Tool read {\"type\":\"fun",
                "OfServer(\"github\") mcp__github__search {\"type\":\"fun",
                "Setting json_object {\"type\":\"jso"
            ]
        );
        let anthropic = [
            r#"[{"type":"text","text":"One."},{"type":"text","text":"Two."}]"#,
            r#"[{"name":"bash","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}]"#,
        ];
        assert_eq!(
            shown(&anthropic),
            ["System  One.\nTwo.", "Tool bash {\"name\":\"bas", "Tool web_search {\"type\":\"web"]
        );
        let responses = [
            r#""Plain words.""#,
            r#"[{"type":"mcp","server_label":"docs"},{"type":"web_search"}]"#,
        ];
        assert_eq!(
            shown(&responses),
            [
                "System  Plain words.",
                "OfServer(\"docs\") mcp {\"type\":\"mcp",
                "Tool web_search {\"type\":\"web"
            ]
        );
        assert_eq!(shown(&["no JSON"]), ["System  no JSON"]);
        assert!(prompt_parts("something else").is_empty());
    }

    #[test]
    fn a_server_is_told_by_the_name_of_its_tool() {
        assert_eq!(server_of("mcp__github__create_issue"), Some("github"));
        for other in ["read", "mcp__github", "mcp____x", "mcp__github__", "mcp_a_b"] {
            assert_eq!(server_of(other), None, "{other}");
        }
    }
}
