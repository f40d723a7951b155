//! The rules for an edited conversation, judged against its source.

use serde_json::{Value, json};

use super::rules::{ViolationReport, kind_of, text_field};
use super::{WireFormat, messages_of};

/// How the block begins that stands for folded messages; no user wrote it.
const FOLD_START: &str = "[longhand fold ";

/// Returns every rule that an edit of `before_json` into `after_json` breaks.
///
/// System prompt and tools are unchanged, the newest user message is there, and thinking is kept only
/// as it was and where it is still valid. `binds_thinking` says whether the model refuses thinking
/// once anything before it has changed. Whether the edited conversation is valid at all is for
/// [`validate`](super::validate) to say.
pub fn validate_edit(
    dialect: WireFormat,
    before_json: &str,
    after_json: &str,
    binds_thinking: bool,
) -> Vec<String> {
    let mut report = ViolationReport::default();
    let before = parse("before", before_json, &mut report);
    let after = parse("after", after_json, &mut report);
    let (Some(before), Some(after)) = (before, after) else { return report.violations };
    let lists = messages_of(dialect, &before).zip(messages_of(dialect, &after));
    let Some((old_messages, new_messages)) = lists else {
        report.add(dialect.list_field(), "expected a list of messages before and after");
        return report.violations;
    };
    check_fixed(dialect, &before, &after, &mut report);
    check_system_messages(dialect, old_messages, new_messages, &mut report);
    check_newest_user_message(dialect, old_messages, new_messages, &mut report);
    match dialect {
        WireFormat::Chat => {}
        WireFormat::Responses => check_reasoning(old_messages, new_messages, &mut report),
        WireFormat::Anthropic => {
            check_thinking_is_verbatim(old_messages, new_messages, &mut report);
            check_latest_thinking(old_messages, new_messages, &mut report);
            if binds_thinking && !drops_void_thinking(&after) {
                let changed =
                    ["system", "tools"].iter().any(|name| before.get(name) != after.get(name));
                check_bound_thinking(old_messages, new_messages, changed, &mut report);
            }
        }
    }
    report.violations
}

fn parse(name: &str, json: &str, report: &mut ViolationReport) -> Option<Value> {
    let parsed = serde_json::from_str(json);
    parsed.map_err(|error| report.add(name, format!("the JSON does not parse: {error}"))).ok()
}

fn check_fixed(dialect: WireFormat, before: &Value, after: &Value, report: &mut ViolationReport) {
    let names: &[&str] = match dialect {
        WireFormat::Chat => &["tools", "functions"],
        WireFormat::Responses => &["tools", "instructions"],
        WireFormat::Anthropic => &["tools", "system"],
    };
    for name in names {
        let same = written(before.get(*name)) == written(after.get(*name));
        report.demand(same, name, "the edit changed it");
    }
}

/// Writes a value down: unlike comparing values, this also compares the order of fields.
fn written(value: Option<&Value>) -> Option<String> {
    value.map(Value::to_string)
}

/// Checks the system messages that a conversation opens with.
fn check_system_messages(
    dialect: WireFormat,
    before: &[Value],
    after: &[Value],
    report: &mut ViolationReport,
) {
    let is_system = |message: &&Value| matches!(role_of(message), "system" | "developer");
    for (index, message) in before.iter().take_while(is_system).enumerate() {
        let same = written(after.get(index)) == written(Some(message));
        let place = format!("{}[{index}]", dialect.list_field());
        report.demand(same, &place, "the edit changed a system message");
    }
}

fn role_of(message: &Value) -> &str {
    text_field(message, "role").unwrap_or_default()
}

/// Returns the parts of a message without cache marks; a string is one part.
fn parts_of(message: &Value) -> Vec<Value> {
    match message.get("content") {
        Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
        Some(Value::Array(parts)) => parts.iter().map(unmarked).collect(),
        _ => Vec::new(),
    }
}

fn unmarked(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(fields) = part.as_object_mut() {
        fields.shift_remove("cache_control");
    }
    part
}

/// Returns what a user said in a message, which may hold results and the summary of a fold beside it.
fn said_by_user(message: &Value) -> Vec<Value> {
    let mut parts = parts_of(message);
    let is_fold =
        |part: &Value| text_field(part, "text").is_some_and(|text| text.starts_with(FOLD_START));
    parts.retain(|part| {
        role_of(message) == "user" && kind_of(part) != "tool_result" && !is_fold(part)
    });
    parts
}

fn is_user_turn(message: &Value) -> bool {
    !said_by_user(message).is_empty()
}

/// Whether a message comes after a reply that ends with an action in words, so that it may be the output.
///
/// Who calls tools has no need to.
fn follows_action(messages: &[Value], index: usize) -> bool {
    let Some(before) = index.checked_sub(1).map(|before| &messages[before]) else { return false };
    let calls = |message: &Value| {
        let is_call = |part: &Value| kind_of(part).ends_with("tool_use");
        let has_field =
            ["tool_calls", "function_call"].iter().any(|name| message.get(name).is_some());
        has_field || is_client_call(kind_of(message)) || parts_of(message).iter().any(is_call)
    };
    if role_of(before) != "assistant" || messages.iter().any(calls) {
        return false;
    }
    let parts = parts_of(before);
    let text =
        parts.last().and_then(|part| text_field(part, "text")).unwrap_or_default().trim_end();
    let starts = |line: &str| {
        ["$ ", "Action", "ACTION", "<"].iter().any(|mark| line.trim_start().starts_with(mark))
    };
    text.ends_with("```") || text.ends_with('>') || text.lines().any(starts)
}

/// Whether an item is a call that the client answers, and not one that the provider does.
fn is_client_call(kind: &str) -> bool {
    let of_provider = ["web_search", "file_search", "code_interpreter", "image_generation", "mcp"];
    kind.strip_suffix("_call").is_some_and(|tool| !of_provider.contains(&tool))
}

/// Checks that a user message has all that the newest one had; a summary may stand beside it.
fn check_newest_user_message(
    dialect: WireFormat,
    before: &[Value],
    after: &[Value],
    report: &mut ViolationReport,
) {
    let Some(newest) = before.iter().rposition(is_user_turn) else { return };
    let is_kept = |index: usize| {
        let said = said_by_user(&before[index]);
        after.iter().any(|message| {
            let parts = said_by_user(message);
            parts.windows(said.len()).any(|window| window == said)
        })
    };
    // Whatever may be an output counts as the user's words only if it is left as it was.
    let speaks = |index: &usize| is_user_turn(&before[*index]) && !follows_action(before, *index);
    let speech = (0..before.len()).rev().find(speaks);
    let kept = is_kept(newest) || follows_action(before, newest) && speech.is_none_or(is_kept);
    let place = format!("{}[{newest}]", dialect.list_field());
    report.demand(kept, &place, "the newest user message is not there as it was");
}

fn is_thinking(block: &Value) -> bool {
    matches!(kind_of(block), "thinking" | "redacted_thinking")
}

/// Lists the thinking blocks of messages as text, with their places.
fn thinking_of(messages: &[Value]) -> Vec<(String, String)> {
    let mut thinking = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for (at, block) in
            parts_of(message).iter().enumerate().filter(|(_, block)| is_thinking(block))
        {
            thinking.push((format!("messages[{index}].content[{at}]"), block.to_string()));
        }
    }
    thinking
}

/// Checks that the thinking left is thinking of the source, unchanged and in its order.
fn check_thinking_is_verbatim(before: &[Value], after: &[Value], report: &mut ViolationReport) {
    let old_thinking = thinking_of(before);
    let mut rest = old_thinking.iter();
    for (place, block) in thinking_of(after) {
        if !rest.any(|(_, old)| *old == block) {
            report.add(&place, "the source has no such thinking block at this point");
            return;
        }
    }
}

fn has_results(message: &Value) -> bool {
    parts_of(message).iter().any(|part| kind_of(part) == "tool_result")
}

/// Whether a conversation ends in results, so that the model is about to go on.
fn ends_in_results(messages: &[Value]) -> bool {
    let last = messages.iter().rfind(|message| role_of(message) != "system");
    last.is_some_and(has_results)
}

/// Returns the messages of the open tool loop; none if the conversation waits for the user.
fn open_loop(messages: &[Value]) -> &[Value] {
    if !ends_in_results(messages) {
        return &[];
    }
    let turn = messages.iter().rposition(|message| is_user_turn(message) && !has_results(message));
    &messages[turn.map_or(0, |turn| turn + 1)..]
}

/// Checks that the reply whose results come last keeps its thinking.
fn check_latest_thinking(before: &[Value], after: &[Value], report: &mut ViolationReport) {
    let is_reply = |message: &&Value| role_of(message) == "assistant";
    let Some(old_reply) = open_loop(before).iter().rfind(is_reply) else { return };
    let Some(new_reply) = after.iter().rfind(is_reply) else { return };
    let thinking = |message: &Value| {
        let blocks = parts_of(message).into_iter().filter(is_thinking);
        blocks.map(|block| block.to_string()).collect::<Vec<_>>()
    };
    let same = thinking(old_reply) == thinking(new_reply);
    report.demand(same, "messages", "the edit changed the thinking of the latest reply");
}

/// Whether a request has the provider drop thinking that an edit made void.
fn drops_void_thinking(request: &Value) -> bool {
    request["thinking"]["block_binding"]["prefix_mismatch_behavior"] == "drop_block"
}

/// Checks that no thinking of the source comes after the first change, outside of the open tool loop.
fn check_bound_thinking(
    before: &[Value],
    after: &[Value],
    changed: bool,
    report: &mut ViolationReport,
) {
    let same = |(old, new): &(&Value, &Value)| {
        role_of(old) == role_of(new) && parts_of(old) == parts_of(new)
    };
    let equal = if changed { 0 } else { before.iter().zip(after).take_while(same).count() };
    let equal_blocks = match (before.get(equal), after.get(equal)) {
        (Some(old), Some(new)) if !changed && role_of(old) == role_of(new) => {
            parts_of(old).iter().zip(&parts_of(new)).take_while(|(old, new)| old == new).count()
        }
        _ => 0,
    };
    let allowed = thinking_of(open_loop(before));
    for (index, message) in after.iter().enumerate().skip(equal) {
        let skipped = if index == equal { equal_blocks } else { 0 };
        for (at, block) in parts_of(message).iter().enumerate().skip(skipped) {
            let text = block.to_string();
            if is_thinking(block) && !allowed.iter().any(|(_, allowed)| *allowed == text) {
                let place = format!("messages[{index}].content[{at}]");
                report.add(&place, "the thinking is bound to a conversation that the edit changed");
            }
        }
    }
}

/// Checks that reasoning is left as it was, and together with the item that it led to.
fn check_reasoning(before: &[Value], after: &[Value], report: &mut ViolationReport) {
    let is_reasoning = |item: &Value| kind_of(item) == "reasoning";
    let mut rest = before.iter().filter(|item| is_reasoning(item));
    for (index, item) in after.iter().enumerate().filter(|(_, item)| is_reasoning(item)) {
        if !rest.any(|old| written(Some(old)) == written(Some(item))) {
            report
                .add(&format!("input[{index}]"), "the source has no such reasoning at this point");
            return;
        }
    }
    for pair in before.windows(2).filter(|pair| is_reasoning(&pair[0])) {
        let Some(id) = text_field(&pair[1], "id") else { continue };
        let Some(index) = after.iter().position(|item| text_field(item, "id") == Some(id)) else {
            continue;
        };
        let led = index.checked_sub(1).is_some_and(|before| after[before] == pair[0]);
        report.demand(led, &format!("input[{index}]"), "the item has lost its reasoning");
    }
}
