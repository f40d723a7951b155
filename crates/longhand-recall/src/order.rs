//! The last word on the order of what was found, once it is read.

use longhand_core::Role;
use rustc_hash::FxHashMap;

use crate::filler::gives_reason;
use crate::rank::Ranker;
use crate::words::Folded;

/// What the user wrote counts more, the shorter it is: people type little, and clients add much.
const USER: f32 = 0.2;
/// The same if the query asks what the user said.
const ASKED_USER: f32 = 1.5;
const USER_BYTES: f32 = 1_000.0;
/// What tools print counts less than what somebody said about it.
const TOOL: f32 = 0.9;
/// What gives a reason, if the query asks for one.
const REASON: f32 = 1.2;
/// What the newest counts more than the oldest.
const NEWEST: f32 = 0.1;
/// After this time, half of that is left.
const HALF_LIFE_MS: f32 = 14.0 * 24.0 * 3_600_000.0;
/// So many bytes of a text are looked through for reasons.
const REASON_BYTES_MAX: usize = 4_000;

/// An entry that was found, and read.
#[derive(Clone, Copy, Debug)]
pub struct ReadEntry<'e> {
    /// What [`Ranker::score`] says of it.
    pub score: f32,
    /// What search sees of it.
    pub text: &'e str,
    /// Who said it, if that is known.
    pub speaker: Option<Role>,
    /// When it was said.
    pub at_ms: i64,
}

/// An entry in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlacedEntry {
    /// Its number in the list that was given.
    pub entry: usize,
    /// How well it fits: the first has the highest.
    pub score: f32,
    /// How many entries say the same, with itself.
    pub repeats: u64,
}

impl Ranker {
    /// Puts entries in order, best first; of those that say the same, the first one stands for all. Entries are given
    /// newest first where they are equal.
    pub fn order(&self, entries: &[ReadEntry<'_>]) -> Vec<PlacedEntry> {
        let newest_ms = entries.iter().map(|entry| entry.at_ms).max().unwrap_or(0);
        let mut placed: Vec<PlacedEntry> = entries
            .iter()
            .enumerate()
            .map(|(at, entry)| PlacedEntry {
                entry: at,
                score: entry.score * self.worth(entry, newest_ms),
                repeats: 1,
            })
            .collect();
        placed.sort_by(|one, other| other.score.total_cmp(&one.score));
        let mut known: FxHashMap<&str, usize> = FxHashMap::default();
        let mut kept: Vec<PlacedEntry> = Vec::new();
        for place in placed {
            let text = entries[place.entry].text.trim();
            match known.get(text) {
                Some(first) if !text.is_empty() => kept[*first].repeats += 1,
                _ => {
                    known.insert(text, kept.len());
                    kept.push(place);
                }
            }
        }
        kept
    }

    /// What an entry counts by who said it, what for and when.
    fn worth(&self, entry: &ReadEntry<'_>, newest_ms: i64) -> f32 {
        let speaker = match entry.speaker {
            Some(Role::User) => {
                let share = if self.intent.wants_user { ASKED_USER } else { USER };
                1.0 + share / (1.0 + entry.text.len() as f32 / USER_BYTES)
            }
            Some(Role::Tool) => TOOL,
            _ => 1.0,
        };
        let has_reason = || {
            let text = longhand_core::cut::head(entry.text, REASON_BYTES_MAX);
            Folded::of(text).words().any(|word| gives_reason(word.text))
        };
        let reason = if self.intent.wants_reason && has_reason() { REASON } else { 1.0 };
        let age_ms = newest_ms.saturating_sub(entry.at_ms).max(0) as f32;
        let recency = 1.0 + NEWEST / (1.0 + age_ms / HALF_LIFE_MS);
        speaker * reason * recency
    }
}
