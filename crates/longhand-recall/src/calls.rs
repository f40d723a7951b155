//! Calls as search reads them: their arguments are JSON, and people look for what they say.

use std::borrow::Cow;

use longhand_core::json::{JsonCursor, JsonError, JsonKind};
use memchr::memmem;

/// The longest name of a tool.
const NAME_BYTES_MAX: usize = 128;
/// What is nested deeper stays as it is.
const DEPTH_MAX: usize = 32;
/// What lies between a name and its arguments.
const BETWEEN: &str = " {";

/// A text with the arguments of its calls as what they say: strings without escapes, a line for each field.
///
/// A call is a line that begins with a name, which a JSON object follows up to the end of a line. Of other JSON nothing
/// is changed: a result may be looked for by its signs.
///
/// The index keeps the words of this, so a change here needs another version of the index.
pub fn readable(text: &str) -> Cow<'_, str> {
    let mut said: Option<String> = None;
    let mut taken = 0;
    let mut from = 0;
    while let Some(found) = memmem::find(&text.as_bytes()[from..], BETWEEN.as_bytes()) {
        let at = from + found;
        let start = at + BETWEEN.len() - 1;
        from = start;
        if !is_after_name(&text.as_bytes()[taken..at]) {
            continue;
        }
        let Some((end, arguments)) = arguments(text, start) else { continue };
        let said = said.get_or_insert_with(|| String::with_capacity(text.len()));
        said.push_str(&text[taken..start]);
        said.push_str(&arguments);
        (taken, from) = (end, end);
    }
    match said {
        None => Cow::Borrowed(text),
        Some(mut said) => {
            said.push_str(&text[taken..]);
            Cow::Owned(said)
        }
    }
}

/// Whether the last line of a text may be what a tool is called. A line that begins so is no part of a JSON value, so
/// no value is looked through again for each of its lines.
fn is_after_name(text: &[u8]) -> bool {
    let end = &text[text.len().saturating_sub(NAME_BYTES_MAX + 1)..];
    let line = memchr::memrchr(b'\n', end).map_or(end, |newline| &end[newline + 1..]);
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(byte);
    (1..=NAME_BYTES_MAX).contains(&line.len()) && line.iter().all(is_letter)
}

/// The arguments that begin in a place: where they end, and what they say.
fn arguments(text: &str, start: usize) -> Option<(usize, String)> {
    let mut cursor = JsonCursor::at(text, start);
    let mut said = String::new();
    fields(&mut cursor, text, 0, &mut said).ok()?;
    let end = cursor.position();
    let is_end = matches!(text.as_bytes().get(end), None | Some(b'\n'));
    is_end.then_some((end, said))
}

fn fields(
    cursor: &mut JsonCursor,
    text: &str,
    depth: usize,
    said: &mut String,
) -> Result<(), JsonError> {
    let mut is_first = true;
    cursor.fields(|cursor, key| {
        said.push_str(if std::mem::take(&mut is_first) { "" } else { "\n" });
        said.push_str(&key.str(text).unwrap_or_default());
        said.push_str(": ");
        value(cursor, text, depth + 1, said)
    })
}

fn value(
    cursor: &mut JsonCursor,
    text: &str,
    depth: usize,
    said: &mut String,
) -> Result<(), JsonError> {
    match cursor.peek() {
        Some(b'{') if depth < DEPTH_MAX => return fields(cursor, text, depth, said),
        Some(b'[') if depth < DEPTH_MAX => {
            let mut is_first = true;
            return cursor.elements(|cursor| {
                said.push_str(if std::mem::take(&mut is_first) { "" } else { " " });
                value(cursor, text, depth + 1, said)
            });
        }
        _ => {}
    }
    let found = cursor.value()?;
    match found.kind {
        JsonKind::String => said.push_str(&found.str(text).unwrap_or_default()),
        _ => said.push_str(&text[found.span()]),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arguments_are_read_as_what_they_say() {
        for (text, expected) in [
            (
                r#"Edit {"file_path":"/src/a.py","new_string":"\nimport os\n\"x\" → \u00e9"}"#,
                "Edit file_path: /src/a.py\nnew_string: \nimport os\n\"x\" → é",
            ),
            (
                "looking\nshell { \"command\": [\"bash\", \"-lc\", \"rg \\\"a b\\\"\"] , \"wait\":5}\ndone",
                "looking\nshell command: bash -lc rg \"a b\"\nwait: 5\ndone",
            ),
            (r#"mcp.db:run/it {"q":{"a":[],"b":{"c":null}}}"#, "mcp.db:run/it q: a: \nb: c: null"),
            (
                r#"one {"a":"\t1"}
two {"b":"C:\\new\\table"}"#,
                "one a: \t1\ntwo b: C:\\new\\table",
            ),
            ("list {}", "list "),
        ] {
            assert_eq!(readable(text), expected);
        }
    }

    #[test]
    fn what_is_no_call_stays_as_it_is() {
        for text in [
            "",
            " {",
            "C:\\new\\table",
            r#"{"a":"\n"}"#,
            r#"the call {"a":"\n"}"#,
            r#"call {"a":"\n"} and more"#,
            r#"call {"a":"\n""#,
            r#"call {"a":\n}"#,
            r#"call ["\n"]"#,
            r#"call  {"a":"\n"}"#,
            "fn main() {\n}",
            "else {\n    x\n}",
        ] {
            assert!(matches!(readable(text), Cow::Borrowed(_)), "{text}");
        }
        let deep = format!("call {}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
        assert!(readable(&deep).len() > 400_000);
    }

    proptest! {
        #[test]
        fn a_call_says_what_its_strings_say(
            before in "[a-z \n]{0,12}",
            strings in prop::collection::vec(".{0,12}", 1..4),
            after in "(\n[a-z {\"]{0,12})?",
        ) {
            let said = |string: &String| escaped(string);
            let list: Vec<String> = strings.iter().map(said).collect();
            let text = format!("{before}\ntool {{\"list\":[{}]}}{after}", list.join(","));
            let found = readable(&text).into_owned();
            let expected = format!("{before}\ntool list: {}{after}", strings.join(" "));
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_text_is_read_without_panic(text in r#"([a-z]|[ \n{}\[\]:,"\\]|é|n \{"a":){0,60}"#) {
            let _ = readable(&text);
        }
    }

    /// A string as JSON, with an escape wherever one is possible.
    fn escaped(text: &str) -> String {
        let mut out = String::from("\"");
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04x}"));
        }
        out + "\""
    }
}
