//! Growing requests as Chat Completions.

use super::content::{arguments, lines, opaque, output, patch, picture, prose, user_text};
use super::{GrowingRequest, GrowingStyle, GrowingTurn, NewestTurn};
use crate::arbitrary::conversation::{TOOLS, text_block, tool_schema};
use crate::json::{Json, object, raw};
use crate::rng::Rng;

/// Writes the system prompt, which is a message here.
pub(super) fn open(request: &mut GrowingRequest) {
    if let Some(system) = &request.style.system {
        let role = if system.len() % 2 == 0 { "system" } else { "developer" };
        request.messages.push(message(role, system.as_str()));
    }
}

pub(super) fn document(style: &GrowingStyle, messages: Json) -> Json {
    let Some(model) = style.model else { return messages };
    let tools = TOOLS.iter().map(|name| {
        let function = object([("name", (*name).into()), ("parameters", tool_schema())]);
        object([("type", "function".into()), ("function", function)])
    });
    object([
        ("model", model.into()),
        ("tools", Json::Array(tools.collect())),
        ("messages", messages),
    ])
}

pub(super) fn append(request: &mut GrowingRequest, turn: GrowingTurn, rng: &mut Rng) {
    match turn {
        GrowingTurn::User => {
            let user = user(request, rng);
            request.messages.push(user);
            request.newest = NewestTurn::User;
        }
        GrowingTurn::Step if is_openai(request) && rng.chance(0.04) => {
            let function =
                object([("name", "search".into()), ("arguments", arguments(rng).into())]);
            let call = object([("role", "assistant".into()), ("content", raw("null"))]);
            request.messages.push(call.with("function_call", function));
            let answer = object([("role", "function".into()), ("name", "search".into())]);
            request.messages.push(answer.with("content", output(rng, request.style.weight)));
            request.newest = NewestTurn::Results;
        }
        GrowingTurn::Step => append_step(request, rng),
        GrowingTurn::Reply => {
            let reply = reply(rng);
            request.messages.push(reply);
            request.newest = NewestTurn::Reply;
        }
    }
}

/// Whether the request may hold what only GPT models take.
fn is_openai(request: &GrowingRequest) -> bool {
    request.style.model.is_none_or(|model| model.starts_with("gpt"))
}

fn message(role: &'static str, content: impl Into<Json>) -> Json {
    object([("role", role.into()), ("content", content.into())])
}

fn user(request: &mut GrowingRequest, rng: &mut Rng) -> Json {
    let weight = request.style.weight;
    let mut parts = vec![text_block("text", &user_text(rng, weight))];
    if rng.chance(0.1) {
        parts.push(text_block("text", &prose(rng)));
    }
    if request.shows_picture(0.08, rng) {
        let url =
            object([("url", picture(rng, weight).data_url().into()), ("detail", "high".into())]);
        parts.push(object([("type", "image_url".into()), ("image_url", url)]));
    }
    if is_openai(request) && rng.chance(0.04) {
        let data = opaque(rng, 900);
        let audio = object([("data", data.into()), ("format", "wav".into())]);
        parts.push(object([("type", "input_audio".into()), ("input_audio", audio)]));
    }
    if is_openai(request) && rng.chance(0.04) {
        let data = format!("data:application/pdf;base64,{}", opaque(rng, 900));
        let file = object([("filename", "notes.pdf".into()), ("file_data", data.into())]);
        parts.push(object([("type", "file".into()), ("file", file)]));
    }
    match parts.as_slice() {
        [Json::Object(fields)] if rng.chance(0.7) => message("user", fields[1].1.clone()),
        _ => message("user", Json::Array(parts)),
    }
}

fn reply(rng: &mut Rng) -> Json {
    match rng.range(0..20) {
        0 => {
            let refusal = object([("type", "refusal".into()), ("refusal", prose(rng).into())]);
            message("assistant", Json::Array(vec![refusal]))
        }
        1 | 2 => {
            let citation = object([
                ("start_index", raw("0")),
                ("end_index", raw("4")),
                ("url", "https://example.org/a?b=c".into()),
                ("title", prose(rng).into()),
            ]);
            let annotation = object([("type", "url_citation".into()), ("url_citation", citation)]);
            message("assistant", prose(rng)).with("annotations", Json::Array(vec![annotation]))
        }
        3 => {
            object([("role", "assistant".into()), ("audio", object([("id", "audio_7f3a".into())]))])
        }
        4..=7 => {
            let parts = (0..rng.range(1..3)).map(|_| text_block("text", &prose(rng)));
            message("assistant", Json::Array(parts.collect()))
        }
        _ => {
            let length = rng.range(20..1_500);
            let text = if rng.chance(0.3) { lines(rng, length) } else { prose(rng) };
            message("assistant", text)
        }
    }
}

fn append_step(request: &mut GrowingRequest, rng: &mut Rng) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for _ in 0..rng.range(1..4) {
        let id = request.id("call_");
        let custom = is_openai(request) && rng.chance(0.15);
        let input = if custom { patch(rng) } else { arguments(rng) };
        let call = object([("id", id.as_str().into())]);
        calls.push(if custom {
            let custom = object([("name", "apply_patch".into()), ("input", input.as_str().into())]);
            call.with("type", "custom").with("custom", custom)
        } else {
            let name = *rng.choose(TOOLS);
            let function = object([("name", name.into()), ("arguments", input.as_str().into())]);
            call.with("type", "function").with("function", function)
        });
        let result = object([("role", "tool".into()), ("tool_call_id", id.into())]);
        results.push(result.with("content", content_of_result(input, request, rng)));
    }
    if rng.chance(0.2) {
        results.reverse();
    }
    let mut reply = object([("role", "assistant".into())]);
    match rng.range(0..4) {
        0 => reply = reply.with("content", raw("null")),
        1 => reply = reply.with("content", ""),
        2 => {}
        _ => reply = reply.with("content", prose(rng)),
    }
    if request.style.model == Some("deepseek-v4") {
        let reasoning = if rng.chance(0.2) { String::new() } else { prose(rng) };
        reply = reply.with("reasoning_content", reasoning);
    }
    request.messages.push(reply.with("tool_calls", Json::Array(calls)));
    request.messages.extend(results);
    request.newest = NewestTurn::Results;
}

/// A result may be exactly what its call was given.
fn content_of_result(input: String, request: &GrowingRequest, rng: &mut Rng) -> Json {
    match rng.range(0..12) {
        0 => input.into(),
        1 => "".into(),
        2 | 3 => Json::Array(vec![text_block("text", &output(rng, request.style.weight))]),
        _ => output(rng, request.style.weight).into(),
    }
}
