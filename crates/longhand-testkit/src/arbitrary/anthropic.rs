//! Conversations as Anthropic Messages.

use super::conversation::{
    GeneratedCall, GeneratedConversation, GeneratedStep, GeneratedText, GeneratedThinking, PIXEL,
    ResultShape, TOOLS, text_block, tool_schema,
};
use crate::json::{Json, object, raw};

pub(super) fn render(conversation: &GeneratedConversation) -> String {
    let mut ids = conversation.ids();
    let mut messages = Vec::new();
    // Results wait here: they open the next user message, whoever writes it.
    let mut results: Vec<Json> = Vec::new();
    for (index, round) in conversation.rounds.iter().enumerate() {
        // Clients mark the newest turns for the cache; four marks are the most.
        let marked = index + 3 >= conversation.rounds.len();
        messages.push(user(&round.user, marked, std::mem::take(&mut results)));
        for step in &round.steps {
            if !results.is_empty() {
                messages.push(message("user", std::mem::take(&mut results)));
            }
            let step_ids: Vec<String> = ids.by_ref().take(step.calls.len()).collect();
            messages.push(assistant_with_calls(step, &step_ids));
            let blocks = step.calls.iter().zip(&step_ids).map(|(call, id)| tool_result(call, id));
            results = step.ordered(blocks.collect());
        }
        if let Some(answer) = &round.answer {
            if !results.is_empty() {
                messages.push(message("user", std::mem::take(&mut results)));
            }
            messages.push(assistant(answer));
        }
    }
    if !results.is_empty() {
        messages.push(message("user", results));
    }
    let messages = Json::Array(messages);
    let document = if conversation.wrapped {
        body(conversation.system.as_deref(), messages)
    } else {
        messages
    };
    document.to_text(conversation.layout)
}

fn body(system: Option<&str>, messages: Json) -> Json {
    let tools = TOOLS.iter().map(|name| {
        object([
            ("name", (*name).into()),
            ("description", "".into()),
            ("input_schema", tool_schema()),
        ])
    });
    let mut body = object([("model", "claude-sonnet-4-5".into()), ("max_tokens", raw("4096"))]);
    if let Some(system) = system {
        let block = text_block("text", system).with("cache_control", cache_control());
        let as_blocks = system.len() % 2 == 0;
        body =
            body.with("system", if as_blocks { Json::Array(vec![block]) } else { system.into() });
    }
    body.with("tools", Json::Array(tools.collect())).with("messages", messages)
}

fn cache_control() -> Json {
    object([("type", "ephemeral".into())])
}

fn message(role: &'static str, blocks: Vec<Json>) -> Json {
    object([("role", role.into()), ("content", Json::Array(blocks))])
}

fn user(said: &GeneratedText, marked: bool, results: Vec<Json>) -> Json {
    let plain = results.is_empty() && !said.blocks && !said.image;
    let json = if plain {
        object([("role", "user".into()), ("content", said.text.as_str().into())])
    } else {
        let mut blocks = results;
        let text = text_block("text", &said.text);
        blocks.push(if said.blocks && marked {
            text.with("cache_control", cache_control())
        } else {
            text
        });
        if said.image {
            blocks.push(image());
        }
        message("user", blocks)
    };
    said.extra.add_to(json)
}

fn assistant(said: &GeneratedText) -> Json {
    if said.thinking.is_none() && !said.blocks {
        let json = object([("role", "assistant".into()), ("content", said.text.as_str().into())]);
        return said.extra.add_to(json);
    }
    let mut blocks: Vec<Json> = said.thinking.as_ref().map(thinking).into_iter().collect();
    blocks.push(text_block("text", &said.text));
    said.extra.add_to(message("assistant", blocks))
}

fn assistant_with_calls(step: &GeneratedStep, ids: &[String]) -> Json {
    let mut blocks: Vec<Json> = step.thinking.as_ref().map(thinking).into_iter().collect();
    blocks.extend(step.text.as_deref().map(|text| text_block("text", text)));
    blocks.extend(step.calls.iter().zip(ids).map(|(call, id)| {
        call.extra.add_to(object([
            ("type", "tool_use".into()),
            ("id", id.as_str().into()),
            ("name", call.name.into()),
            ("input", raw(&call.arguments)),
        ]))
    }));
    step.extra.add_to(message("assistant", blocks))
}

fn thinking(thinking: &GeneratedThinking) -> Json {
    if thinking.hidden {
        let data = thinking.signature.as_str().into();
        return object([("type", "redacted_thinking".into()), ("data", data)]);
    }
    object([
        ("type", "thinking".into()),
        ("thinking", thinking.text.as_str().into()),
        ("signature", thinking.signature.as_str().into()),
    ])
}

fn tool_result(call: &GeneratedCall, id: &str) -> Json {
    let mut json = object([("type", "tool_result".into()), ("tool_use_id", id.into())]);
    let text = text_block("text", &call.result);
    json = match call.shape {
        ResultShape::Text => json.with("content", call.result.as_str()),
        ResultShape::Blocks => json.with("content", Json::Array(vec![text])),
        ResultShape::Image => json.with("content", Json::Array(vec![text, image()])),
        ResultShape::Nothing => json,
    };
    if call.failed {
        json = json.with("is_error", raw("true"));
    }
    call.extra.add_to(json)
}

fn image() -> Json {
    let source = object([
        ("type", "base64".into()),
        ("media_type", "image/png".into()),
        ("data", PIXEL.into()),
    ]);
    object([("type", "image".into()), ("source", source)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use crate::arbitrary::anthropic_json;

    fn blocks(message: &Value) -> Vec<Value> {
        match &message["content"] {
            Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
            content => content.as_array().unwrap().clone(),
        }
    }

    proptest! {
        #[test]
        fn anthropic_is_valid(text in anthropic_json()) {
            let document: Value = serde_json::from_str(&text).unwrap();
            let messages = document.as_array().or(document["messages"].as_array()).unwrap();
            let mut seen = BTreeSet::new();
            for (place, message) in messages.iter().enumerate() {
                let role = if place % 2 == 0 { "user" } else { "assistant" };
                prop_assert_eq!(&message["role"], role);
                let mut uses = BTreeSet::new();
                for (at, block) in blocks(message).iter().enumerate() {
                    match block["type"].as_str().unwrap() {
                        "text" => prop_assert!(!block["text"].as_str().unwrap().trim().is_empty()),
                        "thinking" | "redacted_thinking" => prop_assert_eq!(at, 0),
                        "tool_use" => {
                            prop_assert!(block["input"].is_object());
                            let id = block["id"].as_str().unwrap().to_owned();
                            prop_assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)));
                            prop_assert!(seen.insert(id.clone()) && uses.insert(id));
                        }
                        _ => {}
                    }
                }
                let Some(next) = messages.get(place + 1) else {
                    prop_assert!(uses.is_empty());
                    continue;
                };
                let next = blocks(next);
                let leading = next.iter().take_while(|block| block["type"] == "tool_result");
                let answers: BTreeSet<String> =
                    leading.map(|block| block["tool_use_id"].as_str().unwrap().to_owned()).collect();
                prop_assert_eq!(&answers, &uses);
                let results = next.iter().filter(|block| block["type"] == "tool_result").count();
                prop_assert_eq!(results, uses.len());
            }
        }
    }
}
