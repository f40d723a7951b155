//! Whether a message that a client sends back calls its tools as its entry does.

use std::hash::{Hash, Hasher};

use longhand_core::session::{Chain, Lack, SessionState, Trail};
use longhand_core::{Arguments, Message, Seq};
use rustc_hash::{FxHashMap, FxHasher};

/// What is known of the messages of entries: their bytes by a hash, and the arguments of their calls.
///
/// The meaning of a call is its id and its name, so that clients may add keys to its arguments. A client that
/// changed a value goes another way from there on.
#[derive(Default)]
pub struct KnownCalls {
    /// Hashes of the messages as the archive has them or will have them, as far as they are known.
    forms: FxHashMap<Seq, u64>,
    calls: FxHashMap<Seq, Calls>,
}

struct Calls {
    /// `None` if the archive does not have them in a form that can be compared.
    arguments: Option<Arguments>,
    /// The form of the message in which a client sent it back last.
    sent: Option<u64>,
}

/// Why the way of a conversation is not known yet.
#[derive(Debug)]
pub enum Unread {
    /// These entries must be known first.
    Nodes(Lack),
    /// The calls of these entries must be read first.
    Calls(Vec<Seq>),
}

impl KnownCalls {
    /// Takes note of a message that becomes an entry.
    pub fn remember(&mut self, seq: Seq, message: &Message) {
        self.forms.insert(seq, form_of(message));
        if message.calls().next().is_some() {
            self.learn(seq, Some(message));
        }
    }

    /// Takes note of the calls of an entry, as the archive has them; without a message, they cannot be compared.
    pub fn learn(&mut self, seq: Seq, message: Option<&Message>) {
        let arguments = message.map(Arguments::of);
        self.calls.entry(seq).or_insert(Calls { arguments, sent: None });
    }

    /// Forgets the entries from a number on.
    pub fn forget_from(&mut self, seq: Seq) {
        self.forms.retain(|known, _| *known < seq);
        self.calls.retain(|known, _| *known < seq);
    }

    /// Whether a message is, byte for byte, the one that an entry has; `None` if that is not known.
    pub fn is_form(&self, seq: Seq, message: &Message) -> Option<bool> {
        self.forms.get(&seq).map(|form| *form == form_of(message))
    }

    /// Follows a conversation as far as a session has it, and branches where the arguments of a call were changed. Of
    /// the first `compared` messages it is known that they were not.
    pub fn follow(
        &mut self,
        state: &SessionState,
        chain: &mut Chain,
        messages: &[Message],
        compared: usize,
    ) -> Result<Trail, Unread> {
        let mut trail = Trail::default();
        state.follow(&mut trail, chain.links()).map_err(Unread::Nodes)?;
        let mut next = compared;
        while let Some(changed) = self.first_changed(&trail, messages, next)? {
            chain.tell_apart(changed, &messages[changed]);
            trail.cut(changed);
            state.follow(&mut trail, &chain.links()[changed..]).map_err(Unread::Nodes)?;
            next = changed + 1;
        }
        Ok(trail)
    }

    /// The first message from an index on whose calls are not those of its entry.
    fn first_changed(
        &mut self,
        trail: &Trail,
        messages: &[Message],
        first: usize,
    ) -> Result<Option<usize>, Unread> {
        let mut unread = Vec::new();
        let known = messages.iter().zip(&trail.seqs).enumerate().skip(first);
        for (index, (message, seq)) in known {
            if message.calls().next().is_none() {
                continue;
            }
            match self.has_same_calls(*seq, message) {
                Some(true) => {}
                Some(false) if unread.is_empty() => return Ok(Some(index)),
                Some(false) => break,
                None => unread.push(*seq),
            }
        }
        if unread.is_empty() { Ok(None) } else { Err(Unread::Calls(unread)) }
    }

    /// Whether a message calls its tools as an entry does; `None` if the calls of the entry are not known.
    fn has_same_calls(&mut self, seq: Seq, message: &Message) -> Option<bool> {
        let form = form_of(message);
        if self.forms.get(&seq) == Some(&form) {
            return Some(true);
        }
        let calls = self.calls.get_mut(&seq)?;
        let Some(arguments) = &calls.arguments else { return Some(true) };
        if calls.sent != Some(form) && arguments.agree(&Arguments::of(message)) {
            calls.sent = Some(form);
        }
        Some(calls.sent == Some(form))
    }
}

fn form_of(message: &Message) -> u64 {
    let mut hasher = FxHasher::default();
    message.raw.raw().hash(&mut hasher);
    hasher.finish()
}
