//! A batch of edits in memory.

use std::sync::Mutex;

use longhand_archive::NewBatch;
use longhand_core::session::SessionState;
use longhand_core::{Batch, Link, Seq, Tokens};

use super::lock;

/// A batch of edits with what is known of it.
pub struct LiveBatch {
    /// Its number in the log.
    pub number: u64,
    /// As it was committed.
    pub new: NewBatch,
    /// The newest entry that it or a batch before it edits.
    reach: Seq,
    /// The entries that it edits, with their links.
    pub(super) edited: Vec<(Seq, Option<Link>)>,
    /// Whether the state of its fold is there, if it has one.
    pub(super) has_state: bool,
    /// The size of the messages up to its reach, and the model whose meter counted them.
    counted: Mutex<Option<(String, Tokens)>>,
}

impl LiveBatch {
    pub(super) fn new(number: u64, new: NewBatch, state: &SessionState) -> Self {
        let edited = new.batch.edited().into_iter().map(|seq| (seq, state.link(seq))).collect();
        let reach = state.log().line(number).and_then(|line| line.reach).unwrap_or_default();
        Self { number, new, reach, edited, has_state: true, counted: Mutex::default() }
    }

    /// Its edits.
    pub fn batch(&self) -> &Batch {
        &self.new.batch
    }

    /// The newest entry that it or a batch before it edits.
    pub fn reach(&self) -> Seq {
        self.reach
    }

    /// What the messages up to there count for, if that is known for a model.
    pub fn counted(&self, model: &str) -> Option<Tokens> {
        let counted = lock(&self.counted);
        counted.as_ref().filter(|(by, _)| by == model).map(|(_, tokens)| *tokens)
    }

    /// Takes note of what they count for.
    pub fn count(&self, model: &str, tokens: Tokens) {
        let mut counted = lock(&self.counted);
        *counted = Some((model.to_owned(), tokens));
    }
}
