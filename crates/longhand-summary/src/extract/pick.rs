//! Which candidates make the summary.

use longhand_core::{Scale, Tokens};

use super::candidate::Candidate;
use super::centrality::Centrality;
use super::write::{label, words};
use crate::prose::round_title;

/// What is as like a picked sentence as this says the same again.
const LIKENESS_MAX: f32 = 0.7;

/// How much of a sentence's worth likeness to a picked one takes.
const PENALTY: f32 = 0.8;

/// What centrality counts for beside the worth of a sentence by itself.
const CENTRALITY: f32 = 1.5;

/// Picks greedily what adds most for its tokens.
pub(super) struct Picker<'c, 't> {
    candidates: &'c [Candidate<'t>],
    central: &'c Centrality,
    /// What each candidate costs on a line of its own.
    tokens: Vec<Tokens>,
    /// How like each is to what is picked.
    alike: Vec<f32>,
    left: Vec<usize>,
    /// The picked, the best first.
    pub(super) picked: Vec<usize>,
    /// What the picked cost; piece by piece they seldom cost less than together.
    pub(super) spent: Tokens,
}

impl<'c, 't> Picker<'c, 't> {
    pub(super) fn new(
        candidates: &'c [Candidate<'t>],
        central: &'c Centrality,
        scale: &Scale,
    ) -> Self {
        let line = |candidate: &Candidate| label(candidate.label) + &words(candidate);
        Self {
            candidates,
            central,
            tokens: candidates.iter().map(|own| scale.text(&line(own)) + Tokens(1)).collect(),
            alike: vec![0.0; candidates.len()],
            left: (0..candidates.len()).collect(),
            picked: Vec::new(),
            spent: Tokens::ZERO,
        }
    }

    /// Picks until nothing more fits into `limit` tokens, and says whether it picked anything.
    pub(super) fn fill(&mut self, limit: Tokens, scale: &Scale) -> bool {
        let before = self.picked.len();
        let mut left = std::mem::take(&mut self.left);
        let mut too_large = Vec::new();
        loop {
            left.retain(|at| {
                let fits = self.spent + self.tokens[*at] <= limit;
                if !fits {
                    too_large.push(*at);
                }
                fits && self.alike[*at] < LIKENESS_MAX
            });
            // Of equals the first said.
            let best = left
                .iter()
                .copied()
                .max_by(|a, b| self.gain(*a).total_cmp(&self.gain(*b)).then(b.cmp(a)));
            let Some(best) = best else { break };
            left.retain(|at| *at != best);
            let cost = self.tokens[best] + self.title(best, scale);
            if self.spent + cost > limit {
                too_large.push(best);
                continue;
            }
            self.spent += cost;
            self.picked.push(best);
            for (at, alike) in self.alike.iter_mut().enumerate() {
                *alike = alike.max(self.central.likeness(best, at));
            }
        }
        self.left = too_large;
        self.picked.len() > before
    }

    fn gain(&self, at: usize) -> f32 {
        let new = 1.0 - PENALTY * self.alike[at];
        score(self.candidates, self.central, at) * new / (10.0 + self.tokens[at].0 as f32).sqrt()
    }

    /// What the title of a candidate's round costs, if no picked one has brought it.
    fn title(&self, at: usize, scale: &Scale) -> Tokens {
        let round = self.candidates[at].round;
        match round {
            Some(number) if !self.picked.iter().any(|at| self.candidates[*at].round == round) => {
                scale.text(&round_title(number)) + Tokens(1)
            }
            _ => Tokens::ZERO,
        }
    }
}

/// The candidate that tells most, whatever its size.
pub(super) fn best(candidates: &[Candidate], central: &Centrality) -> usize {
    let score = |at: usize| score(candidates, central, at);
    (0..candidates.len())
        .max_by(|a, b| score(*a).total_cmp(&score(*b)).then(b.cmp(a)))
        .unwrap_or_default()
}

fn score(candidates: &[Candidate], central: &Centrality, at: usize) -> f32 {
    candidates[at].worth + CENTRALITY * central.scores[at]
}
