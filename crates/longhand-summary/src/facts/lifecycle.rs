//! Questions that are answered and blockers that are lifted.

use longhand_core::Role;
use longhand_core::anchor::{AnchorKind, Saying, Statement, sentences};

use super::{Class, Entry, Facts};
use crate::terms::{shared, terms};

impl Facts {
    /// Settles the questions that the other side has just been asked, if its text reads like an answer.
    pub(super) fn take_for_an_answer(&mut self, by: Role, text: &str) {
        let asked = std::mem::take(&mut self.asked);
        if self.asker.take().is_none_or(|asker| asker == by) {
            return;
        }
        let asked: Vec<_> = asked.into_iter().filter(|at| *at >= self.settles_from).collect();
        if agrees_or_refuses(text)
            && let Some(last) = asked.last()
        {
            self.entries[*last].settled = true;
        }
        let replies: Vec<_> =
            sentences(text).filter(|sentence| !sentence.text.ends_with('?')).collect();
        let heard = terms(&replies.iter().map(|reply| reply.text).collect::<Vec<_>>().join(" "));
        let short = text.split_whitespace().count() <= 6;
        for at in asked {
            let Entry { fact, settled, .. } = &mut self.entries[at];
            // A model answers what it is asked; a user may pass a question over.
            let answered = by == Role::Assistant || short || shared(&heard, &fact.terms) > 0;
            *settled |= fact.class == Class::Remark && !replies.is_empty() && answered;
        }
    }

    /// Settles the question or the blocker that a sentence is about, unless a tool says so: it quotes
    /// whatever it reads.
    pub(super) fn settle(&mut self, said: Statement, by: Role) {
        if by == Role::Tool {
            return;
        }
        let kind = match said.saying {
            Saying::Unblocks => AnchorKind::Blocker,
            _ => AnchorKind::Question,
        };
        let heard = terms(said.text);
        let is_open = |entry: &Entry| entry.fact.kind == kind && !entry.settled;
        let from = self.settles_from;
        let entries = || self.entries.iter().enumerate().skip(from);
        let open = || entries().filter(|(_, entry)| is_open(entry));
        let matching = open().filter_map(|(at, entry)| {
            let count = shared(&heard, &entry.fact.terms);
            let enough = count >= 2 || (count * 2 >= entry.fact.terms.len().min(heard.len()));
            (count > 0 && enough).then_some((count, at))
        });
        let best = matching.max().map(|(_, at)| at).or_else(|| match kind {
            // "Unblocked!" can only mean the one thing that was in the way.
            AnchorKind::Blocker => {
                let mut open = open();
                open.next().filter(|_| heard.len() < 2 && open.next().is_none()).map(|(at, _)| at)
            }
            // "Answer: 8080." follows its question.
            _ => self.asked.last().copied().filter(|at| *at >= from && self.asker != Some(by)),
        });
        let Some(best) = best else { return };
        self.entries[best].settled = true;
        // The same matter in other words, as a summary may have put it.
        let about = std::mem::take(&mut self.entries[best].fact.terms);
        let same_kind = self.entries[from..].iter_mut().filter(|entry| entry.fact.kind == kind);
        for entry in same_kind {
            let count = shared(&about, &entry.fact.terms);
            entry.settled |= count >= 2 && count * 4 >= about.len().min(entry.fact.terms.len()) * 3;
        }
        self.entries[best].fact.terms = about;
    }

    /// Settles the questions that a decision answers: it has most of their terms.
    pub(super) fn settle_by_decision(&mut self, decision: usize, by: Role) {
        if by == Role::Tool {
            return;
        }
        let decided = std::mem::take(&mut self.entries[decision].fact.terms);
        for entry in &mut self.entries[self.settles_from..] {
            let count = shared(&decided, &entry.fact.terms);
            let all = entry.fact.terms.len();
            let most = (count >= 2 && count * 3 >= all * 2) || (count >= 3 && count * 2 >= all);
            entry.settled |= entry.fact.kind == AnchorKind::Question && most;
        }
        self.entries[decision].fact.terms = decided;
    }
}

/// Whether a model asked itself: what it wants to know from others it asks at the end.
pub(super) fn is_rhetorical(said: Statement, text: &str, by: Role) -> bool {
    const TAIL_BYTES_MAX: usize = 200;
    let end = said.text.as_ptr().addr() - text.as_ptr().addr() + said.text.len();
    said.saying == Saying::Asks
        && by == Role::Assistant
        && text[end..].trim().len() > TAIL_BYTES_MAX
}

/// Whether a text opens like the answer to a question of yes or no.
fn agrees_or_refuses(text: &str) -> bool {
    const OPENINGS: &[&str] =
        &["yes", "no", "yep", "yeah", "nope", "correct", "right", "exactly", "sure", "ok", "okay"];
    let first = text.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    OPENINGS.iter().any(|opening| first.eq_ignore_ascii_case(opening))
}
