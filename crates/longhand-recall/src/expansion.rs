//! From a query to the terms that it may mean, as far as a vocabulary has them.

use crate::question::{AskedWord, Question, WordKind};
use crate::rank::{RankedTerm, RankedWord, Ranker, Totals};
use crate::vocabulary::{KnownTerm, SoughtTerms};

/// So many terms of a word are looked for: the surest, and of these the shortest.
const TERMS_OF_WORD_MAX: usize = 8;
/// So many terms of a query are looked for.
const TERMS_MAX: usize = 64;
/// Words that most sentences have are looked for beside others if no more entries have them.
const FILLER_ENTRIES_MAX: u64 = 2_048;
/// With so few entries, a word may be a slip.
const RARE_ENTRIES: u64 = 2;
/// A rare word with so many letters counts as a slip if another one that looks like it has so many times its entries.
const SLIP_LETTERS_MIN: usize = 6;
const SLIP_RATIO: u64 = 5;

/// A query on its way to a [`Ranker`]: says what to ask a vocabulary, and takes the answers.
#[derive(Debug)]
pub struct Expansion {
    question: Question,
    known: Vec<Vec<(KnownTerm, f32)>>,
}

impl Expansion {
    /// Begins with a query.
    pub fn new(question: Question) -> Self {
        let known = vec![Vec::new(); question.words.len()];
        Self { question, known }
    }

    /// What is asked first: the forms of every word.
    pub fn first(&self) -> Vec<SoughtTerms> {
        self.question.words.iter().map(SoughtTerms::of).collect()
    }

    /// Takes the answers to [`Expansion::first`].
    pub fn know(&mut self, answers: Vec<Vec<KnownTerm>>) {
        let sought = self.first();
        for ((known, sought), answer) in self.known.iter_mut().zip(&sought).zip(answers) {
            add(known, sought, answer);
        }
    }

    /// What is asked next: what words may mean that are not known, or hardly.
    pub fn second(&self) -> Vec<SoughtTerms> {
        self.doubtful().map(|at| SoughtTerms::similar(&self.question.words[at])).collect()
    }

    /// Takes the answers to [`Expansion::second`].
    pub fn know_similar(&mut self, answers: Vec<Vec<KnownTerm>>) {
        let doubtful: Vec<usize> = self.doubtful().collect();
        for (at, mut answer) in doubtful.into_iter().zip(answers) {
            let entries = self.entries_of(at);
            let (word, known) = (&self.question.words[at], &mut self.known[at]);
            let may_be_slip = word.text.chars().count() >= SLIP_LETTERS_MIN;
            answer.retain(|term| {
                entries == 0 || (may_be_slip && term.entries >= entries * SLIP_RATIO)
            });
            add(known, &SoughtTerms::similar(word), answer);
        }
    }

    /// The words that are not known, or hardly.
    fn doubtful(&self) -> impl Iterator<Item = usize> {
        let may_be =
            |word: &AskedWord| word.kind == WordKind::Content && !word.is_quoted && !word.is_prefix;
        let words = self.question.words.iter().enumerate();
        let words =
            words.filter(move |(at, word)| may_be(word) && self.entries_of(*at) <= RARE_ENTRIES);
        words.map(|(at, _)| at)
    }

    fn entries_of(&self, word: usize) -> u64 {
        self.known[word].iter().map(|(known, _)| known.entries).sum()
    }

    /// The ranker for what is known now.
    pub fn ranker(self, totals: Totals) -> Ranker {
        let terms_max = (TERMS_MAX / self.known.len().max(1)).clamp(1, TERMS_OF_WORD_MAX);
        let mut words = Vec::new();
        let mut terms = Vec::new();
        let is_told = |(word, known): (&AskedWord, &Vec<_>)| {
            word.kind != WordKind::Filler && !known.is_empty()
        };
        // What most sentences have tells little and costs most.
        let is_told = self.question.words.iter().zip(&self.known).any(is_told);
        for (at, (word, mut known)) in self.question.words.iter().zip(self.known).enumerate() {
            let entries: u64 = known.iter().map(|(known, _)| known.entries).sum();
            let is_dear = word.kind == WordKind::Filler && entries > FILLER_ENTRIES_MAX;
            known.truncate(if is_dear && is_told { 0 } else { terms_max });
            words.push(RankedWord::new(word, &known, totals));
            terms.extend(known.into_iter().map(|(known, weight)| RankedTerm {
                term: known.term,
                word: at,
                weight,
            }));
        }
        let Question { links, phrases, intent, .. } = self.question;
        Ranker::new(words, terms, links, phrases, intent, totals)
    }
}

/// Keeps the surest of the terms.
fn add(known: &mut Vec<(KnownTerm, f32)>, sought: &SoughtTerms, answer: Vec<KnownTerm>) {
    for term in answer {
        let is_new = known.iter().all(|(other, _)| other.term != term.term);
        if let Some(weight) = sought.weight(&term.term).filter(|_| is_new && term.entries > 0) {
            known.push((term, weight));
        }
    }
    known.sort_by(|(one, weight), (other, than)| {
        let surer = than.total_cmp(weight);
        surer.then(one.term.len().cmp(&other.term.len())).then(one.term.cmp(&other.term))
    });
    known.truncate(TERMS_OF_WORD_MAX);
}
