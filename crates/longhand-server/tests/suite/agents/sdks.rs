//! Agents with one tool, and what SDKs make of a loop: each writes the same steps in its own way.
use longhand_testkit::scripted::{ScriptStep, ScriptedCall, ScriptedReply, ScriptedUsage};
use serde_json::{Value, json};

use super::{id, output};

/// What the model answers to every one of them: words, and a call.
pub(super) fn answer(turn: usize) -> ScriptStep {
    let call = ScriptedCall {
        id: id(turn),
        name: "bash".to_owned(),
        arguments: json!({"command": command(turn)}),
    };
    // A script cannot know what it is sent, and figures that are far off would be learned from.
    let used = ScriptedUsage { input: 0, cached: 0, output: 0 };
    ScriptStep::Reply(ScriptedReply {
        id: format!("reply_{turn:04}"),
        text: words(turn),
        calls: vec![call],
        used,
    })
}

fn words(turn: usize) -> String {
    format!("Step {turn}.")
}

fn command(turn: usize) -> String {
    format!("sh check.sh {turn}")
}

/// Arguments as the model writes them, or as Python does after it has read them.
fn arguments(turn: usize, is_rewritten: bool) -> String {
    let space = if is_rewritten { " " } else { "" };
    format!(r#"{{"command":{space}"{}"}}"#, command(turn))
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})
}

fn chat_tools() -> Value {
    let function =
        json!({"name": "bash", "description": "Runs a command.", "parameters": schema()});
    json!([{"type": "function", "function": function}])
}

fn responses_tools() -> Value {
    json!([{"type": "function", "name": "bash", "description": "Runs a command.", "parameters": schema(), "strict": false}])
}

/// pi streams, keeps nothing at the provider, and sends items back with their ids.
pub(super) fn pi(turns: usize) -> Value {
    let mut input = vec![
        json!({"role": "system", "content": "You mend programs."}),
        json!({"role": "user", "content": [{"type": "input_text", "text": "Find the lost lease."}]}),
    ];
    for turn in 0..turns {
        let text = json!({"type": "output_text", "text": words(turn), "annotations": []});
        input.push(
            json!({"type": "message", "role": "assistant", "content": [text], "status": "completed",
            "id": format!("msg_reply_{turn:04}")}),
        );
        input.push(
            json!({"type": "function_call", "id": format!("fc_{}", id(turn)), "call_id": id(turn),
            "name": "bash", "arguments": arguments(turn, false)}),
        );
        input.push(
            json!({"type": "function_call_output", "call_id": id(turn), "output": output(turn)}),
        );
    }
    json!({"model": "gpt-4o", "input": input, "stream": true, "store": false, "max_output_tokens": 1_000,
        "prompt_cache_key": "019a1e66-3de2-7f61-ab12-3f152586875e", "tools": responses_tools()})
}

/// `llm` streams, has no system prompt, and writes arguments anew.
pub(super) fn llm(turns: usize) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "Find the lost lease."})];
    for turn in 0..turns {
        let call = json!({"type": "function", "id": id(turn), "function": {"name": "bash", "arguments": arguments(turn, true)}});
        messages.push(json!({"role": "assistant", "content": words(turn), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id(turn), "content": output(turn)}));
    }
    json!({"model": "gpt-4o", "stream": true, "messages": messages, "stream_options": {"include_usage": true},
        "tools": chat_tools()})
}

/// `langchain` writes arguments anew, and the fields of a message in another order.
pub(super) fn langchain(turns: usize) -> Value {
    let mut messages = vec![
        json!({"content": "You mend programs.", "role": "system"}),
        json!({"content": "Find the lost lease.", "role": "user"}),
    ];
    for turn in 0..turns {
        let call = json!({"type": "function", "id": id(turn), "function": {"name": "bash", "arguments": arguments(turn, true)}});
        messages.push(json!({"content": words(turn), "role": "assistant", "tool_calls": [call]}));
        messages.push(json!({"content": output(turn), "role": "tool", "tool_call_id": id(turn)}));
    }
    json!({"model": "gpt-4o", "stream": false, "messages": messages, "tools": chat_tools()})
}

/// mini-swe-agent wraps outputs in JSON, and sends back what its library noted beside an answer.
pub(super) fn mini_swe_agent(turns: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You work with a computer."}),
        json!({"role": "user", "content": "Please solve this issue: Find the lost lease."}),
    ];
    for turn in 0..turns {
        let call = json!({"function": {"arguments": arguments(turn, false), "name": "bash"}, "id": id(turn), "type": "function"});
        messages.push(json!({"content": words(turn), "role": "assistant", "tool_calls": [call],
            "provider_specific_fields": {"refusal": null}}));
        let wrapped =
            format!("{{\n  \"returncode\": 0,\n  \"output\": {}\n}}", json!(output(turn)));
        messages.push(json!({"content": wrapped, "tool_call_id": id(turn), "role": "tool"}));
    }
    json!({"messages": messages, "model": "gpt-4o", "tools": chat_tools()})
}

/// The SDK `openai-agents` sends items back as it got them, with ids and states.
pub(super) fn openai_agents(turns: usize) -> Value {
    let mut input = vec![json!({"content": "Find the lost lease.", "role": "user"})];
    for turn in 0..turns {
        let text =
            json!({"annotations": [], "text": words(turn), "type": "output_text", "logprobs": []});
        input.push(
            json!({"id": format!("msg_reply_{turn:04}"), "content": [text], "role": "assistant",
            "status": "completed", "type": "message"}),
        );
        input
            .push(json!({"arguments": arguments(turn, false), "call_id": id(turn), "name": "bash",
            "type": "function_call", "id": format!("fc_{}", id(turn)), "status": "completed"}));
        input.push(
            json!({"call_id": id(turn), "output": output(turn), "type": "function_call_output"}),
        );
    }
    json!({"model": "gpt-4o", "include": [], "input": input, "instructions": "You mend programs.",
        "tools": responses_tools()})
}

/// Pydantic AI keeps what an answer says, and no ids of items.
pub(super) fn pydantic_ai(turns: usize) -> Value {
    let mut input = vec![json!({"role": "user", "content": "Find the lost lease."})];
    for turn in 0..turns {
        input.push(json!({"role": "assistant", "content": words(turn)}));
        input.push(json!({"name": "bash", "arguments": arguments(turn, false), "call_id": id(turn), "type": "function_call"}));
        input.push(
            json!({"type": "function_call_output", "call_id": id(turn), "output": output(turn)}),
        );
    }
    json!({"model": "gpt-4o", "stream": false, "input": input, "instructions": "You mend programs.",
        "tool_choice": "auto", "tools": responses_tools()})
}

/// Vercel's `ai` only refers to the words of an answer, which the provider holds.
pub(super) fn ai(turns: usize) -> Value {
    let mut input = vec![
        json!({"role": "system", "content": "You mend programs."}),
        json!({"role": "user", "content": [{"type": "input_text", "text": "Find the lost lease."}]}),
    ];
    for turn in 0..turns {
        input.push(json!({"type": "item_reference", "id": format!("msg_reply_{turn:04}")}));
        input.push(json!({"type": "function_call", "call_id": id(turn), "name": "bash", "arguments": arguments(turn, false)}));
        input.push(
            json!({"type": "function_call_output", "call_id": id(turn), "output": output(turn)}),
        );
    }
    json!({"model": "gpt-4o", "input": input, "tools": responses_tools(), "tool_choice": "auto"})
}
