//! Answers with everything in them that a provider's own client looks for.

use serde_json::{Value, json};

use super::wire::{AnswerFormat, ApiFormat, USAGE_INPUT, USAGE_OUTPUT, named};

/// What a model says: words, calls of tools, or both.
#[derive(Clone, Debug, Default)]
pub struct ScriptedReply {
    /// What it is known by; no two of a script share it.
    pub id: String,
    /// The words, if any.
    pub text: String,
    /// The calls, all to be answered before the next request.
    pub calls: Vec<ScriptedCall>,
    /// What it says that it took.
    pub used: ScriptedUsage,
}

/// The tokens that an answer says it took.
#[derive(Clone, Copy, Debug)]
pub struct ScriptedUsage {
    /// Read, from a cache or not.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self { input: USAGE_INPUT, cached: 0, output: USAGE_OUTPUT }
    }
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct ScriptedCall {
    /// What its result refers to.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, an object.
    pub arguments: Value,
}

impl AnswerFormat {
    pub(super) fn reply(self, reply: &ScriptedReply) -> String {
        match (self.format, self.stream) {
            (ApiFormat::Chat, false) => chat(reply).to_string(),
            (ApiFormat::Chat, true) => chat_events(reply),
            (ApiFormat::Responses, false) => response(reply, "completed").to_string(),
            (ApiFormat::Responses, true) => response_events(reply),
            (ApiFormat::Anthropic, false) => message(reply).to_string(),
            (ApiFormat::Anthropic, true) => message_events(reply),
        }
    }
}

/// A text in pieces that are not where its words end.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(7).map(|piece| piece.iter().collect()).collect()
}

fn chat(reply: &ScriptedReply) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    if !reply.text.is_empty() {
        message["content"] = json!(reply.text);
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        });
        message["tool_calls"] = calls.collect();
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish(reply)});
    json!({"id": reply.id, "object": "chat.completion", "created": 1_700_000_000, "model": "scripted",
        "choices": [choice], "usage": chat_usage(reply.used)})
}

fn finish(reply: &ScriptedReply) -> &'static str {
    if reply.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn chat_usage(used: ScriptedUsage) -> Value {
    json!({"prompt_tokens": used.input, "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached}})
}

fn chat_events(reply: &ScriptedReply) -> String {
    let chunk = |choices: Value, usage: Value| {
        json!({"id": reply.id, "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "scripted", "choices": choices, "usage": usage})
    };
    let delta = |delta: Value, reason: Option<&str>| {
        chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]),
            json!(null),
        )
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": null}), None)];
    events.extend(pieces(&reply.text).iter().map(|piece| delta(json!({"content": piece}), None)));
    for (call, index) in reply.calls.iter().zip(0..) {
        let function = json!({"name": call.name, "arguments": ""});
        let begun =
            json!({"index": index, "id": call.id, "type": "function", "function": function});
        events.push(delta(json!({"tool_calls": [begun]}), None));
        for piece in pieces(&call.arguments.to_string()) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            events.push(delta(json!({"tool_calls": [more]}), None));
        }
    }
    events.push(delta(json!({}), Some(finish(reply))));
    events.push(chunk(json!([]), chat_usage(reply.used)));
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>() + "data: [DONE]\n\n"
}

fn response(reply: &ScriptedReply, status: &str) -> Value {
    let done = status == "completed";
    let ScriptedUsage { input, cached, output } = reply.used;
    let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output});
    json!({"id": reply.id, "object": "response", "created_at": 1_700_000_000, "status": status,
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "model": "scripted", "output": if done { items(reply) } else { Vec::new() },
        "parallel_tool_calls": true, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": done.then_some(usage)})
}

fn items(reply: &ScriptedReply) -> Vec<Value> {
    let mut items = Vec::new();
    if !reply.text.is_empty() {
        items.push(
            json!({"id": format!("msg_{}", reply.id), "type": "message", "status": "completed",
            "role": "assistant", "content": [text_part(&reply.text)]}),
        );
    }
    items.extend(reply.calls.iter().map(|call| {
        json!({"id": format!("fc_{}", call.id), "type": "function_call", "status": "completed",
            "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string()})
    }));
    items
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn response_events(reply: &ScriptedReply) -> String {
    let mut events = vec![
        json!({"type": "response.created", "response": response(reply, "in_progress")}),
        json!({"type": "response.in_progress", "response": response(reply, "in_progress")}),
    ];
    for (item, index) in items(reply).into_iter().zip(0..) {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        let place = |kind: &str, fields: Value| {
            let mut event = json!({"type": kind, "item_id": item["id"], "output_index": index});
            if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
                event.extend(fields);
            }
            event
        };
        if item["type"] == "message" {
            begun["content"] = json!([]);
            let text = &reply.text;
            events.push(
                json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
            );
            events.push(place(
                "response.content_part.added",
                json!({"content_index": 0, "part": text_part("")}),
            ));
            events.extend(pieces(text).iter().map(|piece| {
                let fields = json!({"content_index": 0, "delta": piece, "logprobs": []});
                place("response.output_text.delta", fields)
            }));
            let fields = json!({"content_index": 0, "text": text, "logprobs": []});
            events.push(place("response.output_text.done", fields));
            let fields = json!({"content_index": 0, "part": text_part(text)});
            events.push(place("response.content_part.done", fields));
        } else {
            begun["arguments"] = json!("");
            let arguments = item["arguments"].as_str().unwrap_or_default();
            events.push(
                json!({"type": "response.output_item.added", "output_index": index, "item": begun}),
            );
            events.extend(pieces(arguments).iter().map(|piece| {
                place("response.function_call_arguments.delta", json!({"delta": piece}))
            }));
            let fields = json!({"arguments": arguments, "name": item["name"]});
            events.push(place("response.function_call_arguments.done", fields));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    events.push(json!({"type": "response.completed", "response": response(reply, "completed")}));
    for (event, number) in events.iter_mut().zip(0..) {
        event["sequence_number"] = json!(number);
    }
    named(&events)
}

fn message(reply: &ScriptedReply) -> Value {
    json!({"id": reply.id, "type": "message", "role": "assistant", "model": "scripted",
        "content": blocks(reply), "stop_reason": stop(reply), "stop_sequence": null,
        "usage": {"input_tokens": reply.used.input - reply.used.cached,
            "cache_read_input_tokens": reply.used.cached, "cache_creation_input_tokens": 0,
            "output_tokens": reply.used.output}})
}

fn stop(reply: &ScriptedReply) -> &'static str {
    if reply.calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn blocks(reply: &ScriptedReply) -> Vec<Value> {
    let text = (!reply.text.is_empty()).then(|| json!({"type": "text", "text": reply.text}));
    let calls = reply.calls.iter().map(|call| {
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    });
    text.into_iter().chain(calls).collect()
}

fn message_events(reply: &ScriptedReply) -> String {
    let mut begun = message(reply);
    begun["content"] = json!([]);
    begun["stop_reason"] = json!(null);
    begun["usage"]["output_tokens"] = json!(1);
    let mut events =
        vec![json!({"type": "message_start", "message": begun}), json!({"type": "ping"})];
    for (block, index) in blocks(reply).into_iter().zip(0..) {
        let (empty, deltas) = if block["type"] == "text" {
            let deltas = pieces(&reply.text);
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            (json!({"type": "text", "text": ""}), deltas.into_iter().map(delta).collect::<Vec<_>>())
        } else {
            let mut empty = block.clone();
            empty["input"] = json!({});
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            (empty, pieces(&block["input"].to_string()).into_iter().map(delta).collect())
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta",
        "delta": {"stop_reason": stop(reply), "stop_sequence": null},
        "usage": {"output_tokens": reply.used.output}}));
    events.push(json!({"type": "message_stop"}));
    named(&events)
}
