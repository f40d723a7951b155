//! The block that puts back what a summary left out.

use longhand_core::{Scale, Tokens};

use crate::Fact;
use crate::block::{BLOCK_CLOSE, BLOCK_OPEN, Line};
use crate::facts::Class;

/// A block of facts.
#[derive(Clone, Debug, Default)]
pub struct Restored<'f> {
    /// The block; empty if nothing is restored.
    pub text: String,
    /// The facts in it, the weightiest first.
    pub restored: Vec<&'f Fact>,
    /// The facts for which there was no room.
    pub dropped: Vec<&'f Fact>,
}

/// The share of the room that words get before the lesser sentences, in percent.
const WORDS_SHARE: u64 = 20;

/// How many words stand on a line.
const WORDS_PER_LINE: usize = 12;

/// Writes missing facts, the weightiest first, as quoted lines in at most `room` tokens.
///
/// Pins and rules come before all else; a fifth of what they leave is kept for ids, paths and figures,
/// which are small, so that long decisions do not crowd them out.
pub fn restore<'f>(missing: &[&'f Fact], room: Tokens, scale: &Scale) -> Restored<'f> {
    let mut draft = Draft { scale, room, spent: Tokens::ZERO, taken: vec![false; missing.len()] };
    draft.spent = scale.text(BLOCK_OPEN) + scale.text(BLOCK_CLOSE) + Tokens(2);
    let classes = |low: Class, high: Class| {
        missing.iter().enumerate().filter(move |(_, fact)| (low..=high).contains(&fact.class))
    };
    draft.take(classes(Class::Rule, Class::Pin), room);
    let left = room.saturating_sub(draft.spent);
    let own = Tokens(left.0 * WORDS_SHARE / 100);
    let before = draft.spent;
    draft.take(classes(Class::OwnId, Class::OwnId), before + own);
    draft.take(classes(Class::Word, Class::Word), before + own);
    draft.take(classes(Class::Remark, Class::Decision), room);
    draft.take(classes(Class::Word, Class::OwnId), room);
    draft.write(missing)
}

struct Draft<'s, 'm> {
    scale: &'s Scale<'m>,
    room: Tokens,
    /// What is taken so far, counted piece by piece, which is seldom less than the whole.
    spent: Tokens,
    taken: Vec<bool>,
}

impl Draft<'_, '_> {
    /// Takes what fits below `limit` tokens in all.
    fn take<'a, 'f: 'a>(
        &mut self,
        facts: impl Iterator<Item = (usize, &'a &'f Fact)>,
        limit: Tokens,
    ) {
        for (at, fact) in facts {
            if self.taken[at] || self.spent >= limit {
                continue;
            }
            let tokens = if fact.class > Class::OwnId {
                self.scale.text(&line_of(fact).write())
            } else {
                // A comma, and its share of the line's label.
                self.scale.text(&fact.text) + Tokens(1)
            };
            if self.spent + tokens + Tokens(1) <= limit {
                self.spent += tokens + Tokens(1);
                self.taken[at] = true;
            }
        }
    }

    /// Writes the block, and takes the lightest out again for as long as it is too large.
    fn write<'f>(mut self, missing: &[&'f Fact]) -> Restored<'f> {
        loop {
            let (restored, dropped): (Vec<_>, Vec<_>) =
                missing.iter().zip(&self.taken).partition(|(_, taken)| **taken);
            let facts =
                |of: Vec<(&&'f Fact, &bool)>| of.into_iter().map(|(fact, _)| *fact).collect();
            let restored: Vec<&Fact> = facts(restored);
            let text = text_of(&restored);
            if self.scale.text(&text) <= self.room {
                return Restored { text, restored, dropped: facts(dropped) };
            }
            match self.taken.iter().rposition(|taken| *taken) {
                Some(last) => self.taken[last] = false,
                // A meter that charges for nothing.
                None => return Restored { dropped: missing.to_vec(), ..Restored::default() },
            }
        }
    }
}

fn line_of(fact: &Fact) -> Line<'_> {
    match fact.class {
        Class::Pin => Line::Pin(&fact.text),
        _ => Line::Said { kind: fact.kind, by: fact.by, round: fact.round, text: &fact.text },
    }
}

fn text_of(facts: &[&Fact]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let (said, words): (Vec<_>, Vec<_>) = facts.iter().partition(|fact| fact.class > Class::OwnId);
    let mut lines = vec![BLOCK_OPEN.to_owned()];
    lines.extend(said.into_iter().map(|fact| line_of(fact).write()));
    let words: Vec<&str> = words.into_iter().map(|fact| fact.text.as_str()).collect();
    lines.extend(words.chunks(WORDS_PER_LINE).map(|names| Line::Names(names.to_vec()).write()));
    lines.push(BLOCK_CLOSE.to_owned());
    lines.join("\n")
}
