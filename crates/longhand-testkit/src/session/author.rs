//! The agent at work: what it says, which tools it calls, what comes back.

mod change;
mod explore;

use std::collections::BTreeMap;

use super::grammar::{Bindings, expand};
use super::phrases::Prose;
use super::project::Project;
use super::transcript::{Transcript, TranscriptCall};
use crate::rng::Rng;

pub(super) struct Author {
    pub(super) rng: Rng,
    pub(super) world: Bindings,
    pub(super) transcript: Transcript,
    project: Project,
    prose: Prose,
    /// Sentences about the last result, said together with the next call.
    thoughts: Vec<String>,
    /// What was read last of each file; the same text is seldom read twice.
    read: BTreeMap<String, String>,
    /// Lines added and removed in this round, by file.
    changed: BTreeMap<String, (usize, usize)>,
}

impl Author {
    pub(super) fn new(mut rng: Rng, world: Bindings) -> Self {
        let project = Project::new(&world, &mut rng);
        let transcript = Transcript::new(&mut rng);
        Self {
            rng,
            world,
            transcript,
            project,
            prose: Prose::new(),
            thoughts: Vec::new(),
            read: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Fills a template in with what is true for this session.
    pub(super) fn write(&mut self, template: &str, words: &[(&str, &str)]) -> String {
        let mut bindings = self.world.clone();
        bindings
            .extend(words.iter().map(|(word, value)| ((*word).to_owned(), (*value).to_owned())));
        expand(template, &mut self.rng, &mut bindings)
    }

    pub(super) fn phrase(&mut self, occasion: &'static str, words: &[(&str, &str)]) -> String {
        let template = self.prose.next(occasion, &mut self.rng);
        self.write(template, words)
    }

    /// Keeps a sentence for the next message of the agent.
    pub(super) fn think(&mut self, thought: String) {
        self.thoughts.push(thought);
    }

    /// Ends the round: the agent speaks and calls nothing.
    pub(super) fn answer(&mut self, text: &str) {
        let mut thoughts = std::mem::take(&mut self.thoughts);
        thoughts.push(text.to_owned());
        self.transcript.text("assistant", &thoughts.join(" "));
    }

    fn act(&mut self, intent: &str, calls: Vec<TranscriptCall>) {
        let mut said = std::mem::take(&mut self.thoughts);
        if said.is_empty() && self.rng.chance(0.3) {
            return self.transcript.step(None, calls, &mut self.rng);
        }
        if said.is_empty() || self.rng.chance(0.7) {
            said.push(intent.to_owned());
        }
        let separator = if said.len() > 2 { "\n\n" } else { " " };
        let said = said.join(separator).replace("\n ", "\n");
        self.transcript.step(Some(&said), calls, &mut self.rng);
    }

    /// Says which files have changed since the last time it was asked.
    pub(super) fn changes(&mut self) -> String {
        let changed = std::mem::take(&mut self.changed);
        let files: Vec<String> = changed
            .iter()
            .map(|(path, (added, removed))| format!("`{path}` (+{added} -{removed})"))
            .collect();
        let count = self.project.tests("").len().to_string();
        self.phrase("changed", &[("files", &files.join(", ")), ("count", &count)])
    }
}

/// The module's own name: `journal` for `src/journal/mod.rs`.
fn stem(path: &str) -> &str {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.rsplit('/').next().unwrap_or(path)
}
