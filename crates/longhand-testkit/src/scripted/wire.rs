//! Answers in the three wire formats.

use serde_json::{Value, json};

use super::RecordedRequest;

/// The tokens that every answer says it has read.
pub const USAGE_INPUT: u64 = 1_000;

/// The tokens that every answer says it has written.
pub const USAGE_OUTPUT: u64 = 100;

pub(super) const EVENTS: &str = "text/event-stream";

/// The format that a request wants its answer in.
#[derive(Clone, Copy)]
pub(super) struct AnswerFormat {
    pub(super) format: ApiFormat,
    pub(super) stream: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum ApiFormat {
    Chat,
    Responses,
    Anthropic,
}

impl AnswerFormat {
    pub(super) fn of(request: &RecordedRequest) -> Self {
        let format = match request.path.split('?').next().and_then(|path| path.rsplit('/').next()) {
            Some("responses") => ApiFormat::Responses,
            Some("messages") => ApiFormat::Anthropic,
            _ => ApiFormat::Chat,
        };
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        Self { format, stream: body["stream"] == json!(true) }
    }

    pub(super) fn content_type(self) -> String {
        if self.stream { EVENTS } else { "application/json" }.to_owned()
    }

    pub(super) fn answer(self, text: &str) -> String {
        if !self.stream {
            return self.whole(text, false).to_string();
        }
        let pieces: Vec<&str> = text.split_inclusive(' ').collect();
        match self.format {
            ApiFormat::Chat => {
                let delta = |delta: Value, reason: Value| {
                    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
                    json!({"model": "scripted", "choices": [choice]})
                };
                let mut events =
                    vec![delta(json!({"role": "assistant", "content": ""}), json!(null))];
                events.extend(
                    pieces.iter().map(|piece| delta(json!({"content": piece}), json!(null))),
                );
                events.push(delta(json!({}), json!("stop")));
                events.push(json!({"model": "scripted", "choices": [], "usage": self.usage()}));
                events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>()
                    + "data: [DONE]\n\n"
            }
            ApiFormat::Responses => {
                let mut events = vec![
                    json!({"type": "response.created", "response": {"status": "in_progress"}}),
                ];
                events.extend(pieces.iter().map(
                    |piece| json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}),
                ));
                let response = self.whole(text, false);
                events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": response["output"][0]}));
                events.push(json!({"type": "response.completed", "response": response}));
                named(&events)
            }
            ApiFormat::Anthropic => {
                let mut events = vec![
                    json!({"type": "message_start", "message": {"model": "scripted", "role": "assistant", "content": [], "usage": {"input_tokens": USAGE_INPUT, "output_tokens": 1}}}),
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                    json!({"type": "ping"}),
                ];
                events.extend(pieces.iter().map(
                    |piece| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}),
                ));
                events.push(json!({"type": "content_block_stop", "index": 0}));
                events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": USAGE_OUTPUT}}));
                events.push(json!({"type": "message_stop"}));
                named(&events)
            }
        }
    }

    pub(super) fn refusal(self, text: &str) -> String {
        if !self.stream {
            return self.whole(text, true).to_string();
        }
        match self.format {
            ApiFormat::Chat => {
                let choice =
                    json!({"index": 0, "delta": {"refusal": text}, "finish_reason": "stop"});
                format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [choice]}))
            }
            ApiFormat::Responses => {
                named(&[json!({"type": "response.completed", "response": self.whole(text, true)})])
            }
            ApiFormat::Anthropic => named(&[
                json!({"type": "message_start", "message": {"model": "scripted", "content": []}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}}),
                json!({"type": "message_stop"}),
            ]),
        }
    }

    pub(super) fn error(self, kind: &str, message: &str) -> String {
        let error = json!({"type": kind, "message": message});
        match self.format {
            ApiFormat::Anthropic => json!({"type": "error", "error": error}),
            _ => json!({"error": error}),
        }
        .to_string()
    }

    pub(super) fn error_in_answer(self, message: &str) -> String {
        if !self.stream {
            return self.error("server_error", message);
        }
        match self.format {
            ApiFormat::Responses => {
                let error = json!({"code": "server_error", "message": message});
                let response = json!({"status": "failed", "error": error});
                named(&[json!({"type": "response.failed", "response": response})])
            }
            _ => format!("event: error\ndata: {}\n\n", self.error("server_error", message)),
        }
    }

    pub(super) fn too_long(self, limit: u64, asked: u64) -> String {
        let message = match self.format {
            ApiFormat::Anthropic => format!("prompt is too long: {asked} tokens > {limit} maximum"),
            _ => format!(
                "This model's maximum context length is {limit} tokens. However, your messages resulted in {asked} tokens."
            ),
        };
        self.error("invalid_request_error", &message)
    }

    fn usage(self) -> Value {
        match self.format {
            ApiFormat::Chat => {
                json!({"prompt_tokens": USAGE_INPUT, "completion_tokens": USAGE_OUTPUT})
            }
            _ => json!({"input_tokens": USAGE_INPUT, "output_tokens": USAGE_OUTPUT}),
        }
    }

    fn whole(self, text: &str, refused: bool) -> Value {
        let usage = self.usage();
        match self.format {
            ApiFormat::Chat => {
                let message = if refused {
                    json!({"role": "assistant", "content": null, "refusal": text})
                } else {
                    json!({"role": "assistant", "content": text})
                };
                let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
                json!({"model": "scripted", "choices": [choice], "usage": usage})
            }
            ApiFormat::Responses => {
                let part = if refused {
                    json!({"type": "refusal", "refusal": text})
                } else {
                    json!({"type": "output_text", "text": text})
                };
                let item = json!({"type": "message", "role": "assistant", "content": [part]});
                json!({"status": "completed", "model": "scripted", "output": [item], "usage": usage})
            }
            ApiFormat::Anthropic => {
                let reason = if refused { "refusal" } else { "end_turn" };
                let block = json!({"type": "text", "text": text});
                json!({"type": "message", "role": "assistant", "model": "scripted", "content": [block], "stop_reason": reason, "usage": usage})
            }
        }
    }
}

/// Events that are named after their type.
pub(super) fn named(events: &[Value]) -> String {
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    events.iter().map(line).collect()
}
