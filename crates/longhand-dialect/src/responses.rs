//! `OpenAI` Responses.

use longhand_core::json::{Kind, Node, Value};
use longhand_core::{Call, File, Message, Part, Role, Text, Thinking, ToolResult};

use crate::chat::{Made, check_name, image};
use crate::conversation::{Builder, Content, Conversation, Dialect, Layout, Slot};
use crate::source::Source;

pub(crate) fn read(source: Source) -> Conversation {
    let mut builder = Builder::new(source);
    builder.attributes(&["tools", "text"]);
    let held = ["previous_response_id", "conversation"];
    builder.continues = held
        .iter()
        .any(|key| builder.source.field(key).is_some_and(|value| value.kind != Kind::Null));
    for (key, role) in [("instructions", Role::System), ("input", Role::User)] {
        if let Some(value) = builder.source.field(key)
            && let Some(text) = builder.source.string(value)
        {
            let raw = builder.source.raw(value);
            let message = Message { role, name: None, parts: vec![Part::Text(text)], raw };
            builder.push(message, Layout { slots: vec![Slot::Fixed], ..Layout::default() });
        }
    }
    let elements = std::mem::take(&mut builder.source.elements);
    for (index, node) in elements.iter().enumerate() {
        let name = builder.source.shape.element(index);
        item(&mut builder, node, &name, index);
    }
    builder.source.elements = elements;
    builder.finish(Dialect::Responses)
}

/// Reads one item of a request, or the payload of one line of a session file.
pub(crate) fn item(builder: &mut Builder, node: &Node, name: &str, element: usize) {
    let text = builder.source.text.clone();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text));
    let role = node.get(&text, "role").and_then(|value| value.str(&text));
    let mut made = Made::default();
    if node.value.kind != Kind::Object {
        builder.wrong(name, format!("expected an item, found {}", node.value.kind.describe()));
    }
    let mut content = None;
    let role = match (kind.as_deref(), role.as_deref()) {
        (None | Some("message"), role) => {
            content = node.get(&text, "content");
            message(builder, content, name, &mut made);
            speaker(builder, role, name)
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
        (
            Some(
                "local_shell_call" | "shell_call" | "computer_call" | "apply_patch_call"
                | "tool_search_call",
            ),
            _,
        ) => {
            foreign_call(builder, node, kind.as_deref().unwrap_or_default(), &mut made);
            Role::Assistant
        }
        (Some(kind), _) if kind.ends_with("_output") && node.get(&text, "call_id").is_some() => {
            output(builder, node, name, &mut made);
            Role::Tool
        }
        // It stands for all that came before it.
        (Some("compaction"), _) => {
            made.add(Part::Other(builder.source.raw(node.value)), Slot::Fixed);
            Role::System
        }
        (Some(_), _) => {
            made.add(Part::Other(builder.source.raw(node.value)), Slot::Fixed);
            Role::Assistant
        }
    };
    let message =
        Message { role, name: None, parts: made.parts, raw: builder.source.raw(node.value) };
    let content = content.map(|value| Content { span: value.span(), blocks: None });
    builder.push(message, Layout { elements: vec![element], slots: made.slots, content });
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

fn message(builder: &mut Builder, content: Option<Value>, name: &str, made: &mut Made) {
    let at = format!("{name}.content");
    match content {
        Some(value) if value.kind == Kind::String => {
            let text = builder.source.string(value).unwrap_or_default();
            made.add(Part::Text(text), Slot::Text(value.span()));
        }
        Some(value) if value.kind == Kind::Array => {
            for (index, node) in builder.source.nodes(value).iter().enumerate() {
                part(builder, node, &format!("{at}[{index}]"), made);
            }
        }
        Some(value) => {
            builder.wrong(
                at,
                format!("expected a string or a list of parts, found {}", value.kind.describe()),
            );
            made.add(Part::Other(builder.source.raw(value)), Slot::Fixed);
        }
        None => builder.wrong(at, "a message needs content"),
    }
}

fn part(builder: &mut Builder, node: &Node, at: &str, made: &mut Made) {
    let text = builder.source.text.clone();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text)).unwrap_or_default();
    match kind.as_ref() {
        "input_text" | "output_text" | "text" => match node.get(&text, "text") {
            Some(value) if value.kind == Kind::String => {
                let own = builder.source.string(value).unwrap_or_default();
                // Annotations point into the text of an answer.
                return if kind == "output_text" && annotated(builder, node) {
                    made.add(Part::Other(own), Slot::Fixed);
                } else {
                    made.add(Part::Text(own), Slot::Text(value.span()));
                };
            }
            _ => builder.wrong(format!("{at}.text"), "expected a string"),
        },
        "input_image" => {
            let url =
                node.get(&text, "image_url").and_then(|value| value.str(&text)).unwrap_or_default();
            let low = node.get(&text, "detail").is_some_and(|value| value.is(&text, "low"));
            return made.add(Part::Image(image(&url, low)), Slot::Fixed);
        }
        "input_file" => {
            let bytes = node.value.span().len();
            return made.add(Part::File(File { name: None, text: None, bytes }), Slot::Fixed);
        }
        "" => builder.wrong(format!("{at}.type"), "a part needs a type"),
        _ => {}
    }
    made.add(Part::Other(builder.source.raw(node.value)), Slot::Fixed);
}

fn annotated(builder: &Builder, node: &Node) -> bool {
    let list = node.get(&builder.source.text, "annotations");
    list.is_some_and(|value| !builder.source.nodes(value).is_empty())
}

fn reasoning(builder: &mut Builder, node: &Node, made: &mut Made) {
    let text = builder.source.text.clone();
    let list = ["summary", "content"].into_iter().filter_map(|key| node.get(&text, key));
    let words: Vec<String> = list
        .flat_map(|value| builder.source.nodes(value))
        .filter_map(|part| Some(part.get(&text, "text")?.str(&text)?.into_owned()))
        .collect();
    let seal = node.get(&text, "encrypted_content").and_then(|value| builder.source.string(value));
    made.add(Part::Thinking(Thinking { text: Text::from(words.join("\n")), seal }), Slot::Fixed);
}

fn call(builder: &mut Builder, node: &Node, key: &str, name: &str, made: &mut Made) {
    let text = builder.source.text.clone();
    let mut string = |field: &str| {
        let own = node.get(&text, field).and_then(|value| builder.source.string(value));
        if own.is_none() {
            builder.wrong(format!("{name}.{field}"), "expected a string");
        }
        own.unwrap_or_default()
    };
    let (id, tool, arguments) = (string("call_id"), string("name"), string(key));
    if id.raw_len() > 64 {
        builder.wrong(format!("{name}.call_id"), "an id has at most 64 characters");
    }
    check_name(builder, &tool, name);
    let freeform = key == "input";
    let slot = match node.get(&text, key).filter(|value| value.kind == Kind::String) {
        Some(value) if freeform => Slot::Text(value.span()),
        Some(value) => Slot::Quoted(value.span()),
        None => Slot::Fixed,
    };
    made.add(Part::Call(Call { id, name: tool, arguments, freeform }), slot);
}

/// Reads a call of a built-in tool: its shape is the provider's, so it is never edited.
fn foreign_call(builder: &mut Builder, node: &Node, kind: &str, made: &mut Made) {
    let text = builder.source.text.clone();
    let id = node.get(&text, "call_id").and_then(|value| builder.source.string(value));
    if let Some(id) = id {
        let name = Text::from(kind.trim_end_matches("_call"));
        made.add(
            Part::Call(Call { id, name, arguments: Text::default(), freeform: false }),
            Slot::Fixed,
        );
    }
    made.add(Part::Other(builder.source.raw(node.value)), Slot::Fixed);
}

fn output(builder: &mut Builder, node: &Node, name: &str, made: &mut Made) {
    let text = builder.source.text.clone();
    let call = node.get(&text, "call_id").and_then(|value| builder.source.string(value));
    if call.is_none() {
        builder.wrong(format!("{name}.call_id"), "expected a string");
    }
    let call = call.unwrap_or_default();
    let kind = node.get(&text, "type").and_then(|value| value.str(&text)).unwrap_or_default();
    let ours = ["function_call_output", "custom_tool_call_output"].contains(&kind.as_ref());
    let value = node.get(&text, "output");
    let readable =
        |value: &Value| value.kind == Kind::String || (ours && value.kind == Kind::Array);
    if let Some(value) = value.filter(readable) {
        let mut inner = Made::default();
        message(builder, Some(value), name, &mut inner);
        let raw = builder.source.raw(value);
        let result = ToolResult { call, content: inner.parts, raw, error: false };
        made.add(Part::Result(result), Slot::Content(value.span()));
        return;
    }
    // The output of a built-in tool has the provider's shape, so it is never edited.
    if ours {
        builder.wrong(format!("{name}.output"), "expected a string or a list of parts");
    }
    let result = ToolResult { call, content: Vec::new(), raw: Text::default(), error: false };
    made.add(Part::Result(result), Slot::Fixed);
    made.add(Part::Other(builder.source.raw(node.value)), Slot::Fixed);
}
