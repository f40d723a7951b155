//! The summaries of folds.
//!
//! A request never waits for a model: folds are summarised at once without one. A model is asked in the background,
//! and the next batch uses its summary: that breaks the prefix anyway.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhand::{Extractive, Miner, Storyteller, Summarised, Summariser, Tokens};
use longhand_archive::Key;
use longhand_core::Scale;
use longhand_summary::{Input, Summary, SummaryError};

use crate::Settings;
use crate::request::source::SharedMeter;
use crate::store::{LiveSession, Store};

/// How many models are asked at the same time.
const AT_ONCE_MAX: usize = 4;

/// Summarises what is folded.
pub(crate) struct Digests {
    instant: Vec<Arc<dyn Summariser>>,
    slow: Vec<Arc<dyn Summariser>>,
    miner: Miner,
}

impl Digests {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (mut instant, slow): (Vec<Arc<dyn Summariser>>, Vec<_>) =
            settings.summarisers.iter().cloned().partition(|summariser| summariser.is_instant());
        // Until a model has answered, the built-in summariser stands in for it.
        if instant.is_empty() && !slow.is_empty() {
            instant.push(Arc::new(Extractive));
        }
        let under_way = Arc::new(AtomicUsize::new(0));
        let limited = |summariser: Arc<dyn Summariser>| -> Arc<dyn Summariser> {
            Arc::new(LimitedSummariser { summariser, under_way: Arc::clone(&under_way) })
        };
        let slow = slow.into_iter().map(limited).collect();
        Self { instant, slow, miner: settings.miner.clone() }
    }

    /// The digest for a new fold of a session, with what a model has written so far.
    pub(crate) async fn digest(
        &self,
        store: &Store,
        session: &LiveSession,
        meter: &SharedMeter,
    ) -> Summarised {
        let digest = Summarised::new(self.instant.clone(), Arc::clone(meter), self.miner.clone());
        let digest = digest.keeping_state();
        if self.slow.is_empty() {
            return digest;
        }
        let is_loaded = session.lock().teller.is_some();
        let known = if is_loaded { None } else { written_story(store, session).await };
        let mut memory = session.lock();
        let teller = memory.teller.get_or_insert_with(|| Storyteller::new(known.as_deref()));
        if let Some(story) = teller.heard() {
            store.derive(session.id, Storyteller::KEY.to_owned(), story);
        }
        digest.with_story(teller)
    }

    /// Has a model summarise what was just folded, in the background.
    pub(crate) fn tell(&self, session: &LiveSession, digest: &Summarised) {
        if let Some(teller) = &mut session.lock().teller {
            teller.tell(digest, self.slow.clone());
        }
    }
}

/// What a model has written about a session before.
async fn written_story(store: &Store, session: &LiveSession) -> Option<String> {
    let key = Key::Derived(session.id, Storyteller::KEY.to_owned());
    store.archive().get(vec![key]).await.ok()?.into_iter().next().flatten()
}

/// A slow summariser, of which few may run at the same time.
struct LimitedSummariser {
    summariser: Arc<dyn Summariser>,
    under_way: Arc<AtomicUsize>,
}

/// Counts a summariser as running until it is dropped.
struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Summariser for LimitedSummariser {
    fn name(&self) -> &str {
        self.summariser.name()
    }

    fn summarise(
        &self,
        input: &Input,
        limit: Tokens,
        scale: &Scale,
    ) -> Result<Summary, SummaryError> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _asking = Asking(&self.under_way);
        if before >= AT_ONCE_MAX {
            let (name, reason) = (self.name().to_owned(), "too many are asked already".to_owned());
            return Err(SummaryError::Unavailable { name, reason });
        }
        self.summariser.summarise(input, limit, scale)
    }
}
