//! The rules for a single item of Responses.

use serde_json::Value;

use super::rules::{
    ViolationReport, check_arguments, check_text, check_tool_name, filled_field, is_blank, kind_of,
    present, text_field,
};

const CALL_ID_CHARS_MAX: usize = 64;
const TEXT_CHARS_MAX: usize = 10_485_760;
const IMAGE_URL_CHARS_MAX: usize = 20_971_520;
const COMPACTION_CHARS_MAX: usize = 20_971_520;
const FILE_DATA_CHARS_MAX: usize = 73_400_320;

/// Items of unknown type are accepted.
pub(super) fn check_item(item: &Value, place: &str, report: &mut ViolationReport) {
    if !report.demand(item.is_object(), place, "expected an item") {
        return;
    }
    match kind_of(item) {
        "message" => check_message(item, place, report),
        "" if item.get("role").is_some() => check_message(item, place, report),
        "" | "item_reference" => {
            report.demand(filled_field(item, "id").is_some(), place, "a reference needs an `id`");
        }
        "reasoning" => {
            let summary = item.get("summary").is_some_and(Value::is_array);
            report.demand(summary, place, "reasoning needs a `summary`");
        }
        "compaction" => {
            let content = filled_field(item, "encrypted_content").unwrap_or_default();
            report.demand(!content.is_empty(), place, "a compaction needs `encrypted_content`");
            check_length(content, COMPACTION_CHARS_MAX, place, report);
        }
        "mcp_approval_request" => {
            report.demand(filled_field(item, "id").is_some(), place, "a request needs an `id`");
            check_arguments(item, place, report);
        }
        "mcp_approval_response" => {
            let names_request = filled_field(item, "approval_request_id").is_some();
            report.demand(names_request, place, "a response names its request");
            let decides = item.get("approve").is_some_and(Value::is_boolean);
            report.demand(decides, place, "`approve` is not true or false");
        }
        "mcp_call" => check_arguments(item, place, report),
        kind => check_call_or_output(item, kind, place, report),
    }
}

fn check_call_or_output(item: &Value, kind: &str, place: &str, report: &mut ViolationReport) {
    match kind {
        "function_call" => {
            check_tool_name(item, place, report);
            check_arguments(item, place, report);
        }
        "custom_tool_call" => {
            check_tool_name(item, place, report);
            let input = text_field(item, "input");
            report.demand(input.is_some(), place, "the input of a custom call is not a string");
        }
        "computer_call" => {
            let acts = ["action", "actions"].iter().any(|name| present(item, name).is_some());
            report.demand(acts, place, "the call has no action");
        }
        "shell_call" | "local_shell_call" => {
            report.demand(item["action"].is_object(), place, "the call has no action");
        }
        "apply_patch_call" => {
            report.demand(item["operation"].is_object(), place, "the call has no operation");
        }
        "function_call_output" | "custom_tool_call_output" => check_output(item, place, report),
        "computer_call_output" => check_screenshot(&item["output"], place, report),
        "shell_call_output" => {
            report.demand(item["output"].is_array(), place, "the output is not a list");
        }
        "local_shell_call_output" => {
            report.demand(item["output"].is_string(), place, "the output is not a string");
            let id = filled_field(item, "call_id").or(filled_field(item, "id"));
            return check_call_id(id, place, report);
        }
        "apply_patch_call_output" => {
            let done = matches!(text_field(item, "status"), Some("completed" | "failed"));
            report.demand(done, place, "the status is neither `completed` nor `failed`");
        }
        _ => return,
    }
    check_call_id(filled_field(item, "call_id"), place, report);
}

fn check_call_id(id: Option<&str>, place: &str, report: &mut ViolationReport) {
    match id {
        None => report.add(place, "the item has no `call_id`"),
        Some(id) => {
            let fits = id.chars().count() <= CALL_ID_CHARS_MAX;
            report.demand(fits, place, "the `call_id` has more than 64 characters");
        }
    }
}

fn check_message(item: &Value, place: &str, report: &mut ViolationReport) {
    let role = text_field(item, "role").unwrap_or_default();
    let kinds: &[&str] = match role {
        "user" => &["input_text", "input_image", "input_file", "input_audio"],
        "system" | "developer" => &["input_text", "input_image", "input_file"],
        "assistant" => &["output_text", "refusal"],
        _ => return report.add(place, format!("unknown role {role:?}")),
    };
    if let Some(phase) = present(item, "phase") {
        let known = phase == "commentary" || phase == "final_answer";
        report.demand(
            known && role == "assistant",
            place,
            "the phase is not one of the assistant's",
        );
    }
    let place = format!("{place}.content");
    match item.get("content") {
        Some(Value::String(text)) => {
            report.demand(!is_blank(text), &place, "the text is empty");
            check_length(text, TEXT_CHARS_MAX, &place, report);
        }
        Some(Value::Array(parts)) => {
            report.demand(!parts.is_empty(), &place, "the list of parts is empty");
            for (index, part) in parts.iter().enumerate() {
                check_part(part, kinds, &format!("{place}[{index}]"), report);
            }
        }
        _ => report.add(&place, "expected a string or a list of parts"),
    }
}

fn check_output(item: &Value, place: &str, report: &mut ViolationReport) {
    let place = format!("{place}.output");
    match item.get("output") {
        Some(Value::String(text)) => check_length(text, TEXT_CHARS_MAX, &place, report),
        Some(Value::Array(parts)) => {
            report.demand(!parts.is_empty(), &place, "the list of parts is empty");
            for (index, part) in parts.iter().enumerate() {
                let kinds = ["input_text", "input_image", "input_file"];
                check_part(part, &kinds, &format!("{place}[{index}]"), report);
            }
        }
        _ => report.add(&place, "expected a string or a list of parts"),
    }
}

fn check_screenshot(output: &Value, place: &str, report: &mut ViolationReport) {
    report.demand(
        kind_of(output) == "computer_screenshot",
        place,
        "the output is not a screenshot",
    );
    check_image(output, place, report);
}

fn check_part(part: &Value, kinds: &[&str], place: &str, report: &mut ViolationReport) {
    let kind = kind_of(part);
    if !report.demand(kinds.contains(&kind), place, &format!("no part of type {kind:?} here")) {
        return;
    }
    match kind {
        "input_text" | "output_text" => {
            check_text(part, "text", place, report);
            check_length(
                text_field(part, "text").unwrap_or_default(),
                TEXT_CHARS_MAX,
                place,
                report,
            );
        }
        "refusal" => check_text(part, "refusal", place, report),
        "input_image" => check_image(part, place, report),
        "input_file" => {
            let fields = ["file_data", "file_id", "file_url"];
            let named = fields.iter().any(|name| filled_field(part, name).is_some());
            report.demand(named, place, "a file needs `file_data`, `file_id` or `file_url`");
            let data = text_field(part, "file_data").unwrap_or_default();
            check_length(data, FILE_DATA_CHARS_MAX, place, report);
        }
        _ => {}
    }
}

fn check_image(holder: &Value, place: &str, report: &mut ViolationReport) {
    let named = ["image_url", "file_id"].iter().any(|name| filled_field(holder, name).is_some());
    report.demand(named, place, "an image needs `image_url` or `file_id`");
    check_length(
        text_field(holder, "image_url").unwrap_or_default(),
        IMAGE_URL_CHARS_MAX,
        place,
        report,
    );
}

fn check_length(text: &str, chars_max: usize, place: &str, report: &mut ViolationReport) {
    // No text has more characters than bytes, and most are far below the limit.
    if text.len() > chars_max && text.chars().count() > chars_max {
        report.add(place, format!("the text has more than {chars_max} characters"));
    }
}
