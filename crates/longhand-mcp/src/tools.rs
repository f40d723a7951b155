//! The tools as a client lists them.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// The tools; `pin` is one of them if something may be written.
pub(crate) fn tools(may_write: bool) -> Vec<Tool> {
    let text = |about: &str| json!({"type": "string", "description": about});
    let number = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let mut tools = vec![
        tool(
            "search",
            "Searches all that was ever said, by any words: a question, a name or a part of one, \"a phrase\". \
             Best first, each with a handle for read.",
            &json!({
                "query": text("Any words"),
                "session": text("Only in this session: its name or id"),
                "role": {"type": "string", "enum": ["user", "assistant", "tool", "system"]},
                "file": text("Only what names this file"),
                "limit": number("How many at most, 8 if it is not said"),
            }),
            &["query"],
        ),
        tool(
            "read",
            "Reads what a handle stands for: a message (7f3a9c02b1d4:12), several (7f3a9c02b1d4:12-20), \
             a mark of a shortened window (h:...), or a whole session by its name or id.",
            &json!({
                "handle": text("A handle, or a session"),
                "grep": text("Only lines about this: a regular expression, or words"),
                "from": number("The byte to go on from, of a long text"),
            }),
            &["handle"],
        ),
        tool(
            "sessions",
            "Lists the sessions that can be searched, newest first, with their first words.",
            &json!({"limit": number("How many at most, 20 if it is not said")}),
            &[],
        ),
    ];
    for tool in &mut tools {
        tool.annotations =
            Some(ToolAnnotations::from_raw(None, Some(true), None, None, Some(false)));
    }
    if may_write {
        tools.push(tool(
            "pin",
            "Keeps a message in every window of its session, or no longer.",
            &json!({
                "handle": text("The handle of the message"),
                "pinned": {"type": "boolean", "description": "false lets it go again"},
            }),
            &["handle"],
        ));
    }
    tools
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: &Value,
    required: &[&str],
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.clone());
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    Tool::new(name, description, Arc::new(schema))
}

#[cfg(test)]
mod tests {
    use longhand_core::Scale;
    use longhand_meter::{ImageProvider, ImageRule, MeterSpec};

    use super::*;

    #[test]
    fn all_of_them_take_few_tokens() {
        let images = ImageRule::for_model(ImageProvider::OpenAi, None);
        let meter = MeterSpec::for_model("gpt-4o").open(images).unwrap();
        let written = serde_json::to_string(&tools(true)).unwrap();
        assert!(Scale::new(&*meter).text(&written).0 < 1_000, "{written}");
    }
}
