//! Conversations as Chat Completions.

use super::conversation::{
    GeneratedCall, GeneratedConversation, GeneratedStep, GeneratedText, ResultShape, TOOLS,
    pixel_url, text_block, tool_schema,
};
use crate::json::{Json, object, raw};

pub(super) fn render(conversation: &GeneratedConversation) -> String {
    let mut ids = conversation.ids();
    let mut messages = Vec::new();
    if let Some(system) = &conversation.system {
        let role = if system.len() % 2 == 0 { "system" } else { "developer" };
        messages.push(object([("role", role.into()), ("content", system.as_str().into())]));
    }
    for round in &conversation.rounds {
        messages.push(user(&round.user));
        for step in &round.steps {
            let step_ids: Vec<String> = ids.by_ref().take(step.calls.len()).collect();
            messages.push(assistant_with_calls(step, &step_ids));
            let results = step.calls.iter().zip(&step_ids).map(|(call, id)| tool(call, id));
            messages.extend(step.ordered(results.collect()));
        }
        messages.extend(round.answer.as_ref().map(assistant));
    }
    let messages = Json::Array(messages);
    let document = if conversation.wrapped { body(messages) } else { messages };
    document.to_text(conversation.layout)
}

fn body(messages: Json) -> Json {
    let tools = TOOLS.iter().map(|name| {
        let function = object([("name", (*name).into()), ("parameters", tool_schema())]);
        object([("type", "function".into()), ("function", function)])
    });
    object([
        ("model", "gpt-4o".into()),
        ("messages", messages),
        ("tools", Json::Array(tools.collect())),
        ("temperature", raw("1.0")),
        ("stream", raw("true")),
    ])
}

fn user(said: &GeneratedText) -> Json {
    let mut content = said.text.as_str().into();
    if said.blocks || said.image {
        let mut blocks = vec![text_block("text", &said.text)];
        if said.image {
            let url = object([("url", pixel_url()), ("detail", "low".into())]);
            blocks.push(object([("type", "image_url".into()), ("image_url", url)]));
        }
        content = Json::Array(blocks);
    }
    said.extra.add_to(object([("role", "user".into()), ("content", content)]))
}

fn assistant(said: &GeneratedText) -> Json {
    let content = if said.blocks {
        Json::Array(vec![text_block("text", &said.text)])
    } else {
        said.text.as_str().into()
    };
    said.extra.add_to(object([("role", "assistant".into()), ("content", content)]))
}

fn assistant_with_calls(step: &GeneratedStep, ids: &[String]) -> Json {
    let calls = step.calls.iter().zip(ids).map(|(call, id)| {
        let arguments = call.arguments.as_str().into();
        let function = object([("name", call.name.into()), ("arguments", arguments)]);
        let call_object = object([
            ("id", id.as_str().into()),
            ("type", "function".into()),
            ("function", function),
        ]);
        call.extra.add_to(call_object)
    });
    let calls = Json::Array(calls.collect());
    let mut message = object([("role", "assistant".into())]);
    match &step.text {
        Some(text) => message = message.with("content", text.as_str()),
        None if step.reversed => {}
        None => message = message.with("content", raw("null")),
    }
    step.extra.add_to(message.with("tool_calls", calls))
}

fn tool(call: &GeneratedCall, id: &str) -> Json {
    let content = match call.shape {
        ResultShape::Text => call.result.as_str().into(),
        ResultShape::Blocks | ResultShape::Image => {
            Json::Array(vec![text_block("text", &call.result)])
        }
        ResultShape::Nothing => "".into(),
    };
    call.extra.add_to(object([
        ("role", "tool".into()),
        ("tool_call_id", id.into()),
        ("content", content),
    ]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use crate::arbitrary::chat_json;

    proptest! {
        #[test]
        fn chat_is_valid(text in chat_json()) {
            let document: Value = serde_json::from_str(&text).unwrap();
            let messages = document.as_array().or(document["messages"].as_array()).unwrap();
            let mut open = BTreeSet::new();
            let mut seen = BTreeSet::new();
            for message in messages {
                if message["role"] == "tool" {
                    prop_assert!(open.remove(message["tool_call_id"].as_str().unwrap()));
                    continue;
                }
                prop_assert!(open.is_empty());
                let calls = message["tool_calls"].as_array();
                prop_assert!(calls.is_some() || !message["content"].is_null());
                for call in calls.into_iter().flatten() {
                    let id = call["id"].as_str().unwrap();
                    prop_assert!(seen.insert(id) && open.insert(id));
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    prop_assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
