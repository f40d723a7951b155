//! Bytes of JSON without what nobody keeps: long lists of probabilities.
//!
//! With twenty alternatives for each token an answer has a hundred times the bytes of its words, and one
//! event may list all of them again.

use std::mem;

use memchr::{memchr, memchr2};

/// The key whose long values are left out.
const KEY: &[u8] = b"logprobs";

/// From here on a buffer looks at what it takes; and the longest list that stays.
const LOOK_BYTES: usize = 64 << 10;
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Takes bytes of one JSON value.
#[derive(Debug, Default)]
pub(crate) struct LeanBuffer {
    bytes: Vec<u8>,
    /// Whether it leaves anything out.
    is_lean: bool,
    pruner: Option<Pruner>,
}

impl LeanBuffer {
    /// A buffer that leaves out long lists of probabilities.
    pub(crate) fn lean() -> Self {
        Self { is_lean: true, ..Self::default() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if let Some(pruner) = &mut self.pruner {
            return pruner.push(bytes, &mut self.bytes);
        }
        self.bytes.extend_from_slice(bytes);
        if self.is_lean && self.bytes.len() > LOOK_BYTES {
            let came = mem::take(&mut self.bytes);
            self.pruner.get_or_insert_default().push(&came, &mut self.bytes);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.pruner.as_ref().map_or(0, |pruner| pruner.held.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Holds these bytes alone.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.pruner = None;
        self.bytes = bytes.to_vec();
    }

    /// Gives what came, and begins again.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if let Some(pruner) = self.pruner.take() {
            self.bytes.extend_from_slice(&pruner.held);
        }
        mem::take(&mut self.bytes)
    }
}

/// Leaves out long lists, however the bytes are cut.
#[derive(Debug, Default)]
struct Pruner {
    place: LexPlace,
    /// How much of the key a string has been so far; `None` if it is another one.
    matched: Option<usize>,
    /// The depth of the value that is held or left out; 0 if there is none.
    depth: usize,
    is_left_out: bool,
    /// A value that may still be short.
    held: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum LexPlace {
    /// Between strings.
    #[default]
    Outside,
    InString,
    /// After a backslash.
    Escaped,
    /// After a string that is the key.
    AfterKey,
    /// After its colon.
    BeforeValue,
}

impl Pruner {
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(first) = rest.first().copied() {
            let taken = match self.place {
                LexPlace::InString => self.string(rest),
                LexPlace::Escaped => {
                    self.place = LexPlace::InString;
                    1
                }
                _ => self.outside(first, rest),
            };
            self.put(&rest[..taken], out);
            rest = &rest[taken..];
        }
    }

    /// Reads on in a string, up to its end or a backslash; gives how many bytes that are.
    fn string(&mut self, rest: &[u8]) -> usize {
        let end = memchr2(b'"', b'\\', rest);
        let said = &rest[..end.unwrap_or(rest.len())];
        self.matched = self.matched.and_then(|matched| {
            let next = KEY.get(matched..)?.strip_prefix(said)?;
            Some(KEY.len() - next.len())
        });
        let Some(end) = end else { return rest.len() };
        if rest[end] == b'\\' {
            self.matched = None;
            self.place = LexPlace::Escaped;
        } else {
            let is_key = self.matched.take() == Some(KEY.len()) && self.depth == 0;
            self.place = if is_key { LexPlace::AfterKey } else { LexPlace::Outside };
        }
        end + 1
    }

    fn outside(&mut self, first: u8, rest: &[u8]) -> usize {
        let before = mem::replace(&mut self.place, LexPlace::Outside);
        match first {
            b'"' => {
                self.place = LexPlace::InString;
                self.matched = Some(0);
            }
            b' ' | b'\t' | b'\n' | b'\r' => self.place = before,
            b':' if before == LexPlace::AfterKey => self.place = LexPlace::BeforeValue,
            b'[' | b'{' if self.depth > 0 || before == LexPlace::BeforeValue => self.depth += 1,
            _ if self.depth == 0 => {
                // Nothing else begins here.
                return memchr(b'"', rest).unwrap_or(rest.len());
            }
            _ => {}
        }
        1
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.depth == 0 {
            return out.extend_from_slice(bytes);
        }
        if !self.is_left_out {
            self.held.extend_from_slice(bytes);
            if self.held.len() > VALUE_BYTES_MAX {
                self.is_left_out = true;
                out.extend_from_slice(if self.held[0] == b'[' { b"[]" } else { b"null" });
                self.held = Vec::new();
            }
        }
        let is_closing = self.place == LexPlace::Outside && matches!(bytes, b"]" | b"}");
        if is_closing {
            self.depth -= 1;
        }
        if self.depth == 0 {
            self.is_left_out = false;
            out.append(&mut self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pruned(text: &str, size: usize) -> String {
        let (mut pruner, mut out) = (Pruner::default(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            pruner.push(piece, &mut out);
        }
        out.extend_from_slice(&pruner.held);
        String::from_utf8(out).unwrap()
    }

    /// A list that is longer than what stays.
    fn long() -> Value {
        let token = json!({"token": "a\"]\\", "logprob": -0.1, "top_logprobs": [{"token": "}"}]});
        json!(vec![token; 2_000])
    }

    #[test]
    fn long_lists_go_and_all_else_stays() {
        let text = "say \"logprobs\": [1], and \\ too";
        for (given, left) in [
            (
                json!({"a": text, "logprobs": long(), "b": [text]}),
                json!({"a": text, "logprobs": [], "b": [text]}),
            ),
            (
                json!({"logprobs": {"content": long(), "refusal": null}, "b": 1}),
                json!({"logprobs": null, "b": 1}),
            ),
            (
                json!([{"x": [{"logprobs": long()}]}, text]),
                json!([{"x": [{"logprobs": []}]}, text]),
            ),
            (
                json!({"logprobs": [{"token": "a"}], "b": text}),
                json!({"logprobs": [{"token": "a"}], "b": text}),
            ),
            (json!({"logprobs": null, "b": long()}), json!({"logprobs": null, "b": long()})),
            (
                json!({"other": long(), "logprob": long()}),
                json!({"other": long(), "logprob": long()}),
            ),
            (json!({"a": "logprobs", "b": long()}), json!({"a": "logprobs", "b": long()})),
        ] {
            for text in [given.to_string(), format!("{given:#}")] {
                for size in [1, 7, usize::MAX] {
                    let found: Value = serde_json::from_str(&pruned(&text, size)).unwrap();
                    assert!(found == left, "{size}");
                }
            }
        }
    }

    #[test]
    fn a_buffer_holds_what_is_left_and_what_is_no_json() {
        let token = json!({"token": "a", "logprob": -0.1}).to_string();
        let mut buffer = LeanBuffer::lean();
        buffer.push(b"data: {\"text\": \"one\", \"logprobs\" : [");
        for _ in 0..100_000 {
            buffer.push(token.as_bytes());
            buffer.push(b",");
            assert!(buffer.len() < 2 * LOOK_BYTES + 100);
        }
        buffer.push(format!("{token}], \"more\": \"two\"}}").as_bytes());
        let left = String::from_utf8(buffer.take()).unwrap();
        assert_eq!(left, r#"data: {"text": "one", "logprobs" : [], "more": "two"}"#);
        let wild = "\"logprobs\": \"[{] }\"".repeat(9_000);
        buffer.push(wild.as_bytes());
        assert_eq!(buffer.take(), wild.as_bytes());
    }

    proptest! {
        #[test]
        fn where_it_is_cut_does_not_matter(
            text in r#"(\{|\}|\[|\]|"|\\|:|,| |logprobs|"logprobs": ?\[|a){0,60}"#,
            size in 1usize..9,
        ) {
            prop_assert_eq!(pruned(&text, size), pruned(&text, usize::MAX));
            prop_assert_eq!(pruned(&text, size), text);
        }
    }
}
