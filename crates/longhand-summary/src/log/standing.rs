//! Decisions, blockers and open questions, until they are settled.

use longhand_core::Role;
use longhand_core::anchor::{Saying, Statement, sentences, statements};

use crate::quote;
use crate::terms::{shared, terms};

/// A text with more statements than this is no talk.
const STATEMENTS_PER_TEXT_MAX: usize = 60;

/// The most statements that are kept; settled and light ones go first.
const STATEMENTS_MAX: usize = 160;

/// What kind of statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    Decision,
    Blocker,
    Question,
    /// A question in passing, which the next answer may settle.
    Aside,
}

impl StatementKind {
    pub(super) const ALL: [StatementKind; 4] = [
        StatementKind::Decision,
        StatementKind::Question,
        StatementKind::Blocker,
        StatementKind::Aside,
    ];

    /// The letter that stands for it in a state.
    pub(super) fn letter(self) -> &'static str {
        match self {
            StatementKind::Decision => "d",
            StatementKind::Blocker => "b",
            StatementKind::Question => "q",
            StatementKind::Aside => "a",
        }
    }

    fn is_question(self) -> bool {
        matches!(self, StatementKind::Question | StatementKind::Aside)
    }
}

/// A decision, a blocker or a question.
#[derive(Clone, Debug)]
pub(super) struct StandingItem {
    pub(super) kind: StatementKind,
    pub(super) by_user: bool,
    pub(super) round: u64,
    /// The message in which it was said last.
    pub(super) message: u64,
    /// Answered or lifted.
    pub(super) settled: bool,
    pub(super) text: String,
    terms: Vec<u64>,
}

/// Statements, and whether they are settled.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) items: Vec<StandingItem>,
    /// The questions of the text that was read last, and who asked them.
    asked: Vec<usize>,
    asker: Option<Role>,
}

impl Standing {
    /// Adds what a text states, and settles the questions and blockers that it settles.
    ///
    /// Tool results are ignored, because they quote anything.
    /// A question that a model asks while it continues to work is rhetorical.
    pub(super) fn hear(&mut self, by: Role, round: u64, message: u64, text: &str, works_on: bool) {
        if text.trim().is_empty() {
            return;
        }
        self.take_for_an_answer(by, text);
        for said in statements(text, by).take(STATEMENTS_PER_TEXT_MAX) {
            let kind = match said.saying {
                Saying::Decides => StatementKind::Decision,
                Saying::Blocks => StatementKind::Blocker,
                Saying::LeavesOpen => StatementKind::Question,
                Saying::Asks
                    if by == Role::Assistant && !works_on && !is_rhetorical(said, text) =>
                {
                    StatementKind::Aside
                }
                Saying::Unblocks | Saying::Answers => {
                    self.settle(said, by);
                    continue;
                }
                // The users' own orders and questions are told in their words.
                Saying::Asks | Saying::Rules => continue,
            };
            let at = self.add(kind, by == Role::User, round, message, &quote::line(said.text));
            if kind.is_question() {
                self.ask(at);
            } else if kind == StatementKind::Decision {
                self.settle_by_decision(at);
            }
        }
        self.forget_the_lightest();
    }

    /// Adds a statement, or says it again.
    pub(super) fn add(
        &mut self,
        kind: StatementKind,
        by_user: bool,
        round: u64,
        message: u64,
        text: &str,
    ) -> usize {
        let terms = terms(text);
        let is_same = |item: &StandingItem| {
            item.kind.is_question() == kind.is_question()
                && (item.text == text || (!terms.is_empty() && item.terms == terms))
        };
        if let Some(at) = self.items.iter().position(is_same) {
            let item = &mut self.items[at];
            (item.round, item.message, item.settled) = (round, message, false);
            return at;
        }
        let text = text.to_owned();
        self.items.push(StandingItem {
            kind,
            by_user,
            round,
            message,
            settled: false,
            text,
            terms,
        });
        self.items.len() - 1
    }

    /// Whether the next text may answer a question.
    pub(super) fn is_asked(&self, at: usize) -> bool {
        self.asker.is_some() && self.asked.contains(&at)
    }

    /// Marks a question as one that the next text may answer.
    pub(super) fn ask(&mut self, at: usize) {
        self.asked.push(at);
        self.asker = Some(if self.items[at].by_user { Role::User } else { Role::Assistant });
    }

    /// The open statements of a kind.
    #[cfg(test)]
    pub(super) fn open(
        &self,
        kind: StatementKind,
    ) -> impl DoubleEndedIterator<Item = &StandingItem> {
        self.items.iter().filter(move |item| item.kind == kind && !item.settled)
    }

    /// Settles the questions that the other side has just been asked, if its text reads like an answer.
    fn take_for_an_answer(&mut self, by: Role, text: &str) {
        if self.asker.is_none_or(|asker| asker == by) {
            return;
        }
        self.asker = None;
        let asked = std::mem::take(&mut self.asked);
        if let Some(last) = asked.last().map(|at| &mut self.items[*at]) {
            last.settled |= agrees_or_refuses(text, &last.terms);
        }
        let replies: Vec<_> =
            sentences(text).filter(|sentence| !sentence.text.ends_with('?')).collect();
        let heard = terms(&replies.iter().map(|reply| reply.text).collect::<Vec<_>>().join(" "));
        let short = text.split_whitespace().count() <= 6;
        for at in asked {
            let item = &mut self.items[at];
            // A model answers every question; a user may ignore one.
            let answered = by == Role::Assistant || short || shared(&heard, &item.terms) > 0;
            item.settled |= item.kind == StatementKind::Aside && !replies.is_empty() && answered;
        }
    }

    /// Settles the question or the blocker that a sentence is about.
    fn settle(&mut self, said: Statement, by: Role) {
        let lifts = said.saying == Saying::Unblocks;
        let is_kind = |item: &StandingItem| {
            if lifts { item.kind == StatementKind::Blocker } else { item.kind.is_question() }
        };
        let heard = terms(said.text);
        let open =
            || self.items.iter().enumerate().filter(|(_, item)| is_kind(item) && !item.settled);
        let matching = open().filter_map(|(at, item)| {
            let count = shared(&heard, &item.terms);
            let enough = count >= 2 || (count * 2 >= item.terms.len().min(heard.len()));
            (count > 0 && enough).then_some((count, at))
        });
        let best = matching.max().map(|(_, at)| at).or_else(|| {
            if lifts {
                // "Unblocked!" can only mean the one thing that was in the way.
                let mut open = open();
                open.next().filter(|_| heard.len() < 2 && open.next().is_none()).map(|(at, _)| at)
            } else {
                // "Answer: 8080." follows its question.
                self.asked.last().copied().filter(|_| self.asker != Some(by))
            }
        });
        let Some(best) = best else { return };
        self.items[best].settled = true;
        // The same matter in other words.
        let about = std::mem::take(&mut self.items[best].terms);
        for item in self.items.iter_mut().filter(|item| is_kind(item)) {
            let count = shared(&about, &item.terms);
            item.settled |= count >= 2 && count * 4 >= about.len().min(item.terms.len()) * 3;
        }
        self.items[best].terms = about;
    }

    /// Settles the questions that a decision answers: it has most of their terms, or is about little
    /// else.
    fn settle_by_decision(&mut self, decision: usize) {
        let decided = std::mem::take(&mut self.items[decision].terms);
        for item in self.items.iter_mut().filter(|item| item.kind.is_question()) {
            let count = shared(&decided, &item.terms);
            let all = item.terms.len();
            let most = (count >= 2 && count * 3 >= all * 2) || (count >= 3 && count * 2 >= all);
            item.settled |= most || (count >= 3 && count * 2 >= decided.len());
        }
        self.items[decision].terms = decided;
    }

    fn forget_the_lightest(&mut self) {
        if self.items.len() <= STATEMENTS_MAX {
            return;
        }
        self.asked.clear();
        self.asker = None;
        self.items.retain(|item| !item.settled);
        while self.items.len() > STATEMENTS_MAX * 3 / 4 {
            let lightest =
                self.items.iter().position(|item| item.kind == StatementKind::Aside).unwrap_or(0);
            self.items.remove(lightest);
        }
    }
}

/// Whether a model's question is rhetorical: real questions stand at the end of a text.
fn is_rhetorical(said: Statement, text: &str) -> bool {
    const TAIL_BYTES_MAX: usize = 200;
    let end = said.text.as_ptr().addr() - text.as_ptr().addr() + said.text.len();
    text[end..].trim().len() > TAIL_BYTES_MAX
}

/// Whether a text opens like the answer to a question of yes or no: with no more than that, or with
/// words of the question.
fn agrees_or_refuses(text: &str, about: &[u64]) -> bool {
    const OPENINGS: &[&str] =
        &["yes", "no", "yep", "yeah", "nope", "correct", "right", "exactly", "sure", "ok", "okay"];
    let Some(sentence) = sentences(text).next() else { return false };
    let mut words =
        sentence.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let opens = words
        .next()
        .is_some_and(|first| OPENINGS.iter().any(|opening| first.eq_ignore_ascii_case(opening)));
    opens && (words.count() <= 2 || shared(&terms(sentence.text), about) > 0)
}

#[cfg(test)]
#[path = "standing/tests.rs"]
mod tests;
