//! The outermost layer of a file: a request body, a bare array, or lines.

use std::sync::Arc;

use longhand_core::json::{JsonCursor, JsonError, JsonKind, JsonNode, JsonValue};
use longhand_core::{Part, Text, cut};

use crate::error::DialectError;

/// A whole input, read one level deep.
pub(crate) struct RequestSource {
    pub(crate) text: Arc<String>,
    pub(crate) shape: RequestShape,
    /// The fields of a request body.
    pub(crate) fields: JsonNode,
    /// The messages, items or lines.
    pub(crate) elements: Vec<JsonNode>,
    /// The number of the line that each element begins on, from 1, where they are lines.
    pub(crate) lines: Vec<u32>,
    /// How many of the elements were passed over, since they were read before.
    pub(crate) known: usize,
    /// Lines that hold no object, from 1, if such lines may be passed over.
    pub(crate) unread: Vec<u32>,
}

/// What is done with a line of a session file that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLines {
    Refused,
    PassedOver,
}

/// The shape of a request body, its other fields, and its elements.
type RequestParts = (RequestShape, JsonNode, Vec<JsonNode>);

/// How the elements are held together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestShape {
    /// `[…]`
    Array,
    /// `{"messages": […]}`
    Messages,
    /// `{"input": […]}`
    Input,
    /// One JSON value a line.
    Lines,
}

impl RequestShape {
    /// How an element is called in messages to people; `lines` has the numbers of lines.
    pub(crate) fn element(self, index: usize, lines: &[u32]) -> String {
        match self {
            RequestShape::Array => format!("[{index}]"),
            RequestShape::Messages => format!("messages[{index}]"),
            RequestShape::Input => format!("input[{index}]"),
            RequestShape::Lines => format!("line {}", lines[index]),
        }
    }
}

impl RequestSource {
    pub(crate) fn read(text: Arc<String>, known: &[JsonValue]) -> Result<Self, DialectError> {
        Self::read_with(text, known, BadLines::Refused)
    }

    pub(crate) fn read_with(
        text: Arc<String>,
        known: &[JsonValue],
        bad_lines: BadLines,
    ) -> Result<Self, DialectError> {
        let mut cursor = JsonCursor::at(&text, start_of(&text));
        let (mut lines, mut unread) = (Vec::new(), Vec::new());
        let (shape, fields, elements) = match cursor.peek() {
            None => return Err(DialectError::Empty),
            Some(b'[') => {
                let mut elements = Vec::new();
                array(&mut cursor, &mut elements).and_then(|()| cursor.end()).map_err(|error| {
                    place(&text, error, &RequestShape::Array.element(elements.len(), &[]))
                })?;
                (RequestShape::Array, JsonNode::default(), elements)
            }
            Some(b'{') => match body(&text, &mut cursor, known) {
                Ok(Some(body)) => body,
                Err(error) if bad_lines == BadLines::Refused || !has_lines(&text) => {
                    return Err(error);
                }
                Ok(None) | Err(_) => {
                    let nodes = read_lines(&text, &mut lines, bad_lines, &mut unread)?;
                    (RequestShape::Lines, JsonNode::default(), nodes)
                }
            },
            Some(_) => {
                return Err(place(
                    &text,
                    JsonError { at: cursor.position(), what: "expected `{` or `[`" },
                    "",
                ));
            }
        };
        let passed = elements.iter().zip(known).take_while(|(one, other)| one.value == **other);
        let known = passed.count();
        Ok(Self { text, shape, fields, elements, lines, known, unread })
    }

    /// How an element is called in messages to people.
    pub(crate) fn element(&self, index: usize) -> String {
        self.shape.element(index, &self.lines)
    }

    /// The string that a value is, without a copy.
    pub(crate) fn string(&self, value: JsonValue) -> Option<Text> {
        let inside = value.inside()?;
        Some(if value.escaped {
            Text::escaped(&self.text, inside.start, inside.end)
        } else {
            Text::slice(&self.text, inside.start, inside.end)
        })
    }

    /// The bytes of a value.
    pub(crate) fn raw(&self, value: JsonValue) -> Text {
        Text::slice(&self.text, value.span().start, value.span().end)
    }

    /// The bytes of a value as a part that we do not know.
    pub(crate) fn other(&self, value: JsonValue) -> Part {
        Part::Other(self.raw(value).into())
    }

    /// A field of a request body.
    pub(crate) fn field(&self, key: &str) -> Option<JsonValue> {
        self.fields.get(&self.text, key)
    }

    /// Reads an object that has been passed over before.
    pub(crate) fn node(&self, value: JsonValue) -> JsonNode {
        JsonCursor::at(&self.text, value.span().start).node().unwrap_or_default()
    }

    /// Whether a value is an array with something in it.
    pub(crate) fn has_elements(&self, value: Option<JsonValue>) -> bool {
        value.is_some_and(|value| {
            let inside = &self.text[value.span()];
            value.kind == JsonKind::Array && !inside[1..inside.len() - 1].trim_ascii().is_empty()
        })
    }

    /// Reads the elements of an array that has been passed over before.
    pub(crate) fn nodes(&self, value: JsonValue) -> Vec<JsonNode> {
        let mut nodes = Vec::new();
        if value.kind == JsonKind::Array {
            let mut cursor = JsonCursor::at(&self.text, value.span().start);
            // It was checked when it was first passed over.
            let _ = array(&mut cursor, &mut nodes);
        }
        nodes
    }
}

/// Where the JSON begins: some editors put a mark before it.
pub(crate) fn start_of(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Whether one of `keys` may stand in a JSON text, perhaps with escaped letters.
///
/// Encoders do not escape the letters of keys, so a false yes is rare.
pub(crate) fn mentions(json: &str, keys: &[&str]) -> bool {
    let json = json.as_bytes();
    let has_key = |key: &&str| memchr::memmem::find(json, key.as_bytes()).is_some();
    // `\u0040` to `\u007f`: letters and the underscore are among them.
    let is_letter = |at: usize| matches!(json.get(at + 4), Some(b'4'..=b'7'));
    keys.iter().any(has_key) || memchr::memmem::find_iter(json, r"\u00").any(is_letter)
}

fn array(cursor: &mut JsonCursor, into: &mut Vec<JsonNode>) -> Result<(), JsonError> {
    cursor.elements(|cursor| {
        into.push(cursor.node()?);
        Ok(())
    })
}

/// Reads an array of which the first elements may be known.
fn array_after(
    cursor: &mut JsonCursor,
    known: &[JsonValue],
    into: &mut Vec<JsonNode>,
) -> Result<(), JsonError> {
    cursor.elements(|cursor| {
        cursor.peek();
        let is_here = |value: &&JsonValue| value.span().start == cursor.position();
        match known.get(into.len()).filter(is_here) {
            Some(value) => {
                cursor.skip(value);
                into.push(JsonNode { value: *value, fields: Vec::new() });
            }
            None => into.push(cursor.node()?),
        }
        Ok(())
    })
}

/// Reads a request body; `None` if the object is only the first of many lines.
fn body(
    text: &str,
    cursor: &mut JsonCursor,
    known: &[JsonValue],
) -> Result<Option<RequestParts>, DialectError> {
    let mut fields = Vec::new();
    let mut shape = None;
    let mut elements = Vec::new();
    let read = cursor.fields(|cursor, key| {
        let named = match key.str(text).as_deref() {
            Some("messages") => Some(RequestShape::Messages),
            Some("input") => Some(RequestShape::Input),
            _ => None,
        };
        if let Some(named) = named
            && (named == RequestShape::Messages || shape != Some(RequestShape::Messages))
            && cursor.peek() == Some(b'[')
        {
            shape = Some(named);
            elements.clear();
            return array_after(cursor, known, &mut elements);
        }
        fields.push((key, cursor.value()?));
        Ok(())
    });
    let within =
        || shape.map(|shape: RequestShape| shape.element(elements.len(), &[])).unwrap_or_default();
    read.map_err(|error| place(text, error, &within()))?;
    let has_string_input =
        fields.iter().any(|(key, value)| key.is(text, "input") && value.kind == JsonKind::String);
    if cursor.peek().is_none() && (shape.is_some() || has_string_input) {
        let fields = JsonNode { fields, ..JsonNode::default() };
        return Ok(Some((shape.unwrap_or(RequestShape::Input), fields, elements)));
    }
    let wrong = fields.iter().find(|(key, _)| key.is(text, "messages") || key.is(text, "input"));
    if let Some((key, value)) = wrong.filter(|_| cursor.peek().is_none()) {
        let (key, found) = (key.str(text).unwrap_or_default(), value.kind.describe());
        return Err(DialectError::NotAConversation(format!(
            "`{key}` must be a list, and it is {found}"
        )));
    }
    Ok(None)
}

fn has_lines(text: &str) -> bool {
    text.trim_end().contains('\n')
}

/// Reads one object after another, each on a line of its own.
fn read_lines(
    text: &str,
    lines: &mut Vec<u32>,
    bad_lines: BadLines,
    unread: &mut Vec<u32>,
) -> Result<Vec<JsonNode>, DialectError> {
    let mut cursor = JsonCursor::at(text, start_of(text));
    let mut nodes: Vec<JsonNode> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    while cursor.peek().is_some() {
        let start = cursor.position();
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted..start]).count();
        counted = start;
        let number = u32::try_from(line).unwrap_or(u32::MAX);
        let object = |node: JsonNode| match node.value.kind {
            JsonKind::Object => Ok(node),
            _ => Err(JsonError { at: start, what: "a line holds an object" }),
        };
        match cursor.node().and_then(object) {
            Ok(node) => {
                lines.push(number);
                nodes.push(node);
            }
            Err(_) if bad_lines == BadLines::PassedOver => {
                unread.push(number);
                let next = memchr::memchr(b'\n', &text.as_bytes()[start..]);
                cursor = JsonCursor::at(text, next.map_or(text.len(), |next| start + next + 1));
            }
            Err(error) => {
                lines.push(number);
                return Err(place(text, error, &RequestShape::Lines.element(nodes.len(), lines)));
            }
        }
    }
    Ok(nodes)
}

/// Turns a byte offset into what a person can find.
fn place(text: &str, error: JsonError, within: &str) -> DialectError {
    let before = cut::head(text, error.at);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    DialectError::Json { line, column, what: error.what, within: within.to_owned() }
}
