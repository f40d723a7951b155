//! The rolling conversation: the newest rounds verbatim, everything older in one summary.
//!
//! A state machine without I/O. A driver hands in events, drains effects, performs them and hands the
//! outcomes back; a slow, doubled, lost or failed answer is just another event.

use std::collections::VecDeque;
use std::ops::Range;

use crate::Tokens;

/// How much a rolling conversation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// The most rounds that stay verbatim.
    pub rounds_max: usize,
    /// The most tokens of summary and rounds together.
    pub budget: Tokens,
    /// The most tokens of the summary.
    pub summary_max: Tokens,
    /// How many summarisers there are to try before a round stays as it is.
    pub rungs: usize,
}

impl Default for Rolling {
    fn default() -> Self {
        Self { rounds_max: 10, budget: Tokens(24_000), summary_max: Tokens(4_000), rungs: 1 }
    }
}

/// Names one attempt to fold; an answer to any other is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FoldId(pub u64);

/// A fact told to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A round is durable.
    Recorded {
        /// Its number; rounds are told in order, and one that is known already is ignored.
        round: u64,
        /// What it counts for, from its content.
        tokens: Tokens,
    },
    /// Somebody wants all but the newest round folded, whatever there is room for.
    Compact,
    /// A summary is there; one that is over its cap or frees nothing counts as refused.
    Summarised {
        /// The fold it was asked for.
        fold: FoldId,
        /// What the block with it counts for.
        tokens: Tokens,
    },
    /// A summariser failed, or its answer was refused.
    Refused {
        /// The fold it was asked for.
        fold: FoldId,
    },
    /// The fold is in the archive.
    Committed {
        /// Which one.
        fold: FoldId,
    },
    /// The fold could not be written, or another writer came first.
    NotCommitted {
        /// Which one.
        fold: FoldId,
    },
}

/// A request to the outside world, answered by a matching [`Event`].
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Fold these rounds and the summary before them into a new summary.
    Summarise {
        /// The attempt.
        fold: FoldId,
        /// The rounds; empty if only the summary is to be shortened.
        rounds: Range<u64>,
        /// Which summariser of the ladder to ask, from 0.
        rung: usize,
        /// The most that the new summary may have.
        limit: Tokens,
    },
    /// Write the accepted summary down.
    Commit {
        /// The attempt.
        fold: FoldId,
        /// The first round that stays verbatim.
        upto: u64,
    },
    /// Say, once, that summary and rounds are over budget and nothing can be done about it.
    OverBudget {
        /// By how much.
        by: Tokens,
    },
}

/// Where a conversation stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The first verbatim round.
    pub first: u64,
    /// What the summary before it counts for.
    pub summary: Tokens,
    /// What the rounds from there on count for.
    pub rounds: Vec<Tokens>,
    /// Whether the newest fold was taken back: its rounds then stay for as long as there is room.
    pub undone: bool,
}

/// What is verbatim and what is folded.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Rolling,
    /// Tokens of the verbatim rounds, oldest first.
    rounds: VecDeque<Tokens>,
    first: u64,
    summary: Tokens,
    undone: bool,
    fold: Option<Fold>,
    next: u64,
    /// The size at which nothing more could be done; only a new round starts another attempt.
    stuck: Option<Tokens>,
    /// Whether the summary was shortened in vain since the last round.
    cannot_shorten: bool,
    said_over: bool,
    effects: VecDeque<Effect>,
}

#[derive(Clone, Debug)]
struct Fold {
    id: FoldId,
    count: usize,
    rung: usize,
    limit: Tokens,
    /// The tokens of the accepted summary, once it is there.
    accepted: Option<Tokens>,
}

impl Engine {
    /// Opens a conversation as the archive has it.
    pub fn open(settings: Rolling, state: State) -> Self {
        let mut engine = Self {
            settings,
            rounds: state.rounds.into(),
            first: state.first,
            summary: state.summary,
            undone: state.undone,
            fold: None,
            next: 0,
            stuck: None,
            cannot_shorten: false,
            said_over: false,
            effects: VecDeque::new(),
        };
        engine.consider();
        engine
    }

    /// Tells the engine a fact.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Recorded { round, tokens } => {
                if round == self.first + self.rounds.len() as u64 {
                    self.rounds.push_back(tokens);
                    self.stuck = None;
                    self.cannot_shorten = false;
                }
            }
            Event::Compact => {
                let kept: Tokens = self.rounds.iter().rev().take(1).copied().sum();
                if self.fold.is_none() && self.rounds.len() > 1 {
                    self.begin(self.rounds.len() - 1, self.limit_beside(kept));
                }
            }
            Event::Summarised { fold, tokens } => self.take(fold, tokens),
            Event::Refused { fold } => self.climb_down(fold),
            Event::Committed { fold } => self.settle(fold),
            Event::NotCommitted { fold } => {
                if self.is_current(fold) {
                    self.fold = None;
                    self.stuck = Some(self.tokens());
                }
            }
        }
        self.consider();
    }

    /// The next thing to do, if there is one.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Summary and verbatim rounds together.
    pub fn tokens(&self) -> Tokens {
        self.summary + self.rounds.iter().copied().sum()
    }

    /// The rounds that are verbatim.
    pub fn verbatim(&self) -> Range<u64> {
        self.first..self.first + self.rounds.len() as u64
    }

    /// Whether a fold is under way.
    pub fn is_folding(&self) -> bool {
        self.fold.is_some()
    }

    fn is_current(&self, fold: FoldId) -> bool {
        self.fold.as_ref().is_some_and(|current| current.id == fold)
    }

    /// Takes a summary that is within its cap and shorter than what it replaces; refuses any other.
    fn take(&mut self, fold: FoldId, tokens: Tokens) {
        let Some(current) =
            self.fold.as_mut().filter(|current| current.id == fold && current.accepted.is_none())
        else {
            return;
        };
        let replaced = self.summary + self.rounds.iter().take(current.count).copied().sum();
        if tokens > current.limit || tokens >= replaced {
            return self.climb_down(fold);
        }
        current.accepted = Some(tokens);
        let upto = self.first + current.count as u64;
        self.effects.push_back(Effect::Commit { fold, upto });
    }

    /// Asks the next summariser; after the last one the rounds stay as they are.
    fn climb_down(&mut self, fold: FoldId) {
        let rungs = self.settings.rungs;
        let Some(current) =
            self.fold.as_mut().filter(|current| current.id == fold && current.accepted.is_none())
        else {
            return;
        };
        current.rung += 1;
        if current.rung < rungs {
            let (rung, limit, count) = (current.rung, current.limit, current.count);
            let rounds = self.first..self.first + count as u64;
            self.effects.push_back(Effect::Summarise { fold, rounds, rung, limit });
        } else {
            let count = current.count;
            self.fold = None;
            self.gave_up(count);
        }
    }

    /// Notes that an attempt changed nothing, so that it is not made again.
    fn gave_up(&mut self, count: usize) {
        if count == 0 {
            self.cannot_shorten = true;
        } else {
            self.stuck = Some(self.tokens());
        }
    }

    fn settle(&mut self, fold: FoldId) {
        let Some(done) =
            self.fold.take_if(|current| current.id == fold && current.accepted.is_some())
        else {
            return;
        };
        let before = self.tokens();
        self.rounds.drain(..done.count);
        self.first += done.count as u64;
        self.summary = done.accepted.unwrap_or_default();
        self.undone = false;
        if self.tokens() >= before {
            self.gave_up(done.count);
        }
    }

    /// Starts a fold if one is needed and none is under way.
    fn consider(&mut self) {
        let over = self.tokens().saturating_sub(self.settings.budget);
        if over == Tokens::ZERO {
            self.said_over = false;
        }
        if self.fold.is_some() {
            return;
        }
        let crowded = self.rounds.len() > self.rounds_max();
        if !crowded && over == Tokens::ZERO {
            return;
        }
        if self.stuck == Some(self.tokens()) {
            if over > Tokens::ZERO && !self.said_over {
                self.said_over = true;
                self.effects.push_back(Effect::OverBudget { by: over });
            }
            return;
        }
        if let Some((count, limit)) = self.choose() {
            self.begin(count, limit);
        } else {
            self.stuck = Some(self.tokens());
            self.consider();
        }
    }

    fn begin(&mut self, count: usize, limit: Tokens) {
        self.next += 1;
        let id = FoldId(self.next);
        let rounds = self.first..self.first + count as u64;
        self.fold = Some(Fold { id, count, rung: 0, limit, accepted: None });
        self.effects.push_back(Effect::Summarise { fold: id, rounds, rung: 0, limit });
    }

    /// The most that a summary may have beside rounds of that size.
    fn limit_beside(&self, kept: Tokens) -> Tokens {
        let room = self.settings.budget.saturating_sub(kept);
        let summary_max = self.settings.summary_max;
        if room > Tokens::ZERO { room.min(summary_max) } else { summary_max }
    }

    fn rounds_max(&self) -> usize {
        if self.undone { usize::MAX } else { self.settings.rounds_max }
    }

    /// How many rounds to fold and into how much; `None` if nothing is left to try.
    fn choose(&self) -> Option<(usize, Tokens)> {
        let Rolling { budget, summary_max, .. } = self.settings;
        let mut count = self.rounds.len().saturating_sub(self.rounds_max());
        let mut kept: Tokens = self.rounds.iter().skip(count).copied().sum();
        while self.rounds.len() - count > 1 && self.summary + kept > budget {
            kept -= self.rounds[count];
            count += 1;
        }
        let room = budget.saturating_sub(kept);
        if count > 0 {
            return Some((count, self.limit_beside(kept)));
        }
        // At most one round is left and it is over: a shorter summary first, then the round goes too.
        if self.summary > Tokens::ZERO && room > Tokens::ZERO && !self.cannot_shorten {
            return Some((0, room.min(summary_max)));
        }
        (!self.rounds.is_empty()).then_some((1, budget.min(summary_max)))
    }
}
