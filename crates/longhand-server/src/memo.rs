//! What the newest requests said, so that only what is new has to be read closely.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use longhand_core::{Message, Role};
use longhand_dialect::{Dialect, common};
use rustc_hash::FxHashMap;

use crate::lineage::Root;
use crate::meaning::Link;
use crate::recorder::Heard;

/// How many conversations may begin with the same bytes.
const ALIKE_MAX: usize = 16;

/// The most bytes of requests that are remembered.
const BYTES_MAX: usize = 128 << 20;

/// How much of a request tells conversations apart at first sight.
const OPENING_BYTES: usize = 256;

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

impl Memos {
    /// Finds the request that a new one has the most bytes in common with.
    pub(crate) fn find(&self, root: &Root, dialect: Dialect, text: &str) -> Option<Arc<Heard>> {
        let alike: Vec<Arc<Heard>> = {
            let rack = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            rack.requests.get(&key(root, text))?.iter().cloned().collect()
        };
        let same = |heard: &Arc<Heard>| {
            heard.conversation.dialect == dialect && heard.root.start == root.start
        };
        let alike = alike.into_iter().filter(same);
        alike.max_by_key(|heard| common(heard.conversation.bytes(), text))
    }

    /// Remembers a request, in the place of the one that it goes on from.
    pub(crate) fn keep(&self, heard: &Arc<Heard>, before: Option<&Arc<Heard>>, shared: usize) {
        let bytes = heard.conversation.bytes().len();
        if bytes > BYTES_MAX / 4 {
            return;
        }
        let mut rack = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if rack.bytes + bytes > BYTES_MAX {
            *rack = Rack::default();
        }
        let Rack { requests, bytes: all } = &mut *rack;
        let alike = requests.entry(key(&heard.root, heard.conversation.bytes())).or_default();
        let goes_on = |own: &&Arc<Heard>| shared == after_system(&own.conversation.messages).len();
        let at = before
            .filter(goes_on)
            .and_then(|before| alike.iter().position(|own| Arc::ptr_eq(own, before)));
        let old = match at {
            Some(at) => alike.remove(at),
            None if alike.len() >= ALIKE_MAX => alike.pop_front(),
            None => None,
        };
        *all -= old.map_or(0, |old| old.conversation.bytes().len());
        *all += bytes;
        alike.push_back(Arc::clone(heard));
    }
}

/// How many messages after the system prompt two requests share.
pub(crate) fn shared(one: &[Message], other: &[Message]) -> usize {
    let pairs = after_system(one).iter().zip(after_system(other));
    pairs.take_while(|(one, other)| one.raw.is_same(&other.raw)).count()
}

/// The messages after the system prompt that leads.
fn after_system(messages: &[Message]) -> &[Message] {
    let lead = messages.iter().take_while(|message| message.role == Role::System).count();
    &messages[lead..]
}

fn key(root: &Root, text: &str) -> Link {
    let end = text.floor_char_boundary(OPENING_BYTES.min(text.len()));
    root.start.named(&text[..end])
}
