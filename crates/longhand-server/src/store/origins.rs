//! Finding the session of a conversation whose beginning is unknown: the client dropped its oldest messages, or
//! replaced them by a summary.

use std::collections::VecDeque;

use longhand::{Owner, SessionId};
use longhand_core::{Meaning, Message, Part, Role, Text};
use rustc_hash::FxHashMap;

use longhand::driver::LiveSession;

/// How many of the newest answers may be quoted in a summary.
const RECENT_MAX: usize = 64;

/// How many answers are remembered by a hash of their meaning.
const ANSWERS_MAX: usize = 250_000;

/// Shorter answers occur in many conversations.
const WORDS_BYTES_MIN: usize = 80;

/// Longer answers are not looked for in summaries.
const QUOTE_BYTES_MAX: usize = 64 << 10;

/// Shorter ids of calls are not unique enough.
const ID_BYTES_MIN: usize = 12;

/// Finds the session that a conversation with an unknown beginning continues.
#[derive(Default)]
pub(super) struct Origins {
    answers: FxHashMap<(Owner, Meaning), SessionId>,
    /// The newest answers of sessions in words, oldest first.
    quotes: VecDeque<(Owner, SessionId, String)>,
}

/// The session that a conversation continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It has messages of this session: it is another path of it.
    Same(SessionId),
    /// It quotes this session.
    Quoted(SessionId),
}

impl Origins {
    /// Remembers an answer of a session.
    pub(super) fn remember<'m>(
        &mut self,
        session: &LiveSession,
        words: &str,
        messages: impl Iterator<Item = (&'m Message, &'m Meaning)>,
    ) {
        let words = words.trim();
        if (WORDS_BYTES_MIN..=QUOTE_BYTES_MAX).contains(&words.len()) {
            self.quotes.retain(|(_, id, _)| *id != session.id);
            self.quotes.push_back((session.owner, session.id, words.to_owned()));
            if self.quotes.len() > RECENT_MAX {
                self.quotes.pop_front();
            }
        }
        if self.answers.len() > ANSWERS_MAX {
            self.answers.clear();
        }
        let telling = messages.filter(|(message, _)| is_telling(message));
        self.answers.extend(telling.map(|(_, meaning)| ((session.owner, *meaning), session.id)));
    }

    /// The session that a new conversation of an owner continues.
    pub(super) fn of(&self, owner: Owner, messages: &[Message]) -> Option<Origin> {
        let telling = messages.iter().filter(|message| is_telling(message));
        let mut meanings = telling.map(|message| (owner, Meaning::of(message)));
        if let Some(id) = meanings.find_map(|answer| self.answers.get(&answer)) {
            return Some(Origin::Same(*id));
        }
        let opening: Vec<String> = messages.iter().take(6).map(words).collect();
        let quoted = |(of, _, quote): &&(Owner, SessionId, String)| {
            *of == owner && opening.iter().any(|words| words.contains(quote.as_str()))
        };
        self.quotes.iter().rev().find(quoted).map(|(_, id, _)| Origin::Quoted(*id))
    }
}

/// Whether an answer identifies its conversation: it is long, or has a call with a unique id.
fn is_telling(message: &Message) -> bool {
    let has_id = || message.calls().any(|call| call.id.decode().trim().len() >= ID_BYTES_MIN);
    message.role == Role::Assistant && (has_id() || words(message).trim().len() >= WORDS_BYTES_MIN)
}

fn words(message: &Message) -> String {
    message.parts.iter().filter_map(Part::text).map(Text::decode).collect()
}
