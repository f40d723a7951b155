//! A made-up conversation in any wire format, and where its contents are.

use serde_json::{Value, json};

/// The wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoryFormat {
    Chat,
    Responses,
    Anthropic,
}

impl StoryFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Anthropic];

    /// The field of the request that holds the messages.
    pub(crate) fn field(self) -> &'static str {
        if self == Self::Responses { "input" } else { "messages" }
    }
}

/// Writes a request of so many rounds, each with a bulky result, bulky arguments and bulky prose.
pub(crate) fn story(format: StoryFormat, rounds: usize) -> String {
    let mut turns = Vec::new();
    for round in 1..=rounds {
        turns.extend(match format {
            StoryFormat::Chat => chat(round),
            StoryFormat::Responses => responses(round),
            StoryFormat::Anthropic => anthropic(round),
        });
    }
    turns.push(json!({"role": "user", "content": "And now finish it, please."}));
    let rules = "You are careful. Never touch vendor/.";
    let body = match format {
        StoryFormat::Chat => {
            turns.insert(0, json!({"role": "system", "content": rules}));
            json!({"model": "gpt-4o", "messages": turns, "x-trace": [1.50, "kept"]})
        }
        StoryFormat::Responses => json!({"instructions": rules, "input": turns, "store": false}),
        StoryFormat::Anthropic => json!({"max_tokens": 900, "system": rules, "messages": turns}),
    };
    format!("{body}\n")
}

fn ask(round: usize) -> String {
    format!("Round {round}: make test_{round} pass.")
}

/// A result with all that is hard to quote.
fn log(round: usize) -> String {
    (1..=24)
        .map(|line| {
            format!("{line:>3}\tsrc/part_{round}.rs: \"naïve\" 日本 \\n 🦀 step {line}\r\n")
        })
        .collect()
}

fn prose(round: usize) -> String {
    let line = format!("In round {round} I looked at src/part_{round}.rs and weighed both ways. ");
    line.repeat(6)
}

fn patch(round: usize) -> Value {
    let lines: String =
        (1..=20).map(|line| format!("+    let x{line} = \"{round}\"; // é\n")).collect();
    json!({"path": format!("src/part_{round}.rs"), "n": 1.0, "edits": [{"new": lines, "old": ""}]})
}

fn chat(round: usize) -> Vec<Value> {
    let call = |id: &str, name: &str, arguments: &Value| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!([{"id": format!("{id}{round}"), "type": "function", "function": function}])
    };
    let read = json!({"path": format!("src/part_{round}.rs")});
    vec![
        json!({"role": "user", "content": ask(round)}),
        json!({"role": "assistant", "content": "Reading.", "tool_calls": call("r", "read", &read)}),
        json!({"role": "tool", "tool_call_id": format!("r{round}"), "content": log(round)}),
        json!({"role": "assistant", "content": null, "tool_calls": call("w", "write", &patch(round))}),
        json!({"role": "tool", "tool_call_id": format!("w{round}"), "content": "written", "extra": true}),
        json!({"role": "assistant", "content": prose(round), "name": "agent"}),
    ]
}

fn responses(round: usize) -> Vec<Value> {
    let (read, write) = (format!("r{round}"), format!("w{round}"));
    let arguments = json!({"path": format!("src/part_{round}.rs")}).to_string();
    let said = json!([{"type": "output_text", "text": prose(round), "annotations": []}]);
    vec![
        json!({"role": "user", "content": [{"type": "input_text", "text": ask(round)}]}),
        json!({"type": "reasoning", "id": format!("rs_{round}"), "summary": []}),
        json!({"type": "function_call", "call_id": read, "name": "read", "arguments": arguments}),
        json!({"type": "function_call_output", "call_id": read, "output": log(round)}),
        json!({"type": "function_call", "call_id": write, "name": "write", "arguments": patch(round).to_string()}),
        json!({"type": "function_call_output", "call_id": write, "output": "written"}),
        json!({"type": "message", "role": "assistant", "content": said}),
    ]
}

fn anthropic(round: usize) -> Vec<Value> {
    let (read, write) = (format!("r{round}"), format!("w{round}"));
    let path = json!({"path": format!("src/part_{round}.rs")});
    let blocks = json!([{"type": "text", "text": log(round)}]);
    vec![
        json!({"role": "user", "content": ask(round)}),
        json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Let me see.", "signature": format!("sig{round}")},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": read, "name": "read", "input": path},
        ]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": read, "content": blocks}]}),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": write, "name": "write", "input": patch(round)}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": write, "content": "written"}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": prose(round)}]}),
    ]
}

/// The content that an entry of a report's `stubbed` or `clipped` speaks of.
pub(crate) fn content_at(format: StoryFormat, body: &Value, entry: &Value) -> String {
    let at = entry["at"].as_str().unwrap();
    let index: usize = at[at.find('[').unwrap() + 1..at.len() - 1].parse().unwrap();
    let message = &body[format.field()][index];
    let part = entry["part"].as_u64().unwrap() as usize;
    let string = |value: &Value| value.as_str().unwrap().to_owned();
    match (format, entry["kind"].as_str().unwrap()) {
        (StoryFormat::Chat, "arguments") => {
            let call = part - usize::from(!message["content"].is_null());
            string(&message["tool_calls"][call]["function"]["arguments"])
        }
        (StoryFormat::Chat, _) => string(&message["content"]),
        (StoryFormat::Responses, "result") => string(&message["output"]),
        (StoryFormat::Responses, "arguments") => string(&message["arguments"]),
        (StoryFormat::Anthropic, "arguments") => message["content"][part]["input"].to_string(),
        (StoryFormat::Anthropic, "result") => match &message["content"][part]["content"] {
            Value::String(text) => text.clone(),
            blocks => string(&blocks[0]["text"]),
        },
        (StoryFormat::Responses | StoryFormat::Anthropic, _) => {
            string(&message["content"][part]["text"])
        }
    }
}

/// The messages that an entry of a report's `folded` speaks of, as they stood in the request.
pub(crate) fn folded_at(format: StoryFormat, body: &Value, entry: &Value) -> String {
    // A system prompt beside the list counts as the first message.
    let aside = usize::from(format != StoryFormat::Chat);
    let list = body[format.field()].as_array().unwrap();
    let index = |value: &Value| value.as_u64().unwrap() as usize - aside;
    let ranges = entry["messages"].as_array().unwrap();
    let messages = ranges.iter().flat_map(|range| &list[index(&range[0])..index(&range[1])]);
    messages.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
