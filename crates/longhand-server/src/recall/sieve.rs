//! What a client sees of streams that are one answer to it.

use hyper::body::Bytes;
use longhand_dialect::{Dialect, Reply};

use super::frames::Frame;
use super::{anthropic, chat, responses};

/// Takes our calls out of a stream, and joins answers that follow one another.
///
/// As long as there is nothing to take out, every event passes as it came.
pub(super) trait Sieve: Send {
    /// Takes an event and gives what is seen of it.
    fn take(&mut self, frame: Frame) -> Vec<Bytes>;

    /// Whether the answer that is read now has a call of ours.
    fn hides(&self) -> bool;

    /// Lets another answer follow in the place of this one's end.
    fn go_on(&mut self, reply: &Reply);

    /// Gives what was held back of the end.
    fn end(&mut self) -> Vec<Bytes>;
}

/// The sieve of a format.
pub(super) fn sieve(dialect: Dialect) -> Box<dyn Sieve> {
    match dialect {
        Dialect::Chat | Dialect::Pi => Box::new(chat::Chunks::default()),
        Dialect::Responses | Dialect::Codex => Box::new(responses::Items::default()),
        Dialect::Anthropic | Dialect::ClaudeCode => Box::new(anthropic::Blocks::default()),
    }
}

#[cfg(test)]
mod tests;
