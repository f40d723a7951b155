//! The identifiers of a conversation: how often and how lately they were used, and where they were seen.

use std::sync::LazyLock;

use longhand_core::anchor::runs;
use rustc_hash::FxHashMap;

use super::name_text::NameText;
use crate::quote;

/// How many names are kept from one fold to the next.
const NAMES_MAX: usize = 700;

/// The most names; beyond that the lighter ones are forgotten.
const NAMES_LIVE_MAX: usize = 40_000;

/// After this many messages a use counts half.
const HALF_LIFE_MESSAGES: f64 = 100.0;

/// The count of ids that must not be forgotten.
const OWN_COUNT: u32 = 1_000_000;

/// How the label of a command begins.
pub(super) const COMMAND_MARK: char = '`';

/// How many names are put in order at first: seldom does a page have room for as many.
const RANKED_FIRST: usize = 2_048;

/// What a use counts after so many messages. A power for each of the names took longer than to count them.
static DECAY: LazyLock<[f64; 1_024]> =
    LazyLock::new(|| std::array::from_fn(|age| decayed(age as f64)));

fn decayed(age: f64) -> f64 {
    0.5f64.powf(age / HALF_LIFE_MESSAGES)
}

/// What a use counts after so many messages.
fn decay(age: u64) -> f64 {
    let known = usize::try_from(age).ok().and_then(|age| DECAY.get(age).copied());
    known.unwrap_or_else(|| decayed(age as f64))
}

/// Names with their uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    uses: FxHashMap<NameText, Uses>,
    /// The files that names were seen in.
    sources: Vec<Box<str>>,
    numbers: FxHashMap<Box<str>, u32>,
}

/// A file or a command that names were seen in; talk is none.
///
/// It is kept small, since each of thousands of names has one: 0, or else twice its number, counted from 1, and one more
/// for a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NameSource(u32);

impl NameSource {
    fn new(number: u32, is_command: bool) -> Self {
        Self((number + 1) << 1 | u32::from(is_command))
    }

    fn number(self) -> Option<usize> {
        (self.0 >> 1).checked_sub(1).map(|number| number as usize)
    }

    fn is_none(self) -> bool {
        self.0 == 0
    }

    fn is_command(self) -> bool {
        self.0 & 1 == 1
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// Mentions, weighed by who made them.
    count: u32,
    /// The message of the newest.
    last: u32,
    /// Whether the newest is a key with its value behind it: `max-height: 2em`.
    is_key: bool,
    /// Whether a run of these letters is known to have this name and no other.
    is_run: bool,
    /// The newest file that had it.
    source: NameSource,
}

impl Uses {
    fn age(&self, now: u64) -> u64 {
        now.saturating_sub(u64::from(self.last))
    }

    fn mention(&mut self, message: u64, weight: u32, is_key: bool, source: NameSource) {
        if self.count < OWN_COUNT {
            self.count = (self.count + weight).min(OWN_COUNT - 1);
        }
        (self.last, self.is_key) = (message_number(message), is_key);
        // A file says more of a name than the command that printed it.
        let is_file = !self.source.is_none() && !self.source.is_command();
        let says_less = source.is_none() || (source.is_command() && is_file);
        if !says_less {
            self.source = source;
        }
    }
}

/// The number of a message in the size that is kept.
fn message_number(message: u64) -> u32 {
    u32::try_from(message).unwrap_or(u32::MAX)
}

/// A name as it is kept from one fold to the next.
pub(super) struct KeptName<'n> {
    pub(super) written: String,
    pub(super) count: u32,
    pub(super) last: u64,
    /// The file that had it.
    pub(super) source: Option<&'n str>,
}

impl Names {
    /// The source of that name.
    pub(super) fn source(&mut self, label: &str) -> NameSource {
        if label.is_empty() {
            return NameSource::default();
        }
        let is_command = label.starts_with(COMMAND_MARK);
        if let Some(number) = self.numbers.get(label) {
            return NameSource::new(*number, is_command);
        }
        let number = self.sources.len() as u32;
        self.sources.push(label.into());
        self.numbers.insert(label.into(), number);
        NameSource::new(number, is_command)
    }

    /// The source that was added as the one of that number, counted from 0.
    pub(super) fn numbered(&self, number: Option<u32>) -> NameSource {
        let known = number.and_then(|number| Some((number, self.sources.get(number as usize)?)));
        known.map_or_else(NameSource::default, |(number, label)| {
            NameSource::new(number, label.starts_with(COMMAND_MARK))
        })
    }

    /// The name of a source.
    pub(super) fn label(&self, source: NameSource) -> Option<&str> {
        self.sources.get(source.number()?).map(|label| &**label)
    }

    /// All files that names were seen in.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.sources.iter().map(|label| &**label)
    }

    /// Where a name was seen.
    pub(super) fn source_of(&self, name: &str) -> NameSource {
        self.uses_of(name).map(|uses| uses.source).unwrap_or_default()
    }

    /// Counts the names of a text, each mention by a weight.
    pub(super) fn read(&mut self, text: &str, message: u64, weight: u32, source: NameSource) {
        for run in runs(text) {
            // Most names are known, so that a run need not be analysed again.
            let is_free = run.is_free();
            if is_free
                && let Some(uses) =
                    self.uses.get_mut(run.text.as_bytes()).filter(|uses| uses.is_run)
            {
                uses.mention(message, weight, false, source);
                continue;
            }
            let Some(name) = run.name() else { continue };
            let is_run = is_free && name.len() == run.text.len();
            let is_key = run.text.strip_suffix(':') == Some(name);
            if let Some(uses) = self.uses.get_mut(name.as_bytes()) {
                uses.mention(message, weight, is_key, source);
                uses.is_run |= is_run;
            } else {
                let count = if is_goal_or_session(name) { OWN_COUNT } else { weight };
                let last = message_number(message);
                let uses = Uses { count, last, is_key, is_run, source };
                self.uses.insert(name.into(), uses);
            }
        }
        if self.uses.len() > NAMES_LIVE_MAX {
            self.keep(NAMES_LIVE_MAX / 4, message);
        }
    }

    /// What a mention of a name is worth: more if it was used often and lately.
    pub(super) fn worth(&self, name: &str, now: u64) -> f64 {
        let Some(uses) = self.uses_of(name) else { return 0.0 };
        f64::from(1 + uses.count).ln() / 4.0 * decay(uses.age(now))
    }

    /// Adds an id of the project's own.
    pub(super) fn add_own(&mut self, name: &str, message: u64) {
        self.add(name, OWN_COUNT, message, NameSource::default());
    }

    /// Whether a name is an id that must not be forgotten.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.uses_of(name).is_some_and(|uses| uses.count >= OWN_COUNT)
    }

    /// Whether there is any such id.
    pub(super) fn has_own(&self) -> bool {
        self.uses.values().any(|uses| uses.count >= OWN_COUNT)
    }

    /// Adds a name that an earlier block or state tells.
    pub(super) fn add(&mut self, written: &str, count: u32, last: u64, source: NameSource) {
        let name = written.strip_suffix(':').unwrap_or(written);
        let uses = self.uses.entry(name.into()).or_default();
        uses.count = uses.count.max(count);
        uses.last = uses.last.max(message_number(last));
        uses.is_key |= name != written;
        if !source.is_none() {
            uses.source = source;
        }
    }

    /// The names, the most useful first; paths in the folder `root` are given relative to it.
    pub(super) fn ranked(&self, now: u64, root: &str) -> impl Iterator<Item = &str> {
        let mut scored = self.scored(now, root);
        let mut rest = Vec::new();
        if scored.len() > RANKED_FIRST {
            scored.select_nth_unstable_by(RANKED_FIRST, Scored::order);
            rest = scored.split_off(RANKED_FIRST);
        }
        scored.sort_unstable_by(Scored::order);
        let rest = std::iter::once_with(move || {
            rest.sort_unstable_by(Scored::order);
            rest
        });
        scored.into_iter().chain(rest.flatten()).map(|scored| scored.name)
    }

    /// The names that are kept for the next fold.
    pub(super) fn kept(&self, now: u64) -> impl Iterator<Item = KeptName<'_>> {
        self.ranked(now, "").take(NAMES_MAX).filter_map(|name| {
            let Uses { count, last, source, .. } = *self.uses_of(name)?;
            let (last, source) = (u64::from(last), self.label(source));
            Some(KeptName { written: self.written(name), count, last, source })
        })
    }

    fn uses_of(&self, name: &str) -> Option<&Uses> {
        self.uses.get(name.as_bytes())
    }

    /// A name as it stands in a list: a key has its colon.
    pub(super) fn written(&self, name: &str) -> String {
        let is_key = self.uses_of(name).is_some_and(|uses| uses.is_key);
        quote::line(name) + if is_key { ":" } else { "" }
    }

    fn scored(&self, now: u64, root: &str) -> Vec<Scored<'_>> {
        let scored = self.uses.iter().map(|(name, uses)| {
            let name = name.as_str();
            Scored { score: score(below(root, name), *uses, now), name }
        });
        scored.collect()
    }

    fn keep(&mut self, count: usize, now: u64) {
        let scores: Vec<f64> =
            self.uses.iter().map(|(name, uses)| score(name.as_str(), *uses, now)).collect();
        let mut sorted = scores.clone();
        let (_, least, _) = sorted.select_nth_unstable_by(count, |one, two| two.total_cmp(one));
        let least = *least;
        // They are gone through in the same order as before.
        let mut scores = scores.into_iter();
        self.uses.retain(|_, _| scores.next().is_some_and(|score| score > least));
    }
}

/// A name and its value per token.
struct Scored<'n> {
    score: f64,
    name: &'n str,
}

impl Scored<'_> {
    /// The most valuable first.
    fn order(one: &Self, two: &Self) -> std::cmp::Ordering {
        two.score.total_cmp(&one.score).then_with(|| one.name.cmp(two.name))
    }
}

/// A path relative to the common folder.
pub(super) fn below<'p>(root: &str, path: &'p str) -> &'p str {
    path.strip_prefix(root).filter(|below| below.len() > 2).unwrap_or(path)
}

/// Whether a name is the id of a goal or a session: `g-7f3`, `s-01`.
fn is_goal_or_session(name: &str) -> bool {
    let id = name.strip_prefix("g-").or(name.strip_prefix("s-")).unwrap_or_default();
    id.bytes().any(|byte| byte.is_ascii_digit())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The value of a name per token; an id of the project is worth more than any other name.
fn score(name: &str, uses: Uses, now: u64) -> f64 {
    if uses.count >= OWN_COUNT {
        return f64::from(OWN_COUNT) + f64::from(uses.last);
    }
    // About what vocabularies need: a token for each word or run of digits, and for each mark.
    let tokens = 1.0 + name.len() as f64 / 4.0;
    f64::from(uses.count) * decay(uses.age(now)) / tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_and_age_rank_names() {
        let mut names = Names::default();
        names.read("old_one old_one old_one new_one", 0, 1, NameSource::default());
        names.read("new_one", 200, 1, NameSource::default());
        let ranked =
            |names: &Names, now| names.ranked(now, "").map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(ranked(&names, 200), ["new_one", "old_one"]);
        names.read("old_one", 201, 1, NameSource::default());
        assert_eq!(ranked(&names, 201), ["old_one", "new_one"]);
    }

    #[test]
    fn a_key_is_listed_with_its_colon_as_it_was_last_used() {
        let mut names = Names::default();
        names.read("max-height: 2em; see project_id: and src/a.rs:12", 0, 1, NameSource::default());
        names.read("project_id", 1, 1, NameSource::default());
        let written = |names: &Names, name: &str| names.written(name);
        assert_eq!(written(&names, "max-height"), "max-height:");
        assert_eq!(written(&names, "project_id"), "project_id");
        assert_eq!(written(&names, "src/a.rs:12"), "src/a.rs:12");
        let mut next = Names::default();
        for kept in names.kept(1) {
            next.add(&kept.written, kept.count, kept.last, NameSource::default());
        }
        assert_eq!(written(&next, "max-height"), "max-height:");
        assert_eq!(next.ranked(1, "").count(), 3);
    }

    #[test]
    fn a_name_is_known_by_the_newest_file_that_had_it() {
        let mut names = Names::default();
        let (one, two) = (names.source("a.rs"), names.source("b.rs"));
        names.read("max_len", 0, 1, one);
        names.read("max_len min_len", 1, 1, two);
        names.read("max_len", 2, 1, NameSource::default());
        assert_eq!(names.source("a.rs"), one);
        assert_eq!(names.label(names.source_of("max_len")), Some("b.rs"));
        assert_eq!(names.label(names.source_of("other_len")), None);
    }
}
