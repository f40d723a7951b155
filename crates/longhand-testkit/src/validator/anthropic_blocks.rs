//! The rules for the blocks of one Anthropic message.

use std::collections::BTreeMap;

use serde_json::Value;

use super::anthropic::blocks_of;
use super::model::Claude;
use super::pixels::pixels_of;
use super::rules::{
    ViolationReport, check_text, check_tool_name, filled_field, is_identifier, kind_of, present,
    text_field,
};

/// Blocks that only users write; what is in neither list passes.
const OF_USERS: [&str; 5] =
    ["image", "document", "search_result", "tool_result", "container_upload"];

/// Blocks that only models write, beside the results of tools that the provider runs.
const OF_MODELS: [&str; 6] =
    ["thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use", "compaction"];

const SIDE_PIXELS_MAX: u32 = 8_000;
const SIDE_PIXELS_MAX_OF_MANY: u32 = 2_000;
const MANY_IMAGES: usize = 20;

pub(super) fn check_blocks(
    blocks: &[Value],
    role: &str,
    place: &str,
    report: &mut ViolationReport,
) {
    for (index, block) in blocks.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let kind = kind_of(block);
        let fits = match role {
            "user" => !is_of_model(kind),
            "assistant" => !OF_USERS.contains(&kind),
            _ => kind == "text",
        };
        report.demand(
            fits,
            &place,
            &format!("no block of type {kind:?} in a message of the {role}"),
        );
        check_block(block, kind, &place, report);
    }
    check_results_first(blocks, place, report);
    check_thinking_order(blocks, place, report);
    check_provider_calls(blocks, place, report);
}

fn is_of_model(kind: &str) -> bool {
    OF_MODELS.contains(&kind) || is_provider_result(kind)
}

fn is_provider_result(kind: &str) -> bool {
    kind.ends_with("tool_result") && kind != "tool_result"
}

fn is_thinking(kind: &str) -> bool {
    matches!(kind, "thinking" | "redacted_thinking")
}

fn check_block(block: &Value, kind: &str, place: &str, report: &mut ViolationReport) {
    match kind {
        "" => report.add(place, "the block has no type"),
        "text" => check_text(block, "text", place, report),
        "thinking" => {
            report.demand(
                text_field(block, "thinking").is_some(),
                place,
                "`thinking` is not a string",
            );
            report.demand(
                filled_field(block, "signature").is_some(),
                place,
                "thinking needs its signature",
            );
        }
        "redacted_thinking" => {
            report.demand(
                filled_field(block, "data").is_some(),
                place,
                "redacted thinking needs its data",
            );
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let id = text_field(block, "id").unwrap_or_default();
            report.demand(is_identifier(id), place, "an id has only letters, digits, `_` and `-`");
            check_tool_name(block, place, report);
            report.demand(block["input"].is_object(), place, "`input` is not an object");
        }
        "tool_result" => check_result(block, place, report),
        "image" => check_source(block, &["base64", "url", "file"], place, report),
        "document" => {
            check_source(block, &["base64", "url", "file", "text", "content"], place, report);
        }
        _ => {}
    }
    if let Some(citations) = present(block, "citations") {
        let fits = citations.is_array() || kind == "document" || kind == "search_result";
        report.demand(fits, place, "the citations are not a list");
    }
}

fn check_result(block: &Value, place: &str, report: &mut ViolationReport) {
    let id = text_field(block, "tool_use_id").unwrap_or_default();
    report.demand(is_identifier(id), place, "an id has only letters, digits, `_` and `-`");
    match block.get("content") {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let place = format!("{place}.content[{index}]");
                let kind = kind_of(block);
                let fits = kind != "tool_result" && !is_of_model(kind);
                report.demand(fits, &place, "a result holds no calls, results or thinking");
                check_block(block, kind, &place, report);
            }
        }
        Some(_) => report.add(place, "the content is not a string or a list of blocks"),
    }
}

fn check_source(block: &Value, kinds: &[&str], place: &str, report: &mut ViolationReport) {
    let source = &block["source"];
    let kind = kind_of(source);
    if !report.demand(kinds.contains(&kind), place, "the source is of no known type") {
        return;
    }
    if kind == "base64" {
        let data = filled_field(source, "data").is_some();
        let media_type = text_field(source, "media_type").unwrap_or_default();
        report.demand(
            data && media_type.contains('/'),
            place,
            "the source needs `media_type` and `data`",
        );
    }
}

/// Checks that nothing comes before the results of a message.
fn check_results_first(blocks: &[Value], place: &str, report: &mut ViolationReport) {
    let results = blocks.iter().take_while(|block| kind_of(block) == "tool_result").count();
    for (index, block) in blocks.iter().enumerate().skip(results) {
        let late = kind_of(block) == "tool_result";
        report.demand(!late, &format!("{place}[{index}]"), "results come before all other blocks");
    }
}

/// Checks that thinking comes before the text or the calls that it led to.
///
/// A reply that was cut off may consist of thinking alone.
fn check_thinking_order(blocks: &[Value], place: &str, report: &mut ViolationReport) {
    if blocks.iter().all(|block| is_thinking(kind_of(block))) {
        return;
    }
    let call = blocks.iter().position(|block| kind_of(block) == "tool_use");
    let last = blocks.iter().rposition(|block| !is_thinking(kind_of(block)));
    let end = call.or(last).unwrap_or(blocks.len());
    for (index, block) in blocks.iter().enumerate().skip(end) {
        let late = is_thinking(kind_of(block));
        report.demand(!late, &format!("{place}[{index}]"), "thinking comes before what it led to");
    }
}

/// Checks that tools which the provider runs have call and result in one message.
fn check_provider_calls(blocks: &[Value], place: &str, report: &mut ViolationReport) {
    let mut open: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for (index, block) in blocks.iter().enumerate() {
        let kind = kind_of(block);
        if let "server_tool_use" | "mcp_tool_use" = kind {
            open.insert(
                text_field(block, "id").unwrap_or_default(),
                (index, kind == "mcp_tool_use"),
            );
        } else if is_provider_result(kind) {
            let id = text_field(block, "tool_use_id").unwrap_or_default();
            let answers =
                open.remove(id).is_some_and(|(_, mcp)| mcp == (kind == "mcp_tool_result"));
            report.demand(
                answers,
                &format!("{place}[{index}]"),
                "the message has no call for this result",
            );
        }
    }
    for (id, (index, _)) in open {
        let text = format!("the call {id:?} has no result in its message");
        report.add(&format!("{place}[{index}]"), text);
    }
}

/// Checks number and size of all pictures, also of those in results.
pub(super) fn check_images(
    messages: &[Value],
    claude: Option<Claude>,
    report: &mut ViolationReport,
) {
    let mut images = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let results = blocks_of(message).iter().filter(|block| kind_of(block) == "tool_result");
        let blocks = blocks_of(message).iter().chain(results.flat_map(blocks_of));
        images.extend(blocks.filter(|block| kind_of(block) == "image").map(|block| (index, block)));
    }
    let images_max = claude.map_or(600, Claude::images_max);
    if images.len() > images_max {
        report.add("messages", format!("there are more than {images_max} images"));
    }
    let many = images.len() > MANY_IMAGES;
    let side_max = if many { SIDE_PIXELS_MAX_OF_MANY } else { SIDE_PIXELS_MAX };
    for (index, image) in images {
        let data = text_field(&image["source"], "data");
        if let Some((width, height)) =
            data.and_then(pixels_of).filter(|(w, h)| w.max(h) > &side_max)
        {
            let text =
                format!("an image of {width}x{height} pixels is larger than {side_max}x{side_max}");
            report.add(&format!("messages[{index}]"), text);
        }
    }
}
