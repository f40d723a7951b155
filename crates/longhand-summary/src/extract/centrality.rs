//! How much sentences have in common, and which stand in the middle.

use super::candidate::Candidate;

/// What is known of candidates together.
pub(super) struct Centrality {
    /// How central each is; the most central has one.
    pub(super) scores: Vec<f32>,
    likeness: Vec<f32>,
    count: usize,
}

impl Centrality {
    /// How alike two candidates are, from zero to one.
    pub(super) fn likeness(&self, one: usize, other: usize) -> f32 {
        self.likeness[one * self.count + other]
    }
}

/// A surfer of sentences follows a likeness this often and starts anew otherwise.
const DAMPING: f32 = 0.85;

/// Rounds of the walk; it has settled long before.
const ROUNDS: usize = 20;

/// Less than this is chance.
const LIKENESS_MIN: f32 = 0.08;

/// Walks from sentence to sentence by their likeness (`LexRank`); the often visited are central.
pub(super) fn centrality(candidates: &[Candidate]) -> Centrality {
    let count = candidates.len();
    let mut likeness = vec![0.0; count * count];
    for (one, candidate) in candidates.iter().enumerate() {
        for (other, with) in candidates.iter().enumerate().skip(one) {
            let alike = dot(&candidate.terms, &with.terms).min(1.0);
            likeness[one * count + other] = alike;
            likeness[other * count + one] = alike;
        }
    }
    let alike = |one: usize, other: usize| {
        let alike = likeness[one * count + other];
        if one == other || alike < LIKENESS_MIN { 0.0 } else { alike }
    };
    let sums: Vec<f32> =
        (0..count).map(|one| (0..count).map(|other| alike(one, other)).sum()).collect();
    let mut scores = vec![1.0; count];
    for _ in 0..ROUNDS {
        let shares: Vec<f32> = scores
            .iter()
            .zip(&sums)
            .map(|(score, sum): (&f32, &f32)| if *sum > 0.0 { score / sum } else { 0.0 })
            .collect();
        scores = (0..count)
            .map(|one| {
                let visits: f32 =
                    shares.iter().enumerate().map(|(other, share)| alike(one, other) * share).sum();
                1.0 - DAMPING + DAMPING * visits
            })
            .collect();
    }
    let most = scores.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    for score in &mut scores {
        *score /= most;
    }
    Centrality { scores, likeness, count }
}

/// The cosine of two lists of weighted terms.
fn dot(one: &[(u64, f32)], other: &[(u64, f32)]) -> f32 {
    let (mut at, mut with, mut sum) = (0, 0, 0.0);
    while let (Some((a, weight)), Some((b, by))) = (one.get(at), other.get(with)) {
        if a == b {
            sum += weight * by;
        }
        at += usize::from(a <= b);
        with += usize::from(b <= a);
    }
    sum
}
