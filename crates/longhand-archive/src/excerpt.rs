//! A text stored as places in the message it was taken from.
//!
//! What search sees of a message is nearly always inside the message, perhaps behind JSON escapes.
//! Pointing at it instead of storing it again halves the archive.

use longhand_core::cut;
use memchr::memmem;

use crate::number::{push_number, take_number};

/// Text that is not in the message: a length, then that many bytes.
const LITERAL: u8 = 0;
/// A place in the message: a start and a length.
const RAW: u8 = 1;
/// A place in the message without its escapes: a start and a length.
const UNESCAPED: u8 = 2;

/// Shorter copies are not worth pointing at.
const COPY_BYTES_MIN: usize = 16;
/// A text so unlike the message is stored as it is.
const MISSES_MAX: usize = 64;

/// Describes `text` by what `raw` has of it.
pub(crate) fn encode(text: &str, raw: &str) -> Vec<u8> {
    let unescaped = unescape(raw);
    let sources = match &unescaped {
        Some(unescaped) => vec![(UNESCAPED, unescaped.as_str()), (RAW, raw)],
        None => vec![(RAW, raw)],
    };
    let mut excerpt = Vec::new();
    let mut literal_from = 0;
    let mut at = 0;
    let mut cursor = 0;
    let mut misses = 0;
    while at < text.len() && misses < MISSES_MAX {
        if let Some((kind, start, length)) = longest_copy(&text[at..], &sources, cursor) {
            push_literal(&mut excerpt, &text[literal_from..at]);
            excerpt.push(kind);
            push_number(&mut excerpt, start as u64);
            push_number(&mut excerpt, length as u64);
            at += length;
            literal_from = at;
            cursor = start + length;
        } else {
            misses += 1;
            at += word_length(&text[at..]);
        }
    }
    push_literal(&mut excerpt, &text[literal_from..]);
    excerpt
}

/// Returns the text; `None` if the excerpt does not belong to this message.
pub(crate) fn decode(mut excerpt: &[u8], raw: &str) -> Option<String> {
    let mut unescaped = None;
    let mut text = String::new();
    while let Some((&kind, rest)) = excerpt.split_first() {
        excerpt = rest;
        let first = take_place(&mut excerpt)?;
        if kind == LITERAL {
            let (literal, rest) = excerpt.split_at_checked(first)?;
            text.push_str(str::from_utf8(literal).ok()?);
            excerpt = rest;
            continue;
        }
        let end = first.checked_add(take_place(&mut excerpt)?)?;
        let source = match kind {
            RAW => raw,
            UNESCAPED => unescaped.get_or_insert_with(|| unescape(raw)).as_deref().unwrap_or(raw),
            _ => return None,
        };
        text.push_str(source.get(first..end)?);
    }
    Some(text)
}

/// Finds the source that goes on as the text does for longest: its kind, the place, the length.
fn longest_copy(text: &str, sources: &[(u8, &str)], cursor: usize) -> Option<(u8, usize, usize)> {
    let probe = text.as_bytes().get(..COPY_BYTES_MIN)?;
    let copies = sources.iter().filter_map(|&(kind, source)| {
        let source = source.as_bytes();
        let later = source.get(cursor..).and_then(|rest| memmem::find(rest, probe));
        let start = later.map(|at| cursor + at).or_else(|| memmem::find(source, probe))?;
        Some((kind, start, cut::head(text, common(text.as_bytes(), &source[start..])).len()))
    });
    copies.max_by_key(|(_, _, length)| *length)
}

/// How many bytes are the same at the beginning of both.
fn common(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for piece in [64, 1] {
        let pieces = one[same..].chunks_exact(piece).zip(other[same..].chunks_exact(piece));
        same += pieces.take_while(|(one, other)| one == other).count() * piece;
    }
    same
}

/// The length of the first word and the space after it.
fn word_length(text: &str) -> usize {
    let space = text.find(char::is_whitespace).unwrap_or(text.len());
    let after = &text[space..];
    text.len() - after.trim_start().len()
}

fn push_literal(excerpt: &mut Vec<u8>, text: &str) {
    if !text.is_empty() {
        excerpt.push(LITERAL);
        push_number(excerpt, text.len() as u64);
        excerpt.extend_from_slice(text.as_bytes());
    }
}

fn take_place(excerpt: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_number(excerpt)?).ok()
}

/// Resolves the escapes of JSON wherever they stand; `None` if there are none.
///
/// Part of the format: how it treats what is no escape must not change either.
fn unescape(raw: &str) -> Option<String> {
    let mut at = memchr::memchr(b'\\', raw.as_bytes())?;
    let mut text = String::with_capacity(raw.len());
    text.push_str(&raw[..at]);
    loop {
        let rest = &raw[at..];
        let (letter, length) = escape(rest.as_bytes()).unwrap_or(('\\', 1));
        text.push(letter);
        let rest = &rest[length..];
        let plain = memchr::memchr(b'\\', rest.as_bytes());
        text.push_str(&rest[..plain.unwrap_or(rest.len())]);
        match plain {
            Some(plain) => at += length + plain,
            None => return Some(text),
        }
    }
}

/// Reads the escape at the beginning of `rest`: what it stands for, and its length.
fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let letter = match rest.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let high = unit(rest)?;
            if let Some(letter) = char::from_u32(high) {
                return Some((letter, 6));
            }
            let low = rest.get(6..).and_then(unit).filter(|low| (0xdc00..0xe000).contains(low))?;
            let code = 0x1_0000 + ((high.checked_sub(0xd800)? & 0x3ff) << 10) + (low - 0xdc00);
            return Some((char::from_u32(code)?, 12));
        }
        _ => return None,
    };
    Some((letter, 2))
}

/// Reads `\uXXXX`.
fn unit(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(raw: &str, text: &str, length_max: usize) {
        let excerpt = encode(text, raw);
        assert_eq!(decode(&excerpt, raw).as_deref(), Some(text), "{raw}");
        assert!(excerpt.len() <= length_max, "{} bytes for {text}", excerpt.len());
    }

    #[test]
    fn a_text_inside_its_message_takes_a_few_bytes() {
        let raw = r#"{"role":"user","content":"line one of it\nline \"two\" of it \u6570\ud83d\ude80 end"}"#;
        check(raw, "line one of it\nline \"two\" of it 数🚀 end", 4);
        check(raw, raw, 4);
        check("C:\\new\\table is a path here", "C:\\new\\table is a path here", 4);
        check(raw, "", 0);
    }

    #[test]
    fn joined_parts_keep_what_joins_them() {
        let raw = r#"[{"text":"the first part of it"},{"text":"the second part of it"}]"#;
        check(raw, "the first part of it\nthe second part of it", 12);
    }

    #[test]
    fn a_text_from_elsewhere_is_stored() {
        check("{}", "quite another text, longer than the probe", 43);
        let other = "word ".repeat(10_000);
        check("{}", &other, other.len() + 4);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            &[9, 0][..],
            &[LITERAL, 5, b'a'],
            &[RAW, 0, 200],
            &[RAW],
            &[LITERAL, 1, 0xff],
            &[RAW, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(decode(bad, "raw"), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_any_message_comes_back(
            raw in r#"([a-z😀0-9 "/]|\\[nu"\\]|\\u[0-9d][0-9a-f]{3}){0,60}"#,
            text in r#"([a-z😀0-9 "/]|\\[nu"\\]|\\u[0-9d][0-9a-f]{3}){0,60}"#,
        ) {
            prop_assert_eq!(decode(&encode(&text, &raw), &raw), Some(text.clone()));
            let unescaped = unescape(&raw).unwrap_or_default();
            let joined = format!("{text}{raw}\n{unescaped}{text}");
            prop_assert_eq!(decode(&encode(&joined, &raw), &raw), Some(joined));
        }
    }
}
