//! A digest of folded messages, made as a session makes its own.

use std::sync::{Arc, Mutex, PoisonError};

use longhand_core::anchor::Miner;
use longhand_core::{Digest, Index, Message, Meter, Scale, Tokens, earlier};
use longhand_summary::Summariser;
use serde_json::Value;

use crate::fold::Folding;
use crate::said::Said;

/// Tells of folded messages by a summary, the facts that it left out, and the users' words.
///
/// Summarisers are tried in order; if none has anything to say, an index does.
pub struct Summarised {
    summarisers: Vec<Arc<dyn Summariser>>,
    meter: Arc<dyn Meter + Send + Sync>,
    miner: Miner,
    account: Mutex<Option<Value>>,
}

impl Summarised {
    /// Counts with `meter`, which must be the plan's own.
    pub fn new(
        summarisers: Vec<Arc<dyn Summariser>>,
        meter: Arc<dyn Meter + Send + Sync>,
        miner: Miner,
    ) -> Self {
        Self { summarisers, meter, miner, account: Mutex::default() }
    }

    /// What the newest digest took: summariser, model, tokens, cost, anchors.
    pub fn account(&self) -> Option<Value> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Summarised {
    /// Tells of messages of which the older ones have a summary already.
    pub fn digest_after(
        &self,
        earlier: &str,
        gone: &[&Message],
        limit: Tokens,
        scale: &Scale,
    ) -> String {
        self.within(vec![earlier.to_owned()], gone, limit, scale)
    }

    fn within(
        &self,
        mut before: Vec<String>,
        gone: &[&Message],
        limit: Tokens,
        scale: &Scale,
    ) -> String {
        before.extend(gone.iter().flat_map(|message| &message.parts).filter_map(earlier));
        let mut folding = Folding {
            earlier: (!before.is_empty()).then(|| before.join("\n")),
            rounds: rounds(gone),
            pins: Vec::new(),
            replaced: Tokens::MAX,
            limit,
            miner: self.miner.clone(),
            summariser: Arc::new(longhand_summary::Extractive),
            meter: Arc::clone(&self.meter),
        };
        for summariser in &self.summarisers {
            folding.summariser = Arc::clone(summariser);
            if let Ok(block) = folding.run() {
                *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(block.account);
                return block.text;
            }
        }
        Index.digest(gone, limit, scale)
    }
}

impl Digest for Summarised {
    fn digest(&self, gone: &[&Message], limit: Tokens, scale: &Scale) -> String {
        self.within(Vec::new(), gone, limit, scale)
    }
}

/// Splits messages into rounds; each begins with what the user says.
fn rounds(messages: &[&Message]) -> Vec<Said> {
    let rounds = messages.chunk_by(|_, next| !next.is_user_turn());
    rounds.zip(0..).map(|(messages, number)| Said::of(number, messages)).collect()
}
