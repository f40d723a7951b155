//! What a fold says of the messages that it takes.
//!
//! A request never waits for a model: what is folded is told at once by summarisers that need none. A
//! model that is asked meanwhile has its say with the next batch, which breaks the prefix anyway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use longhand::{Miner, Summarised, Summariser, Tokens};
use longhand_core::{Digest, Digested, Fold, Folded, Handle, Message, Path, Plan, Scale, earlier};
use serde_json::{Value, json};

use crate::Settings;
use crate::asked::{Asked, SharedMeter};

/// How many models are asked at the same time.
const AT_ONCE_MAX: usize = 4;

/// The least that a model may write, and how many summaries may wait for their batch.
const LIMIT_MIN: Tokens = Tokens(400);
const READY_MAX: usize = 4_096;

/// Makes digests.
pub(crate) struct Digests {
    instant: Vec<Arc<dyn Summariser>>,
    slow: Vec<Arc<dyn Summariser>>,
    miner: Miner,
    ready: Arc<Mutex<HashMap<String, Ready>>>,
    under_way: Arc<AtomicUsize>,
}

/// What a model wrote of messages that are folded already.
#[derive(Clone)]
struct Ready {
    messages: usize,
    handle: Handle,
    text: String,
    account: Value,
}

impl Digests {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (instant, slow) =
            settings.summarisers.iter().cloned().partition(|summariser| summariser.is_instant());
        Self {
            instant,
            slow,
            miner: settings.miner.clone(),
            ready: Arc::default(),
            under_way: Arc::default(),
        }
    }

    /// The digest of what is folded now.
    pub(crate) fn digest(&self, asked: &Asked) -> Interim {
        let ready = asked.session.as_ref().and_then(|session| self.lock().get(session).cloned());
        Interim {
            ready,
            instant: self.summarised(&self.instant, &asked.meter),
            used: Mutex::default(),
        }
    }

    /// Has a model tell of what a plan folds, in the background.
    pub(crate) fn prepare(&self, asked: &Asked, plan: &Plan) {
        let Some(session) = asked.session.clone().filter(|_| !self.slow.is_empty()) else { return };
        let Some(fold) = plan.batch.fold().cloned() else { return };
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= AT_ONCE_MAX {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let limit = Scale::new(&*asked.meter).text(&fold.text).max(LIMIT_MIN);
        let (heard, meter) = (Arc::clone(&asked.heard), Arc::clone(&asked.meter));
        let digest = Interim {
            ready: self.lock().get(&session).cloned(),
            instant: self.summarised(&self.slow, &meter),
            used: Mutex::default(),
        };
        let (ready, under_way) = (Arc::clone(&self.ready), Arc::clone(&self.under_way));
        let work = move || {
            let folded = folded(&fold, &heard.conversation.path());
            let text = digest.digest(&folded, limit, &Scale::new(&*meter)).text;
            if let Some(account) = digest.instant.account() {
                let gone = &folded.messages;
                let own = Ready { messages: gone.len(), handle: handle(gone), text, account };
                let mut ready = ready.lock().unwrap_or_else(PoisonError::into_inner);
                if ready.len() >= READY_MAX {
                    ready.clear();
                }
                ready.insert(session, own);
            }
            under_way.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("longhand-summary".to_owned()).spawn(work).is_err() {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn summarised(&self, summarisers: &[Arc<dyn Summariser>], meter: &SharedMeter) -> Summarised {
        Summarised::new(summarisers.to_vec(), Arc::clone(meter), self.miner.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Ready>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of folded messages with what is ready, and of the others at once.
pub(crate) struct Interim {
    ready: Option<Ready>,
    instant: Summarised,
    used: Mutex<Option<Value>>,
}

impl Interim {
    /// What the digest took.
    pub(crate) fn account(&self) -> Option<Value> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (self.instant.account(), used) {
            (Some(mut account), Some(earlier)) => {
                account["earlier"] = earlier;
                Some(account)
            }
            (account, used) => account.or(used.map(|earlier| json!({"earlier": earlier}))),
        }
    }
}

impl Digest for Interim {
    fn digest(&self, folded: &Folded, limit: Tokens, scale: &Scale) -> Digested {
        let covers = |ready: &&Ready| {
            let told = folded.messages.get(..ready.messages);
            told.is_some_and(|told| handle(told) == ready.handle)
        };
        let Some(ready) = self.ready.as_ref().filter(covers) else {
            return self.instant.digest(folded, limit, scale);
        };
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready.account.clone());
        let rest = folded.messages[ready.messages..].to_vec();
        if rest.is_empty() && scale.text(&ready.text) <= limit {
            return Digested { text: ready.text.clone(), state: String::new() };
        }
        let mut blocks = vec![ready.text.clone()];
        blocks.extend(blocks_in(&rest));
        let entries = folded.entries[ready.messages..].to_vec();
        let rest = Folded { messages: rest, entries, state: "", blocks };
        self.instant.digest(&rest, limit, scale)
    }
}

/// What a fold takes out of sight in a conversation.
fn folded<'c>(fold: &Fold, path: &Path<'c>) -> Folded<'c> {
    let gone = path.messages[path.lead..].iter().zip(path.seqs);
    let (messages, entries): (Vec<&Message>, Vec<_>) =
        gone.filter(|(_, seq)| fold.contains(**seq)).unzip();
    let beside = fold.blocks.iter().filter_map(|place| path.find(*place));
    let beside = beside.filter_map(|(message, part)| earlier(&path.messages[message].parts[part]));
    let blocks = blocks_in(&messages).chain(beside).collect();
    Folded { messages, entries, state: "", blocks }
}

/// What blocks of folds told that came back as input.
fn blocks_in(messages: &[&Message]) -> impl Iterator<Item = String> {
    messages.iter().flat_map(|message| &message.parts).filter_map(earlier)
}

fn handle(messages: &[&Message]) -> Handle {
    Handle::of(messages.iter().map(|message| message.raw.raw()))
}
