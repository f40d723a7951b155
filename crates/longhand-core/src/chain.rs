//! The hash chain that says which conversation a message belongs to.

use blake3::Hasher;

use crate::json::{Cursor, JsonError};
use crate::{Message, Part, Role, Text};

/// What a message says, as a hash: role, name, words, calls by id and name, results.
///
/// Two forms of one message mean the same: clients reorder keys, add white space at the ends, move cache
/// marks, drop thinking, and add defaulted keys to the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meaning(pub u128);

/// The meaning of a message and of all messages before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub u128);

impl Link {
    /// Where the chains of an owner begin; those of two owners never meet.
    pub fn root(owner: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        field(&mut hasher, b'r', owner);
        Self(half(&hasher))
    }

    /// The link of a message that follows.
    #[must_use]
    pub fn next(self, meaning: Meaning) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        hasher.update(&meaning.0.to_le_bytes());
        Self(half(&hasher))
    }
}

impl Meaning {
    /// Hashes what a message says.
    pub fn of(message: &Message) -> Self {
        let mut hasher = Hasher::new();
        field(&mut hasher, b'm', message.role.as_str().as_bytes());
        if let Some(name) = &message.name {
            field(&mut hasher, b'N', name.decode().as_bytes());
        }
        field(&mut hasher, b't', words(&message.parts).trim().as_bytes());
        let mut has_media = false;
        for part in &message.parts {
            match part {
                Part::Text(_) | Part::FixedText(_) | Part::Thinking(_) => {}
                Part::Call(call) => {
                    field(&mut hasher, b'c', call.id.decode().trim().as_bytes());
                    field(&mut hasher, b'n', call.name.decode().as_bytes());
                    if call.id.is_blank() {
                        field(&mut hasher, b'a', call.arguments.decode().trim().as_bytes());
                    }
                }
                Part::Result(result) => {
                    field(&mut hasher, b'o', result.call.decode().trim().as_bytes());
                    field(&mut hasher, b't', words(&result.content).trim().as_bytes());
                    if !result.content.iter().all(|part| part.text().is_some()) {
                        json(&mut hasher, &result.raw);
                    }
                }
                Part::Other(other) => json(&mut hasher, &other.raw),
                // A client sends a recording of the model's back as no more than its id.
                Part::Media(_) if message.role == Role::Assistant => {}
                Part::Image(_) | Part::Media(_) | Part::File(_) => has_media = true,
            }
        }
        if has_media {
            json(&mut hasher, &message.raw);
        }
        Self(half(&hasher))
    }
}

/// All words in one: a client may cut them into parts differently.
fn words(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).map(Text::decode).collect()
}

/// A mark that clients move from message to message to say where a cache entry ends.
const CACHE_MARK: &str = "cache_control";

/// How deep JSON is looked into; what lies deeper counts as it was written.
const DEPTH_MAX: usize = 64;

/// Hashes JSON by what it says, and what is no JSON as it is.
fn json(hasher: &mut Hasher, raw: &Text) {
    let source = raw.raw();
    match value(&mut Cursor::new(source), source, 0) {
        Ok(hash) => field(hasher, b'j', &hash.to_le_bytes()),
        Err(_) => field(hasher, b'x', source.trim().as_bytes()),
    }
}

/// The hash of a value: the order of its keys, the form of its numbers and cache marks do not count.
fn value(cursor: &mut Cursor, source: &str, depth: usize) -> Result<u128, JsonError> {
    let mut hasher = Hasher::new();
    match cursor.peek() {
        Some(b'{') if depth < DEPTH_MAX => {
            let mut fields = Vec::new();
            cursor.fields(|cursor, key| {
                let hash = value(cursor, source, depth + 1)?;
                if let Some(key) = key.str(source).filter(|key| key != CACHE_MARK) {
                    fields.push((key, hash));
                }
                Ok(())
            })?;
            fields.sort_unstable();
            hasher.update(b"{");
            for (key, hash) in fields {
                field(&mut hasher, b'k', key.as_bytes());
                hasher.update(&hash.to_le_bytes());
            }
        }
        Some(b'[') if depth < DEPTH_MAX => {
            hasher.update(b"[");
            cursor.elements(|cursor| {
                hasher.update(&value(cursor, source, depth + 1)?.to_le_bytes());
                Ok(())
            })?;
        }
        _ => {
            let scalar = cursor.value()?;
            let written = &source[scalar.span()];
            match (scalar.str(source), written.parse::<f64>()) {
                (Some(text), _) => field(&mut hasher, b's', text.as_bytes()),
                (None, Ok(number)) if number.fract() == 0.0 && number.abs() < 1e15 => {
                    field(&mut hasher, b'i', &(number as i64).to_le_bytes());
                }
                _ => field(&mut hasher, b'v', written.as_bytes()),
            }
        }
    }
    Ok(half(&hasher))
}

/// Hashes a piece so that no two lists of pieces are the same bytes.
fn field(hasher: &mut Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn half(hasher: &Hasher) -> u128 {
    let mut half = [0; 16];
    hasher.finalize_xof().fill(&mut half);
    u128::from_le_bytes(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(json_text: &str) -> u128 {
        let mut hasher = Hasher::new();
        json(&mut hasher, &Text::from(json_text.to_owned()));
        half(&hasher)
    }

    #[test]
    fn json_counts_by_what_it_says() {
        let same = [
            r#"{"a":1,"b":["x",null]}"#,
            r#"{ "b": ["\u0078", null], "a": 1.0 }"#,
            r#"{"a":1,"b":["x",null],"cache_control":{"type":"ephemeral"}}"#,
        ];
        assert!(same.iter().all(|json| hash(json) == hash(same[0])));
        let others = [
            r#"{"a":2,"b":["x",null]}"#,
            r#"{"a":1,"b":[null,"x"]}"#,
            r#"{"a":"1","b":["x",null]}"#,
            r#"{"a":1,"b":["x"]}"#,
            r#"{"a":1,"b":["x",null]"#,
        ];
        assert!(others.iter().all(|json| hash(json) != hash(same[0])));
        assert_ne!(hash("9007199254740993"), hash("9007199254740992"));
    }

    #[test]
    fn deep_json_is_no_danger() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(hash(&deep), hash(&deep));
    }
}
