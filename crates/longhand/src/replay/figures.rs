//! The figures of a replay.

use std::ops::AddAssign;

use longhand_archive::EditSums;
use longhand_core::Tokens;

/// What is asked of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Identifier-like strings that the agent uses next and that its newest messages do not have.
    Need,
    /// The files that the agent changed.
    Changed,
    /// The newest verdict of each check.
    Outcome,
    /// The commits that it made.
    Commit,
    /// The items of its task list.
    Task,
    /// What the user said.
    User,
}

/// How many of the texts that were looked for were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoundShare {
    /// Those that were found.
    pub kept: u64,
    /// All of them.
    pub all: u64,
}

impl FoundShare {
    /// Notes whether one more text was found.
    pub(super) fn note(&mut self, is_kept: bool) {
        self.kept += u64::from(is_kept);
        self.all += 1;
    }

    /// In percent; `None` if nothing was looked for.
    pub fn percent(&self) -> Option<f64> {
        (self.all > 0).then(|| self.kept as f64 * 100.0 / self.all as f64)
    }
}

impl AddAssign for FoundShare {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.all += other.all;
    }
}

/// The five measures of what an agent must know of its own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkShares {
    /// Files changed, by their base names.
    pub changed: FoundShare,
    /// The newest verdict line of each check command.
    pub outcome: FoundShare,
    /// Hashes of commits.
    pub commit: FoundShare,
    /// Items of the task list as last written.
    pub task: FoundShare,
    /// User messages, by their first characters.
    pub user: FoundShare,
}

impl WorkShares {
    /// All five together.
    pub fn total(&self) -> FoundShare {
        let mut total = FoundShare::default();
        for share in [self.changed, self.outcome, self.commit, self.task, self.user] {
            total += share;
        }
        total
    }
}

impl AddAssign for WorkShares {
    fn add_assign(&mut self, other: Self) {
        self.changed += other.changed;
        self.outcome += other.outcome;
        self.commit += other.commit;
        self.task += other.task;
        self.user += other.user;
    }
}

/// The figures of one trace or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// How many requests there were.
    pub requests: u64,
    /// The tokens of all windows.
    pub sent: Tokens,
    /// Those that the provider had from the request before.
    pub cached: Tokens,
    /// What they cost, in the price of tokens that are not cached.
    pub cost: f64,
    /// Windows over the budget.
    pub over_budget: u64,
    /// Windows that the provider would refuse.
    pub invalid: u64,
    /// Windows that do not begin with the whole window before them.
    pub breaks: u64,
    /// Batches of edits.
    pub batches: u64,
    /// Requests after a pause in which the provider's cache ran out.
    pub pauses: u64,
    /// The edits of all batches, and those of them whose text was fetched back.
    pub edits: EditSums,
    /// Needed strings that the window has.
    pub need: FoundShare,
    /// Needed strings that the window has in text as it was received.
    pub ctx: FoundShare,
    /// What the agent must know of its own work.
    pub state: WorkShares,
}

impl Figures {
    /// Notes whether the window has something that was asked for.
    pub(super) fn note(&mut self, measure: Measure, is_kept: bool) {
        let WorkShares { changed, outcome, commit, task, user } = &mut self.state;
        match measure {
            Measure::Need => &mut self.need,
            Measure::Changed => changed,
            Measure::Outcome => outcome,
            Measure::Commit => commit,
            Measure::Task => task,
            Measure::User => user,
        }
        .note(is_kept);
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.cached += other.cached;
        self.cost += other.cost;
        self.over_budget += other.over_budget;
        self.invalid += other.invalid;
        self.breaks += other.breaks;
        self.batches += other.batches;
        self.pauses += other.pauses;
        self.edits.add(&other.edits);
        self.need += other.need;
        self.ctx += other.ctx;
        self.state += other.state;
    }
}
