//! The tools that the agent of a session has.

use serde_json::{Value, json};

pub(super) fn schemas() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let line =
        |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
    Value::Array(vec![
        tool(
            "read_file",
            "Reads a file of the repository, with line numbers.",
            &json!({
                "path": text("Path from the root of the repository."),
                "from": line("First line, if not the whole file."),
                "to": line("Last line, if not the whole file."),
            }),
            &["path"],
        ),
        tool(
            "apply_patch",
            "Applies a unified diff. Either every hunk applies or none does.",
            &json!({
                "patch": text("The diff, with three lines of context."),
                "reason": text("One line for the log."),
            }),
            &["patch"],
        ),
        tool(
            "run_tests",
            "Runs cargo test and returns its output.",
            &json!({
                "filter": text("Only tests whose name contains this."),
                "verbose": { "type": "boolean", "description": "Shows what the tests log." },
            }),
            &[],
        ),
        tool(
            "search",
            "Finds a plain text in the repository, one hit per line.",
            &json!({
                "query": text("What to look for."),
                "under": text("Only in this directory."),
            }),
            &["query"],
        ),
        tool(
            "list_dir",
            "Lists a directory.",
            &json!({ "path": text("Path from the root of the repository.") }),
            &["path"],
        ),
    ])
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
        },
    })
}
