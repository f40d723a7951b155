//! Anthropic Messages.

use longhand_core::json::{Kind, Node, Value};
use longhand_core::{Call, File, Image, Message, Part, Role, Text, Thinking, ToolResult};

use crate::chat::Made;
use crate::conversation::{Builder, Content, Conversation, Dialect, Layout, Slot};
use crate::image::pixels;
use crate::source::Source;

pub(crate) fn read(source: Source) -> Conversation {
    let mut builder = Builder::new(source);
    builder.attributes(&["tools", "output_format"]);
    if let Some(system) = builder.source.field("system").filter(|value| value.kind != Kind::Null) {
        let mut made = Made::default();
        blocks(&mut builder, system, None, "system", &mut made);
        made.slots.iter_mut().for_each(|slot| *slot = Slot::Fixed);
        let raw = builder.source.raw(system);
        let message = Message { role: Role::System, name: None, parts: made.parts, raw };
        builder.push(message, Layout { slots: made.slots, ..Layout::default() });
    }
    let elements = std::mem::take(&mut builder.source.elements);
    for (index, node) in elements.iter().enumerate() {
        let name = builder.source.shape.element(index);
        message(&mut builder, node, &name, index);
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Anthropic)
}

fn message(builder: &mut Builder, node: &Node, name: &str, element: usize) {
    let text = builder.source.text.clone();
    if node.value.kind != Kind::Object {
        builder.wrong(name, format!("expected a message, found {}", node.value.kind.describe()));
    }
    let role = role(builder, node, name);
    let mut made = Made::default();
    let mut own = None;
    match node.get(&text, "content") {
        Some(content) => {
            let spans =
                blocks(builder, content, Some(element), &format!("{name}.content"), &mut made);
            own = Some(Content { span: content.span(), blocks: spans });
        }
        None => builder.wrong(format!("{name}.content"), "a message needs content"),
    }
    let message =
        Message { role, name: None, parts: made.parts, raw: builder.source.raw(node.value) };
    builder.push(message, Layout { elements: vec![element], slots: made.slots, content: own });
}

fn role(builder: &mut Builder, node: &Node, name: &str) -> Role {
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
    content: Value,
    element: Option<usize>,
    at: &str,
    made: &mut Made,
) -> Option<Vec<std::ops::Range<usize>>> {
    if let Some(text) = builder.source.string(content) {
        if text.is_blank() {
            builder.wrong(at, "text must hold more than white space");
        }
        made.add(Part::Text(text), Slot::Text(content.span()));
        return None;
    }
    if content.kind != Kind::Array {
        builder.wrong(
            at,
            format!("expected a string or a list of blocks, found {}", content.kind.describe()),
        );
        made.add(Part::Other(builder.source.raw(content)), Slot::Fixed);
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
                Slot::Block { element, blocks: spans.clone(), index }
            }
            _ => part.1,
        };
        made.add(part.0, slot);
    }
    Some(spans)
}

fn block(builder: &mut Builder, node: &Node, at: &str) -> (Part, Slot) {
    let text = builder.source.text.clone();
    let get = |key: &str| node.get(&text, key);
    let other = |builder: &Builder| (Part::Other(builder.source.raw(node.value)), Slot::Fixed);
    if node.value.kind != Kind::Object {
        builder.wrong(at, format!("expected a block, found {}", node.value.kind.describe()));
        return other(builder);
    }
    let kind = get("type").and_then(|value| value.str(&text));
    let string =
        |builder: &Builder, key: &str| get(key).and_then(|value| builder.source.string(value));
    match kind.as_deref() {
        None => {
            builder.wrong(format!("{at}.type"), "a block needs a type");
            other(builder)
        }
        Some("text") => {
            if let Some(value) = get("text").filter(|value| value.kind == Kind::String) {
                let own = builder.source.string(value).unwrap_or_default();
                if own.is_blank() {
                    builder.wrong(format!("{at}.text"), "text must hold more than white space");
                }
                (Part::Text(own), Slot::Text(value.span()))
            } else {
                builder.wrong(format!("{at}.text"), "expected a string");
                other(builder)
            }
        }
        Some("thinking" | "redacted_thinking") => {
            let open = kind.as_deref() == Some("thinking");
            let (key, seal) = if open { ("thinking", "signature") } else { ("data", "data") };
            if string(builder, key).is_none() {
                builder.wrong(format!("{at}.{key}"), "expected a string");
            }
            let words = string(builder, key).filter(|_| open).unwrap_or_default();
            (Part::Thinking(Thinking { text: words, seal: string(builder, seal) }), Slot::Fixed)
        }
        Some("tool_use") => {
            for key in ["id", "name"] {
                if string(builder, key).is_none_or(|own| own.is_empty()) {
                    builder.wrong(format!("{at}.{key}"), "expected a string that is not empty");
                }
            }
            let input = get("input");
            if !input.is_some_and(|value| value.kind == Kind::Object) {
                builder.wrong(format!("{at}.input"), "expected an object");
            }
            let call = Call {
                id: string(builder, "id").unwrap_or_default(),
                name: string(builder, "name").unwrap_or_default(),
                arguments: input.map_or_else(Text::default, |value| builder.source.raw(value)),
                freeform: false,
            };
            check_id(builder, &call.id, &format!("{at}.id"));
            (Part::Call(call), input.map_or(Slot::Fixed, |value| Slot::Object(value.span())))
        }
        Some("tool_result") => {
            let call = string(builder, "tool_use_id");
            if call.is_none() {
                builder.wrong(
                    format!("{at}.tool_use_id"),
                    "a tool result must name the call it answers",
                );
            }
            let content = get("content").filter(|value| value.kind != Kind::Null);
            let inner = content.map_or_else(Vec::new, |value| {
                result_content(builder, value, &format!("{at}.content"))
            });
            let error = get("is_error").is_some_and(|value| &text[value.span()] == "true");
            let raw = content.map_or_else(Text::default, |value| builder.source.raw(value));
            let result = ToolResult { call: call.unwrap_or_default(), content: inner, raw, error };
            (Part::Result(result), content.map_or(Slot::Fixed, |value| Slot::Content(value.span())))
        }
        Some("image") => (Part::Image(image(builder, node, at)), Slot::Fixed),
        Some("document") => {
            let source = get("source").map(|value| builder.source.node(value)).unwrap_or_default();
            let plain = source.get(&text, "type").is_some_and(|value| value.is(&text, "text"));
            let data = source.get(&text, "data").filter(|_| plain);
            let file = File {
                name: string(builder, "title"),
                text: data.and_then(|value| builder.source.string(value)),
                bytes: node.value.span().len(),
            };
            (Part::File(file), Slot::Fixed)
        }
        Some(_) => other(builder),
    }
}

/// Reads what a tool answered: a string or blocks. Empty is legal here.
pub(crate) fn result_content(builder: &mut Builder, content: Value, at: &str) -> Vec<Part> {
    if let Some(text) = builder.source.string(content) {
        return vec![Part::Text(text)];
    }
    if content.kind != Kind::Array {
        builder.wrong(
            at,
            format!("expected a string or a list of blocks, found {}", content.kind.describe()),
        );
        return vec![Part::Other(builder.source.raw(content))];
    }
    let nodes = builder.source.nodes(content);
    nodes
        .iter()
        .enumerate()
        .map(|(index, node)| block(builder, node, &format!("{at}[{index}]")).0)
        .collect()
}

fn image(builder: &mut Builder, node: &Node, at: &str) -> Image {
    let text = builder.source.text.clone();
    let Some(source) = node.get(&text, "source").filter(|value| value.kind == Kind::Object) else {
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
