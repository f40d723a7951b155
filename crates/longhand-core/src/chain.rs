//! The hash chain that says which conversation a message belongs to.

use blake3::Hasher;

use crate::json::Cursor;
use crate::{Message, Part, Text};

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
                        raw(&mut hasher, &result.raw);
                    }
                }
                _ => has_media = true,
            }
        }
        if has_media {
            raw(&mut hasher, &message.raw);
        }
        Self(half(&hasher))
    }
}

/// All words in one: a client may cut them into parts differently.
fn words(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).map(Text::decode).collect()
}

/// A mark that clients move from message to message to say where a cache entry ends.
const CACHE_MARK: &str = "\"cache_control\"";

/// Hashes JSON as it was received, but for commas, white space between tokens, and cache marks.
fn raw(hasher: &mut Hasher, raw: &Text) {
    let source = raw.raw();
    let mut cursor = Cursor::new(source);
    while let Some(byte) = cursor.peek() {
        let start = cursor.position();
        match byte {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => cursor.advance(),
            // What is not JSON is hashed as it is.
            _ if cursor.value().is_err() => {
                field(hasher, b'x', &source.as_bytes()[start..]);
                return;
            }
            _ => {}
        }
        let token = &source[start..cursor.position()];
        if token == CACHE_MARK && cursor.peek() == Some(b':') {
            cursor.advance();
            let _ = cursor.value();
        } else if token != "," {
            field(hasher, b'x', token.as_bytes());
        }
    }
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
