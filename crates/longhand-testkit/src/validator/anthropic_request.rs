//! The rules for an Anthropic request beside its messages, and for cache marks anywhere in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::anthropic::blocks_of;
use super::model::Claude;
use super::rules::{
    ViolationReport, check_text, check_tool_name, is_blank, kind_of, present, text_field,
};

const CACHE_MARKS_MAX: usize = 4;
const BUDGET_TOKENS_MIN: u64 = 1_024;

pub(super) fn check_request(
    document: &Value,
    claude: Option<Claude>,
    report: &mut ViolationReport,
) {
    check_system(document, report);
    check_tools(document, report);
    if let Some(thinking) = present(document, "thinking") {
        check_thinking(document, thinking, claude, report);
    }
    if claude.is_some_and(Claude::is_adaptive_only) {
        for name in ["temperature", "top_p", "top_k"] {
            let absent = present(document, name).is_none();
            report.demand(absent, name, "this model takes no sampling parameters");
        }
    }
    if claude.is_some_and(Claude::always_thinks) {
        let forced = matches!(kind_of(&document["tool_choice"]), "any" | "tool");
        report.demand(!forced, "tool_choice", "this model cannot be made to call a tool");
    }
}

fn check_system(document: &Value, report: &mut ViolationReport) {
    match present(document, "system") {
        None => {}
        Some(Value::String(text)) => {
            report.demand(!is_blank(text), "system", "the text is empty");
        }
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let place = format!("system[{index}]");
                report.demand(kind_of(block) == "text", &place, "a system prompt holds only text");
                check_text(block, "text", &place, report);
            }
        }
        Some(_) => report.add("system", "expected a string or a list of blocks"),
    }
}

fn check_tools(document: &Value, report: &mut ViolationReport) {
    let mut names = BTreeSet::new();
    let tools = document.get("tools").and_then(Value::as_array);
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let place = format!("tools[{index}]");
        // A set of MCP tools is named after its server.
        if kind_of(tool) == "mcp_toolset" {
            continue;
        }
        check_tool_name(tool, &place, report);
        let name = text_field(tool, "name").unwrap_or_default();
        report.demand(names.insert(name), &place, "another tool has the same name");
    }
}

fn check_thinking(
    document: &Value,
    thinking: &Value,
    claude: Option<Claude>,
    report: &mut ViolationReport,
) {
    match kind_of(thinking) {
        "adaptive" => {}
        "enabled" => {
            let adaptive = claude.is_some_and(Claude::is_adaptive_only);
            report.demand(!adaptive, "thinking", "this model takes only adaptive thinking");
            let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or(0);
            report.demand(
                budget >= BUDGET_TOKENS_MIN,
                "thinking",
                "the budget is below 1024 tokens",
            );
            let tokens_max = document.get("max_tokens").and_then(Value::as_u64);
            let fits = tokens_max.is_none_or(|tokens_max| budget < tokens_max);
            report.demand(fits, "thinking", "the budget is not below `max_tokens`");
        }
        "disabled" => {
            let always = claude.is_some_and(Claude::always_thinks);
            report.demand(!always, "thinking", "this model cannot stop thinking");
        }
        _ => report.add("thinking", "the type is not `adaptive`, `enabled` or `disabled`"),
    }
}

pub(super) fn check_cache_marks(
    document: &Value,
    messages: &[Value],
    report: &mut ViolationReport,
) {
    let mut marks = Vec::new();
    let lists =
        ["tools", "system"].map(|name| (name, document.get(name).and_then(Value::as_array)));
    for (name, list) in lists {
        for (index, entry) in list.into_iter().flatten().enumerate() {
            collect_mark(entry, format!("{name}[{index}]"), &mut marks, report);
        }
    }
    for (index, message) in messages.iter().enumerate() {
        for (at, block) in blocks_of(message).iter().enumerate() {
            let place = format!("messages[{index}].content[{at}]");
            for (inner, part) in blocks_of(block).iter().enumerate() {
                collect_mark(part, format!("{place}.content[{inner}]"), &mut marks, report);
            }
            collect_mark(block, place, &mut marks, report);
        }
    }
    let automatic = usize::from(present(document, "cache_control").is_some());
    if marks.len() + automatic > CACHE_MARKS_MAX {
        let count = marks.len() + automatic;
        report.add("request", format!("there are {count} cache marks, and four is the most"));
    }
    let short = marks.iter().position(|(_, hour)| !hour).unwrap_or(marks.len());
    for (place, _) in marks[short..].iter().filter(|(_, hour)| *hour) {
        report.add(place, "a cache mark for an hour comes after one for five minutes");
    }
}

/// Notes a cache mark with its place and whether it is for an hour.
fn collect_mark(
    holder: &Value,
    place: String,
    marks: &mut Vec<(String, bool)>,
    report: &mut ViolationReport,
) {
    let Some(mark) = present(holder, "cache_control") else { return };
    report.demand(kind_of(mark) == "ephemeral", &place, "a cache mark is of type `ephemeral`");
    let ttl = text_field(mark, "ttl").unwrap_or("5m");
    report.demand(matches!(ttl, "5m" | "1h"), &place, "a cache mark lasts `5m` or `1h`");
    let thinks = matches!(kind_of(holder), "thinking" | "redacted_thinking");
    report.demand(!thinks, &place, "thinking cannot be marked for the cache");
    marks.push((place, ttl == "1h"));
}
