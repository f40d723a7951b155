//! Which earlier messages are worth bringing back for a new one.
//!
//! A search looks for the message that has the words. Here it is what surrounds them that counts as much: an answer
//! seldom repeats the words of its question. So a message is scored by its own words, by those of the messages around
//! it, and by those of the day on which it was said. Then all is scored once more with the words that the best have in
//! common, which finds what was said about the same matter in other words.

use longhand_core::Role;
use rustc_hash::FxHashMap;

use crate::asked_date::{AskedDate, Day};
use crate::filler::is_filler;
use crate::likeness::Likeness;
use crate::question::{AskedWord, Question, WordKind};
use crate::rank::{Measure, RankedTerm, RankedWord, Ranker, Totals, idf};
use crate::texts::Texts;
use crate::words::Folded;

/// So many messages before and after one are around it.
pub const AROUND: u64 = 3;

/// What the words around a message and those of its day count, beside its own.
const AROUND_SHARE: f32 = 1.3;
const DAY_SHARE: f32 = 0.4;
/// What it adds that a message was said by somebody whom the question names,
const NAMED: f32 = 0.2;
/// by the user,
const USER: f32 = 0.2;
/// and at a time that the question names.
const DATED: f32 = 0.3;
/// What it adds that a message means what the question means, at most,
const LIKE: f32 = 1.0;
/// and what it adds if one beside it does.
const LIKE_AROUND: f32 = 0.5;
/// So many of the best messages say what else to look for,
const TELLING_TURNS: usize = 10;
/// in so many words,
const TELLING_WORDS: usize = 40;
/// of which the first counts so much beside a word of the question.
const TELLING_SHARE: f32 = 0.3;
/// A question with fewer words is about what was said before it.
const TELLING_WORDS_MIN: usize = 3;
/// Around a message and in a day, long texts lose a little less than among messages.
const LENGTH_SHARE_AROUND: f32 = 0.5;
const LENGTH_SHARE: f32 = 0.6;

/// A message that may be worth bringing back.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'t> {
    /// What search sees of it.
    pub text: &'t str,
    /// Its number in its conversation.
    pub place: u64,
    /// Who said it.
    pub speaker: Option<Role>,
    /// The name of who said it, if several people talk.
    pub name: Option<&'t str>,
    /// The day it was said on.
    pub day: Day,
}

/// How often texts have the words of a ranker.
struct Said {
    frequencies: Vec<f32>,
    length: f32,
}

/// Says how much each turn is worth for a question. The turns are in the order of their places. Where it is known what
/// they mean, that counts beside their words.
pub fn worth(
    ranker: &Ranker,
    question: &str,
    turns: &[Turn<'_>],
    likeness: Option<&Likeness>,
) -> Vec<f32> {
    let mut texts = Texts::default();
    for turn in turns {
        texts.add(turn.text);
    }
    let names = NamedSpeakers::of(question, turns);
    let date = AskedDate::of(question);
    let meant = likeness.map_or_else(|| vec![0.0; turns.len()], |likeness| meant(likeness, turns));
    let prior: Vec<f32> = turns
        .iter()
        .zip(&meant)
        .map(|(turn, meant)| {
            let of_name = if names.has(turn) { NAMED } else { 0.0 };
            let user = if turn.speaker == Some(Role::User) { USER } else { 0.0 };
            of_name + user + DATED * date.fits(turn.day) + meant
        })
        .collect();
    let ranker = ranker.without(&names.words);
    let has_words = texts.measures(&ranker).iter().any(|measure| !measure.found.is_empty());
    if !has_words && likeness.is_none() {
        return vec![0.0; turns.len()];
    }
    let score = |ranker: &Ranker| -> Vec<f32> {
        let said = said(ranker, &texts);
        scores(ranker, turns, &said)
            .iter()
            .zip(&prior)
            .map(|(score, prior)| score + prior)
            .collect()
    };
    let first = score(&ranker);
    let telling = telling_words(&texts, turns, &first, &names.words);
    if telling.is_empty() { first } else { score(&ranker.with(telling, texts.totals(|_| true))) }
}

/// What it counts that turns mean what the question means, and those beside them.
fn meant(likeness: &Likeness, turns: &[Turn<'_>]) -> Vec<f32> {
    let mean = likeness.mean();
    let above =
        |turn: &Turn<'_>| likeness.of_entry(turn.place).map_or(0.0, |of| of - mean).max(0.0);
    let alike = of_best(turns.iter().map(above).collect());
    let beside = |at: usize| {
        let is_near = |other: &usize| turns[*other].place.abs_diff(turns[at].place) <= 1;
        let near = [at.checked_sub(1), at.checked_add(1).filter(|next| *next < turns.len())];
        near.into_iter().flatten().filter(is_near).map(|other| alike[other]).fold(0.0, f32::max)
    };
    let each = alike.iter().enumerate();
    each.map(|(at, of)| LIKE * of + LIKE_AROUND * beside(at)).collect()
}

/// Says how much of a question each text has by itself.
pub fn fits(ranker: &Ranker, texts: &[&str]) -> Vec<f32> {
    let mut read = Texts::default();
    for text in texts {
        read.add(text);
    }
    bm25(ranker, &said(ranker, &read), LENGTH_SHARE)
}

/// How often each text has the words of a ranker.
fn said(ranker: &Ranker, texts: &Texts) -> Vec<Said> {
    let measures = texts.measures(ranker).into_iter();
    measures
        .map(|Measure { length, found }| {
            let mut frequencies = vec![0.0; ranker.words.len()];
            for found in found {
                let RankedTerm { word, weight, .. } = ranker.terms()[found.term];
                frequencies[word] += found.frequency as f32 * weight;
            }
            Said { frequencies, length: length as f32 }
        })
        .collect()
}

/// The words of each turn, around it and of its day, each as a share of the best.
fn scores(ranker: &Ranker, turns: &[Turn<'_>], said: &[Said]) -> Vec<f32> {
    let own = of_best(bm25(ranker, said, LENGTH_SHARE));
    let around: Vec<Said> = (0..turns.len())
        .map(|at| {
            let is_near = |other: &usize| turns[*other].place.abs_diff(turns[at].place) <= AROUND;
            let before = (0..at).rev().take_while(is_near);
            let after = (at..turns.len()).take_while(is_near);
            sum(ranker, before.chain(after).map(|other| &said[other]))
        })
        .collect();
    let around = of_best(bm25(ranker, &around, LENGTH_SHARE_AROUND));
    let mut days: FxHashMap<Day, usize> = FxHashMap::default();
    let mut of_days: Vec<Said> = Vec::new();
    for (turn, said) in turns.iter().zip(said) {
        let day = *days.entry(turn.day).or_insert_with(|| {
            of_days.push(sum(ranker, std::iter::empty()));
            of_days.len() - 1
        });
        add(&mut of_days[day], said);
    }
    let of_days = of_best(bm25(ranker, &of_days, LENGTH_SHARE_AROUND));
    let each = turns.iter().zip(own).zip(around);
    each.map(|((turn, own), around)| {
        own + AROUND_SHARE * around + DAY_SHARE * of_days[days[&turn.day]]
    })
    .collect()
}

fn bm25(ranker: &Ranker, said: &[Said], length_share: f32) -> Vec<f32> {
    let mean = said.iter().map(|said| said.length).sum::<f32>() / (said.len() as f32).max(1.0);
    let scores = said.iter();
    scores
        .map(|said| ranker.bm25(&said.frequencies, said.length / mean.max(1.0), length_share))
        .collect()
}

fn of_best(mut scores: Vec<f32>) -> Vec<f32> {
    let best = scores.iter().copied().fold(0.0, f32::max);
    if best > 0.0 {
        for score in &mut scores {
            *score /= best;
        }
    }
    scores
}

fn sum<'s>(ranker: &Ranker, of: impl Iterator<Item = &'s Said>) -> Said {
    let mut sum = Said { frequencies: vec![0.0; ranker.words.len()], length: 0.0 };
    of.for_each(|said| add(&mut sum, said));
    sum
}

fn add(sum: &mut Said, said: &Said) {
    sum.length += said.length;
    for (all, one) in sum.frequencies.iter_mut().zip(&said.frequencies) {
        *all += one;
    }
}

/// Words that the best turns have and most others do not, with what they count.
fn telling_words(
    texts: &Texts,
    turns: &[Turn<'_>],
    scores: &[f32],
    names: &[String],
) -> Vec<(String, u64, f32)> {
    let mut best: Vec<usize> = (0..turns.len()).collect();
    best.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
    best.truncate(TELLING_TURNS);
    let all = turns.len() as f32;
    let mut words: FxHashMap<String, f32> = FxHashMap::default();
    for at in best {
        let folded = Folded::of(turns[at].text);
        let length = folded.words().count().max(1) as f32;
        for word in folded.words() {
            let is_telling = word.text.len() > 2 && !is_filler(word.text);
            if is_telling && names.iter().all(|name| name != word.text) {
                *words.entry(word.text.to_owned()).or_default() += scores[at] / length;
            }
        }
    }
    let mut words: Vec<(String, u64, f32)> = words
        .into_iter()
        .map(|(word, said)| {
            let with = texts.with_word(&word);
            let worth = said * idf(with as f32, all);
            (word, with, worth)
        })
        .collect();
    words.sort_by(|(one, _, worth), (other, _, than)| than.total_cmp(worth).then(one.cmp(other)));
    words.truncate(TELLING_WORDS);
    let most = words.first().map_or(0.0, |(.., worth)| *worth);
    if most <= 0.0 {
        return Vec::new();
    }
    for (.., worth) in &mut words {
        *worth *= TELLING_SHARE / most;
    }
    words
}

/// The people whom a question names, among those who speak.
struct NamedSpeakers {
    /// All words of the names of all who speak: these tell nothing of what was said.
    words: Vec<String>,
    named: Vec<String>,
}

impl NamedSpeakers {
    fn of(question: &str, turns: &[Turn<'_>]) -> Self {
        let mut words: Vec<String> = Vec::new();
        for name in turns.iter().filter_map(|turn| turn.name) {
            for word in Folded::of(name).words() {
                if words.iter().all(|known| known != word.text) {
                    words.push(word.text.to_owned());
                }
            }
        }
        let asked = Folded::of(question);
        let asked: Vec<&str> = asked.words().map(|word| word.text).collect();
        let named = words.iter().filter(|word| asked.contains(&word.as_str())).cloned().collect();
        Self { words, named }
    }

    fn has(&self, turn: &Turn<'_>) -> bool {
        let Some(name) = turn.name.filter(|_| !self.named.is_empty()) else { return false };
        Folded::of(name).words().any(|word| self.named.iter().any(|named| named == word.text))
    }
}

impl Ranker {
    /// The same ranker without some words: they count for nothing.
    fn without(&self, words: &[String]) -> Self {
        let mut ranker = self.clone();
        for at in 0..ranker.terms().len() {
            let RankedTerm { term, word, .. } = &ranker.terms()[at];
            if words.iter().any(|name| name == term) {
                let word = *word;
                ranker.words[word].mute();
            }
        }
        ranker
    }

    /// The same ranker with more words, each with how many texts have it and what it counts.
    fn with(&self, more: Vec<(String, u64, f32)>, totals: Totals) -> Self {
        let (mut words, mut terms) = (self.words.clone(), self.terms().to_vec());
        for (term, entries, share) in more {
            words.push(RankedWord::telling(entries, share, totals));
            terms.push(RankedTerm { term, word: words.len() - 1, weight: 1.0 });
        }
        Self::new(words, terms, Vec::new(), Vec::new(), self.intent, totals)
    }
}

impl Question {
    /// Whether it has too few words to tell what it is about: "and the second one?"
    pub fn is_thin(&self) -> bool {
        let telling = |kind| matches!(kind, WordKind::Content | WordKind::Character);
        let telling = |word: &&AskedWord| telling(word.kind) && !is_filler(&word.text);
        self.words.iter().filter(telling).count() < TELLING_WORDS_MIN
    }

    /// Adds words that were said shortly before, as far as the question does not have them. They count little beside its
    /// own, unless those are words that most sentences have.
    pub fn add_context(&mut self, other: Self) {
        for word in &mut self.words {
            if is_filler(&word.text) {
                word.kind = WordKind::Filler;
            }
        }
        for word in other.words {
            let is_content = word.kind == WordKind::Content;
            if is_content && self.words.iter().all(|known| known.text != word.text) {
                self.words.push(AskedWord { kind: WordKind::Filler, ..word });
            }
        }
    }
}
