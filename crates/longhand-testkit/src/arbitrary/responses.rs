//! Conversations as items of the Responses interface.

use super::conversation::{
    GeneratedCall, GeneratedConversation, GeneratedText, GeneratedThinking, ResultShape, TOOLS,
    pixel_url, text_block, tool_schema,
};
use crate::json::{Json, object, raw};

pub(super) fn render(conversation: &GeneratedConversation) -> String {
    let mut ids = conversation.ids();
    let mut items = Vec::new();
    if let Some(system) = conversation.system.as_deref().filter(|_| !conversation.wrapped) {
        items.push(object([("role", "developer".into()), ("content", system.into())]));
    }
    for round in &conversation.rounds {
        items.push(user(&round.user));
        for step in &round.steps {
            items.extend(reasoning(step.thinking.as_ref(), items.len()));
            if let Some(text) = &step.text {
                items.push(step.extra.add_to(assistant(text, items.len())));
            }
            let step_ids: Vec<String> = ids.by_ref().take(step.calls.len()).collect();
            items
                .extend(step.calls.iter().zip(&step_ids).map(|(call, id)| function_call(call, id)));
            let outputs = step.calls.iter().zip(&step_ids).map(|(call, id)| output(call, id));
            items.extend(step.ordered(outputs.collect()));
        }
        if let Some(answer) = &round.answer {
            items.extend(reasoning(answer.thinking.as_ref(), items.len()));
            items.push(answer_item(answer, items.len()));
        }
    }
    let items = Json::Array(items);
    let document =
        if conversation.wrapped { body(conversation.system.as_deref(), items) } else { items };
    document.to_text(conversation.layout)
}

fn body(instructions: Option<&str>, items: Json) -> Json {
    let tools = TOOLS.iter().map(|name| {
        object([
            ("type", "function".into()),
            ("name", (*name).into()),
            ("parameters", tool_schema()),
        ])
    });
    let mut body = object([("model", "gpt-5".into()), ("store", raw("false"))]);
    if let Some(instructions) = instructions {
        body = body.with("instructions", instructions);
    }
    body.with("input", items).with("tools", Json::Array(tools.collect()))
}

fn user(said: &GeneratedText) -> Json {
    let mut content = said.text.as_str().into();
    if said.blocks || said.image {
        let mut blocks = vec![text_block("input_text", &said.text)];
        if said.image {
            blocks.push(image());
        }
        content = Json::Array(blocks);
    }
    let mut item = object([("role", "user".into()), ("content", content)]);
    if said.blocks {
        item = item.with("type", "message");
    }
    said.extra.add_to(item)
}

/// The whole form with its id, or the short one.
fn answer_item(said: &GeneratedText, place: usize) -> Json {
    let item = if said.blocks {
        assistant(&said.text, place)
    } else {
        object([("role", "assistant".into()), ("content", said.text.as_str().into())])
    };
    said.extra.add_to(item)
}

fn assistant(text: &str, place: usize) -> Json {
    let block = text_block("output_text", text).with("annotations", Json::Array(Vec::new()));
    object([
        ("type", "message".into()),
        ("id", format!("msg_{place:04x}").into()),
        ("role", "assistant".into()),
        ("status", "completed".into()),
        ("content", Json::Array(vec![block])),
    ])
}

fn reasoning(thinking: Option<&GeneratedThinking>, place: usize) -> Option<Json> {
    let thinking = thinking?;
    let summary =
        if thinking.hidden { Vec::new() } else { vec![text_block("summary_text", &thinking.text)] };
    Some(object([
        ("type", "reasoning".into()),
        ("id", format!("rs_{place:04x}").into()),
        ("summary", Json::Array(summary)),
        ("encrypted_content", thinking.signature.as_str().into()),
    ]))
}

fn function_call(call: &GeneratedCall, id: &str) -> Json {
    call.extra.add_to(object([
        ("type", "function_call".into()),
        ("id", format!("fc_of_{id}").into()),
        ("call_id", id.into()),
        ("name", call.name.into()),
        ("arguments", call.arguments.as_str().into()),
    ]))
}

fn output(call: &GeneratedCall, id: &str) -> Json {
    let text = text_block("input_text", &call.result);
    let output = match call.shape {
        ResultShape::Text => call.result.as_str().into(),
        ResultShape::Blocks => Json::Array(vec![text]),
        ResultShape::Image => Json::Array(vec![text, image()]),
        ResultShape::Nothing => "".into(),
    };
    call.extra.add_to(object([
        ("type", "function_call_output".into()),
        ("call_id", id.into()),
        ("output", output),
    ]))
}

fn image() -> Json {
    object([("type", "input_image".into()), ("image_url", pixel_url())])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use crate::arbitrary::responses_json;

    proptest! {
        #[test]
        fn responses_are_valid(text in responses_json()) {
            let document: Value = serde_json::from_str(&text).unwrap();
            let items = document.as_array().or(document["input"].as_array()).unwrap();
            let (mut called, mut answered) = (BTreeSet::new(), BTreeSet::new());
            for (place, item) in items.iter().enumerate() {
                match item["type"].as_str() {
                    Some("reasoning") => {
                        let next = &items[place + 1];
                        let follows = next["role"] == "assistant" || next["type"] == "function_call";
                        prop_assert!(follows);
                    }
                    Some("function_call") => {
                        let arguments = item["arguments"].as_str().unwrap();
                        prop_assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                        prop_assert!(called.insert(item["call_id"].as_str().unwrap()));
                    }
                    Some("function_call_output") => {
                        let id = item["call_id"].as_str().unwrap();
                        prop_assert!(called.contains(id) && answered.insert(id));
                    }
                    _ => prop_assert!(item["role"].is_string()),
                }
            }
            prop_assert_eq!(called, answered);
        }
    }
}
