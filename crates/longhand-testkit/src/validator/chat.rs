//! The rules of Chat Completions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::{demands_reasoning, is_mistral, refuses_tools_with_effort};
use super::rules::{
    ViolationReport, check_arguments, check_text, check_tool_name, filled_field, kind_of, present,
    text_field,
};
use super::{WireFormat, messages_of};

pub(super) fn validate(document: &Value, report: &mut ViolationReport) {
    let Some(messages) = messages_of(WireFormat::Chat, document) else {
        return report.add("messages", "expected a list of messages");
    };
    let model = text_field(document, "model").unwrap_or_default();
    check_request(document, model, report);
    let mut open = OpenCalls::default();
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        let role = text_field(message, "role").unwrap_or_default();
        if role != "tool" {
            open.close(report);
        }
        check_message(message, role, &place, report);
        if role == "tool" {
            open.answer(message, &place, report);
        }
        open.extend(message, &place, report);
        check_for_model(messages, index, model, &place, report);
    }
    open.close(report);
}

fn check_request(document: &Value, model: &str, report: &mut ViolationReport) {
    let tools = document.get("tools").and_then(Value::as_array);
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let place = format!("tools[{index}]");
        match kind_of(tool) {
            "function" => check_tool_name(&tool["function"], &place, report),
            "custom" => check_tool_name(&tool["custom"], &place, report),
            _ => report.add(&place, "a tool is of type `function` or `custom`"),
        }
    }
    let effort = text_field(document, "reasoning_effort").unwrap_or("none");
    if effort != "none" && tools.is_some_and(|tools| !tools.is_empty()) {
        let taken = !refuses_tools_with_effort(model);
        report.demand(
            taken,
            "reasoning_effort",
            "this model takes no tools with a reasoning effort",
        );
    }
}

fn check_message(message: &Value, role: &str, place: &str, report: &mut ViolationReport) {
    let has_calls = present(message, "tool_calls").is_some();
    match role {
        "system" | "developer" => check_content(message, &["text"], false, place, report),
        "user" => {
            let kinds = ["text", "image_url", "input_audio", "file"];
            check_content(message, &kinds, false, place, report);
        }
        "tool" => {
            let names_call = filled_field(message, "tool_call_id").is_some();
            report.demand(names_call, place, "a tool message needs a `tool_call_id`");
            check_content(message, &["text"], true, place, report);
        }
        "function" => {
            report.demand(
                filled_field(message, "name").is_some(),
                place,
                "a function message needs a `name`",
            );
            let content = message.get("content");
            let fits = content.is_some_and(|content| content.is_string() || content.is_null());
            report.demand(fits, place, "the content of a function message is a string or null");
        }
        "assistant" => check_assistant(message, place, report),
        _ => report.add(place, format!("unknown role {role:?}")),
    }
    if role != "assistant" {
        let calls = has_calls || present(message, "function_call").is_some();
        report.demand(!calls, place, "only the assistant calls tools");
    }
}

fn check_assistant(message: &Value, place: &str, report: &mut ViolationReport) {
    let calls = present(message, "tool_calls").or(present(message, "function_call"));
    if present(message, "content").is_some() {
        check_content(message, &["text", "refusal"], calls.is_some(), place, report);
        let parts = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let refuses = parts.iter().any(|part| kind_of(part) == "refusal");
        let fits = !refuses || parts.len() == 1;
        report.demand(fits, place, "a refusal is the only part of its message");
    } else {
        let excused = calls.is_some() || present(message, "audio").is_some();
        report.demand(excused, place, "only a message with calls may lack content");
    }
    if let Some(function) = present(message, "function_call") {
        let place = format!("{place}.function_call");
        check_tool_name(function, &place, report);
        check_arguments(function, &place, report);
    }
    if let Some(calls) = present(message, "tool_calls") {
        let place = format!("{place}.tool_calls");
        match calls.as_array().map(Vec::as_slice) {
            None => report.add(&place, "expected a list of calls"),
            Some([]) => report.add(&place, "the list of calls is empty"),
            Some(calls) => {
                for (index, call) in calls.iter().enumerate() {
                    check_call(call, &format!("{place}[{index}]"), report);
                }
            }
        }
    }
}

fn check_call(call: &Value, place: &str, report: &mut ViolationReport) {
    report.demand(filled_field(call, "id").is_some(), place, "the call has no id");
    match kind_of(call) {
        "function" => {
            check_tool_name(&call["function"], place, report);
            check_arguments(&call["function"], place, report);
        }
        "custom" => {
            check_tool_name(&call["custom"], place, report);
            let input = text_field(&call["custom"], "input");
            report.demand(input.is_some(), place, "the input of a custom call is not a string");
        }
        _ => report.add(place, "a call is of type `function` or `custom`"),
    }
}

/// Checks content that must be there; `may_be_empty` concerns content that is a string.
fn check_content(
    message: &Value,
    kinds: &[&str],
    may_be_empty: bool,
    place: &str,
    report: &mut ViolationReport,
) {
    let place = format!("{place}.content");
    match present(message, "content") {
        None => report.add(&place, "the message has no content"),
        Some(Value::String(text)) => {
            report.demand(may_be_empty || !text.trim().is_empty(), &place, "the text is empty");
        }
        Some(Value::Array(parts)) => {
            report.demand(!parts.is_empty(), &place, "the list of parts is empty");
            for (index, part) in parts.iter().enumerate() {
                let place = format!("{place}[{index}]");
                let kind = kind_of(part);
                if report.demand(
                    kinds.contains(&kind),
                    &place,
                    &format!("no part of type {kind:?} here"),
                ) {
                    check_part(part, kind, &place, report);
                }
            }
        }
        Some(_) => report.add(&place, "expected a string or a list of parts"),
    }
}

fn check_part(part: &Value, kind: &str, place: &str, report: &mut ViolationReport) {
    match kind {
        "text" | "refusal" => check_text(part, kind, place, report),
        "image_url" => {
            let url = filled_field(&part["image_url"], "url");
            report.demand(url.is_some(), place, "the image has no address");
        }
        "input_audio" => {
            let data = filled_field(&part["input_audio"], "data");
            let format = filled_field(&part["input_audio"], "format");
            report.demand(
                data.is_some() && format.is_some(),
                place,
                "audio needs `data` and `format`",
            );
        }
        "file" => {
            let source =
                filled_field(&part["file"], "file_id").or(filled_field(&part["file"], "file_data"));
            report.demand(source.is_some(), place, "a file needs `file_id` or `file_data`");
        }
        _ => {}
    }
}

/// Rules of single models.
fn check_for_model(
    messages: &[Value],
    index: usize,
    model: &str,
    place: &str,
    report: &mut ViolationReport,
) {
    let message = &messages[index];
    let calls = message["tool_calls"].as_array();
    if demands_reasoning(model) && calls.is_some() {
        let reasoning = text_field(message, "reasoning_content");
        report.demand(
            reasoning.is_some(),
            place,
            "this model needs `reasoning_content` beside calls",
        );
    }
    if is_mistral(model) {
        for id in calls.into_iter().flatten().filter_map(|call| text_field(call, "id")) {
            let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            report.demand(fits, place, "Mistral wants call ids of nine letters and digits");
        }
        let after_tool = index > 0 && messages[index - 1]["role"] == "tool";
        let is_user = message["role"] == "user";
        report.demand(
            !(after_tool && is_user),
            place,
            "Mistral takes no user message after a tool's",
        );
    }
}

/// Calls that no tool message has answered yet, with their places.
#[derive(Default)]
struct OpenCalls<'v> {
    calls: BTreeMap<&'v str, String>,
}

impl<'v> OpenCalls<'v> {
    fn extend(&mut self, message: &'v Value, place: &str, report: &mut ViolationReport) {
        let calls = message["tool_calls"].as_array();
        for (index, call) in calls.into_iter().flatten().enumerate() {
            let Some(id) = filled_field(call, "id") else { continue };
            let place = format!("{place}.tool_calls[{index}]");
            let doubled = self.calls.insert(id, place.clone()).is_some();
            report.demand(!doubled, &place, "two calls of one message have the same id");
        }
    }

    fn answer(&mut self, message: &'v Value, place: &str, report: &mut ViolationReport) {
        let Some(id) = filled_field(message, "tool_call_id") else { return };
        if self.calls.remove(id).is_none() {
            report.add(place, format!("the result of {id:?} does not follow its call"));
        }
    }

    /// Reports what is still open where no more results can come.
    fn close(&mut self, report: &mut ViolationReport) {
        for (id, place) in std::mem::take(&mut self.calls) {
            report.add(&place, format!("the call {id:?} has no result right after it"));
        }
    }
}
