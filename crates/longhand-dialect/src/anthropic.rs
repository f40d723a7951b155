//! Anthropic Messages.

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{
    File, Image, Message, Other, Part, PartLink, Role, Text, Thinking, ToolCall, ToolResult,
};

use crate::chat::{PlacedParts, no_messages};
use crate::conversation::{Builder, ContentSpans, Conversation, Dialect, MessageLayout, PartSlot};
use crate::image::pixels;
use crate::source::RequestSource;

pub(crate) fn read(source: RequestSource, before: Option<&Conversation>) -> Conversation {
    let mut builder = Builder::new(source);
    builder.attributes(&["tools"], &["output_format"]);
    if let Some(system) =
        builder.source.field("system").filter(|value| value.kind != JsonKind::Null)
    {
        let mut made = PlacedParts::default();
        if system.kind == JsonKind::Array && !builder.source.has_elements(Some(system)) {
            builder.odd("system", "the list of blocks is empty");
        } else {
            blocks(&mut builder, system, None, "system", &mut made);
        }
        for (index, part) in made.parts.iter().enumerate() {
            if system.kind == JsonKind::Array && part.text().is_none() {
                builder.wrong(format!("system[{index}]"), "a system prompt holds only text");
            }
        }
        made.slots.iter_mut().for_each(|slot| *slot = PartSlot::Fixed);
        let raw = builder.source.raw(system);
        let message = Message::new(Role::System, None, made.parts, raw);
        builder.push(message, MessageLayout { slots: made.slots, ..MessageLayout::default() });
    }
    builder.take_known(before);
    let elements = std::mem::take(&mut builder.source.elements);
    for (index, node) in elements.iter().enumerate().skip(builder.source.known) {
        let name = builder.source.element(index);
        message(&mut builder, node, &name, index);
    }
    builder.source.elements = elements;
    no_messages(&mut builder);
    settings(&mut builder);
    builder.finish(Dialect::Anthropic)
}

/// Checks the settings of a request that depend on each other or on the model.
fn settings(builder: &mut Builder) {
    let text = builder.source.text.clone();
    let number =
        |value: Option<JsonValue>| value.and_then(|value| text[value.span()].parse::<f64>().ok());
    let given = |builder: &Builder, key: &str| {
        builder.source.field(key).filter(|value| value.kind != JsonKind::Null)
    };
    let kind = |builder: &Builder, key: &str| {
        let node = given(builder, key).map(|value| builder.source.node(value))?;
        Some(node.get(&text, "type")?.str(&text)?.into_owned())
    };
    if given(builder, "compaction").is_some() && given(builder, "context_management").is_some() {
        builder.wrong("compaction", "it does not go together with context_management");
    }
    let thinking = kind(builder, "thinking").unwrap_or_default();
    let node = given(builder, "thinking").map(|value| builder.source.node(value));
    if let Some(budget) = number(node.and_then(|node| node.get(&text, "budget_tokens"))) {
        let at = "thinking.budget_tokens";
        if budget < 1_024.0 {
            builder.wrong(at, "a budget for thinking has at least 1,024 tokens");
        }
        if number(given(builder, "max_tokens")).is_some_and(|max| budget >= max) {
            builder.odd(at, "a budget for thinking is smaller than max_tokens");
        }
    }
    let model = builder.model.clone().unwrap_or_default();
    if claude_version(&model) >= Some((4, 7)) {
        if thinking == "enabled" {
            builder.odd("thinking.type", "Claude 4.7 and later think adaptively only");
        }
        for key in ["temperature", "top_p", "top_k"] {
            if given(builder, key).is_some() {
                builder.odd(key, "Claude 4.7 and later cannot be set like this");
            }
        }
    }
    if model.contains("opus-5-5") || model.contains("fable-5-1") {
        if thinking == "disabled" {
            builder.odd("thinking.type", "this model cannot be kept from thinking");
        }
        if kind(builder, "tool_choice").is_some_and(|kind| kind == "any" || kind == "tool") {
            builder.odd("tool_choice.type", "this model cannot be made to call a tool");
        }
    }
}

/// The version of a Claude model, such as 4.5 of `claude-sonnet-4-5-20250929`.
pub(crate) fn claude_version(model: &str) -> Option<(u32, u32)> {
    let (_, name) = model.split_once("claude-")?;
    // Dates are numbers, too.
    let mut numbers = name.split('-').skip_while(|word| word.parse::<u32>().is_err());
    let mut next = || numbers.next()?.parse().ok().filter(|number| *number < 100);
    Some((next()?, next().unwrap_or(0)))
}

fn message(builder: &mut Builder, node: &JsonNode, name: &str, element: usize) {
    let text = builder.source.text.clone();
    if node.value.kind != JsonKind::Object {
        builder.wrong(name, format!("expected a message, found {}", node.value.kind.describe()));
    }
    let role = role(builder, node, name);
    let mut made = PlacedParts::default();
    let mut content_spans = None;
    match node.get(&text, "content") {
        Some(content) => {
            let spans =
                blocks(builder, content, Some(element), &format!("{name}.content"), &mut made);
            content_spans = Some(ContentSpans { span: content.span(), blocks: spans });
        }
        None => builder.wrong(format!("{name}.content"), "a message needs content"),
    }
    let message = Message::new(role, None, made.parts, builder.source.raw(node.value));
    builder.push(
        message,
        MessageLayout {
            elements: vec![element],
            slots: made.slots,
            content: content_spans,
            ..MessageLayout::default()
        },
    );
}

fn role(builder: &mut Builder, node: &JsonNode, name: &str) -> Role {
    let text = builder.source.text.clone();
    let role = node.get(&text, "role").and_then(|value| value.str(&text));
    match role.as_deref() {
        Some("user") => return Role::User,
        Some("assistant") => return Role::Assistant,
        Some("system") => return Role::System,
        Some(other) => builder.wrong(format!("{name}.role"), format!("unknown role {other:?}")),
        None => builder.wrong(format!("{name}.role"), "a message needs a role"),
    }
    Role::User
}

/// Reads a content value; answers with the spans of its blocks if it is a list.
///
/// `element` is the element that the blocks stand in, so that a block can be taken out of it.
pub(crate) fn blocks(
    builder: &mut Builder,
    content: JsonValue,
    element: Option<usize>,
    at: &str,
    made: &mut PlacedParts,
) -> Option<Vec<std::ops::Range<usize>>> {
    if let Some(text) = builder.source.string(content) {
        if text.is_blank() {
            builder.wrong(at, "text must hold more than white space");
        }
        made.add(Part::Text(text), PartSlot::Text(content.span()));
        return None;
    }
    if content.kind != JsonKind::Array {
        builder.wrong(
            at,
            format!("expected a string or a list of blocks, found {}", content.kind.describe()),
        );
        return None;
    }
    let nodes = builder.source.nodes(content);
    if nodes.is_empty() {
        builder.wrong(at, "the list of blocks is empty");
    }
    let spans: Vec<_> = nodes.iter().map(|node| node.value.span()).collect();
    for (index, node) in nodes.iter().enumerate() {
        let part = block(builder, node, &format!("{at}[{index}]"));
        let slot = match (&part.0, element) {
            (Part::Thinking(_), Some(element)) => {
                PartSlot::Block { element, blocks: spans.clone(), index }
            }
            _ => part.1,
        };
        made.add(part.0, slot);
    }
    Some(spans)
}

fn block(builder: &mut Builder, node: &JsonNode, at: &str) -> (Part, PartSlot) {
    let text = builder.source.text.clone();
    let get = |key: &str| node.get(&text, key);
    let other = |builder: &Builder| (builder.source.other(node.value), PartSlot::Fixed);
    if node.value.kind != JsonKind::Object {
        builder.wrong(at, format!("expected a block, found {}", node.value.kind.describe()));
        return other(builder);
    }
    let kind = get("type").and_then(|value| value.str(&text));
    let string =
        |builder: &Builder, key: &str| get(key).and_then(|value| builder.source.string(value));
    let ttl = get("cache_control").and_then(|value| builder.source.node(value).get(&text, "ttl"));
    if ttl.is_some_and(|ttl| !ttl.is(&text, "5m") && !ttl.is(&text, "1h")) {
        builder.wrong(format!("{at}.cache_control.ttl"), "expected \"5m\" or \"1h\"");
    }
    match kind.as_deref() {
        None => {
            builder.wrong(format!("{at}.type"), "a block needs a type");
            other(builder)
        }
        Some("text") => {
            if let Some(value) = get("text").filter(|value| value.kind == JsonKind::String) {
                let value_text = builder.source.string(value).unwrap_or_default();
                if value_text.is_blank() {
                    builder.wrong(format!("{at}.text"), "text must hold more than white space");
                }
                // Citations point into the text.
                if builder.source.has_elements(get("citations")) {
                    (Part::FixedText(value_text), PartSlot::Fixed)
                } else {
                    (Part::Text(value_text), PartSlot::Text(value.span()))
                }
            } else {
                builder.wrong(format!("{at}.text"), "expected a string");
                other(builder)
            }
        }
        Some("thinking" | "redacted_thinking") => {
            let open = kind.as_deref() == Some("thinking");
            let keys: &[&str] = if open { &["thinking", "signature"] } else { &["data"] };
            for key in keys {
                if string(builder, key).is_none() {
                    builder.wrong(format!("{at}.{key}"), "expected a string");
                }
            }
            if get("cache_control").is_some_and(|mark| mark.kind != JsonKind::Null) {
                builder.wrong(format!("{at}.cache_control"), "thinking cannot be marked");
            }
            let text = string(builder, "thinking").filter(|_| open).unwrap_or_default();
            let seal = string(builder, keys[keys.len() - 1]);
            (Part::Thinking(Thinking { text, seal }), PartSlot::Fixed)
        }
        Some("tool_use") => {
            for key in ["id", "name"] {
                if string(builder, key).is_none_or(|value| value.is_empty()) {
                    builder.wrong(format!("{at}.{key}"), "expected a string that is not empty");
                }
            }
            let input = get("input");
            if !input.is_some_and(|value| value.kind == JsonKind::Object) {
                builder.wrong(format!("{at}.input"), "expected an object");
            }
            let call = ToolCall {
                id: string(builder, "id").unwrap_or_default(),
                name: string(builder, "name").unwrap_or_default(),
                arguments: input.map_or_else(Text::default, |value| builder.source.raw(value)),
                freeform: false,
            };
            check_id(builder, &call.id, &format!("{at}.id"));
            (
                Part::Call(call),
                input.map_or(PartSlot::Fixed, |value| PartSlot::Object(value.span())),
            )
        }
        Some("tool_result") => {
            let call = string(builder, "tool_use_id");
            if call.is_none() {
                builder.wrong(
                    format!("{at}.tool_use_id"),
                    "a tool result must name the call it answers",
                );
            }
            let call = call.unwrap_or_default();
            check_id(builder, &call, &format!("{at}.tool_use_id"));
            let content = get("content").filter(|value| value.kind != JsonKind::Null);
            let inner = content.map_or_else(Vec::new, |value| {
                result_content(builder, value, &format!("{at}.content"))
            });
            let error = get("is_error").is_some_and(|value| &text[value.span()] == "true");
            let raw = content.map_or_else(Text::default, |value| builder.source.raw(value));
            let loads_tools = inner.iter().any(is_tool_reference);
            // Text in the place of references would unload what they load.
            let fixed = loads_tools;
            let result = ToolResult { call, content: inner, raw, error, fixed, loads_tools };
            (
                Part::Result(result),
                content.map_or(PartSlot::Fixed, |value| PartSlot::Content(value.span())),
            )
        }
        Some("image") => (Part::Image(image(builder, node, at)), PartSlot::Fixed),
        Some("document") => {
            let source = get("source").map(|value| builder.source.node(value)).unwrap_or_default();
            let plain = source.get(&text, "type").is_some_and(|value| value.is(&text, "text"));
            let data = source.get(&text, "data").filter(|_| plain);
            let file = File {
                name: string(builder, "title"),
                text: data.and_then(|value| builder.source.string(value)),
                bytes: node.value.span().len(),
            };
            (Part::File(file), PartSlot::Fixed)
        }
        Some(kind) => {
            let raw = builder.source.raw(node.value);
            let link = server_tool(kind, |key| string(builder, key));
            (Part::Other(Other { raw, link }), PartSlot::Fixed)
        }
    }
}

/// How a block of a tool that the provider runs belongs to others: it is a call, such as
/// `server_tool_use` or `mcp_tool_use`, or a result, such as `web_search_tool_result`.
fn server_tool(kind: &str, string: impl Fn(&str) -> Option<Text>) -> PartLink {
    let link = if kind.ends_with("_tool_use") {
        string("id").map(PartLink::Call)
    } else if kind.ends_with("_result") {
        string("tool_use_id").map(PartLink::Result)
    } else {
        None
    };
    link.unwrap_or_default()
}

/// Whether a piece of a result loads a tool that the request defers.
fn is_tool_reference(part: &Part) -> bool {
    matches!(part, Part::Other(other) if other.raw.raw().contains(r#""tool_reference""#))
}

/// Reads what a tool answered: a string or blocks. Empty is legal here.
pub(crate) fn result_content(builder: &mut Builder, content: JsonValue, at: &str) -> Vec<Part> {
    if let Some(text) = builder.source.string(content) {
        return vec![Part::Text(text)];
    }
    if content.kind != JsonKind::Array {
        builder.wrong(
            at,
            format!("expected a string or a list of blocks, found {}", content.kind.describe()),
        );
        return vec![builder.source.other(content)];
    }
    let nodes = builder.source.nodes(content);
    let text = builder.source.text.clone();
    let read = |(index, node): (usize, &JsonNode)| {
        let at = format!("{at}[{index}]");
        let kind = node.get(&text, "type").and_then(|value| value.str(&text));
        if let Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking") = kind.as_deref()
        {
            builder.wrong(at, "a tool result holds no calls, results or thinking");
            return builder.source.other(node.value);
        }
        block(builder, node, &at).0
    };
    nodes.iter().enumerate().map(read).collect()
}

fn image(builder: &mut Builder, node: &JsonNode, at: &str) -> Image {
    let text = builder.source.text.clone();
    let Some(source) = node.get(&text, "source").filter(|value| value.kind == JsonKind::Object)
    else {
        builder.wrong(format!("{at}.source"), "an image needs a source");
        return Image::default();
    };
    let data = builder.source.node(source).get(&text, "data").and_then(|value| value.str(&text));
    Image {
        pixels: data.as_deref().and_then(pixels),
        low_detail: false,
        bytes: data.map_or(source.span().len(), |data| data.len()),
    }
}

fn check_id(builder: &mut Builder, id: &Text, at: &str) {
    let id = id.decode();
    if !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
        builder.wrong(at, "an id has only letters, digits, `_` and `-`");
    }
}
