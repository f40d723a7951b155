//! What the newest requests said, so that only what is new has to be read closely.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use longhand_core::{Message, Role};
use longhand_dialect::Conversation;
use rustc_hash::FxHashMap;

use crate::lineage::Root;
use crate::meaning::Link;
use crate::recorder::Heard;

/// How many conversations may begin with the same words.
const ALIKE_MAX: usize = 4;

/// The most bytes of requests that are remembered.
const BYTES_MAX: usize = 128 << 20;

/// How much of the first message tells conversations apart at first sight.
const OPENING_BYTES: usize = 1 << 10;

/// The newest requests of conversations, by how these begin.
#[derive(Default)]
pub(crate) struct Memos {
    all: Mutex<Rack>,
}

#[derive(Default)]
struct Rack {
    requests: FxHashMap<Link, VecDeque<Arc<Heard>>>,
    bytes: usize,
}

/// An earlier request, and how many messages after the system prompt a new one shares with it.
pub(crate) struct Shared {
    pub(crate) heard: Arc<Heard>,
    pub(crate) messages: usize,
}

impl Memos {
    /// Finds the request that shares the most with a new one.
    pub(crate) fn find(&self, root: &Root, conversation: &Conversation) -> Option<Shared> {
        let key = key(root, &conversation.messages)?;
        let alike: Vec<Arc<Heard>> = {
            let rack = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            rack.requests.get(&key)?.iter().cloned().collect()
        };
        let same = |heard: &Arc<Heard>| {
            heard.conversation.dialect == conversation.dialect && heard.root.start == root.start
        };
        alike
            .into_iter()
            .filter(same)
            .map(|heard| {
                let own = after_system(&heard.conversation.messages);
                let new = after_system(&conversation.messages);
                let pairs = own.iter().zip(new);
                let messages =
                    pairs.take_while(|(one, other)| one.raw.raw() == other.raw.raw()).count();
                Shared { heard, messages }
            })
            .max_by_key(|shared| shared.messages)
    }

    /// Remembers a request, in the place of the one that it goes on from.
    pub(crate) fn keep(&self, heard: &Arc<Heard>, shared: Option<&Shared>) {
        let Some(key) = key(&heard.root, &heard.conversation.messages) else { return };
        let bytes = heard.conversation.bytes().len();
        let mut rack = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes > BYTES_MAX / 4 {
            return;
        }
        if rack.bytes + bytes > BYTES_MAX {
            *rack = Rack::default();
        }
        let Rack { requests, bytes: all } = &mut *rack;
        let alike = requests.entry(key).or_default();
        let goes_on_from = shared.filter(|shared| {
            shared.messages == after_system(&shared.heard.conversation.messages).len()
        });
        let before = goes_on_from
            .and_then(|shared| alike.iter().position(|own| Arc::ptr_eq(own, &shared.heard)));
        let old = match before {
            Some(at) => alike.remove(at),
            None if alike.len() >= ALIKE_MAX => alike.pop_front(),
            None => None,
        };
        *all -= old.map_or(0, |old| old.conversation.bytes().len());
        *all += bytes;
        alike.push_back(Arc::clone(heard));
    }
}

/// The messages after the system prompt that leads.
pub(crate) fn after_system(messages: &[Message]) -> &[Message] {
    let lead = messages.iter().take_while(|message| message.role == Role::System).count();
    &messages[lead..]
}

fn key(root: &Root, messages: &[Message]) -> Option<Link> {
    let first = after_system(messages).first()?.raw.raw();
    let end = first.floor_char_boundary(OPENING_BYTES.min(first.len()));
    Some(root.start.named(&first[..end]))
}
