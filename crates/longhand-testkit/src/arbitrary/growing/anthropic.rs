//! Growing requests as Anthropic Messages.

use super::content::{arguments, opaque, output, picture, prose, user_text, wrapped};
use super::{GrowingRequest, GrowingStyle, GrowingTurn, NewestTurn};
use crate::arbitrary::conversation::{TOOLS, text_block, tool_schema};
use crate::json::{Json, object, raw};
use crate::rng::Rng;

pub(super) fn document(style: &GrowingStyle, mut messages: Vec<Json>) -> Json {
    if style.marked {
        mark_newest(&mut messages);
    }
    let messages = Json::Array(messages);
    let Some(model) = style.model else { return messages };
    let tools = TOOLS
        .iter()
        .map(|name| object([("name", (*name).into()), ("input_schema", tool_schema())]));
    let mut body = object([("model", model.into()), ("max_tokens", raw("8192"))]);
    if let Some(thinking) = style.thinking {
        body = body.with("thinking", raw(thinking));
    }
    if let Some(system) = &style.system {
        let block = text_block("text", system);
        let block = if style.marked { block.with("cache_control", mark()) } else { block };
        body = body.with("system", Json::Array(vec![block]));
    }
    body.with("tools", Json::Array(tools.collect())).with("messages", messages)
}

fn mark() -> Json {
    object([("type", "ephemeral".into())])
}

/// Marks the last block of the newest message, if it is a user's and has blocks.
fn mark_newest(messages: &mut [Json]) {
    let Some(Json::Object(fields)) = messages.last_mut() else { return };
    let is_user = matches!(&fields[0].1, Json::Text(role) if role == "user");
    if let (true, Json::Array(blocks)) = (is_user, &mut fields[1].1)
        && let Some(block) = blocks.last_mut()
    {
        *block = block.clone().with("cache_control", mark());
    }
}

pub(super) fn append(request: &mut GrowingRequest, turn: GrowingTurn, rng: &mut Rng) {
    match turn {
        GrowingTurn::User => {
            let blocks = user_blocks(request, rng);
            let message = message("user", blocks, rng);
            request.messages.push(message);
            request.newest = NewestTurn::User;
        }
        GrowingTurn::Step => append_step(request, rng),
        GrowingTurn::Reply => {
            let mut blocks = opening(request, rng);
            if rng.chance(0.25) {
                blocks.extend(provider_tool(request, rng));
                blocks.extend(rng.chance(0.3).then(|| thinking(rng)));
            }
            blocks.push(text_block("text", &prose(rng)));
            let message = message("assistant", blocks, rng);
            request.messages.push(message);
            request.newest = NewestTurn::Reply;
        }
    }
}

/// Writes a message; a single plain text may be a string.
fn message(role: &'static str, blocks: Vec<Json>, rng: &mut Rng) -> Json {
    let plain = match blocks.as_slice() {
        [Json::Object(fields)] => match fields.as_slice() {
            [(_, Json::Text(kind)), ("text", text)] if kind == "text" => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    let content = plain.filter(|_| rng.chance(0.6)).unwrap_or(Json::Array(blocks));
    object([("role", role.into()), ("content", content)])
}

fn user_blocks(request: &mut GrowingRequest, rng: &mut Rng) -> Vec<Json> {
    let weight = request.style.weight;
    let mut blocks = vec![text_block("text", &user_text(rng, weight))];
    if rng.chance(0.15) {
        blocks.insert(0, text_block("text", &wrapped(rng)));
    }
    if request.shows_picture(0.08, rng) {
        blocks.push(image(request, rng));
    }
    if rng.chance(0.05) {
        let source = object([
            ("type", "base64".into()),
            ("media_type", "application/pdf".into()),
            ("data", opaque(rng, 900).into()),
        ]);
        let document = object([("type", "document".into()), ("source", source)]);
        blocks.push(document.with("citations", object([("enabled", raw("true"))])));
    }
    blocks
}

fn image(request: &GrowingRequest, rng: &mut Rng) -> Json {
    let picture = picture(rng, request.style.weight);
    let source = object([
        ("type", "base64".into()),
        ("media_type", picture.media_type.into()),
        ("data", picture.base64.into()),
    ]);
    object([("type", "image".into()), ("source", source)])
}

/// What a reply may open with: thinking, at times more than one block of it.
fn opening(request: &GrowingRequest, rng: &mut Rng) -> Vec<Json> {
    let probability = if request.style.thinking.is_some() { 0.8 } else { 0.3 };
    let mut blocks = Vec::new();
    if rng.chance(probability) {
        blocks.push(thinking(rng));
        blocks.extend(rng.chance(0.1).then(|| thinking(rng)));
    }
    blocks
}

fn thinking(rng: &mut Rng) -> Json {
    if rng.chance(0.1) {
        return object([("type", "redacted_thinking".into()), ("data", opaque(rng, 90).into())]);
    }
    // The text may be left out, while the signature stands for all of it.
    let text = if rng.chance(0.2) { String::new() } else { prose(rng) };
    object([
        ("type", "thinking".into()),
        ("thinking", text.into()),
        ("signature", opaque(rng, 120).into()),
    ])
}

/// A tool that the provider ran, with its result and, after a search, a text that cites it.
fn provider_tool(request: &mut GrowingRequest, rng: &mut Rng) -> Vec<Json> {
    if rng.chance(0.4) {
        let id = request.id("mcptoolu_01");
        let call = object([("type", "mcp_tool_use".into()), ("id", id.as_str().into())])
            .with("name", "search")
            .with("server_name", "docs")
            .with("input", raw(&arguments(rng)));
        let content = Json::Array(vec![text_block("text", &output(rng, request.style.weight))]);
        let result = object([("type", "mcp_tool_result".into()), ("tool_use_id", id.into())])
            .with("is_error", raw("false"))
            .with("content", content);
        return vec![call, result];
    }
    let id = request.id("srvtoolu_01");
    let query = object([("query", prose(rng).into())]);
    let call = object([("type", "server_tool_use".into()), ("id", id.as_str().into())])
        .with("name", "web_search")
        .with("input", query);
    let page = object([
        ("type", "web_search_result".into()),
        ("url", "https://example.org/a?b=c".into()),
        ("title", prose(rng).into()),
        ("encrypted_content", opaque(rng, 300).into()),
        ("page_age", raw("null")),
    ]);
    let result = object([("type", "web_search_tool_result".into()), ("tool_use_id", id.into())])
        .with("content", Json::Array(vec![page]));
    let citation = object([
        ("type", "web_search_result_location".into()),
        ("url", "https://example.org/a?b=c".into()),
        ("encrypted_index", opaque(rng, 30).into()),
        ("cited_text", prose(rng).into()),
    ]);
    let text = text_block("text", &prose(rng)).with("citations", Json::Array(vec![citation]));
    vec![call, result, text]
}

fn append_step(request: &mut GrowingRequest, rng: &mut Rng) {
    let mut blocks = opening(request, rng);
    if rng.chance(0.1) {
        blocks.extend(provider_tool(request, rng));
    }
    blocks.extend(rng.chance(0.5).then(|| text_block("text", &prose(rng))));
    let mut results = Vec::new();
    for _ in 0..rng.range(1..4) {
        let id = request.id("toolu_01");
        let input = arguments(rng);
        blocks.push(object([
            ("type", "tool_use".into()),
            ("id", id.as_str().into()),
            ("name", (*rng.choose(TOOLS)).into()),
            ("input", raw(&input)),
        ]));
        results.push(result(&id, input, request, rng));
    }
    if rng.chance(0.2) {
        results.reverse();
    }
    request.newest = NewestTurn::Results;
    // A user who interrupts is heard in the message with the results.
    if rng.chance(0.15) {
        results.extend(user_blocks(request, rng));
        request.newest = NewestTurn::User;
    }
    let reply = message("assistant", blocks, rng);
    request.messages.push(reply);
    let answer = message("user", results, rng);
    request.messages.push(answer);
}

/// A result may be exactly what its call was given.
fn result(id: &str, input: String, request: &mut GrowingRequest, rng: &mut Rng) -> Json {
    let weight = request.style.weight;
    let result = object([("type", "tool_result".into()), ("tool_use_id", id.into())]);
    let result = if rng.chance(0.1) { result.with("is_error", raw("true")) } else { result };
    if request.shows_picture(0.08, rng) {
        let text = text_block("text", &output(rng, weight));
        return result.with("content", Json::Array(vec![text, image(request, rng)]));
    }
    match rng.range(0..12) {
        0 => result.with("content", input),
        1 => result,
        2 => result.with("content", ""),
        3 | 4 => {
            let blocks = (0..rng.range(1..3)).map(|_| text_block("text", &output(rng, weight)));
            result.with("content", Json::Array(blocks.collect()))
        }
        _ => result.with("content", output(rng, weight)),
    }
}
