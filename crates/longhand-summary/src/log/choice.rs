//! Which lines a page shows in the room that is left: the most worth for each token, with less for what is said
//! already and for sources that have had their say.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhand_core::anchor::identifiers;
use longhand_core::{Scale, Tokens};
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet};

use super::excerpts::{Excerpts, SourceKind};
use super::heading::{DOCUMENTS, EXCERPTS, STORY};
use super::names::{Names, below};
use super::sheet::{SheetUnit, unit};
use crate::terms::terms;

/// What a line takes beside its words. More than it is, since the shortest lines seldom tell most.
const LINE_TOKENS: f64 = 8.0;

/// The share of the room after which lines of a kind count less, in percent, and how much they count then.
const DOCUMENT_PERCENT: u64 = 35;
const FILE_PERCENT: u64 = 35;
const OUTPUT_PERCENT: u64 = 15;
const STORY_PERCENT: u64 = 30;
const REPORT_PERCENT: u64 = 15;
const BEYOND_SHARE: f64 = 0.25;

/// After this many lines a source counts half.
const LINES_OF_SOURCE: f64 = 6.0;

/// The most that a name adds to a line that has it first.
const NAME_WORTH_MAX: f64 = 1.0;

/// A step of the story that may be told.
pub(super) struct StoryStep {
    pub(super) place: usize,
    pub(super) text: String,
    pub(super) worth: f64,
}

/// A line that may be shown.
struct Candidate<'c> {
    line: CandidateLine,
    text: &'c str,
    worth: f64,
    terms: Vec<u64>,
    names: Vec<(&'c str, f64)>,
}

#[derive(Clone, Copy)]
enum CandidateLine {
    Excerpt(usize),
    Step(usize),
}

/// What the choice is made from.
pub(super) struct Choice<'c> {
    pub(super) excerpts: &'c Excerpts,
    pub(super) steps: &'c [StoryStep],
    pub(super) names: &'c Names,
    /// The newest message.
    pub(super) now: u64,
    /// The folder that the page names once.
    pub(super) folder: &'c str,
    /// What the page says already.
    pub(super) page: &'c str,
    /// What stays in sight, and the names in it.
    pub(super) in_sight: &'c str,
    pub(super) seen: &'c FxHashSet<&'c str>,
    /// What a line must add for each of its tokens.
    pub(super) gain_min: f64,
}

impl Choice<'_> {
    /// The lines that fit, as units of a sheet.
    pub(super) fn units(&self, room: Tokens, scale: &Scale) -> Vec<SheetUnit> {
        let candidates = self.candidates();
        let mut said: FxHashSet<u64> = terms(self.page).into_iter().collect();
        let mut named: FxHashSet<&str> = identifiers(self.page).collect();
        let mut from: FxHashMap<usize, u32> = FxHashMap::default();
        let mut opened: FxHashSet<(usize, &str)> = FxHashSet::default();
        let mut titled: FxHashSet<&str> = FxHashSet::default();
        let mut spent = Tokens::ZERO;
        let mut groups: [Tokens; 5] = [Tokens::ZERO; 5];
        let mut chosen: Vec<CandidateLine> = Vec::new();
        let mut heap: BinaryHeap<(u64, Reverse<usize>)> = candidates
            .iter()
            .enumerate()
            .map(|(at, candidate)| {
                (gain(candidate, &said, &named, 0, false).to_bits(), Reverse(at))
            })
            .collect();
        while let Some((_, Reverse(at))) = heap.pop() {
            let candidate = &candidates[at];
            let source = self.source(candidate.line);
            let count = from.get(&source).copied().unwrap_or(0);
            // What was chosen since may have taken from its worth.
            let (group, percent) = self.group(candidate.line);
            let is_beyond = groups[group].0 * 100 > room.0 * percent;
            let gain = gain(candidate, &said, &named, count, is_beyond);
            if heap.peek().is_some_and(|(next, _)| *next > gain.to_bits()) {
                heap.push((gain.to_bits(), Reverse(at)));
                continue;
            }
            if gain <= self.gain_min || self.is_in_sight(candidate.text) {
                continue;
            }
            let heading = self.heading(candidate.line);
            let mut tokens = scale.text(candidate.text) + Tokens(3);
            if !opened.contains(&(source, "")) {
                tokens += scale.text(self.label(candidate.line)) + Tokens(2);
            }
            if !heading.is_empty() && !opened.contains(&(source, heading)) {
                tokens += scale.text(heading) + Tokens(3);
            }
            let title = self.title(candidate.line);
            if !titled.contains(title) {
                tokens += scale.text(title) + Tokens(1);
            }
            if spent + tokens > room {
                if room.saturating_sub(spent) < Tokens(12) {
                    break;
                }
                continue;
            }
            spent += tokens;
            groups[group] += tokens;
            titled.insert(title);
            opened.insert((source, ""));
            opened.insert((source, heading));
            *from.entry(source).or_default() += 1;
            said.extend(&candidate.terms);
            named.extend(candidate.names.iter().map(|(name, _)| *name));
            chosen.push(candidate.line);
        }
        self.written(&chosen)
    }

    fn candidates(&self) -> Vec<Candidate<'_>> {
        let lines = self.excerpts.lines.iter().enumerate().map(|(at, line)| {
            let worth = self.excerpts.worth(line, self.now);
            (CandidateLine::Excerpt(at), line.text.as_str(), worth)
        });
        let steps = self.steps.iter().enumerate();
        let steps =
            steps.map(|(at, step)| (CandidateLine::Step(at), step.text.as_str(), step.worth));
        let candidates = lines.chain(steps).map(|(line, text, worth)| {
            let names = identifiers(text).filter(|name| !self.seen.contains(name));
            let names =
                names.map(|name| (name, self.names.worth(name, self.now).min(NAME_WORTH_MAX)));
            Candidate { line, text, worth, terms: terms(text), names: names.collect() }
        });
        candidates.collect()
    }

    /// The number of a line's source; all steps of the story are one.
    fn source(&self, line: CandidateLine) -> usize {
        match line {
            CandidateLine::Excerpt(at) => self.excerpts.lines[at].source,
            CandidateLine::Step(_) => usize::MAX,
        }
    }

    /// The number of the group that a line shares its room with, and the share.
    fn group(&self, line: CandidateLine) -> (usize, u64) {
        let CandidateLine::Excerpt(at) = line else { return (0, STORY_PERCENT) };
        match self.excerpts.sources[self.excerpts.lines[at].source].kind {
            SourceKind::Task | SourceKind::Part | SourceKind::Document => (1, DOCUMENT_PERCENT),
            SourceKind::File => (2, FILE_PERCENT),
            SourceKind::Command => (3, OUTPUT_PERCENT),
            SourceKind::Report => (4, REPORT_PERCENT),
        }
    }

    fn heading(&self, line: CandidateLine) -> &str {
        match line {
            CandidateLine::Excerpt(at) => &self.excerpts.lines[at].heading,
            CandidateLine::Step(_) => "",
        }
    }

    fn label(&self, line: CandidateLine) -> &str {
        match line {
            CandidateLine::Excerpt(at) => {
                below(self.folder, &self.excerpts.sources[self.excerpts.lines[at].source].label)
            }
            CandidateLine::Step(_) => "",
        }
    }

    fn title(&self, line: CandidateLine) -> &'static str {
        match line {
            CandidateLine::Step(_) => STORY,
            CandidateLine::Excerpt(at) => {
                match self.excerpts.sources[self.excerpts.lines[at].source].kind {
                    SourceKind::Task | SourceKind::Part | SourceKind::Document => DOCUMENTS,
                    _ => EXCERPTS,
                }
            }
        }
    }

    fn is_in_sight(&self, text: &str) -> bool {
        memmem::find(self.in_sight.as_bytes(), text.as_bytes()).is_some()
    }

    /// The chosen lines, those of a source together.
    fn written(&self, chosen: &[CandidateLine]) -> Vec<SheetUnit> {
        let mut units = Vec::new();
        let mut by_source: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for line in chosen {
            match *line {
                CandidateLine::Excerpt(at) => {
                    by_source.entry(self.excerpts.lines[at].source).or_default().push(at);
                }
                CandidateLine::Step(at) => {
                    let step = &self.steps[at];
                    units.push(unit(
                        STORY,
                        step.place,
                        step.text.clone(),
                        step.text.clone(),
                        false,
                    ));
                }
            }
        }
        let mut sources: Vec<(usize, Vec<usize>)> = by_source.into_iter().collect();
        sources.sort_unstable();
        for (source, mut lines) in sources {
            lines.sort_unstable();
            let label = below(self.folder, &self.excerpts.sources[source].label);
            let mut text = format!("- {label}");
            let mut heading = "";
            for line in lines.iter().map(|at| &self.excerpts.lines[*at]) {
                // A heading is clipped; the line it comes from may stand there in full.
                let start = line.heading.trim_end_matches('…').trim_end();
                let is_told = start.is_empty() || text.contains(start);
                if line.heading != heading && !is_told {
                    text.push_str(&format!("\n  # {}", line.heading));
                }
                heading = &line.heading;
                let mark = if line.kind.is_new() { "+ " } else { "" };
                text.push_str(&format!("\n  {mark}{}", line.text));
            }
            let title = self.title(CandidateLine::Excerpt(lines[0]));
            units.push(unit(title, source, text.clone(), text, false));
        }
        units
    }
}

/// What a line adds for each of its tokens, after what is said.
fn gain(
    candidate: &Candidate,
    said: &FxHashSet<u64>,
    named: &FxHashSet<&str>,
    count: u32,
    is_beyond: bool,
) -> f64 {
    if candidate.terms.is_empty() {
        return 0.0;
    }
    let new = candidate.terms.iter().filter(|term| !said.contains(term)).count();
    let novelty = new as f64 / candidate.terms.len() as f64;
    let of_names: f64 =
        candidate.names.iter().filter(|(name, _)| !named.contains(name)).map(|name| name.1).sum();
    let tokens = candidate.text.len() as f64 / 4.0 + LINE_TOKENS;
    let share = if is_beyond { BEYOND_SHARE } else { 1.0 };
    share * (candidate.worth * novelty + of_names)
        / (1.0 + f64::from(count) / LINES_OF_SOURCE)
        / tokens
}
