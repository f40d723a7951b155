//! The word that a request for JSON must have in one of its messages.

use crate::fold::is_fold;
use crate::{Message, Part, Path};

/// A larger message is kept for its word only if no other has it, since a kept message is never edited.
const BYTES_MAX: usize = 4_000;

/// Whether a message has the word JSON in it, in small letters or capitals.
pub fn says_json(message: &Message) -> bool {
    message.parts.iter().any(in_part)
}

fn in_part(part: &Part) -> bool {
    match part {
        Part::Text(text) | Part::FixedText(text) => in_text(text.raw()),
        Part::Result(result) => result.content.iter().any(in_part),
        _ => false,
    }
}

fn in_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr2_iter(b'j', b'J', bytes)
        .any(|at| bytes[at..].get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"json")))
}

/// The message that stays so that the word is in the window.
///
/// It is the oldest one, because later messages may be absent on another path of the ledger.
pub(crate) fn json_carrier(path: &Path, is_gone: impl Fn(usize) -> bool) -> Option<usize> {
    let carriers = (path.lead..path.messages.len()).filter(|at| {
        !is_gone(*at) && !is_fold(&path.messages[*at]) && says_json(&path.messages[*at])
    });
    let bytes = |at: &usize| path.messages[*at].raw.raw_len();
    carriers.clone().find(|at| bytes(at) <= BYTES_MAX).or_else(|| carriers.min_by_key(bytes))
}
