//! What a message means, whatever way it is written.

use blake3::Hasher;
use longhand_core::{Message, Part, Role};
use serde_json::Value;

/// A place in the chain of hashes: the meaning of a message and of all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link(u128);

impl Link {
    /// Where chains begin; those of different owners or names never meet.
    pub(crate) fn root(owner: &[&str]) -> Self {
        let mut hasher = Hasher::new();
        for piece in owner {
            field(&mut hasher, b'r', piece.as_bytes());
        }
        Self::of(&hasher)
    }

    /// The link of a message after this one; `None` if it says nothing, as thinking alone does.
    pub(crate) fn next(self, message: &Message) -> Option<Self> {
        let mut hasher = Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        meaning(message, &mut hasher).then(|| Self::of(&hasher))
    }

    /// Something of a name in a place of its own.
    pub(crate) fn named(self, name: &str) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&self.0.to_le_bytes());
        field(&mut hasher, b'N', name.as_bytes());
        Self::of(&hasher)
    }

    /// The whole of it.
    pub(crate) fn name(self) -> String {
        format!("{:032x}", self.0)
    }

    /// A short name.
    pub(crate) fn short(self) -> String {
        format!("{:016x}", (self.0 >> 64) as u64)
    }

    fn of(hasher: &Hasher) -> Self {
        let mut half = [0; 16];
        hasher.finalize_xof().fill(&mut half);
        Self(u128::from_le_bytes(half))
    }
}

/// Hashes role, text, calls and results; says whether there was any of it.
fn meaning(message: &Message, hasher: &mut Hasher) -> bool {
    field(hasher, b'm', message.role.as_str().as_bytes());
    let text = words(&message.parts);
    field(hasher, b't', text.trim().as_bytes());
    let mut says = !text.trim().is_empty() || message.role == Role::User;
    for part in &message.parts {
        match part {
            Part::Text(_) | Part::FixedText(_) | Part::Thinking(_) => continue,
            Part::Call(call) => {
                field(hasher, b'c', call.id.decode().trim().as_bytes());
                field(hasher, b'n', call.name.decode().as_bytes());
                let arguments = call.arguments.decode();
                match serde_json::from_str(&arguments) {
                    Ok(value) if !call.freeform => json(hasher, &value, false),
                    _ => field(hasher, b'a', arguments.trim().as_bytes()),
                }
            }
            Part::Result(result) => {
                field(hasher, b'o', result.call.decode().trim().as_bytes());
                field(hasher, b't', words(&result.content).trim().as_bytes());
                if result.content.iter().any(|part| part.text().is_none()) {
                    raw(hasher, result.raw.raw());
                }
            }
            Part::Other(other) => raw(hasher, &other.raw.decode()),
            // A client sends a recording of the model's back as no more than its id.
            Part::Media(_) if message.role == Role::Assistant => continue,
            Part::Image(_) | Part::Media(_) | Part::File(_) => raw(hasher, message.raw.raw()),
        }
        says = true;
    }
    says
}

/// All text of some parts in one: a client may cut it differently.
fn words(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::FixedText(text) => Some(text.decode()),
        _ => None,
    });
    texts.collect()
}

/// Hashes a piece so that no two lists of pieces are the same bytes.
fn field(hasher: &mut Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// Hashes JSON that has no meaning to us but its own.
fn raw(hasher: &mut Hasher, raw: &str) {
    match serde_json::from_str(raw) {
        Ok(value) => json(hasher, &value, true),
        Err(_) => field(hasher, b'x', raw.trim().as_bytes()),
    }
}

/// Hashes a value: not the order of its keys, nor how its numbers are written.
///
/// Values come from a parser that limits their depth.
fn json(hasher: &mut Hasher, value: &Value, is_block: bool) {
    match value {
        Value::Null => field(hasher, b'0', b""),
        Value::Bool(own) => field(hasher, b'b', &[u8::from(*own)]),
        Value::Number(own) => match (own.as_i64(), own.as_u64(), own.as_f64()) {
            (Some(whole), ..) => field(hasher, b'i', &whole.to_le_bytes()),
            (_, Some(whole), _) => field(hasher, b'u', &whole.to_le_bytes()),
            (_, _, Some(float)) if float.fract() == 0.0 && float.abs() < 1e15 => {
                field(hasher, b'i', &(float as i64).to_le_bytes());
            }
            (_, _, float) => field(hasher, b'f', &float.unwrap_or_default().to_le_bytes()),
        },
        Value::String(own) => field(hasher, b's', own.as_bytes()),
        Value::Array(own) => {
            field(hasher, b'l', &(own.len() as u64).to_le_bytes());
            for value in own {
                json(hasher, value, is_block);
            }
        }
        Value::Object(own) => {
            let mut fields: Vec<_> =
                own.iter().filter(|(key, _)| !is_block || *key != "cache_control").collect();
            fields.sort_by_key(|(key, _)| *key);
            field(hasher, b'd', &(fields.len() as u64).to_le_bytes());
            for (key, value) in fields {
                field(hasher, b'k', key.as_bytes());
                json(hasher, value, is_block);
            }
        }
    }
}
