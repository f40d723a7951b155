//! Who writes what folds say.
//!
//! A window never waits for a model: folds are summarised at once without one. A model is asked in the background,
//! and the next batch uses its summary: that breaks the prefix anyway.

use std::sync::Arc;

use longhand_archive::Key;
use longhand_core::anchor::Miner;
use longhand_summary::{Extractive, Summariser};

use super::live_session::LiveSession;
use super::sink::Sink;
use crate::SharedMeter;
use crate::digest::Summarised;
use crate::story::{StoryClaim, Storyteller};

/// Summarises what is folded.
#[derive(Clone)]
pub struct Digests {
    instant: Vec<Arc<dyn Summariser>>,
    slow: Vec<Arc<dyn Summariser>>,
    miner: Miner,
}

impl Digests {
    /// Summarisers in order of preference; slow ones work in the background.
    pub fn new(summarisers: &[Arc<dyn Summariser>], miner: Miner) -> Self {
        let (mut instant, slow): (Vec<Arc<dyn Summariser>>, Vec<_>) =
            summarisers.iter().cloned().partition(|summariser| summariser.is_instant());
        // Until a model has answered, the built-in summariser stands in for it.
        if instant.is_empty() && !slow.is_empty() {
            instant.push(Arc::new(Extractive));
        }
        Self { instant, slow, miner }
    }

    /// The digest for a new fold of a session, with what a model has written so far.
    pub(super) async fn digest(
        &self,
        sink: &dyn Sink,
        session: &LiveSession,
        meter: &SharedMeter,
    ) -> Summarised {
        let digest = Summarised::new(self.instant.clone(), Arc::clone(meter), self.miner.clone());
        let digest = digest.keeping_state();
        if self.slow.is_empty() {
            return digest;
        }
        // Another node may have had it summarised since.
        let is_loaded = session.lock().teller.is_some() && !sink.archive().is_shared();
        let known = if is_loaded { None } else { written_story(sink, session).await };
        let mut memory = session.lock();
        let teller = memory.teller.get_or_insert_with(Storyteller::default);
        known.into_iter().for_each(|known| teller.learn(&known));
        if let Some(story) = teller.heard() {
            sink.derive(session.id, Storyteller::KEY, story);
        }
        digest.with_story(teller)
    }

    /// Has a model summarise what was just folded, in the background.
    pub(super) fn tell(&self, sink: &dyn Sink, session: &LiveSession, digest: &Summarised) {
        let claim = StoryClaim::of(sink.background_archive(), session.id);
        if let Some(teller) = &mut session.lock().teller {
            teller.tell(digest, self.slow.clone(), claim);
        }
    }
}

/// What a model has written about a session before.
async fn written_story(sink: &dyn Sink, session: &LiveSession) -> Option<String> {
    let key = Key::Derived(session.id, Storyteller::KEY.to_owned());
    sink.archive().get(vec![key]).await.ok()?.into_iter().next().flatten()
}
