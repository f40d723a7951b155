//! How much messages mean what a question means, as a model of language says it.
//!
//! Whoever has such a model hands in vectors. Nothing here depends on what made them.

use std::collections::BTreeMap;

/// A longer text has so many passages at most; what comes after them is found by its words alone.
const PASSAGES_MAX: usize = 8;
/// A passage ends before it is longer: models like these read some 200 words.
const PASSAGE_BYTES_MAX: usize = 900;

/// What a text means: a vector of length 1, a byte for each number.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    scale: f32,
    numbers: Box<[i8]>,
}

impl Vector {
    /// Rounds the numbers of a vector.
    pub fn of(numbers: &[f32]) -> Self {
        let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
        let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        if !(most > 0.0 && length.is_finite()) {
            return Self { scale: 0.0, numbers: vec![0; numbers.len()].into() };
        }
        let step = most / f32::from(i8::MAX);
        let numbers = numbers.iter().map(|number| (number / step).round() as i8).collect();
        Self { scale: step / length, numbers }
    }

    /// How much it points where another does: 1 for the same direction, 0 for nothing in common.
    fn likeness(&self, asked: &[f32]) -> f32 {
        if asked.len() != self.numbers.len() {
            return 0.0;
        }
        let products = asked.iter().zip(&self.numbers);
        self.scale * products.map(|(one, other)| one * f32::from(*other)).sum::<f32>()
    }

    /// Its bytes: four of its scale, one for each number.
    pub fn to_bytes(&self) -> impl Iterator<Item = u8> {
        let numbers = self.numbers.iter().map(|number| number.cast_unsigned());
        self.scale.to_le_bytes().into_iter().chain(numbers)
    }

    /// Reads what [`Vector::to_bytes`] wrote; `None` if it is too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scale, numbers) = bytes.split_first_chunk()?;
        let scale = f32::from_le_bytes(*scale);
        let numbers = numbers.iter().map(|byte| byte.cast_signed()).collect();
        Some(Self { scale: if scale.is_finite() { scale } else { 0.0 }, numbers })
    }
}

/// How much each entry of a conversation means what is asked for.
#[derive(Clone, Debug, Default)]
pub struct Likeness {
    of_entries: BTreeMap<u64, f32>,
}

impl Likeness {
    /// Compares a question with the passages of entries.
    pub fn of<'v>(asked: &[f32], entries: impl IntoIterator<Item = (u64, &'v [Vector])>) -> Self {
        let likeness = |passages: &[Vector]| {
            let each = passages.iter().map(|vector| vector.likeness(asked));
            each.fold(f32::NEG_INFINITY, f32::max)
        };
        let entries = entries.into_iter().filter(|(_, passages)| !passages.is_empty());
        let of_entries = entries.map(|(entry, passages)| (entry, likeness(passages)));
        Self { of_entries: of_entries.collect() }
    }

    /// How much an entry means what is asked for; `None` if that is not known.
    pub fn of_entry(&self, entry: u64) -> Option<f32> {
        self.of_entries.get(&entry).copied()
    }

    /// The entries that do most, at most so many, best first.
    pub fn nearest(&self, limit: usize) -> Vec<u64> {
        let mut entries: Vec<(u64, f32)> =
            self.of_entries.iter().map(|(entry, likeness)| (*entry, *likeness)).collect();
        entries.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        entries.into_iter().take(limit).map(|(entry, _)| entry).collect()
    }

    /// The mean of all, from which the best stand out.
    pub(crate) fn mean(&self) -> f32 {
        let sum: f32 = self.of_entries.values().sum();
        sum / (self.of_entries.len() as f32).max(1.0)
    }
}

/// The passages of a text that have a vector each: they end with lines, sentences or words.
pub fn passages(text: &str) -> Vec<&str> {
    let mut passages = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && passages.len() < PASSAGES_MAX {
        let head = longhand_core::cut::head(rest, PASSAGE_BYTES_MAX);
        let end = if head.len() == rest.len() { head.len() } else { good_end(head) };
        let (passage, others) = rest.split_at(end);
        passages.push(passage.trim_end());
        rest = others.trim_start();
    }
    passages
}

/// Where a passage ends well: in its second half, or where it must.
fn good_end(head: &str) -> usize {
    let half = head.len() / 2;
    let after = |sign: &str| head.rfind(sign).map(|at| at + sign.len()).filter(|end| *end > half);
    let ends = ["\n\n", "\n", ". ", "。", " "].into_iter().find_map(after);
    ends.filter(|end| *end > 0).unwrap_or(head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_keep_their_direction() {
        let numbers = [0.6, -0.8, 0.0];
        let vector = Vector::of(&numbers);
        let read = Vector::from_bytes(&vector.to_bytes().collect::<Vec<_>>()).unwrap();
        assert_eq!(read, vector);
        assert!((read.likeness(&numbers) - 1.0).abs() < 0.01);
        assert!(read.likeness(&[0.8, 0.6, 0.0]).abs() < 0.01);
        // A model that is not this one, a text without a meaning, and what was cut off.
        assert!(read.likeness(&[1.0]).abs() < f32::EPSILON);
        assert!(Vector::of(&[0.0, 0.0]).likeness(&[1.0, 0.0]).abs() < f32::EPSILON);
        assert!(Vector::of(&[f32::NAN, 1.0]).likeness(&[1.0, 0.0]).abs() < f32::EPSILON);
        assert_eq!(Vector::from_bytes(&[1, 2, 3]), None);
    }

    #[test]
    fn the_nearest_come_first() {
        let [east, north] = [[1.0, 0.0], [0.0, 1.0]].map(|numbers| Vector::of(&numbers));
        let entries: [(u64, &[Vector]); 4] = [
            (3, &[north.clone(), east.clone()]),
            (5, &[]),
            (7, std::slice::from_ref(&north)),
            (9, std::slice::from_ref(&east)),
        ];
        let likeness = Likeness::of(&[1.0, 0.0], entries);
        assert_eq!(likeness.nearest(9), [9, 3, 7]);
        assert_eq!(likeness.nearest(1), [9]);
        assert_eq!(likeness.of_entry(5), None);
        assert!((likeness.mean() - 2.0 / 3.0).abs() < 0.01);
    }

    #[test]
    fn passages_end_where_sentences_do() {
        assert!(passages(" \n ").is_empty());
        assert_eq!(passages(" short "), ["short"]);
        let sentence = "This is one sentence of a long answer. ";
        let long = sentence.repeat(60);
        let parts = passages(&long);
        assert!(parts.len() == 3 && parts.iter().all(|part| part.ends_with('.')), "{parts:?}");
        let signs = "好".repeat(5_000);
        let parts = passages(&signs);
        assert_eq!((parts.len(), parts[0].len()), (PASSAGES_MAX, PASSAGE_BYTES_MAX));
    }
}
