//! How models count and how much they take, learned from their answers, for each owner of sessions.
//!
//! Owners learn nothing from each other. What was learned is kept with the session that it came from, so that it
//! survives a restart, and it expires.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use longhand::driver::{Learned, TooLong};
use longhand::{Archive, Owner, Tokens};
use longhand_archive::{Key, Page, SessionFilter};
use longhand_dialect::Overflow;
use rustc_hash::FxHashMap;

use crate::lock::lock;
use crate::store::now_ms;

/// What each model was found to count and to take.
#[derive(Debug, Default)]
pub(crate) struct Calibration {
    owners: Mutex<FxHashMap<Owner, HashMap<String, Learned>>>,
    /// When other nodes were last asked what they have learned of a model.
    asked: Mutex<FxHashMap<(Owner, String), Instant>>,
}

/// How many of an owner's newest sessions are searched for what was learned before a restart.
const SESSIONS_MAX: usize = 32;

/// How often other nodes are asked what they have learned.
const NEWS_TIME: Duration = Duration::from_secs(15);

/// Limits on what is remembered: model names come from requests, owners from keys.
const OWNERS_MAX: usize = 10_000;
const MODELS_MAX: usize = 1_000;

/// The most bytes per token, on average; a token has at least one.
const TOKEN_BYTES_MAX: u64 = 8;

/// The key under which the archive keeps what was learned about a model.
pub(crate) fn key(model: &str) -> String {
    format!("calibration {model}")
}

impl Calibration {
    /// Whether the archive was asked about a model.
    pub(crate) fn knows(&self, owner: Owner, model: &str) -> bool {
        lock(&self.owners).get(&owner).is_some_and(|models| models.contains_key(model))
    }

    /// Whether it is time to ask what other nodes have learned of a model; the next time is later.
    pub(crate) fn is_due(&self, owner: Owner, model: &str) -> bool {
        let mut asked = lock(&self.asked);
        if asked.len() > OWNERS_MAX {
            asked.clear();
        }
        let key = (owner, model.to_owned());
        let is_due = asked.get(&key).is_none_or(|asked| asked.elapsed() > NEWS_TIME);
        if is_due {
            asked.insert(key, Instant::now());
        }
        is_due
    }

    /// Reads what was learned about a model from the archive; nothing if that fails.
    pub(crate) async fn load(&self, archive: &dyn Archive, owner: Owner, model: &str) {
        let (of, page) = (SessionFilter::Owner(owner), Page::first(SESSIONS_MAX));
        let Ok(sessions) = archive.list_sessions(of, page).await else { return };
        let keys = sessions.items.iter().map(|session| Key::Derived(session.id, key(model)));
        let Ok(values) = archive.get(keys.collect()).await else { return };
        let learned = values.iter().flatten().filter_map(|learned| Learned::read(learned));
        let learned = learned.map(|learned| learned.at(now_ms()));
        self.with(owner, model, |known| *known = learned.fold(*known, Learned::merged));
    }

    /// Compares our count with the tokens that a request was billed for. Returns what is to be kept.
    ///
    /// If we did not count, the billed tokens are believed as far as the number of bytes allows.
    pub(crate) fn saw(
        &self,
        owner: Owner,
        model: &str,
        counted: Option<Tokens>,
        (billed, bytes): (u64, u64),
    ) -> Option<String> {
        let uncounted = Tokens(billed.clamp(bytes / TOKEN_BYTES_MAX, bytes));
        self.with(owner, model, |learned| {
            match counted {
                Some(counted) => learned.saw(counted, billed, now_ms()),
                None => learned.took(uncounted, now_ms()),
            }
            learned.to_keep()
        })
    }

    /// The limit by our count for a request with such a reply, given the limit by the model's count.
    pub(crate) fn limit(
        &self,
        owner: Owner,
        model: &str,
        limit: Option<Tokens>,
        reply: u64,
    ) -> Option<Tokens> {
        let owners = lock(&self.owners);
        let learned = owners.get(&owner).and_then(|models| models.get(model)).copied();
        learned.unwrap_or_default().at(now_ms()).limit(limit, reply)
    }

    /// The new limit by our count after a request was too long, and what is to be kept; `None` if shortening cannot
    /// help, since the request asks for too long a reply.
    ///
    /// The limit that the upstream names is remembered, unless a longer request has passed of late.
    pub(crate) fn overflowed(
        &self,
        owner: Owner,
        model: &str,
        sent: TooLong,
        overflow: Overflow,
    ) -> Option<(Tokens, Option<String>)> {
        self.with(owner, model, |learned| {
            let limit = learned.overflowed(sent, overflow, now_ms())?;
            Some((limit, learned.to_keep()))
        })
    }

    /// Learns from a reply that stopped because the window was full: `counted` is its request by our count, `usage`
    /// both by the model's. Returns what is to be kept.
    pub(crate) fn filled(
        &self,
        owner: Owner,
        model: &str,
        counted: Tokens,
        usage: (u64, u64),
    ) -> Option<String> {
        self.with(owner, model, |learned| {
            learned.filled(counted, usage.0, usage.1, now_ms());
            learned.to_keep()
        })
    }

    fn with<T>(&self, owner: Owner, model: &str, change: impl FnOnce(&mut Learned) -> T) -> T {
        let mut owners = lock(&self.owners);
        if owners.len() > OWNERS_MAX {
            owners.clear();
        }
        let models = owners.entry(owner).or_default();
        if models.len() > MODELS_MAX {
            models.clear();
        }
        let learned = models.entry(model.to_owned()).or_default();
        *learned = learned.at(now_ms());
        change(learned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_learn_nothing_from_each_other() {
        let calibration = Calibration::default();
        let (one, other) = (Owner::of("one"), Owner::of("other"));
        let sent = TooLong { tokens: Tokens(5_000), reply: 0 };
        let overflow = Overflow { limit: Some(3_000), asked: None, bytes: false };
        let (limit, kept) = calibration.overflowed(one, "m", sent, overflow).unwrap();
        assert_eq!(limit, Tokens(2_700));
        assert!(kept.is_some());
        let limits = [(one, "m"), (one, "n"), (other, "m")]
            .map(|(owner, model)| calibration.limit(owner, model, None, 0));
        assert_eq!(limits, [Some(Tokens(2_700)), None, None]);
    }
}
