//! JSON read in place: where things are, not what they would be copied into.
//!
//! A conversation is edited by splicing its bytes, so a reader has to know the span of every value.
//! One pass checks the whole grammar; nesting is followed on the heap, so depth is no danger.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::unescape;

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonKind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// Digits.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`
    #[default]
    Null,
}

impl JsonKind {
    /// The kind with its article, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            JsonKind::Object => "an object",
            JsonKind::Array => "an array",
            JsonKind::String => "a string",
            JsonKind::Number => "a number",
            JsonKind::Bool => "a boolean",
            JsonKind::Null => "null",
        }
    }
}

/// Where a value stands in its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonValue {
    /// What it is.
    pub kind: JsonKind,
    /// Whether it is a string with escapes.
    pub escaped: bool,
    start: u32,
    end: u32,
}

impl JsonValue {
    /// An object that was read before.
    pub fn object(span: Range<usize>) -> Self {
        Self {
            kind: JsonKind::Object,
            escaped: false,
            start: span.start as u32,
            end: span.end as u32,
        }
    }

    /// Its bytes, quotes included.
    pub fn span(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Its bytes without the quotes, if it is a string.
    pub fn inside(&self) -> Option<Range<usize>> {
        (self.kind == JsonKind::String).then(|| self.start as usize + 1..self.end as usize - 1)
    }

    /// Its text, if it is a string.
    pub fn str<'s>(&self, source: &'s str) -> Option<Cow<'s, str>> {
        let raw = &source[self.inside()?];
        Some(if self.escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
    }

    /// Whether it is the string `text`.
    pub fn is(&self, source: &str, text: &str) -> bool {
        if !self.escaped {
            // Most keys differ in their length.
            return (self.end - self.start) as usize == text.len() + 2
                && self
                    .inside()
                    .is_some_and(|inside| &source.as_bytes()[inside] == text.as_bytes());
        }
        self.str(source).is_some_and(|value| value == text)
    }
}

/// A value with its fields, one level deep.
#[derive(Clone, Debug, Default)]
pub struct JsonNode {
    /// The value itself.
    pub value: JsonValue,
    /// The fields, if it is an object.
    pub fields: Vec<(JsonValue, JsonValue)>,
}

impl JsonNode {
    /// The value of a field; the last one counts where a key is doubled, as everywhere.
    pub fn get(&self, source: &str, key: &str) -> Option<JsonValue> {
        self.fields.iter().rev().find(|(name, _)| name.is(source, key)).map(|(_, value)| *value)
    }

    /// Every string value in the fields, at any depth and in order; keys are not values.
    pub fn strings(&self, source: &str) -> Vec<JsonValue> {
        let mut found = Vec::with_capacity(self.fields.len());
        for (_, value) in &self.fields {
            match value.kind {
                JsonKind::String => found.push(*value),
                JsonKind::Object | JsonKind::Array => {
                    // It was checked when the node was read, so it cannot fail.
                    let _ = JsonCursor::at(source, value.start as usize)
                        .nested(|string| found.push(string));
                }
                JsonKind::Number | JsonKind::Bool | JsonKind::Null => {}
            }
        }
        found
    }
}

/// Why a text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The offending byte.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Reads values from a source, from `at` on.
#[derive(Clone)]
pub struct JsonCursor<'s> {
    bytes: &'s [u8],
    at: usize,
}

type Read<T> = Result<T, JsonError>;

impl<'s> JsonCursor<'s> {
    /// Starts at the beginning.
    pub fn new(source: &'s str) -> Self {
        Self::at(source, 0)
    }

    /// Starts at the byte `at`.
    pub fn at(source: &'s str, at: usize) -> Self {
        Self { bytes: source.as_bytes(), at }
    }

    /// The next byte that is not white space, if there is one.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Goes on behind a value that was read before.
    pub fn skip(&mut self, value: &JsonValue) {
        self.at = value.end as usize;
    }

    /// Goes on behind the next byte.
    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.bytes.len());
    }

    /// Where it stands.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Reads one value, checking all of it.
    pub fn value(&mut self) -> Read<JsonValue> {
        let first =
            self.peek().ok_or_else(|| self.error("the text ends where a value should be"))?;
        let start = self.at;
        let mut escaped = false;
        let kind = match first {
            b'"' => {
                escaped = self.string()?;
                JsonKind::String
            }
            b'{' | b'[' => {
                self.nested(|_| {})?;
                if first == b'{' { JsonKind::Object } else { JsonKind::Array }
            }
            _ => self.scalar(first)?,
        };
        Ok(JsonValue { kind, escaped, start: start as u32, end: self.at as u32 })
    }

    /// Reads one value and, if it is an object, its fields.
    pub fn node(&mut self) -> Read<JsonNode> {
        if self.peek() != Some(b'{') {
            return Ok(JsonNode { value: self.value()?, fields: Vec::new() });
        }
        let start = self.at;
        let mut fields = Vec::with_capacity(6);
        self.fields(|cursor, key| {
            fields.push((key, cursor.value()?));
            Ok(())
        })?;
        let value = JsonValue {
            kind: JsonKind::Object,
            escaped: false,
            start: start as u32,
            end: self.at as u32,
        };
        Ok(JsonNode { value, fields })
    }

    /// Visits the fields of an object; the visitor must read the value.
    pub fn fields(&mut self, mut visit: impl FnMut(&mut Self, JsonValue) -> Read<()>) -> Read<()> {
        self.expect(b'{', "expected `{`")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            visit(self, key)?;
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',', "expected `,` or `}`")?;
        }
    }

    /// Visits the elements of an array; the visitor must read the element.
    pub fn elements(&mut self, mut visit: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.expect(b'[', "expected `[`")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            visit(self)?;
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',', "expected `,` or `]`")?;
        }
    }

    /// Checks that nothing but white space is left.
    pub fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("there is more after the end of the JSON value")),
        }
    }

    fn key(&mut self) -> Read<JsonValue> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a key in double quotes"));
        }
        let start = self.at;
        let escaped = self.string()?;
        let key =
            JsonValue { kind: JsonKind::String, escaped, start: start as u32, end: self.at as u32 };
        self.expect(b':', "expected `:`")?;
        Ok(key)
    }

    /// Passes over an object or array of any depth and shows every string value in it; keys are not values.
    fn nested(&mut self, mut show: impl FnMut(JsonValue)) -> Read<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            // Here a value begins.
            match self.peek() {
                Some(b'{') => {
                    self.at += 1;
                    if !self.take(b'}') {
                        open.push(b'}');
                        self.key()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    if !self.take(b']') {
                        open.push(b']');
                        continue;
                    }
                }
                Some(b'"') => {
                    let start = self.at as u32;
                    let escaped = self.string()?;
                    show(JsonValue { kind: JsonKind::String, escaped, start, end: self.at as u32 });
                }
                Some(first) => {
                    self.scalar(first)?;
                }
                None => return Err(self.error("the text ends inside a value")),
            }
            // Here a value has ended.
            loop {
                let Some(&close) = open.last() else { return Ok(()) };
                if self.take(b',') {
                    if close == b'}' {
                        self.key()?;
                    }
                    break;
                }
                if !self.take(close) {
                    let what = match (self.peek(), close) {
                        (None, _) => "the text ends inside a value",
                        (_, b'}') => "expected `,` or `}`",
                        _ => "expected `,` or `]`",
                    };
                    return Err(self.error(what));
                }
                open.pop();
            }
        }
    }

    /// Passes over a string; tells whether it has escapes.
    fn string(&mut self) -> Read<bool> {
        let mut escaped = false;
        let mut from = self.at + 1;
        loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', &self.bytes[from..]) else {
                return Err(self.error("the string has no end"));
            };
            let run = &self.bytes[from..from + found];
            if run.iter().fold(u8::MAX, |least, byte| least.min(*byte)) < 0x20 {
                let control = run.iter().position(|byte| *byte < 0x20).unwrap_or(0);
                self.at = from + control;
                return Err(self.error("a control character stands bare in a string"));
            }
            let at = from + found;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Ok(escaped);
            }
            escaped = true;
            from = at
                + match self.bytes.get(at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                    Some(b'u')
                        if self
                            .bytes
                            .get(at + 2..at + 6)
                            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) =>
                    {
                        6
                    }
                    _ => {
                        self.at = at;
                        return Err(self.error("this is not a legal escape"));
                    }
                };
        }
    }

    fn scalar(&mut self, first: u8) -> Read<JsonKind> {
        for (word, kind) in
            [("true", JsonKind::Bool), ("false", JsonKind::Bool), ("null", JsonKind::Null)]
        {
            if self.bytes[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(kind);
            }
        }
        if first == b'-' || first.is_ascii_digit() {
            return self.number();
        }
        Err(self.error("this is not a JSON value"))
    }

    fn number(&mut self) -> Read<JsonKind> {
        let wrong = "this is not a legal number";
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits(wrong)?;
        }
        if self.eat(b'.') {
            self.digits(wrong)?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits(wrong)?;
        }
        Ok(JsonKind::Number)
    }

    fn digits(&mut self, wrong: &'static str) -> Read<()> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.error(wrong)) } else { Ok(()) }
    }

    /// Steps over `byte` if it is right here.
    fn eat(&mut self, byte: u8) -> bool {
        let here = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(here);
        here
    }

    /// Steps over white space and `byte`, if that is what comes.
    fn take(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte);
        self.at += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Read<()> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.error(if self.at >= self.bytes.len() { "the text ends too early" } else { what }))
    }

    fn error(&self, what: &'static str) -> JsonError {
        JsonError { at: self.at, what }
    }
}

/// Writes `text` as a JSON string.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16 + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| IS_ESCAPED[usize::from(byte)]) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte if byte < b' ' => {
                use std::fmt::Write;
                let _ = write!(out, "\\u{byte:04x}");
            }
            byte => out.extend(['\\', char::from(byte)]),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
    out
}

/// The bytes that do not stand for themselves in a JSON string.
const IS_ESCAPED: [bool; 256] = {
    let mut is_escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        is_escaped[byte] = true;
        byte += 1;
    }
    is_escaped[b'"' as usize] = true;
    is_escaped[b'\\' as usize] = true;
    is_escaped
};

/// The length of a text as [`quote`] writes it.
pub fn quoted_len(text: &str) -> usize {
    let escape = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..b' ' => 5,
        _ => 0,
    };
    text.len() + 2 + text.bytes().map(escape).sum::<usize>()
}

/// Finds every string value in `source`, at any depth and in order; keys are not values.
///
/// Answers with `None` if `source` is not one object.
pub fn strings_of_object(source: &str) -> Option<Vec<JsonValue>> {
    let mut cursor = JsonCursor::new(source);
    if cursor.peek() != Some(b'{') {
        return None;
    }
    let node = cursor.node().ok()?;
    cursor.end().ok()?;
    Some(node.strings(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<JsonKind, JsonError> {
        let mut cursor = JsonCursor::new(source);
        let value = cursor.value()?;
        cursor.end()?;
        Ok(value.kind)
    }

    #[test]
    fn takes_what_json_takes() {
        for good in [
            "{}",
            "[]",
            " [1, -0.5e+3 ,true,null , \"a\\u00e9\\\"\" ] ",
            "{\"a\":{\"b\":[{}]}}",
            "0",
            "\"\"",
            "[[],[[]],{\"a\":[]}]",
            "1e5",
            "-1",
            "{\"a\":1,\"a\":2}",
        ] {
            assert!(read(good).is_ok(), "{good}: {:?}", read(good));
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "1.",
            "-",
            "+1",
            "nul",
            "\"a",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "[1 2]",
            "{\"a\":1,}",
            "[]]",
            "'a'",
            "1e",
            "[}",
            "{]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(read(&deep), Ok(JsonKind::Array));
        assert!(read(&deep[1..]).is_err());
        // One pass finds the strings: a pass for each level would take minutes.
        let arguments =
            format!(r#"{{"a":{}"b"{},"c":"d"}}"#, "[".repeat(500_000), "]".repeat(500_000));
        let found = strings_of_object(&arguments).unwrap();
        assert_eq!(
            found.iter().map(|value| value.str(&arguments).unwrap()).collect::<Vec<_>>(),
            ["b", "d"]
        );
    }

    #[test]
    fn a_doubled_key_counts_once_the_last() {
        let source = r#"{"a":1,"\u0061":"x"}"#;
        let node = JsonCursor::new(source).node().unwrap();
        assert!(node.get(source, "a").unwrap().is(source, "x"));
    }

    #[test]
    fn strings_are_found_at_any_depth_in_order() {
        let source = r#"{"k":"1","o":{"x":["2",{"y":"3"}],"n":4},"z":"5"}"#;
        let found: Vec<_> = strings_of_object(source)
            .unwrap()
            .iter()
            .map(|value| value.str(source).unwrap().into_owned())
            .collect();
        assert_eq!(found, ["1", "2", "3", "5"]);
        assert!(strings_of_object("[1]").is_none());
        assert!(strings_of_object("{\"a\":").is_none());
    }
}
