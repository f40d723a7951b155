//! A cache of the newest requests: what a new request has in common with one of them is not parsed again.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, Weak};

use longhand_core::{Message, Role, cut};
use longhand_dialect::{Dialect, common};
use rustc_hash::{FxHashMap, FxHasher};

use crate::lock::lock;
use crate::request::admit::AdmittedRequest;
use crate::route::Caller;

/// How many requests with the same beginning are kept.
const ALIKE_MAX: usize = 16;

/// The memory for all requests in the cache.
const BYTES_MAX: usize = 48 << 20;

/// The approximate memory of a message besides its text.
const MESSAGE_BYTES: usize = 1 << 10;

/// How many bytes at the beginning of a request are its key.
const OPENING_BYTES: usize = 256;

/// The newest requests, by their beginning.
#[derive(Default)]
pub(crate) struct MemoCache {
    index: Mutex<MemoIndex>,
}

#[derive(Default)]
struct MemoIndex {
    requests: FxHashMap<u64, VecDeque<Arc<AdmittedRequest>>>,
    /// All of them, oldest first.
    order: VecDeque<(u64, Weak<AdmittedRequest>)>,
    bytes: usize,
}

/// An earlier request that a new one goes on from.
#[derive(Clone)]
pub(crate) struct EarlierRequest {
    pub(crate) request: Arc<AdmittedRequest>,
    /// How many messages after the system prompt both have, byte for byte.
    pub(crate) shared_messages: usize,
}

impl MemoCache {
    /// Finds the request that a new one has the most bytes in common with, and how many.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        dialect: Dialect,
        text: &str,
    ) -> Option<(Arc<AdmittedRequest>, usize)> {
        let alike: Vec<Arc<AdmittedRequest>> = {
            let index = lock(&self.index);
            index.requests.get(&key(caller, text))?.iter().cloned().collect()
        };
        let same = |admitted: &Arc<AdmittedRequest>| {
            admitted.placed.conversation.dialect == dialect && admitted.caller == *caller
        };
        let with_common = |admitted: Arc<AdmittedRequest>| {
            let common = common(admitted.placed.conversation.bytes(), text);
            (admitted, common)
        };
        alike.into_iter().filter(same).map(with_common).max_by_key(|(_, common)| *common)
    }

    /// Remembers a request, in the place of the earlier one if it has all messages of that.
    pub(crate) fn keep(&self, admitted: &Arc<AdmittedRequest>, earlier: Option<&EarlierRequest>) {
        let size = size(admitted);
        if size > BYTES_MAX / 4 {
            return;
        }
        let mut index = lock(&self.index);
        let has_all = |earlier: &&EarlierRequest| {
            earlier.shared_messages
                == after_system(&earlier.request.placed.conversation.messages).len()
        };
        if let Some(EarlierRequest { request, .. }) = earlier.filter(has_all) {
            index.drop_request(key(&request.caller, request.placed.conversation.bytes()), request);
        }
        let key = key(&admitted.caller, admitted.placed.conversation.bytes());
        let alike = index.requests.entry(key).or_default();
        alike.push_back(Arc::clone(admitted));
        let oldest = (alike.len() > ALIKE_MAX).then(|| Arc::clone(&alike[0]));
        if let Some(oldest) = oldest {
            index.drop_request(key, &oldest);
        }
        index.bytes += size;
        index.order.push_back((key, Arc::downgrade(admitted)));
        while index.bytes > BYTES_MAX
            && let Some((key, oldest)) = index.order.pop_front()
        {
            if let Some(oldest) = oldest.upgrade() {
                index.drop_request(key, &oldest);
            }
        }
        // Most requests in this list are dropped already.
        if index.order.len() > 64 + 4 * index.requests.len() {
            index.order.retain(|(_, admitted)| admitted.strong_count() > 0);
        }
    }
}

impl MemoIndex {
    fn drop_request(&mut self, key: u64, admitted: &Arc<AdmittedRequest>) {
        let Some(alike) = self.requests.get_mut(&key) else { return };
        let Some(at) = alike.iter().position(|other| Arc::ptr_eq(other, admitted)) else { return };
        alike.remove(at);
        self.bytes -= size(admitted);
        if alike.is_empty() {
            self.requests.remove(&key);
        }
    }
}

/// The approximate memory of a request with its parsed messages.
fn size(admitted: &AdmittedRequest) -> usize {
    admitted.placed.conversation.bytes().len()
        + admitted.placed.conversation.messages.len() * MESSAGE_BYTES
}

/// The messages after the leading system messages.
fn after_system(messages: &[Message]) -> &[Message] {
    let lead = messages.iter().take_while(|message| message.role == Role::System).count();
    &messages[lead..]
}

/// The key of a conversation: its owner, its name, and the hash of its beginning.
pub(crate) fn key(caller: &Caller, text: &str) -> u64 {
    let opening = cut::head(text, OPENING_BYTES);
    let mut hasher = FxHasher::default();
    (caller.owner().0, caller.name(), opening).hash(&mut hasher);
    hasher.finish()
}
