//! Whether two forms of a message call their tools with the same arguments.

use blake3::Hasher;

use crate::chain::{DEPTH_MAX, field, half, scalar};
use crate::json::{JsonCursor, JsonError};
use crate::{Message, Text, ToolCall};

/// What the calls of a message ask for: a hash of each value, with the keys that lead to it.
///
/// Only calls that have an id: the arguments of others are part of what the message means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments(Vec<u128>);

impl Arguments {
    /// The arguments of a message's calls.
    pub fn of(message: &Message) -> Self {
        let mut values = Vec::new();
        for call in message.calls().filter(|call| !call.id.is_blank()) {
            let mut hasher = Hasher::new();
            field(&mut hasher, b'c', call.id.decode().trim().as_bytes());
            collect(&call.arguments, half(&hasher), &mut values);
        }
        values.sort_unstable();
        values.dedup();
        Self(values)
    }

    /// Whether they are the same but for keys that one of the two has and the other has not: clients add
    /// keys with their default values when they send a call back.
    pub fn agree(&self, other: &Self) -> bool {
        let (less, more) =
            if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        less.0.iter().all(|value| more.0.binary_search(value).is_ok())
    }

    /// Hashes them.
    pub(crate) fn hash(&self, hasher: &mut Hasher) {
        for value in &self.0 {
            hasher.update(&value.to_le_bytes());
        }
    }
}

/// What a call asks for, whatever its id: the same tool with the same arguments, as JSON values.
pub(crate) fn asked(call: &ToolCall) -> u128 {
    let mut values = Vec::new();
    collect(&call.arguments, 0, &mut values);
    values.sort_unstable();
    let mut hasher = Hasher::new();
    field(&mut hasher, b'n', call.name.decode().trim().as_bytes());
    Arguments(values).hash(&mut hasher);
    half(&hasher)
}

/// Collects the values of a JSON text; what is no JSON is one value.
fn collect(text: &Text, call: u128, values: &mut Vec<u128>) {
    let source = text.decode();
    let known = values.len();
    let mut cursor = JsonCursor::new(&source);
    if value(&mut cursor, &source, call, 0, values).and_then(|()| cursor.end()).is_err() {
        values.truncate(known);
        values.push(at(call, b'x', source.trim().as_bytes()));
    }
}

/// Collects the values below a place. An object is no value of its own: it may have any further keys.
fn value(
    cursor: &mut JsonCursor,
    source: &str,
    place: u128,
    depth: usize,
    values: &mut Vec<u128>,
) -> Result<(), JsonError> {
    match cursor.peek() {
        Some(b'{') if depth < DEPTH_MAX => cursor.fields(|cursor, key| {
            let key = key.str(source).unwrap_or_default();
            value(cursor, source, at(place, b'k', key.as_bytes()), depth + 1, values)
        }),
        Some(b'[') if depth < DEPTH_MAX => {
            let mut length = 0_u64;
            cursor.elements(|cursor| {
                let element = at(place, b'e', &length.to_le_bytes());
                length += 1;
                value(cursor, source, element, depth + 1, values)
            })?;
            values.push(at(place, b'l', &length.to_le_bytes()));
            Ok(())
        }
        _ => {
            let mut hasher = begun(place);
            scalar(&mut hasher, &cursor.value()?, source);
            values.push(half(&hasher));
            Ok(())
        }
    }
}

fn begun(place: u128) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(&place.to_le_bytes());
    hasher
}

fn at(place: u128, kind: u8, bytes: &[u8]) -> u128 {
    let mut hasher = begun(place);
    field(&mut hasher, kind, bytes);
    half(&hasher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Role};

    fn of(id: &str, arguments: &str) -> Arguments {
        let text = |text: &str| Text::from(text.to_owned());
        let call = ToolCall {
            id: text(id),
            name: text("edit"),
            arguments: text(arguments),
            freeform: false,
        };
        let raw = text("{}");
        Arguments::of(&Message::new(Role::Assistant, None, vec![Part::Call(call)], raw))
    }

    #[test]
    fn arguments_agree_if_one_has_all_of_the_other() {
        let first = of("1", r#"{"path":"a","edits":[{"old":"x","new":"y"}],"count":1}"#);
        for same in [
            r#"{"count":1.0, "edits":[{"new":"\u0079","old":"x"}],"path":"a"}"#,
            r#"{"path":"a","edits":[{"old":"x","new":"y"}],"count":1,"replace_all":false}"#,
            r#"{"path":"a","edits":[{"old":"x","new":"y","all":null}],"count":1}"#,
            r#"{"path":"a","edits":[{"old":"x","new":"y"}]}"#,
            "{}",
        ] {
            assert!(first.agree(&of("1", same)) && of("1", same).agree(&first), "{same}");
        }
        for other in [
            r#"{"path":"b","edits":[{"old":"x","new":"y"}],"count":1}"#,
            r#"{"path":"a","edits":[{"old":"x","new":"y"},{"old":"1","new":"2"}],"count":1}"#,
            r#"{"path":"a","edits":[],"count":1}"#,
            r#"{"path":"a","count":1,"replace_all":false}x"#,
            r#"{"path":"a","count":1,"other":2}"#,
            "free text",
            "",
        ] {
            assert!(!first.agree(&of("1", other)), "{other}");
        }
        assert!(of("1", "free text ").agree(&of("1", "free text")));
        assert!(!of("1", r#"{"a":1}"#).agree(&of("2", r#"{"a":1}"#)));
        // What a message means holds the arguments of a call without an id.
        assert_eq!(of("", r#"{"a":1}"#), Arguments::default());
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(of("1", &deep).agree(&of("1", &deep)));
    }
}
