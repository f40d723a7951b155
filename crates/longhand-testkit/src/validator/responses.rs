//! The rules of Responses: the request, and how its items belong together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::responses_items::check_item;
use super::rules::{ViolationReport, check_tool_name, filled_field, kind_of, present, text_field};
use super::{WireFormat, messages_of};

/// Calls that the client answers, each with the types of item that answer it.
///
/// Codex answers its local shell with the output of a function.
const ANSWERED: [(&str, &[&str]); 7] = [
    ("function_call", &["function_call_output"]),
    ("custom_tool_call", &["custom_tool_call_output"]),
    ("computer_call", &["computer_call_output"]),
    ("shell_call", &["shell_call_output"]),
    ("local_shell_call", &["local_shell_call_output", "function_call_output"]),
    ("apply_patch_call", &["apply_patch_call_output"]),
    ("tool_search_call", &["tool_search_output"]),
];

pub(super) fn validate(document: &Value, report: &mut ViolationReport) {
    check_request(document, report);
    if document.get("input").is_some_and(Value::is_string) {
        return;
    }
    let Some(items) = messages_of(WireFormat::Responses, document) else {
        return report.add("input", "expected a string or a list of items");
    };
    for (index, item) in items.iter().enumerate() {
        check_item(item, &format!("input[{index}]"), report);
    }
    check_pairs(items, is_held(document), report);
    check_approvals(items, is_held(document), report);
    check_reasoning(items, report);
    check_places_and_ids(items, report);
    if document["store"] == false {
        check_unstored(items, report);
    }
}

/// Whether the provider holds earlier items, which may have the calls that are answered here.
fn is_held(document: &Value) -> bool {
    ["previous_response_id", "conversation"].iter().any(|name| present(document, name).is_some())
}

fn check_request(document: &Value, report: &mut ViolationReport) {
    let both = ["previous_response_id", "conversation"];
    let both = both.iter().all(|name| present(document, name).is_some());
    report.demand(!both, "conversation", "it excludes `previous_response_id`");
    if let Some(instructions) = present(document, "instructions") {
        report.demand(instructions.is_string(), "instructions", "expected a string");
    }
    if let Some(key) = text_field(document, "prompt_cache_key") {
        report.demand(
            key.chars().count() <= 64,
            "prompt_cache_key",
            "it has more than 64 characters",
        );
    }
    if let Some(truncation) = present(document, "truncation") {
        let known = truncation == "disabled" || truncation == "auto";
        report.demand(known, "truncation", "expected `disabled` or `auto`");
    }
    let management = document.get("context_management").and_then(Value::as_array);
    for (index, entry) in management.into_iter().flatten().enumerate() {
        let threshold = entry.get("compact_threshold").and_then(Value::as_u64);
        let place = format!("context_management[{index}]");
        report.demand(
            threshold.is_none_or(|tokens| tokens >= 1_000),
            &place,
            "the threshold is below 1000",
        );
    }
    let tools = document.get("tools").and_then(Value::as_array);
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        if matches!(kind_of(tool), "function" | "custom") {
            check_tool_name(tool, &format!("tools[{index}]"), report);
        }
    }
}

/// A call that waits for its output.
struct OpenCall<'v> {
    place: String,
    answers: &'static [&'static str],
    id: &'v str,
}

/// Checks that calls have exactly one output each, which comes after them.
fn check_pairs(items: &[Value], held: bool, report: &mut ViolationReport) {
    let mut open: BTreeMap<&str, OpenCall<'_>> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // A reference may stand for a call, whose id is then not known here.
    let mut references = 0_usize;
    for (index, item) in items.iter().enumerate() {
        let kind = kind_of(item);
        let place = format!("input[{index}]");
        if kind == "item_reference" {
            let id = text_field(item, "id").unwrap_or_default();
            references += usize::from(!id.starts_with("msg_") && !id.starts_with("rs_"));
        }
        let call = ANSWERED.iter().find(|(call, _)| *call == kind);
        let is_output = ANSWERED.iter().any(|(_, outputs)| outputs.contains(&kind));
        let Some(id) = call_id(item, kind).filter(|_| call.is_some() || is_output) else {
            continue;
        };
        if let Some((_, answers)) = call {
            report.demand(seen.insert(id), &place, "an earlier call has the same call id");
            open.insert(id, OpenCall { place, answers, id });
        } else if open.get(id).is_some_and(|call| call.answers.contains(&kind)) {
            open.remove(id);
        } else if references > 0 {
            references -= 1;
        } else if !held {
            report.add(&place, format!("there is no open call {id:?} before this output"));
        }
    }
    for call in open.values() {
        report.add(&call.place, format!("the call {:?} has no output after it", call.id));
    }
}

/// The outputs of a local shell call it `id` in the documentation, and `call_id` in practice.
fn call_id<'v>(item: &'v Value, kind: &str) -> Option<&'v str> {
    let fallback = || filled_field(item, "id").filter(|_| kind == "local_shell_call_output");
    filled_field(item, "call_id").or_else(fallback)
}

fn check_approvals(items: &[Value], held: bool, report: &mut ViolationReport) {
    let mut requests = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        match kind_of(item) {
            "mcp_approval_request" => requests.extend(text_field(item, "id")),
            "mcp_approval_response" => {
                let id = text_field(item, "approval_request_id").unwrap_or_default();
                let referenced = items[..index].iter().any(|item| {
                    kind_of(item) == "item_reference" && text_field(item, "id") == Some(id)
                });
                if !requests.remove(id) && !referenced && !held {
                    let text =
                        format!("there is no open approval request {id:?} before this response");
                    report.add(&format!("input[{index}]"), text);
                }
            }
            _ => {}
        }
    }
}

/// Checks that reasoning is followed by what it led to.
fn check_reasoning(items: &[Value], report: &mut ViolationReport) {
    for (index, item) in items.iter().enumerate() {
        if kind_of(item) == "reasoning" {
            let follows = items.get(index + 1).is_some_and(is_from_model);
            report.demand(
                follows,
                &format!("input[{index}]"),
                "reasoning without its following item",
            );
        }
    }
}

/// Whether an item was written by a model, so that reasoning can lead to it.
fn is_from_model(item: &Value) -> bool {
    match kind_of(item) {
        "message" | "" => item["role"] == "assistant" || is_reference(item),
        "mcp_approval_response" | "compaction" | "compaction_trigger" | "additional_tools" => false,
        kind => !kind.ends_with("_output"),
    }
}

/// References may leave out their type.
fn is_reference(item: &Value) -> bool {
    kind_of(item).is_empty() && item.get("role").is_none() && filled_field(item, "id").is_some()
}

fn check_places_and_ids(items: &[Value], report: &mut ViolationReport) {
    let mut ids = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        let last = index + 1 == items.len();
        let misplaced = kind_of(item) == "compaction_trigger" && !last;
        report.demand(!misplaced, &place, "a compaction trigger is the last item");
        // The id of this output is the id of its call.
        if let Some(id) =
            text_field(item, "id").filter(|_| kind_of(item) != "local_shell_call_output")
        {
            report.demand(ids.insert(id), &place, &format!("an earlier item has the id {id:?}"));
        }
    }
}

/// Checks a request whose provider stores nothing, so that ids lead nowhere.
fn check_unstored(items: &[Value], report: &mut ViolationReport) {
    for (index, item) in items.iter().enumerate() {
        let place = format!("input[{index}]");
        let reference = kind_of(item) == "item_reference" || is_reference(item);
        report.demand(!reference, &place, "a reference leads nowhere if nothing is stored");
        if kind_of(item) == "reasoning" {
            let content = filled_field(item, "encrypted_content");
            report.demand(
                content.is_some(),
                &place,
                "reasoning needs `encrypted_content` if nothing is stored",
            );
        }
    }
}
