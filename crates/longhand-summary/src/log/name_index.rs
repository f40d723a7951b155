//! The index of names at the end of a page: a line for each file that they were seen in, and a list of the others.

use longhand_core::{Scale, Tokens};
use memchr::memmem;
use rustc_hash::FxHashMap;

use super::heading::{NAMES, SEEN};
use super::names::{NameSource, Names, below};
use crate::quote;

/// How many names may be too long for the room that is left before no others are tried.
const MISSES_MAX: usize = 8;

/// Names that are to be listed, as many as there is room for.
pub(super) struct NameIndex<'n> {
    names: &'n Names,
    /// The lines before the index: what they have need not be named again.
    text: &'n str,
    /// The folder that the page names once; paths are listed below it.
    folder: &'n str,
    room: Tokens,
    scale: &'n Scale<'n>,
    spent: Tokens,
    misses: usize,
    groups: FxHashMap<NameSource, Vec<String>>,
    /// The names and paths of the index so far, which need not be named again either.
    added: String,
    /// Whether no id was left out that must not be forgotten.
    pub(super) has_all: bool,
}

impl<'n> NameIndex<'n> {
    pub(super) fn new(
        names: &'n Names,
        text: &'n str,
        folder: &'n str,
        room: Tokens,
        scale: &'n Scale<'n>,
    ) -> Self {
        let spent = scale.text(NAMES) + scale.text(SEEN) + Tokens(2);
        let (groups, added) = (FxHashMap::default(), String::new());
        Self { names, text, folder, room, scale, spent, misses: 0, groups, added, has_all: true }
    }

    /// Adds a name that is not there yet, the most useful first; `false` if there is no more room.
    pub(super) fn add(&mut self, name: &str) -> bool {
        let written = self.names.written(below(self.folder, name));
        if self.has(&written) {
            return true;
        }
        let source = self.names.source_of(name);
        // A name without a relation only invites to guess, but for an id of the project.
        if source == NameSource::default() && !self.names.is_own(name) {
            return true;
        }
        let is_open = self.groups.contains_key(&source);
        let heading = if is_open { String::new() } else { self.heading(source) };
        let tokens = self.scale.text(&heading) + self.scale.text(&format!("{written}, "));
        if self.spent + tokens > self.room {
            self.misses += 1;
            self.has_all &= !self.names.is_own(name);
            return self.misses <= MISSES_MAX;
        }
        self.spent += tokens;
        self.added.push_str(&heading);
        let names = self.groups.entry(source).or_default();
        // The path of a file may be the only name that is known from it.
        if !heading.ends_with(&format!(" {written}: ")) {
            self.added.push_str(&written);
            self.added.push(' ');
            names.push(written);
        }
        true
    }

    /// The index as it stands in a page.
    pub(super) fn lines(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        let by_file = self.groups.iter().filter(|(source, _)| **source != NameSource::default());
        for (source, names) in by_file {
            let line = format!("{}{}", self.heading(*source), names.join(", "));
            lines.push(format!("{}\n", line.trim_end_matches(": ")));
        }
        lines.sort_unstable();
        let mut text = String::new();
        if !lines.is_empty() {
            text.push_str(SEEN);
            text.push('\n');
            text.push_str(&lines.concat());
        }
        if let Some(others) = self.groups.get(&NameSource::default()) {
            text.push_str(&format!("{NAMES}{}\n", others.join(", ")));
        }
        text
    }

    fn heading(&self, source: NameSource) -> String {
        let label = self.names.label(source).map(|label| quote::line(below(self.folder, label)));
        label.map(|label| format!("- {label}: ")).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        let is_in = |text: &str| memmem::find(text.as_bytes(), name.as_bytes()).is_some();
        is_in(self.text) || is_in(&self.added)
    }
}
