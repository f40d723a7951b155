//! What a session must not forget.

mod lifecycle;
mod weight;

use std::cmp::Reverse;

use longhand_core::Role;
use longhand_core::anchor::{Anchor, AnchorKind, Miner, Saying, statements};
use rustc_hash::FxHashMap;

pub(crate) use self::weight::Class;
use self::weight::{class_of, class_of_word};
use crate::block::{self, Line};
use crate::presence::Told;
use crate::prose::{Label, speeches};
use crate::terms::terms;
use crate::{Round, quote};

/// A fact that must survive, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its kind.
    pub kind: AnchorKind,
    /// The words: a pin as it was given, anything else on one line.
    pub text: String,
    /// Who said it first.
    pub by: Role,
    /// The round in which it was last said; unknown if only an earlier summary tells of it.
    pub round: Option<u64>,
    /// How often it was said.
    pub uses: u32,
    pub(crate) class: Class,
    pub(crate) terms: Vec<u64>,
}

impl Fact {
    /// Whether a conversation cannot do without it: a pin, a statement, the id of a goal or session.
    pub fn is_essential(&self) -> bool {
        !matches!(self.class, Class::Word | Class::Remark)
    }
}

/// The facts of a session, gathered round by round.
///
/// Kept from fold to fold they know most; made anew from the earlier summary and the folded rounds they
/// know what the summary's block of facts tells.
///
/// ```
/// use longhand_summary::{Facts, Round};
///
/// let mut facts = Facts::default();
/// facts.pin("The customer is ACME.");
/// facts.read(&Round { number: 1, user: "Never push to main.", assistant: "Working on g-7.", ..Round::default() });
/// let missing: Vec<_> = facts.check("Work on g-7 began.").missing.iter().map(|fact| &*fact.text).collect();
/// assert_eq!(missing, ["The customer is ACME.", "Never push to main."]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Facts {
    miner: Miner,
    entries: Vec<Entry>,
    places: FxHashMap<(AnchorKind, String), usize>,
    /// The newest round.
    newest: u64,
    /// The questions of the text that was heard last, and who asked.
    asked: Vec<usize>,
    asker: Option<Role>,
    /// The first entry that what is being heard may settle.
    settles_from: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    fact: Fact,
    /// Answered, lifted or unpinned.
    settled: bool,
    /// Where it stood in the block of an earlier summary.
    carried_at: u64,
}

/// How a text is heard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// As it is said; it may ask again what was settled.
    Live,
    /// From a line that a summary copied.
    Quoted,
    /// From the words of whoever wrote a summary, who may have made them up.
    Written,
}

/// Which facts a summary tells.
#[derive(Clone, Debug, Default)]
pub struct Check<'f> {
    /// Those that it tells.
    pub kept: Vec<&'f Fact>,
    /// Those that it does not, the weightiest first.
    pub missing: Vec<&'f Fact>,
}

/// A text with more statements than this is no talk.
const STATEMENTS_PER_TEXT_MAX: usize = 200;

/// A text with more rules than this was pasted.
const RULES_MAX: usize = 8;

impl Facts {
    /// Starts with nothing; `miner` knows the ids of this project.
    pub fn new(miner: Miner) -> Self {
        Self { miner, ..Self::default() }
    }

    /// Adds words that must survive as they are.
    pub fn pin(&mut self, text: &str) {
        if !text.trim().is_empty() {
            let at = self.add(AnchorKind::Pin, Class::Pin, text.to_owned(), Role::User, None);
            self.entries[at].settled = false;
        }
    }

    /// Takes a pin back.
    pub fn unpin(&mut self, text: &str) {
        if let Some(at) = self.places.get(&(AnchorKind::Pin, key(AnchorKind::Pin, text))) {
            self.entries[*at].settled = true;
        }
    }

    /// Adds what an earlier summary tells: its block of facts, and what its prose mentions.
    ///
    /// Pins in it are passed over: whoever pins says so each time. What is known as settled stays so.
    pub fn carry(&mut self, earlier: &str) {
        let (prose, body) = block::split(earlier);
        for (line, row) in body.lines().filter_map(block::read).zip(0..) {
            match line {
                Line::Pin(_) => {}
                Line::Said { kind, by, round, text } => {
                    let headed = block::headed_kind(text).is_some();
                    self.add(kind, class_of(kind, by, headed), quote::line(text), by, round);
                }
                Line::Names(names) => {
                    for (name, column) in names.into_iter().zip(0..) {
                        let mined = self.miner.mine(name).find(|anchor| anchor.text == name);
                        let word = mined.unwrap_or(Anchor { kind: AnchorKind::Id, text: name });
                        let class = class_of_word(word, &self.miner);
                        let name = quote::line(name);
                        let at = self.add(word.kind, class, name, Role::Assistant, None);
                        self.entries[at].carried_at = row * 16 + column;
                    }
                }
            }
        }
        // A summary that lies about what is over settles nothing but its own words.
        self.settles_from = self.entries.len();
        for speech in speeches(prose) {
            self.newest = self.newest.max(speech.round.unwrap_or_default());
            let heard = if speech.label == Label::Writer { Heard::Written } else { Heard::Quoted };
            self.hear(speech.label.role(), speech.round, speech.text, heard);
        }
        self.settles_from = 0;
        self.asked.clear();
    }

    /// Adds what was said in a round, and settles the questions and blockers that it settles.
    pub fn read(&mut self, round: &Round) {
        let number = Some(round.number);
        self.newest = self.newest.max(round.number);
        self.hear(Role::User, number, round.user, Heard::Live);
        for trace in &round.tools {
            self.hear(Role::Tool, number, trace.summary, Heard::Live);
        }
        self.hear(Role::Assistant, number, round.assistant, Heard::Live);
    }

    /// The facts that are still to be carried, the weightiest first.
    pub fn open(&self) -> Vec<&Fact> {
        let open = self.entries.iter().enumerate().filter(|(_, entry)| !entry.settled);
        let mut open: Vec<_> = open.collect();
        open.sort_by_cached_key(|(at, entry)| Reverse((entry.fact.class, self.score(entry), *at)));
        open.into_iter().map(|(_, entry)| &entry.fact).collect()
    }

    /// Compares a summary with the facts that are still to be carried.
    pub fn check(&self, summary: &str) -> Check<'_> {
        let told = Told::new(summary);
        let (kept, missing) = self.open().into_iter().partition(|fact| told.has(fact));
        Check { kept, missing }
    }

    /// Like [`Facts::check`], but a statement is only kept if it can be read from the summary again.
    ///
    /// A summary in other words tells a decision, but the next fold would not know it for one; and no
    /// summary can give a rule, since only users do.
    pub(crate) fn check_lasting(&self, summary: &str) -> Check<'_> {
        let told = Told::new(summary);
        let mut again = Self::new(self.miner.clone());
        again.carry(summary);
        let lasts = |fact: &Fact| match fact.class {
            Class::Word | Class::OwnId | Class::Pin => true,
            _ => {
                let place = again.places.get(&(fact.kind, key(fact.kind, &fact.text)));
                let known = place.map(|at| &again.entries[*at]);
                known.is_some_and(|known| !known.settled && known.fact.class >= fact.class)
            }
        };
        let (kept, missing) =
            self.open().into_iter().partition(|fact| told.has(fact) && lasts(fact));
        Check { kept, missing }
    }

    /// Whether a sentence is a question that was answered or a blocker that was lifted.
    pub(crate) fn is_settled(&self, kind: AnchorKind, sentence: &str) -> bool {
        let place = self.places.get(&(kind, key(kind, sentence)));
        place.is_some_and(|at| self.entries[*at].settled)
    }

    fn hear(&mut self, by: Role, round: Option<u64>, text: &str, heard: Heard) {
        if text.trim().is_empty() {
            return;
        }
        if by != Role::Tool {
            self.take_for_an_answer(by, text);
        }
        let said: Vec<_> = statements(text, by).take(STATEMENTS_PER_TEXT_MAX).collect();
        let rules = said.iter().filter(|said| said.saying == Saying::Rules).count();
        for said in said {
            let Some(kind) = said.saying.anchor() else {
                self.settle(said, by);
                continue;
            };
            if lifecycle::is_rhetorical(said, text, by) {
                continue;
            }
            let pasted = kind == AnchorKind::Rule && rules > RULES_MAX;
            let headed = said.saying != Saying::Asks;
            let doubtful = pasted || heard == Heard::Written;
            let class = if doubtful { Class::Remark } else { class_of(kind, by, headed) };
            let at = self.add(kind, class, quote::line(said.text), by, round);
            self.entries[at].settled &= heard != Heard::Live;
            match kind {
                AnchorKind::Question if by != Role::Tool => {
                    self.asked.push(at);
                    self.asker = Some(by);
                }
                AnchorKind::Decision => self.settle_by_decision(at, by),
                _ => {}
            }
        }
        let miner = std::mem::take(&mut self.miner);
        for anchor in miner.mine(text) {
            let class = class_of_word(anchor, &miner);
            self.add(anchor.kind, class, anchor.text.to_owned(), by, round);
        }
        self.miner = miner;
        self.forget_the_lightest();
    }

    /// Adds a fact, or another use of one.
    fn add(
        &mut self,
        kind: AnchorKind,
        class: Class,
        text: String,
        by: Role,
        round: Option<u64>,
    ) -> usize {
        let at = *self.places.entry((kind, key(kind, &text))).or_insert_with(|| {
            let terms = if class > Class::OwnId { terms(&text) } else { Vec::new() };
            let fact = Fact { kind, text, by, round: None, uses: 0, class, terms };
            self.entries.push(Entry { fact, settled: false, carried_at: 0 });
            self.entries.len() - 1
        });
        let fact = &mut self.entries[at].fact;
        fact.uses = fact.uses.saturating_add(1);
        fact.round = fact.round.max(round);
        fact.class = fact.class.max(class);
        at
    }
}

/// What makes two facts the same: a word or a pin is itself, a sentence its words.
fn key(kind: AnchorKind, text: &str) -> String {
    if !matches!(
        kind,
        AnchorKind::Rule | AnchorKind::Decision | AnchorKind::Blocker | AnchorKind::Question
    ) {
        return text.to_owned();
    }
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}
