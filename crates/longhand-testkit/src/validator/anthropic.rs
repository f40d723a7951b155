//! The rules of Anthropic Messages: roles, and how blocks of different messages belong together.

use std::collections::BTreeSet;

use serde_json::Value;

use super::anthropic_blocks::{check_blocks, check_images};
use super::anthropic_request::{check_cache_marks, check_request};
use super::model::Claude;
use super::rules::{ViolationReport, is_blank, kind_of, text_field};
use super::{WireFormat, messages_of};

const MESSAGES_MAX: usize = 100_000;
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(super) fn validate(document: &Value, bytes: usize, report: &mut ViolationReport) {
    report.demand(bytes <= BODY_BYTES_MAX, "request", "the body has more than 32 MB");
    let Some(messages) = messages_of(WireFormat::Anthropic, document) else {
        return report.add("messages", "expected a list of messages");
    };
    report.demand(messages.len() <= MESSAGES_MAX, "messages", "there are more than 100000");
    let claude = text_field(document, "model").and_then(Claude::parse);
    check_request(document, claude, report);
    check_cache_marks(document, messages, report);
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}]");
        check_role(messages, index, claude, &place, report);
        check_content(message, &place, report);
    }
    check_pairs(messages, report);
    check_prefill(messages, claude, report);
    check_images(messages, claude, report);
}

fn role_of(message: &Value) -> &str {
    text_field(message, "role").unwrap_or_default()
}

/// Returns the blocks of a message; there are none if its content is a string.
pub(super) fn blocks_of(message: &Value) -> &[Value] {
    message.get("content").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_role(
    messages: &[Value],
    index: usize,
    claude: Option<Claude>,
    place: &str,
    report: &mut ViolationReport,
) {
    let before = index.checked_sub(1).map(|before| role_of(&messages[before]));
    let after = messages.get(index + 1).map(role_of);
    match role_of(&messages[index]) {
        "system" => {
            report.demand(before == Some("user"), place, "a system message comes after a user's");
            let fits = matches!(after, None | Some("assistant"));
            report.demand(fits, place, "a system message is the last or before an assistant's");
            let taken = claude.is_none_or(Claude::takes_system_messages);
            report.demand(taken, place, "this model takes no system messages");
        }
        role @ ("user" | "assistant") => {
            report.demand(
                before != Some(role),
                place,
                &format!("two messages of the {role} in a row"),
            );
            let leads = blocks_of(&messages[index])
                .first()
                .is_some_and(|block| kind_of(block) == "compaction");
            let may_open = role == "user" || leads;
            report.demand(
                before.is_some() || may_open,
                place,
                "the first message is not the user's",
            );
        }
        role => report.add(place, format!("unknown role {role:?}")),
    }
}

fn check_content(message: &Value, place: &str, report: &mut ViolationReport) {
    let place = format!("{place}.content");
    match message.get("content") {
        Some(Value::String(text)) => {
            report.demand(!is_blank(text), &place, "the text is empty");
        }
        Some(Value::Array(blocks)) => {
            report.demand(!blocks.is_empty(), &place, "the list of blocks is empty");
            check_blocks(blocks, role_of(message), &place, report);
        }
        _ => report.add(&place, "expected a string or a list of blocks"),
    }
}

/// Checks that each call is answered in the next message, and nothing else is.
fn check_pairs(messages: &[Value], report: &mut ViolationReport) {
    let mut seen = BTreeSet::new();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut open_place = String::new();
    for (index, message) in messages.iter().enumerate() {
        let place = format!("messages[{index}].content");
        for (at, block) in blocks_of(message).iter().enumerate() {
            let id = text_field(block, "tool_use_id").unwrap_or_default();
            if kind_of(block) == "tool_result" && !open.remove(id) {
                report.add(
                    &format!("{place}[{at}]"),
                    format!("the message before has no open call {id:?}"),
                );
            }
        }
        close(&mut open, &open_place, report);
        for (at, block) in blocks_of(message).iter().enumerate() {
            let Some(id) = text_field(block, "id").filter(|_| kind_of(block).ends_with("tool_use"))
            else {
                continue;
            };
            report.demand(
                seen.insert(id),
                &format!("{place}[{at}]"),
                "an earlier call has the same id",
            );
            if kind_of(block) == "tool_use" {
                open.insert(id);
            }
        }
        open_place = format!("messages[{index}]");
    }
    close(&mut open, &open_place, report);
}

fn close(open: &mut BTreeSet<&str>, place: &str, report: &mut ViolationReport) {
    for id in std::mem::take(open) {
        report.add(place, format!("the call {id:?} has no result in the next message"));
    }
}

/// Checks a last message of the assistant, which the model would continue.
fn check_prefill(messages: &[Value], claude: Option<Claude>, report: &mut ViolationReport) {
    let Some(last) = messages.last().filter(|message| role_of(message) == "assistant") else {
        return;
    };
    let place = format!("messages[{}]", messages.len() - 1);
    let taken = claude.is_none_or(Claude::takes_prefill);
    report.demand(taken, &place, "this model takes no assistant message at the end");
    let text = match last.get("content") {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => blocks_of(last).last().and_then(|block| text_field(block, "text")),
    };
    let trimmed = text.is_none_or(|text| text.trim_end() == text);
    report.demand(trimmed, &place, "the last message of the assistant ends in white space");
}
