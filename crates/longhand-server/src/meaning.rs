//! The chain of what messages mean, for each owner.

use blake3::Hasher;
use longhand_core::{Meaning, Message, Part, Role};

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
        let next = || longhand_core::Link(self.0).next(Meaning::of(message));
        says(message).then(|| Self(next().0))
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

/// Whether a message says anything: thinking alone, or a recording that a client may send back as no more
/// than its id, does not.
fn says(message: &Message) -> bool {
    let is_said = |part: &Part| match part {
        Part::Text(text) | Part::FixedText(text) => !text.is_blank(),
        Part::Thinking(_) => false,
        Part::Media(_) => message.role != Role::Assistant,
        _ => true,
    };
    message.role == Role::User || message.parts.iter().any(is_said)
}

/// Hashes a piece so that no two lists of pieces are the same bytes.
fn field(hasher: &mut Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}
