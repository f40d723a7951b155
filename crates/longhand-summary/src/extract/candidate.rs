//! The sentences that may be picked.

use longhand_core::Role;
use longhand_core::anchor::{Form, Miner, Saying, sentences, statements, telling_line};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::prose::{Label, speeches};
use crate::terms::{all_terms, shared, terms};
use crate::{Facts, Input, block};

/// A sentence with all that is known of it by itself.
pub(super) struct Candidate<'t> {
    pub(super) text: &'t str,
    pub(super) form: Form,
    pub(super) label: Label<'t>,
    pub(super) round: Option<u64>,
    /// Which text it is from, and its place among all sentences.
    pub(super) source: usize,
    pub(super) place: usize,
    /// Its terms and how much each tells, sorted by term; the squares of the shares sum up to one.
    pub(super) terms: Vec<(u64, f32)>,
    /// How much it tells by itself.
    pub(super) worth: f32,
}

/// The most candidates that are compared with each other.
const CANDIDATES_MAX: usize = 400;

/// How many of those are kept for the earlier summary, if it has so many.
const EARLIER_MAX: usize = 150;

/// What words of tools are worth beside those of the model, which knows what came of them.
const TOOLS_SHARE: f32 = 0.6;

/// A sentence of so many terms says something.
const TERMS_ENOUGH: f32 = 6.0;

/// The most bytes of a sentence that are looked at.
const SENTENCE_BYTES_MAX: usize = 1_200;

/// Gathers the sentences worth comparing, in the order they were said.
pub(super) fn candidates<'t>(input: &Input<'t>) -> Vec<Candidate<'t>> {
    let mut gathered = Gathered { wanted: wanted(input), ..Gathered::default() };
    let (prose, _) = block::split(input.earlier.unwrap_or_default());
    for speech in speeches(prose) {
        gathered.add(speech.label, speech.round, speech.text, true);
    }
    let earlier = gathered.sentences.len();
    for round in input.rounds {
        for trace in &round.tools {
            gathered.add(Label::Tool(trace.name), Some(round.number), trace.summary, false);
        }
        gathered.add(Label::Assistant, Some(round.number), round.assistant, false);
    }
    let facts = facts(input);
    let Gathered { mut sentences, frequency, .. } = gathered;
    let all = sentences.len();
    let mut seen = FxHashSet::default();
    sentences.retain(|sentence| seen.insert((sentence.text, sentence.label.role())));
    retain_unless_none(&mut sentences, |sentence| !is_settled(sentence, &facts));
    // "Done." and "Sure!" tell nothing.
    retain_unless_none(&mut sentences, |sentence| sentence.terms.len() >= 2);
    for sentence in &mut sentences {
        weigh_terms(&mut sentence.terms, &frequency, all);
    }
    select(sentences, earlier)
}

#[derive(Default)]
struct Gathered<'t> {
    sentences: Vec<Candidate<'t>>,
    /// In how many sentences a term is.
    frequency: FxHashMap<u64, u32>,
    /// The terms of the users' words.
    wanted: Vec<u64>,
    miner: Miner,
    sources: usize,
}

impl<'t> Gathered<'t> {
    fn add(&mut self, label: Label<'t>, round: Option<u64>, text: &'t str, earlier: bool) {
        let first = self.sentences.len();
        self.sources += 1;
        for sentence in sentences(text) {
            let text = sentence.text.trim_start_matches(['…', ' ']);
            let text = &text[..text.floor_char_boundary(SENTENCE_BYTES_MAX)];
            let mut all = all_terms(text);
            all.sort_unstable();
            let terms: Vec<(u64, f32)> =
                all.chunk_by(PartialEq::eq).map(|same| (same[0], same.len() as f32)).collect();
            if !text.contains(char::is_alphanumeric) {
                continue;
            }
            for (term, _) in &terms {
                *self.frequency.entry(*term).or_default() += 1;
            }
            let worth = self.worth(text, sentence.form, label.role(), &terms, earlier);
            self.sentences.push(Candidate {
                text,
                form: sentence.form,
                label,
                round,
                source: self.sources,
                place: self.sentences.len(),
                terms,
                worth,
            });
        }
        // A text says first what it is about, and last what came of it.
        let own = &mut self.sentences[first..];
        if let [head, .., last] = own
            && !earlier
        {
            head.worth += 0.3;
            last.worth += 0.4;
        }
    }

    fn worth(
        &self,
        text: &str,
        form: Form,
        role: Role,
        terms: &[(u64, f32)],
        earlier: bool,
    ) -> f32 {
        let mut worth: f32 = match form {
            Form::Prose | Form::Item => 1.0,
            Form::Heading => 0.5,
            Form::Line => 0.4,
        };
        // "Full run." tells less than it costs.
        worth *= (terms.len() as f32 / TERMS_ENOUGH).min(1.0);
        worth += statements(text, role).map(|said| worth_of(said.saying)).sum::<f32>();
        worth += (self.miner.mine(text).count() as f32 * 0.25).min(1.0);
        worth += if telling_line(text).is_some() { 0.8 } else { 0.0 };
        worth *= if role == Role::Tool { TOOLS_SHARE } else { 1.0 };
        worth += if earlier { 0.6 } else { 0.0 };
        let own: Vec<u64> = terms.iter().map(|(term, _)| *term).collect();
        worth += shared(&own, &self.wanted) as f32 / own.len().max(1) as f32;
        if opens_with_filler(text) { worth * 0.4 } else { worth }
    }
}

fn worth_of(saying: Saying) -> f32 {
    match saying {
        Saying::Decides => 1.5,
        Saying::Blocks | Saying::LeavesOpen => 1.2,
        Saying::Unblocks | Saying::Answers => 0.8,
        Saying::Asks | Saying::Rules => 0.3,
    }
}

/// Whether a sentence only announces what is done next.
fn opens_with_filler(text: &str) -> bool {
    #[rustfmt::skip]
    const FILLERS: &[&str] = &[
        "let me", "now let", "i'll", "i will now", "now i", "next, i", "sure", "great", "okay",
        "ok,", "thanks", "thank you", "you're welcome", "hello", "hi ", "happy to", "of course",
        "certainly", "perfect", "looking at", "let's", "first, let",
    ];
    FILLERS.iter().any(|filler| {
        text.get(..filler.len()).is_some_and(|start| start.eq_ignore_ascii_case(filler))
    })
}

/// Keeps what passes, or all if nothing does: little is better than no summary.
fn retain_unless_none(sentences: &mut Vec<Candidate>, passes: impl Fn(&Candidate) -> bool) {
    if sentences.iter().any(&passes) {
        sentences.retain(passes);
    }
}

/// The terms of what the users asked for.
fn wanted(input: &Input) -> Vec<u64> {
    const BYTES_MAX: usize = 2_000;
    let mut wanted = Vec::new();
    for round in input.rounds {
        wanted.extend(terms(&round.user[..round.user.floor_char_boundary(BYTES_MAX)]));
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

/// What became of the questions and blockers in the input.
fn facts(input: &Input) -> Facts {
    let mut facts = Facts::default();
    facts.carry(input.earlier.unwrap_or_default());
    input.rounds.iter().for_each(|round| facts.read(round));
    facts
}

fn is_settled(sentence: &Candidate, facts: &Facts) -> bool {
    statements(sentence.text, sentence.label.role())
        .filter_map(|said| Some((said.saying.anchor()?, said.text)))
        .any(|(kind, text)| facts.is_settled(kind, text))
}

/// Weighs each term by how often it is here and how seldom elsewhere, and makes lengths alike.
fn weigh_terms(terms: &mut [(u64, f32)], frequency: &FxHashMap<u64, u32>, all: usize) {
    for (term, weight) in &mut *terms {
        let everywhere = frequency.get(term).copied().unwrap_or(1).max(1);
        *weight = weight.sqrt() * (0.1 + log2(all as f32 / everywhere as f32));
    }
    let length = terms.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
    for (_, weight) in terms {
        *weight /= length.max(f32::MIN_POSITIVE);
    }
}

/// A logarithm that is near enough, and the same on every machine.
fn log2(number: f32) -> f32 {
    let mut rest = number.max(1.0);
    let mut log = 0.0;
    while rest >= 2.0 {
        rest /= 2.0;
        log += 1.0;
    }
    log + rest - 1.0
}

/// Keeps as many of the worthiest sentences as can be compared with each other, in order.
fn select(mut sentences: Vec<Candidate>, earlier: usize) -> Vec<Candidate> {
    if sentences.len() <= CANDIDATES_MAX {
        return sentences;
    }
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    // Of equals the newest.
    order.sort_by(|a, b| sentences[*b].worth.total_cmp(&sentences[*a].worth).then(b.cmp(a)));
    let (old, new): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|at| sentences[*at].place < earlier);
    let old_count = old.len().min(EARLIER_MAX.max(CANDIDATES_MAX.saturating_sub(new.len())));
    let mut keep = vec![false; sentences.len()];
    old.iter().take(old_count).for_each(|at| keep[*at] = true);
    new.iter().take(CANDIDATES_MAX - old_count).for_each(|at| keep[*at] = true);
    let mut kept = keep.into_iter();
    sentences.retain(|_| kept.next().unwrap_or_default());
    sentences
}
