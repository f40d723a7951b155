//! Growing requests as items of the Responses interface.

use super::content::{arguments, lines, opaque, output, patch, picture, prose, user_text};
use super::{GrowingRequest, GrowingStyle, GrowingTurn, NewestTurn};
use crate::arbitrary::conversation::{TOOLS, text_block, tool_schema};
use crate::json::{Json, object, raw};
use crate::rng::Rng;

/// Writes the system prompt of a bare list, and what an earlier compaction may have left.
pub(super) fn open(request: &mut GrowingRequest, rng: &mut Rng) {
    if let (None, Some(system)) = (request.style.model, &request.style.system) {
        request
            .messages
            .push(object([("role", "developer".into()), ("content", system.as_str().into())]));
    }
    if rng.chance(0.15) {
        request.messages.push(message("user", "input_text", &user_text(rng, request.style.weight)));
        append_compaction(request, rng);
    }
}

pub(super) fn document(style: &GrowingStyle, items: Json) -> Json {
    let Some(model) = style.model else { return items };
    let tools = TOOLS.iter().map(|name| {
        let tool = object([("type", "function".into()), ("name", (*name).into())]);
        tool.with("parameters", tool_schema())
    });
    let mut tools: Vec<Json> = tools.collect();
    tools.push(object([("type", "web_search".into())]));
    let mut body = object([("model", model.into())]);
    if !style.stored {
        body = body.with("store", raw("false"));
    }
    if let Some(system) = &style.system {
        body = body.with("instructions", system.as_str());
    }
    body.with("input", items).with("tools", Json::Array(tools))
}

pub(super) fn append(request: &mut GrowingRequest, turn: GrowingTurn, rng: &mut Rng) {
    match turn {
        GrowingTurn::User => {
            if rng.chance(0.02) {
                append_compaction(request, rng);
            }
            let user = user(request, rng);
            request.messages.push(user);
            request.newest = NewestTurn::User;
        }
        GrowingTurn::Step => append_step(request, rng),
        GrowingTurn::Reply => {
            if rng.chance(0.3) {
                append_reasoning(request, rng);
                append_provider_tool(request, rng);
            }
            if rng.chance(0.4) {
                append_reasoning(request, rng);
            }
            let reply = reply(request, rng);
            request.messages.push(reply);
            request.newest = NewestTurn::Reply;
        }
    }
}

fn append_compaction(request: &mut GrowingRequest, rng: &mut Rng) {
    let id = request.id("cmp_");
    let compaction = item("compaction", &id).with("encrypted_content", opaque(rng, 600));
    request.messages.push(compaction);
}

/// An item with its type and id.
fn item(kind: &'static str, id: &str) -> Json {
    object([("type", kind.into()), ("id", id.into())])
}

fn message(role: &'static str, kind: &'static str, text: &str) -> Json {
    object([
        ("type", "message".into()),
        ("role", role.into()),
        ("content", Json::Array(vec![text_block(kind, text)])),
    ])
}

fn user(request: &mut GrowingRequest, rng: &mut Rng) -> Json {
    let text = user_text(rng, request.style.weight);
    let mut parts = vec![text_block("input_text", &text)];
    if request.shows_picture(0.08, rng) {
        parts.push(image(request, rng));
    }
    if rng.chance(0.05) {
        let data = format!("data:application/pdf;base64,{}", opaque(rng, 900));
        let file = object([("type", "input_file".into()), ("filename", "notes.pdf".into())]);
        parts.push(file.with("file_data", data));
    }
    let plain = parts.len() == 1 && rng.chance(0.5);
    let content = if plain { text.into() } else { Json::Array(parts) };
    object([("role", "user".into()), ("content", content)])
}

fn image(request: &GrowingRequest, rng: &mut Rng) -> Json {
    let url = picture(rng, request.style.weight).data_url();
    object([("type", "input_image".into()), ("image_url", url.into()), ("detail", "auto".into())])
}

/// Reasoning is always appended right before what it leads to.
fn append_reasoning(request: &mut GrowingRequest, rng: &mut Rng) {
    let id = request.id("rs_");
    let summary =
        if rng.chance(0.3) { Vec::new() } else { vec![text_block("summary_text", &prose(rng))] };
    let reasoning = item("reasoning", &id).with("summary", Json::Array(summary));
    request.messages.push(reasoning.with("encrypted_content", opaque(rng, 150)));
}

fn reply(request: &mut GrowingRequest, rng: &mut Rng) -> Json {
    let id = request.id("msg_");
    let message = |part: Json| {
        item("message", &id)
            .with("role", "assistant")
            .with("status", "completed")
            .with("content", Json::Array(vec![part]))
    };
    match rng.range(0..20) {
        0 => message(object([("type", "refusal".into()), ("refusal", prose(rng).into())])),
        1 | 2 if request.style.stored => item("item_reference", &id),
        3..=5 => {
            let annotation = object([
                ("type", "url_citation".into()),
                ("start_index", raw("0")),
                ("end_index", raw("4")),
                ("url", "https://example.org/a?b=c".into()),
                ("title", prose(rng).into()),
            ]);
            let text = text_block("output_text", &prose(rng));
            message(text.with("annotations", Json::Array(vec![annotation])))
        }
        6..=9 => object([("role", "assistant".into()), ("content", prose(rng).into())]),
        _ => {
            let length = rng.range(20..1_500);
            let text = if rng.chance(0.3) { lines(rng, length) } else { prose(rng) };
            let text =
                text_block("output_text", &text).with("annotations", Json::Array(Vec::new()));
            message(text).with("phase", "final_answer")
        }
    }
}

/// Appends a tool that the provider ran, with what it found in the same item.
fn append_provider_tool(request: &mut GrowingRequest, rng: &mut Rng) {
    let item = match rng.range(0..6) {
        0 => {
            let id = request.id("ws_");
            let action = object([("type", "search".into()), ("query", prose(rng).into())]);
            item("web_search_call", &id).with("status", "completed").with("action", action)
        }
        1 => {
            let id = request.id("fs_");
            let found = object([
                ("file_id", "file-7f3a".into()),
                ("filename", "notes.md".into()),
                ("score", raw("0.50")),
                ("text", prose(rng).into()),
            ]);
            item("file_search_call", &id)
                .with("status", "completed")
                .with("queries", Json::Array(vec![prose(rng).into()]))
                .with("results", Json::Array(vec![found]))
        }
        2 => {
            let id = request.id("ci_");
            let logs = object([
                ("type", "logs".into()),
                ("logs", output(rng, request.style.weight).into()),
            ]);
            item("code_interpreter_call", &id)
                .with("status", "completed")
                .with("container_id", "cntr_7f3a")
                .with("code", patch(rng))
                .with("outputs", Json::Array(vec![logs]))
        }
        3 => {
            let id = request.id("ig_");
            let picture = picture(rng, request.style.weight);
            item("image_generation_call", &id)
                .with("status", "completed")
                .with("result", picture.base64)
        }
        4 => {
            let request_id = request.id("mcpr_");
            let asked = mcp("mcp_approval_request", &request_id, rng);
            request.messages.push(asked);
            let answer = object([("type", "mcp_approval_response".into())]);
            let answer =
                answer.with("approval_request_id", request_id).with("approve", raw("true"));
            request.messages.push(answer);
            mcp_call(request, rng)
        }
        _ => mcp_call(request, rng),
    };
    request.messages.push(item);
}

fn mcp(kind: &'static str, id: &str, rng: &mut Rng) -> Json {
    item(kind, id)
        .with("server_label", "docs")
        .with("name", "search")
        .with("arguments", arguments(rng))
}

fn mcp_call(request: &mut GrowingRequest, rng: &mut Rng) -> Json {
    let id = request.id("mcp_");
    mcp("mcp_call", &id, rng)
        .with("output", output(rng, request.style.weight))
        .with("error", raw("null"))
}

fn append_step(request: &mut GrowingRequest, rng: &mut Rng) {
    if rng.chance(0.4) {
        append_reasoning(request, rng);
    }
    if rng.chance(0.3) {
        let id = request.id("msg_");
        let text =
            text_block("output_text", &prose(rng)).with("annotations", Json::Array(Vec::new()));
        let comment = item("message", &id).with("role", "assistant").with("status", "completed");
        let comment = comment.with("content", Json::Array(vec![text]));
        request.messages.push(comment.with("phase", "commentary"));
    }
    let mut outputs = Vec::new();
    for _ in 0..rng.range(1..4) {
        let (call, output) = call(request, rng);
        request.messages.push(call);
        outputs.push(output);
    }
    if rng.chance(0.2) {
        outputs.reverse();
    }
    request.messages.extend(outputs);
    request.newest = NewestTurn::Results;
}

/// Makes a call and its output.
fn call(request: &mut GrowingRequest, rng: &mut Rng) -> (Json, Json) {
    let id = request.id("call_");
    let start = |kind: &'static str, prefix: &str| {
        item(kind, &format!("{prefix}{id}"))
            .with("call_id", id.as_str())
            .with("status", "completed")
    };
    let end = |kind: &'static str| object([("type", kind.into()), ("call_id", id.as_str().into())]);
    let printed = output(rng, request.style.weight);
    match rng.range(0..20) {
        0..=2 => {
            let input = patch(rng);
            let call = start("custom_tool_call", "ctc_").with("name", "apply_patch");
            let echo = if rng.chance(0.2) { input.clone() } else { printed };
            (call.with("input", input), end("custom_tool_call_output").with("output", echo))
        }
        3 => {
            let action = object([("type", "click".into()), ("x", raw("40")), ("y", raw("12.0"))]);
            let call = start("computer_call", "cu_").with("action", action);
            let url = picture(rng, request.style.weight).data_url();
            let screenshot =
                object([("type", "computer_screenshot".into()), ("image_url", url.into())]);
            (
                call.with("pending_safety_checks", Json::Array(Vec::new())),
                end("computer_call_output").with("output", screenshot),
            )
        }
        4 => {
            let commands = Json::Array(vec![prose(rng).into()]);
            let call = start("shell_call", "sh_").with("action", object([("commands", commands)]));
            let outcome = object([("type", "exit".into()), ("exit_code", raw("0"))]);
            let chunk =
                object([("stdout", printed.into()), ("stderr", "".into()), ("outcome", outcome)]);
            (call, end("shell_call_output").with("output", Json::Array(vec![chunk])))
        }
        5 => {
            let command = Json::Array(vec!["bash".into(), "-lc".into(), prose(rng).into()]);
            let action =
                object([("type", "exec".into()), ("command", command), ("env", object([]))]);
            let call = start("local_shell_call", "lsh_").with("action", action);
            (call, end("local_shell_call_output").with("output", printed))
        }
        6 => {
            let operation = object([
                ("type", "update_file".into()),
                ("path", "src/fold.rs".into()),
                ("diff", patch(rng).into()),
            ]);
            let call = start("apply_patch_call", "apc_").with("operation", operation);
            (
                call,
                end("apply_patch_call_output").with("status", "completed").with("output", printed),
            )
        }
        _ => {
            let arguments = arguments(rng);
            let output = function_output(&arguments, printed, request, rng);
            let call = start("function_call", "fc_").with("name", *rng.choose(TOOLS));
            (call.with("arguments", arguments), end("function_call_output").with("output", output))
        }
    }
}

/// An output may be exactly what its call was given.
fn function_output(
    arguments: &str,
    printed: String,
    request: &mut GrowingRequest,
    rng: &mut Rng,
) -> Json {
    if request.shows_picture(0.08, rng) {
        return Json::Array(vec![text_block("input_text", &printed), image(request, rng)]);
    }
    match rng.range(0..12) {
        0 => arguments.into(),
        1 => "".into(),
        2 | 3 => Json::Array(vec![text_block("input_text", &printed)]),
        _ => printed.into(),
    }
}
