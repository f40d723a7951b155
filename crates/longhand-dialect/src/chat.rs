//! `OpenAI` Chat Completions.

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{
    File, Image, Media, MediaKind, Message, Part, Role, Text, Thinking, ToolCall, ToolResult,
};

use crate::conversation::{Builder, ContentSpans, Conversation, Dialect, MessageLayout, PartSlot};
use crate::image::pixels;
use crate::media::{recording, recording_at};
use crate::source::{RequestShape, RequestSource};

pub(crate) fn read(source: RequestSource, before: Option<&Conversation>) -> Conversation {
    let mut builder = Builder::new(source);
    builder.attributes(&["tools", "functions"], &["response_format"]);
    builder.take_known(before);
    let elements = std::mem::take(&mut builder.source.elements);
    for (index, node) in elements.iter().enumerate().skip(builder.source.known) {
        message(&mut builder, node, index);
    }
    builder.source.elements = elements;
    no_messages(&mut builder);
    of_the_model(&mut builder);
    builder.finish(Dialect::Chat)
}

/// Notes a request that says nothing: providers refuse it, but there is nothing to spoil.
pub(crate) fn no_messages(builder: &mut Builder) {
    let list = match builder.source.shape {
        RequestShape::Messages => "messages",
        RequestShape::Input if builder.continues.is_none() => "input",
        _ => return,
    };
    if builder.messages.iter().all(|message| message.role == Role::System)
        && builder.source.elements.is_empty()
    {
        builder.odd(list, "the list is empty");
    }
}

/// Notes what some models refuse, where the request says which model it is for.
fn of_the_model(builder: &mut Builder) {
    let Some(model) = builder.model.clone() else { return };
    let model = model.rsplit('/').next().unwrap_or_default();
    let text = builder.source.text.clone();
    let effort = builder.source.field("reasoning_effort").and_then(|value| value.str(&text));
    if gpt_version(model) >= Some((5, 4))
        && effort.is_some_and(|effort| effort != "none")
        && builder
            .source
            .field("tools")
            .is_some_and(|tools| !builder.source.nodes(tools).is_empty())
    {
        builder.odd("reasoning_effort", "GPT-5.4 and later take no effort together with tools");
    }
    if ["mistral", "ministral", "magistral", "codestral", "devstral", "pixtral"]
        .iter()
        .any(|family| model.starts_with(family))
    {
        mistral(builder);
    }
}

/// The version of a GPT model, such as 5.4 of `gpt-5.4-mini`.
fn gpt_version(model: &str) -> Option<(u32, u32)> {
    let version = model.strip_prefix("gpt-")?.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn mistral(builder: &mut Builder) {
    let mut odd = Vec::new();
    for (at, message) in builder.messages.iter().enumerate() {
        let name = builder.source.element(at);
        for (index, call) in message.calls().enumerate() {
            let id = call.id.decode();
            if id.len() != 9 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                odd.push((
                    format!("{name}.tool_calls[{index}].id"),
                    "Mistral wants 9 letters and digits",
                ));
            }
        }
        let before = at.checked_sub(1).map(|before| builder.messages[before].role);
        if message.role == Role::User && before == Some(Role::Tool) {
            odd.push((
                format!("{name}.role"),
                "Mistral wants the assistant between a tool and the user",
            ));
        }
    }
    for (at, what) in odd {
        builder.odd(at, what);
    }
}

fn message(builder: &mut Builder, node: &JsonNode, index: usize) {
    let name = builder.source.element(index);
    let at = |field: &str| format!("{name}.{field}");
    let text = builder.source.text.clone();
    let get = |key: &str| node.get(&text, key).filter(|value| value.kind != JsonKind::Null);
    if node.value.kind != JsonKind::Object {
        builder.wrong(&name, format!("expected a message, found {}", node.value.kind.describe()));
    }
    let role_name = get("role").and_then(|value| value.str(&text));
    let role = match role_name.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(other) => {
            builder.wrong(at("role"), format!("unknown role {other:?}"));
            Role::User
        }
        None => {
            if node.value.kind == JsonKind::Object {
                builder.wrong(at("role"), "a message needs a role");
            }
            Role::User
        }
    };
    let mut made = PlacedParts::default();
    let content = get("content");
    let says = |keys: &[&str]| keys.iter().any(|key| get(key).is_some());
    if role == Role::Tool {
        tool(builder, node, content, role_name.as_deref(), &name, &mut made);
    } else {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = get(key).and_then(|value| builder.source.string(value)) {
                made.add(Part::Thinking(Thinking { text, seal: None }), PartSlot::Fixed);
                break;
            }
        }
        match content {
            Some(content) => words(builder, content, role, &at("content"), &mut made),
            None if role == Role::Assistant && says(&["tool_calls", "function_call", "audio"]) => {}
            None if role == Role::Assistant && says(&["refusal"]) => {
                builder.odd(at("content"), "only a message with calls may lack content");
            }
            None if node.value.kind == JsonKind::Object => {
                builder.wrong(
                    at("content"),
                    format!("a message from the {} needs content", role.as_str()),
                );
            }
            None => {}
        }
    }
    if let Some(value) = get("refusal").filter(|_| role == Role::Assistant)
        && let Some(text) = builder.source.string(value)
    {
        made.add(Part::FixedText(text), PartSlot::Fixed);
    }
    if let Some(value) = get("audio").filter(|_| role == Role::Assistant) {
        let media = spoken(builder, &builder.source.node(value));
        made.add(Part::Media(media), PartSlot::Fixed);
    }
    if let Some(value) = get("tool_calls") {
        calls(builder, value, role, &at("tool_calls"), &mut made);
    }
    if let Some(value) = get("function_call") {
        let node = builder.source.node(value);
        function(builder, &node, None, &at("function_call"), &mut made);
    }
    let speaker =
        get("name").filter(|_| role != Role::Tool).and_then(|value| builder.source.string(value));
    let message = Message::new(role, speaker, made.parts, builder.source.raw(node.value));
    let content = content.map(|value| ContentSpans { span: value.span(), blocks: None });
    let is_function = role_name.as_deref() == Some("function") || get("function_call").is_some();
    builder.push(
        message,
        MessageLayout {
            elements: vec![index],
            slots: made.slots,
            content,
            is_function,
            ..MessageLayout::default()
        },
    );
}

/// Parts with their places.
#[derive(Default)]
pub(crate) struct PlacedParts {
    pub(crate) parts: Vec<Part>,
    pub(crate) slots: Vec<PartSlot>,
}

impl PlacedParts {
    pub(crate) fn add(&mut self, part: Part, slot: PartSlot) {
        self.parts.push(part);
        self.slots.push(slot);
    }
}

fn words(builder: &mut Builder, content: JsonValue, role: Role, at: &str, made: &mut PlacedParts) {
    if let Some(text) = builder.source.string(content) {
        if text.is_empty() {
            builder.odd(at, "the content is empty");
        }
        made.add(Part::Text(text), PartSlot::Text(content.span()));
        return;
    }
    if content.kind != JsonKind::Array {
        builder.wrong(
            at,
            format!("expected a string or a list of parts, found {}", content.kind.describe()),
        );
        made.add(builder.source.other(content), PartSlot::Fixed);
        return;
    }
    let nodes = builder.source.nodes(content);
    if nodes.is_empty() {
        builder.wrong(at, "the list of parts is empty");
    }
    let text = builder.source.text.clone();
    let refuses =
        |node: &JsonNode| node.get(&text, "type").is_some_and(|kind| kind.is(&text, "refusal"));
    if role == Role::Assistant && nodes.len() > 1 && nodes.iter().any(refuses) {
        builder.wrong(at, "a refusal stands alone");
    }
    for (index, node) in nodes.iter().enumerate() {
        part(builder, node, role, &format!("{at}[{index}]"), made);
    }
}

fn part(builder: &mut Builder, node: &JsonNode, role: Role, at: &str, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text)).unwrap_or_default();
    let legal: &[&str] = match role {
        Role::User => &["text", "image_url", "input_audio", "file"],
        Role::Assistant => &["text", "refusal"],
        _ => &["text"],
    };
    if node.value.kind != JsonKind::Object {
        builder.wrong(at, format!("expected a part, found {}", node.value.kind.describe()));
    } else if kind.is_empty() {
        builder.wrong(format!("{at}.type"), "a part needs a type");
    } else if ["text", "image_url", "input_audio", "file", "refusal"].contains(&kind.as_ref())
        && !legal.contains(&kind.as_ref())
    {
        builder.wrong(
            at,
            format!("a message from the {} cannot hold a part of type {kind:?}", role.as_str()),
        );
    }
    match kind.as_ref() {
        "text" | "refusal" => match node.get(&text, kind.as_ref()) {
            Some(value) if value.kind == JsonKind::String => {
                let value_text = builder.source.string(value).unwrap_or_default();
                if kind == "text" {
                    made.add(Part::Text(value_text), PartSlot::Text(value.span()));
                } else {
                    made.add(Part::FixedText(value_text), PartSlot::Fixed);
                }
                return;
            }
            _ => builder.wrong(format!("{at}.{kind}"), "expected a string"),
        },
        "image_url" => {
            let inner = node.get(&text, "image_url").map(|value| builder.source.node(value));
            let url = inner.as_ref().and_then(|inner| inner.get(&text, "url"));
            if !url.is_some_and(|url| url.kind == JsonKind::String) {
                builder.wrong(format!("{at}.image_url.url"), "expected a string");
            }
            let low = inner
                .and_then(|inner| inner.get(&text, "detail"))
                .is_some_and(|value| value.is(&text, "low"));
            let url = url.and_then(|url| url.str(&text)).unwrap_or_default();
            made.add(Part::Image(image(&url, low)), PartSlot::Fixed);
            return;
        }
        "input_audio" => {
            made.add(Part::Media(input_audio(builder, node)), PartSlot::Fixed);
            return;
        }
        // Servers other than OpenAI's take these.
        "audio_url" | "video_url" => {
            let media = if kind == "audio_url" { MediaKind::Audio } else { MediaKind::Video };
            let inner = node.get(&text, &kind).map(|value| builder.source.node(value));
            let url = inner.and_then(|inner| inner.get(&text, "url"));
            let url = url.and_then(|url| url.str(&text)).unwrap_or_default();
            made.add(Part::Media(recording_at(media, &url)), PartSlot::Fixed);
            return;
        }
        "file" => {
            let bytes = node.value.span().len();
            made.add(Part::File(File { name: None, text: None, bytes }), PartSlot::Fixed);
            return;
        }
        _ => {}
    }
    made.add(builder.source.other(node.value), PartSlot::Fixed);
}

/// Reads `{"type":"input_audio","input_audio":{"data":…,"format":…}}`.
pub(crate) fn input_audio(builder: &Builder, node: &JsonNode) -> Media {
    let text = &builder.source.text;
    let inner = node.get(text, "input_audio").map(|value| builder.source.node(value));
    let inner = inner.unwrap_or_default();
    let string = |key: &str| inner.get(text, key).and_then(|value| value.str(text));
    match string("data") {
        Some(data) => recording(MediaKind::Audio, &data, string("format").as_deref()),
        None => Media::elsewhere(MediaKind::Audio),
    }
}

/// Reads what the model said aloud; a client need not send back more than its id.
pub(crate) fn spoken(builder: &Builder, node: &JsonNode) -> Media {
    let text = &builder.source.text;
    let data = node.get(text, "data").and_then(|value| value.str(text));
    let media = match data {
        Some(data) => recording(MediaKind::Audio, &data, None),
        None => Media::elsewhere(MediaKind::Audio),
    };
    let transcript = node.get(text, "transcript").and_then(|value| builder.source.string(value));
    Media { transcript, ..media }
}

/// Reads a picture from its address, which may hold the picture itself.
pub(crate) fn image(url: &str, low_detail: bool) -> Image {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once("base64,"));
    Image { pixels: data.and_then(|(_, data)| pixels(data)), low_detail, bytes: url.len() }
}

fn tool(
    builder: &mut Builder,
    node: &JsonNode,
    content: Option<JsonValue>,
    role: Option<&str>,
    name: &str,
    made: &mut PlacedParts,
) {
    let text = builder.source.text.clone();
    let key = if role == Some("function") { "name" } else { "tool_call_id" };
    let call = node.get(&text, key).and_then(|value| builder.source.string(value));
    if call.is_none() {
        builder.wrong(format!("{name}.{key}"), "a tool result must name the call it answers");
    }
    let mut inner = PlacedParts::default();
    let mut slot = PartSlot::Fixed;
    match content {
        Some(value) if value.kind == JsonKind::String => {
            inner
                .add(Part::Text(builder.source.string(value).unwrap_or_default()), PartSlot::Fixed);
            slot = PartSlot::Content(value.span());
        }
        Some(value) => {
            if role == Some("function") {
                builder.wrong(format!("{name}.content"), "expected a string or null");
            }
            words(builder, value, Role::Tool, &format!("{name}.content"), &mut inner);
            slot = PartSlot::Content(value.span());
        }
        None if role == Some("function") => {}
        None => builder.wrong(format!("{name}.content"), "a tool result needs content"),
    }
    let raw = content.map_or_else(Text::default, |value| builder.source.raw(value));
    let result = ToolResult {
        call: call.unwrap_or_default(),
        content: inner.parts,
        raw,
        error: false,
        fixed: false,
        loads_tools: false,
    };
    made.add(Part::Result(result), slot);
}

fn calls(builder: &mut Builder, value: JsonValue, role: Role, at: &str, made: &mut PlacedParts) {
    let nodes = builder.source.nodes(value);
    if role != Role::Assistant {
        builder.wrong(at, "only the assistant can call tools");
    }
    if value.kind != JsonKind::Array {
        builder.wrong(at, format!("expected a list of calls, found {}", value.kind.describe()));
    } else if nodes.is_empty() {
        builder.wrong(at, "the list of calls is empty");
    }
    let text = builder.source.text.clone();
    for (index, node) in nodes.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let id = node.get(&text, "id").and_then(|value| builder.source.string(value));
        if id.as_ref().is_none_or(Text::is_empty) {
            builder.wrong(format!("{at}.id"), "a call needs an id");
        }
        let kind = if node.get(&text, "custom").is_some() { "custom" } else { "function" };
        match node.get(&text, kind) {
            Some(value) if value.kind == JsonKind::Object => {
                let inner = builder.source.node(value);
                // A call without an id keeps none: its result could not name it.
                let id = Some(id.unwrap_or_default());
                function(builder, &inner, id, &format!("{at}.{kind}"), made);
            }
            _ => {
                builder.wrong(format!("{at}.{kind}"), "a call needs a function");
                made.add(builder.source.other(node.value), PartSlot::Fixed);
            }
        }
    }
}

fn function(
    builder: &mut Builder,
    node: &JsonNode,
    id: Option<Text>,
    at: &str,
    made: &mut PlacedParts,
) {
    let text = builder.source.text.clone();
    let name = node.get(&text, "name").and_then(|value| builder.source.string(value));
    match &name {
        None => builder.wrong(format!("{at}.name"), "a call must name its function"),
        Some(name) => check_name(builder, name, at),
    }
    let name = name.unwrap_or_default();
    let freeform = node.get(&text, "input").is_some();
    let key = if freeform { "input" } else { "arguments" };
    let arguments = node.get(&text, key).filter(|value| value.kind == JsonKind::String);
    if arguments.is_none() {
        builder.wrong(format!("{at}.{key}"), "expected a string");
    }
    let slot = match arguments {
        Some(value) if freeform => PartSlot::Text(value.span()),
        Some(value) => PartSlot::Quoted(value.span()),
        None => PartSlot::Fixed,
    };
    let arguments = arguments.and_then(|value| builder.source.string(value)).unwrap_or_default();
    let id = id.unwrap_or_else(|| name.clone());
    made.add(Part::Call(ToolCall { id, name, arguments, freeform }), slot);
}

/// Checks a function's name against what `OpenAI` takes.
pub(crate) fn check_name(builder: &mut Builder, name: &Text, at: &str) {
    let name = name.decode();
    let legal = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if name.is_empty() || name.len() > 64 || !legal {
        builder
            .odd(format!("{at}.name"), "a function's name has 1 to 64 letters, digits, `_` or `-`");
    }
}
