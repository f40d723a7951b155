//! `OpenAI` Responses.

use longhand_core::json::{JsonCursor, JsonKind, JsonNode, JsonValue};
use longhand_core::{
    File, Image, Message, Other, Part, PartLink, Role, Text, Thinking, ToolCall, ToolResult,
    grouped,
};

use crate::chat::{PlacedParts, check_name, image, input_audio, no_messages, spoken};
use crate::conversation::{Builder, ContentSpans, Conversation, Dialect, MessageLayout, PartSlot};
use crate::image::pixels;
use crate::source::{RequestShape, RequestSource};

pub(crate) fn read(source: RequestSource, before: Option<&Conversation>) -> Conversation {
    let mut builder = Builder::new(source);
    builder.attributes(&["tools"], &["text"]);
    let held = ["previous_response_id", "conversation"];
    builder.continues = held
        .iter()
        .any(|key| builder.source.field(key).is_some_and(|value| value.kind != JsonKind::Null))
        .then_some(0);
    for (key, role) in [("instructions", Role::System), ("input", Role::User)] {
        // Beside a list of items, a string of the same name means nothing.
        let doubled = key == "input" && !builder.source.elements.is_empty();
        if let Some(value) = builder.source.field(key).filter(|_| !doubled)
            && let Some(text) = builder.source.string(value)
        {
            check_length(&mut builder, &text, TEXT_CHARS_MAX, key);
            let raw = builder.source.raw(value);
            let message = Message::new(role, None, vec![Part::Text(text)], raw);
            let content = Some(ContentSpans { span: value.span(), blocks: None });
            builder.push(
                message,
                MessageLayout { slots: vec![PartSlot::Fixed], content, ..MessageLayout::default() },
            );
        }
    }
    builder.take_known(before);
    let elements = std::mem::take(&mut builder.source.elements);
    for (index, node) in elements.iter().enumerate().skip(builder.source.known) {
        let name = builder.source.element(index);
        item(&mut builder, node, &name, index);
    }
    builder.source.elements = elements;
    no_messages(&mut builder);
    triggered_last(&mut builder);
    settings(&mut builder);
    builder.finish(Dialect::Responses)
}

/// The most characters of the fields of a request.
const ID_CHARS_MAX: usize = 64;
const TEXT_CHARS_MAX: usize = 10_485_760;
const SEALED_CHARS_MAX: usize = 20_971_520;
const FILE_CHARS_MAX: usize = 73_400_320;

fn check_length(builder: &mut Builder, text: &Text, chars_max: usize, at: impl Into<String>) {
    if text.raw_len() > chars_max && text.decode().chars().count() > chars_max {
        let what = format!("at most {} characters are taken", grouped(chars_max));
        // Nothing shortens an id.
        if chars_max == ID_CHARS_MAX {
            builder.wrong(at, what);
        } else {
            builder.too_much(at, what);
        }
    }
}

/// Checks the settings of a request that limit each other or its items.
fn settings(builder: &mut Builder) {
    let text = builder.source.text.clone();
    let given = |builder: &Builder, key: &str| {
        builder.source.field(key).filter(|value| value.kind != JsonKind::Null)
    };
    if ["previous_response_id", "conversation"].iter().all(|key| given(builder, key).is_some()) {
        builder.wrong("conversation", "it does not go together with previous_response_id");
    }
    if given(builder, "truncation")
        .is_some_and(|value| !value.is(&text, "auto") && !value.is(&text, "disabled"))
    {
        builder.wrong("truncation", "expected \"auto\" or \"disabled\"");
    }
    if let Some(key) = given(builder, "prompt_cache_key").and_then(|key| builder.source.string(key))
    {
        check_length(builder, &key, ID_CHARS_MAX, "prompt_cache_key");
    }
    let managed = given(builder, "context_management").map(|value| builder.source.nodes(value));
    for (index, node) in managed.iter().flatten().enumerate() {
        let threshold = node.get(&text, "compact_threshold").map(|value| &text[value.span()]);
        if threshold
            .and_then(|number| number.parse::<f64>().ok())
            .is_some_and(|number| number < 1_000.0)
        {
            let at = format!("context_management[{index}].compact_threshold");
            builder.wrong(at, "a threshold has at least 1,000 tokens");
        }
    }
    if given(builder, "store").is_some_and(|value| &text[value.span()] == "false") {
        stored_nowhere(builder);
    }
}

/// Notes a trigger of a compaction that is not the last item.
fn triggered_last(builder: &mut Builder) {
    let last = builder.messages.len().saturating_sub(1);
    let is_trigger = |message: &Message| {
        let [Part::Other(other)] = message.parts.as_slice() else { return false };
        let raw = other.raw.raw();
        let node = JsonCursor::new(raw).node().unwrap_or_default();
        node.get(raw, "type").is_some_and(|kind| kind.is(raw, "compaction_trigger"))
    };
    for at in (0..last).filter(|at| is_trigger(&builder.messages[*at])).collect::<Vec<_>>() {
        let name = name_of(builder, at);
        builder.wrong(name, "a compaction is triggered by the last item only");
    }
}

/// How the item of a message is called.
fn name_of(builder: &Builder, message: usize) -> String {
    let element = builder.layout[message].elements.first();
    element.map_or_else(String::new, |element| builder.source.element(*element))
}

/// Notes items that the provider would have to look up but never kept.
fn stored_nowhere(builder: &mut Builder) {
    let lost = |message: &Message| match message.parts.as_slice() {
        _ if message.is_reference() => Some("id"),
        [Part::Thinking(thinking)] if thinking.seal.is_none() => {
            let raw = message.raw.raw();
            let id = JsonCursor::new(raw).node().unwrap_or_default().get(raw, "id");
            id.filter(|id| id.kind == JsonKind::String).map(|_| "encrypted_content")
        }
        _ => None,
    };
    let lost: Vec<_> = builder.messages.iter().map(lost).collect();
    for (at, key) in lost.into_iter().enumerate().filter_map(|(at, key)| Some((at, key?))) {
        let name = name_of(builder, at);
        builder.odd(format!("{name}.{key}"), "with store false nothing is kept under this id");
    }
}

/// Reads one item of a request, or the payload of one line of a session file.
pub(crate) fn item(builder: &mut Builder, node: &JsonNode, name: &str, element: usize) {
    let text = builder.source.text.clone();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text));
    let role = node.get(&text, "role").and_then(|value| value.str(&text));
    let mut made = PlacedParts::default();
    if node.value.kind != JsonKind::Object {
        builder.wrong(name, format!("expected an item, found {}", node.value.kind.describe()));
    }
    let typed = node.get(&text, "type");
    if typed.is_some_and(|value| !matches!(value.kind, JsonKind::String | JsonKind::Null)) {
        builder.wrong(format!("{name}.type"), "expected a string");
    }
    let mut content = None;
    let has = |key: &str| node.get(&text, key).is_some_and(|value| value.kind != JsonKind::Null);
    let role = match (kind.as_deref(), role.as_deref()) {
        (Some("item_reference"), _) | (None, None) if has("id") && !has("content") => {
            let id = node.get(&text, "id").and_then(|id| builder.source.string(id));
            let link = PartLink::Reference(id.unwrap_or_default());
            let raw = builder.source.raw(node.value);
            made.add(Part::Other(Other { raw, link }), PartSlot::Fixed);
            Role::Assistant
        }
        (None | Some("message"), role) => {
            let role = speaker(builder, role, name);
            content = node.get(&text, "content");
            let kinds = if role == Role::Assistant { OUTPUT_KINDS } else { INPUT_KINDS };
            message(builder, content, kinds, &format!("{name}.content"), &mut made);
            role
        }
        (Some("reasoning"), _) => {
            reasoning(builder, node, &mut made);
            Role::Assistant
        }
        (Some("function_call"), _) => {
            call(builder, node, "arguments", name, &mut made);
            Role::Assistant
        }
        (Some("custom_tool_call"), _) => {
            call(builder, node, "input", name, &mut made);
            Role::Assistant
        }
        (Some("function_call_output" | "custom_tool_call_output"), _) => {
            output(builder, node, name, &mut made);
            Role::Tool
        }
        (Some(kind), _)
            if kind.ends_with("_output") && (has("call_id") || is_local_shell(kind)) =>
        {
            foreign_output(builder, node, &mut made);
            Role::Tool
        }
        (Some("image_generation_call"), _) => {
            let part = match generated_image(builder, node) {
                Some(image) => Part::Image(image),
                None => builder.source.other(node.value),
            };
            made.add(part, PartSlot::Fixed);
            Role::Assistant
        }
        (Some("compaction"), _) => {
            let seal = node.get(&text, "encrypted_content");
            match seal.and_then(|value| builder.source.string(value)) {
                Some(seal) => {
                    check_length(
                        builder,
                        &seal,
                        SEALED_CHARS_MAX,
                        format!("{name}.encrypted_content"),
                    );
                }
                None => builder.wrong(format!("{name}.encrypted_content"), "expected a string"),
            }
            made.add(builder.source.other(node.value), PartSlot::Fixed);
            // It stands for all that came before it.
            Role::System
        }
        (Some(kind), _) => {
            foreign_call(builder, node, kind, &mut made);
            // The client says whether the tool may be called.
            if kind == "mcp_approval_response" { Role::Tool } else { Role::Assistant }
        }
    };
    let message = Message::new(role, None, made.parts, builder.source.raw(node.value));
    let content = content.map(|value| ContentSpans { span: value.span(), blocks: None });
    builder.push(
        message,
        MessageLayout {
            elements: vec![element],
            slots: made.slots,
            content,
            ..MessageLayout::default()
        },
    );
}

fn speaker(builder: &mut Builder, role: Option<&str>, name: &str) -> Role {
    match role {
        Some("system" | "developer") => return Role::System,
        Some("user") => return Role::User,
        Some("assistant") => return Role::Assistant,
        Some(other) => builder.wrong(format!("{name}.role"), format!("unknown role {other:?}")),
        None => builder.wrong(format!("{name}.role"), "a message needs a role"),
    }
    Role::User
}

/// The kinds of parts that input and output messages may have; unknown kinds are not checked.
const INPUT_KINDS: &[&str] = &["input_text", "input_image", "input_file"];
const OUTPUT_KINDS: &[&str] = &["output_text", "refusal"];

fn message(
    builder: &mut Builder,
    content: Option<JsonValue>,
    kinds: &[&str],
    at: &str,
    made: &mut PlacedParts,
) {
    match content {
        Some(value) if value.kind == JsonKind::String => {
            let text = builder.source.string(value).unwrap_or_default();
            check_length(builder, &text, TEXT_CHARS_MAX, at);
            made.add(Part::Text(text), PartSlot::Text(value.span()));
        }
        Some(value) if value.kind == JsonKind::Array => {
            for (index, node) in builder.source.nodes(value).iter().enumerate() {
                part(builder, node, kinds, &format!("{at}[{index}]"), made);
            }
        }
        Some(value) => {
            builder.wrong(
                at,
                format!("expected a string or a list of parts, found {}", value.kind.describe()),
            );
            made.add(builder.source.other(value), PartSlot::Fixed);
        }
        None => builder.wrong(at, "a message needs content"),
    }
}

fn part(builder: &mut Builder, node: &JsonNode, kinds: &[&str], at: &str, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text)).unwrap_or_default();
    let string = |builder: &Builder, key: &str| {
        node.get(&text, key).and_then(|value| builder.source.string(value))
    };
    let is_one_of = |kinds: &[&str]| kinds.contains(&kind.as_ref());
    if (is_one_of(INPUT_KINDS) || is_one_of(OUTPUT_KINDS)) && !is_one_of(kinds) {
        builder.wrong(format!("{at}.type"), format!("expected one of {}", kinds.join(", ")));
    }
    match kind.as_ref() {
        "input_text" | "output_text" | "text" => match node.get(&text, "text") {
            Some(value) if value.kind == JsonKind::String => {
                let value_text = builder.source.string(value).unwrap_or_default();
                check_length(builder, &value_text, TEXT_CHARS_MAX, format!("{at}.text"));
                // Annotations point into the text of an answer.
                return if kind == "output_text"
                    && builder.source.has_elements(node.get(&text, "annotations"))
                {
                    made.add(Part::FixedText(value_text), PartSlot::Fixed);
                } else {
                    made.add(Part::Text(value_text), PartSlot::Text(value.span()));
                };
            }
            _ => builder.wrong(format!("{at}.text"), "expected a string"),
        },
        "refusal" => match string(builder, "refusal") {
            Some(value_text) => return made.add(Part::FixedText(value_text), PartSlot::Fixed),
            None => builder.wrong(format!("{at}.refusal"), "expected a string"),
        },
        "input_image" => {
            let url = string(builder, "image_url").unwrap_or_default();
            check_length(builder, &url, SEALED_CHARS_MAX, format!("{at}.image_url"));
            let low = node.get(&text, "detail").is_some_and(|value| value.is(&text, "low"));
            return made.add(Part::Image(image(&url.decode(), low)), PartSlot::Fixed);
        }
        "input_file" => {
            if let Some(data) = string(builder, "file_data") {
                check_length(builder, &data, FILE_CHARS_MAX, format!("{at}.file_data"));
            }
            let bytes = node.value.span().len();
            return made.add(Part::File(File { name: None, text: None, bytes }), PartSlot::Fixed);
        }
        "input_audio" => {
            return made.add(Part::Media(input_audio(builder, node)), PartSlot::Fixed);
        }
        "output_audio" => return made.add(Part::Media(spoken(builder, node)), PartSlot::Fixed),
        "" => builder.wrong(format!("{at}.type"), "a part needs a type"),
        _ => {}
    }
    made.add(builder.source.other(node.value), PartSlot::Fixed);
}

fn reasoning(builder: &mut Builder, node: &JsonNode, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let list = ["summary", "content"].into_iter().filter_map(|key| node.get(&text, key));
    let words: Vec<String> = list
        .flat_map(|value| builder.source.nodes(value))
        .filter_map(|part| Some(part.get(&text, "text")?.str(&text)?.into_owned()))
        .collect();
    let seal = node.get(&text, "encrypted_content").and_then(|value| builder.source.string(value));
    made.add(
        Part::Thinking(Thinking { text: Text::from(words.join("\n")), seal }),
        PartSlot::Fixed,
    );
}

fn call(builder: &mut Builder, node: &JsonNode, key: &str, name: &str, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let mut string = |field: &str| {
        let value = node.get(&text, field).and_then(|value| builder.source.string(value));
        if value.is_none() {
            builder.wrong(format!("{name}.{field}"), "expected a string");
        }
        value.unwrap_or_default()
    };
    let (id, tool, arguments) = (string("call_id"), string("name"), string(key));
    check_length(builder, &id, ID_CHARS_MAX, format!("{name}.call_id"));
    check_name(builder, &tool, name);
    let freeform = key == "input";
    let slot = match node.get(&text, key).filter(|value| value.kind == JsonKind::String) {
        Some(value) if freeform => PartSlot::Text(value.span()),
        Some(value) => PartSlot::Quoted(value.span()),
        None => PartSlot::Fixed,
    };
    made.add(Part::Call(ToolCall { id, name: tool, arguments, freeform }), slot);
}

/// Reads an item that is not ours: perhaps a call of a built-in tool. Its shape is the provider's, so it
/// is never edited.
fn foreign_call(builder: &mut Builder, node: &JsonNode, kind: &str, made: &mut PlacedParts) {
    let id = node.get(&builder.source.text, "call_id").and_then(|id| builder.source.string(id));
    if let Some(id) = id {
        let name = Text::from(kind.trim_end_matches("_call"));
        made.add(
            Part::Call(ToolCall { id, name, arguments: Text::default(), freeform: false }),
            PartSlot::Fixed,
        );
    }
    let (raw, link) = (builder.source.raw(node.value), approval(builder, node, kind));
    made.add(Part::Other(Other { raw, link }), PartSlot::Fixed);
}

/// How an item belongs to a request for approval: it is one, answers one, or is the call that was
/// approved.
fn approval(builder: &Builder, node: &JsonNode, kind: &str) -> PartLink {
    let string = |key: &str| {
        node.get(&builder.source.text, key).and_then(|value| builder.source.string(value))
    };
    let link = match kind {
        "mcp_approval_request" => string("id").map(PartLink::Call),
        "mcp_approval_response" | "mcp_call" => string("approval_request_id").map(PartLink::Result),
        _ => None,
    };
    link.unwrap_or_default()
}

/// The output of a local shell may name its call in `id`.
fn is_local_shell(kind: &str) -> bool {
    kind == "local_shell_call_output"
}

/// Reads the output of a built-in tool: text where it is plain text.
fn foreign_output(builder: &mut Builder, node: &JsonNode, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let get = |key: &str| node.get(&text, key).filter(|value| value.kind == JsonKind::String);
    let Some(call) = get("call_id").or(get("id")).and_then(|id| builder.source.string(id)) else {
        return made.add(builder.source.other(node.value), PartSlot::Fixed);
    };
    if let Some(value) = get("output") {
        let content = vec![Part::Text(builder.source.string(value).unwrap_or_default())];
        let result = ToolResult {
            call,
            content,
            raw: builder.source.raw(value),
            error: false,
            fixed: false,
            loads_tools: false,
        };
        return made.add(Part::Result(result), PartSlot::Content(value.span()));
    }
    if let Some(output) = node.get(&text, "output")
        && let Some(image) = screenshot(builder, output)
    {
        let (content, raw) = (vec![Part::Image(image)], builder.source.raw(output));
        let result =
            ToolResult { call, content, raw, error: false, fixed: true, loads_tools: false };
        return made.add(Part::Result(result), PartSlot::Fixed);
    }
    let kind = node.get(&text, "type").and_then(|kind| kind.str(&text));
    let loads_tools = kind.as_deref() == Some("tool_search_output");
    let (content, raw) = (Vec::new(), Text::default());
    let result = ToolResult { call, content, raw, error: false, fixed: true, loads_tools };
    made.add(Part::Result(result), PartSlot::Fixed);
    made.add(builder.source.other(node.value), PartSlot::Fixed);
}

/// Reads what a computer shows: `{"type":"computer_screenshot"}` with an `image_url` or a `file_id`.
fn screenshot(builder: &Builder, output: JsonValue) -> Option<Image> {
    let text = &builder.source.text;
    let node = builder.source.node(output);
    let kind = node.get(text, "type")?.str(text)?;
    if !matches!(kind.as_ref(), "computer_screenshot" | "input_image") {
        return None;
    }
    let url = node.get(text, "image_url").and_then(|url| url.str(text)).unwrap_or_default();
    Some(image(&url, false))
}

/// Reads a picture that the provider made, if it is in the item.
fn generated_image(builder: &Builder, node: &JsonNode) -> Option<Image> {
    let data = node.get(&builder.source.text, "result")?.str(&builder.source.text)?;
    Some(Image { pixels: pixels(&data), low_detail: false, bytes: data.len() })
}

fn output(builder: &mut Builder, node: &JsonNode, name: &str, made: &mut PlacedParts) {
    let text = builder.source.text.clone();
    let call = node.get(&text, "call_id").and_then(|value| builder.source.string(value));
    if call.is_none() {
        builder.wrong(format!("{name}.call_id"), "a tool result must name the call it answers");
    }
    let call = call.unwrap_or_default();
    check_length(builder, &call, ID_CHARS_MAX, format!("{name}.call_id"));
    let at = format!("{name}.output");
    let Some(value) = node.get(&text, "output") else {
        builder.wrong(at, "a tool result needs an output");
        let result = ToolResult {
            call,
            content: Vec::new(),
            raw: Text::default(),
            error: false,
            fixed: false,
            loads_tools: false,
        };
        return made.add(Part::Result(result), PartSlot::Fixed);
    };
    let mut inner = PlacedParts::default();
    message(builder, Some(logged_content(builder, value)), INPUT_KINDS, &at, &mut inner);
    let raw = builder.source.raw(value);
    let result = ToolResult {
        call,
        content: inner.parts,
        raw,
        error: false,
        fixed: false,
        loads_tools: false,
    };
    made.add(Part::Result(result), PartSlot::Content(value.span()));
}

/// The content of an output that a Codex session wraps in an object, with what else it noted.
fn logged_content(builder: &Builder, output: JsonValue) -> JsonValue {
    if output.kind != JsonKind::Object || builder.source.shape != RequestShape::Lines {
        return output;
    }
    let node = builder.source.node(output);
    let get = |key: &str, kind: JsonKind| {
        node.get(&builder.source.text, key).filter(|value| value.kind == kind)
    };
    get("content_items", JsonKind::Array).or(get("content", JsonKind::String)).unwrap_or(output)
}
