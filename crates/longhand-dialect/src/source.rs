//! The outermost layer of a file: a request body, a bare array, or lines.

use std::sync::Arc;

use longhand_core::json::{Cursor, JsonError, Kind, Node, Value};
use longhand_core::{Part, Text, cut};

use crate::error::DialectError;

/// A whole input, read one level deep.
pub(crate) struct Source {
    pub(crate) text: Arc<String>,
    pub(crate) shape: Shape,
    /// The fields of a request body.
    pub(crate) fields: Node,
    /// The messages, items or lines.
    pub(crate) elements: Vec<Node>,
    /// The number of the line that each element begins on, from 1, where they are lines.
    pub(crate) lines: Vec<u32>,
    /// How many of the elements were passed over, since they were read before.
    pub(crate) known: usize,
}

/// The shape of a request body, its other fields, and its elements.
type Body = (Shape, Node, Vec<Node>);

/// How the elements are held together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `[…]`
    Array,
    /// `{"messages": […]}`
    Messages,
    /// `{"input": […]}`
    Input,
    /// One JSON value a line.
    Lines,
}

impl Shape {
    /// How an element is called in messages to people; `lines` has the numbers of lines.
    pub(crate) fn element(self, index: usize, lines: &[u32]) -> String {
        match self {
            Shape::Array => format!("[{index}]"),
            Shape::Messages => format!("messages[{index}]"),
            Shape::Input => format!("input[{index}]"),
            Shape::Lines => format!("line {}", lines[index]),
        }
    }
}

impl Source {
    pub(crate) fn read(text: Arc<String>, known: &[Value]) -> Result<Self, DialectError> {
        let mut cursor = Cursor::at(&text, start_of(&text));
        let mut lines = Vec::new();
        let (shape, fields, elements) = match cursor.peek() {
            None => return Err(DialectError::Empty),
            Some(b'[') => {
                let mut elements = Vec::new();
                array(&mut cursor, &mut elements).and_then(|()| cursor.end()).map_err(|error| {
                    place(&text, error, &Shape::Array.element(elements.len(), &[]))
                })?;
                (Shape::Array, Node::default(), elements)
            }
            Some(b'{') => match body(&text, &mut cursor, known)? {
                Some(body) => body,
                None => (Shape::Lines, Node::default(), read_lines(&text, &mut lines)?),
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
        Ok(Self { text, shape, fields, elements, lines, known })
    }

    /// How an element is called in messages to people.
    pub(crate) fn element(&self, index: usize) -> String {
        self.shape.element(index, &self.lines)
    }

    /// The string that a value is, without a copy.
    pub(crate) fn string(&self, value: Value) -> Option<Text> {
        let inside = value.inside()?;
        Some(if value.escaped {
            Text::escaped(&self.text, inside.start, inside.end)
        } else {
            Text::slice(&self.text, inside.start, inside.end)
        })
    }

    /// The bytes of a value.
    pub(crate) fn raw(&self, value: Value) -> Text {
        Text::slice(&self.text, value.span().start, value.span().end)
    }

    /// The bytes of a value as a part that we do not know.
    pub(crate) fn other(&self, value: Value) -> Part {
        Part::Other(self.raw(value).into())
    }

    /// A field of a request body.
    pub(crate) fn field(&self, key: &str) -> Option<Value> {
        self.fields.get(&self.text, key)
    }

    /// Reads an object that has been passed over before.
    pub(crate) fn node(&self, value: Value) -> Node {
        Cursor::at(&self.text, value.span().start).node().unwrap_or_default()
    }

    /// Whether a value is an array with something in it.
    pub(crate) fn has_elements(&self, value: Option<Value>) -> bool {
        value.is_some_and(|value| {
            let inside = &self.text[value.span()];
            value.kind == Kind::Array && !inside[1..inside.len() - 1].trim_ascii().is_empty()
        })
    }

    /// Reads the elements of an array that has been passed over before.
    pub(crate) fn nodes(&self, value: Value) -> Vec<Node> {
        let mut nodes = Vec::new();
        if value.kind == Kind::Array {
            let mut cursor = Cursor::at(&self.text, value.span().start);
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
/// Encoders leave the letters of keys alone, so the answer is hardly ever yes without reason.
pub(crate) fn mentions(json: &str, keys: &[&str]) -> bool {
    let json = json.as_bytes();
    let has_key = |key: &&str| memchr::memmem::find(json, key.as_bytes()).is_some();
    // `\u0040` to `\u007f`: letters and the underscore are among them.
    let is_letter = |at: usize| matches!(json.get(at + 4), Some(b'4'..=b'7'));
    keys.iter().any(has_key) || memchr::memmem::find_iter(json, r"\u00").any(is_letter)
}

fn array(cursor: &mut Cursor, into: &mut Vec<Node>) -> Result<(), JsonError> {
    cursor.elements(|cursor| {
        into.push(cursor.node()?);
        Ok(())
    })
}

/// Reads an array of which the first elements may be known.
fn array_after(
    cursor: &mut Cursor,
    known: &[Value],
    into: &mut Vec<Node>,
) -> Result<(), JsonError> {
    cursor.elements(|cursor| {
        cursor.peek();
        let is_here = |value: &&Value| value.span().start == cursor.position();
        match known.get(into.len()).filter(is_here) {
            Some(value) => {
                cursor.skip(value);
                into.push(Node { value: *value, fields: Vec::new() });
            }
            None => into.push(cursor.node()?),
        }
        Ok(())
    })
}

/// Reads a request body; `None` if the object is only the first of many lines.
fn body(text: &str, cursor: &mut Cursor, known: &[Value]) -> Result<Option<Body>, DialectError> {
    let mut fields = Vec::new();
    let mut shape = None;
    let mut elements = Vec::new();
    let read = cursor.fields(|cursor, key| {
        let named = match key.str(text).as_deref() {
            Some("messages") => Some(Shape::Messages),
            Some("input") => Some(Shape::Input),
            _ => None,
        };
        if let Some(named) = named
            && (named == Shape::Messages || shape != Some(Shape::Messages))
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
        || shape.map(|shape: Shape| shape.element(elements.len(), &[])).unwrap_or_default();
    read.map_err(|error| place(text, error, &within()))?;
    let has_string_input =
        fields.iter().any(|(key, value)| key.is(text, "input") && value.kind == Kind::String);
    if cursor.peek().is_none() && (shape.is_some() || has_string_input) {
        let fields = Node { fields, ..Node::default() };
        return Ok(Some((shape.unwrap_or(Shape::Input), fields, elements)));
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

/// Reads one object after another, each on a line of its own.
fn read_lines(text: &str, lines: &mut Vec<u32>) -> Result<Vec<Node>, DialectError> {
    let mut cursor = Cursor::at(text, start_of(text));
    let mut nodes: Vec<Node> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    while cursor.peek().is_some() {
        let start = cursor.position();
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted..start]).count();
        counted = start;
        lines.push(u32::try_from(line).unwrap_or(u32::MAX));
        let object = |node: Node| match node.value.kind {
            Kind::Object => Ok(node),
            _ => Err(JsonError { at: start, what: "a line holds an object" }),
        };
        let node = cursor
            .node()
            .and_then(object)
            .map_err(|error| place(text, error, &Shape::Lines.element(nodes.len(), lines)))?;
        nodes.push(node);
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
