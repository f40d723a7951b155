//! Telling lines of what was read, changed, run and reported, each under its source.

use std::borrow::Cow;

use longhand_core::cut;
use rustc_hash::{FxHashMap, FxHashSet};

use super::action::{Action, FileChange};
use super::call::{Pointed, ReadCall};
use super::document::{document_lines, is_document, names_a_document};
use super::finding::worth;
use super::lines::{LINE_CHARS_MAX, LineKind, code_lines, new_lines, output_lines, unnumbered};
use super::work::refusal;
use crate::quote;

/// The most bytes of all lines; beyond that the lightest are forgotten.
const BYTES_MAX: usize = 40_000;

/// How much of a text is read.
const READ_BYTES_MAX: usize = 64 * 1024;

/// The most lines that are kept of a file, of an edit, and of an output.
const FILE_LINES_MAX: usize = 24;
const EDIT_LINES_MAX: usize = 16;
const OUTPUT_LINES_MAX: usize = 8;

/// The most characters of the name of a source.
const LABEL_CHARS_MAX: usize = 120;

/// After this many messages a line is worth half.
const HALF_LIFE_MESSAGES: f64 = 300.0;

/// What lines are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// A document that the user pointed to or approved: the task.
    Task,
    /// A part of the task.
    Part,
    /// Another text for people.
    Document,
    File,
    Command,
    /// The report of a sub-agent.
    Report,
}

impl SourceKind {
    pub(super) const ALL: [SourceKind; 6] = [
        SourceKind::Task,
        SourceKind::Part,
        SourceKind::Document,
        SourceKind::File,
        SourceKind::Command,
        SourceKind::Report,
    ];

    /// What a document is.
    fn of(pointed: Pointed) -> Self {
        match pointed {
            Pointed::Yes => SourceKind::Task,
            Pointed::InPart => SourceKind::Part,
            Pointed::No => SourceKind::Document,
        }
    }

    /// The letter that stands for it in a state.
    pub(super) fn letter(self) -> &'static str {
        match self {
            SourceKind::Task => "t",
            SourceKind::Part => "p",
            SourceKind::Document => "d",
            SourceKind::File => "f",
            SourceKind::Command => "c",
            SourceKind::Report => "r",
        }
    }
}

/// What lines are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExcerptSource {
    pub(super) kind: SourceKind,
    pub(super) label: String,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The number of its source.
    pub(super) source: usize,
    pub(super) kind: LineKind,
    /// The message that it is from.
    pub(super) message: u64,
    /// The heading that it stands under in a document.
    pub(super) heading: String,
    pub(super) text: String,
}

/// All lines that are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Excerpts {
    pub(super) sources: Vec<ExcerptSource>,
    pub(super) lines: Vec<Excerpt>,
    bytes: usize,
}

impl Excerpts {
    /// Adds the lines of a call and of its answer.
    pub(super) fn take(&mut self, call: &ReadCall, answer: &str, is_error: bool, message: u64) {
        let answer = cut::head(answer, READ_BYTES_MAX);
        if let Some(plan) = &call.plan {
            // What a user refused is no plan.
            if refusal(answer, is_error).is_none() {
                self.read_document(SourceKind::Task, "the plan", plan, message);
            }
            return;
        }
        match &call.action {
            Action::Edit(files) if refusal(answer, is_error).is_none() => {
                self.read_edit(files, call, message);
            }
            Action::Open(path) if !is_error => self.read_file(path, call, answer, message),
            Action::Run(command) => self.read_output(command, call, answer, message),
            Action::Delegate(about) if !is_error => {
                let source = self.source(SourceKind::Report, about);
                self.forget(|line| line.source == source);
                for line in document_lines(answer) {
                    let kind =
                        if worth(line.text) >= 2 { LineKind::Finding } else { LineKind::Text };
                    if worth(line.text) > 0 {
                        self.add(source, kind, line.heading, line.text, message);
                    }
                }
            }
            Action::Look(what) | Action::Change(what) if !is_error => {
                self.read_output(what, call, answer, message);
            }
            _ => {}
        }
        self.forget_the_lightest(message);
    }

    fn read_edit(&mut self, files: &[(FileChange, String)], call: &ReadCall, message: u64) {
        for (change, path) in files {
            let source = self.source(SourceKind::File, path);
            if *change == FileChange::Deleted {
                self.forget(|line| line.source == source);
                continue;
            }
            for (old, new) in &call.changes {
                let is_whole = *change == FileChange::Created && names_a_document(path);
                if is_whole && is_document(cut::head(new, READ_BYTES_MAX)) {
                    self.read_document(SourceKind::Document, path, new, message);
                    continue;
                }
                let gone: FxHashSet<&str> = old.lines().map(str::trim).collect();
                let stays: FxHashSet<&str> = new.lines().map(str::trim).collect();
                self.forget(|line| {
                    line.source == source
                        && gone.contains(line.text.as_str())
                        && !stays.contains(line.text.as_str())
                });
                let lines = best(new_lines(old, cut::head(new, READ_BYTES_MAX)), EDIT_LINES_MAX);
                for (kind, text) in lines {
                    self.add(source, kind, "", text, message);
                }
            }
        }
    }

    fn read_file(&mut self, path: &str, call: &ReadCall, answer: &str, message: u64) {
        let text = bare(answer);
        if names_a_document(path) && is_document(&text) {
            let kind = SourceKind::of(call.pointed);
            return self.read_document(kind, path, &text, message);
        }
        let source = self.source(SourceKind::File, path);
        for (kind, line) in best(code_lines(&text).collect(), FILE_LINES_MAX) {
            self.add(source, kind, "", line, message);
        }
    }

    fn read_output(&mut self, command: &str, call: &ReadCall, answer: &str, message: u64) {
        let label = super::work::command_line(command);
        if is_document(answer) {
            let kind = SourceKind::of(call.pointed);
            return self.read_document(kind, &label, answer, message);
        }
        let source = self.source(SourceKind::Command, &label);
        self.forget(|line| line.source == source);
        let mut lines = output_lines(answer);
        if lines.is_empty() {
            lines = code_lines(answer).collect();
        }
        for (kind, line) in best(lines, OUTPUT_LINES_MAX) {
            self.add(source, kind, "", line, message);
        }
    }

    /// Adds the lines of a document in the place of those that are known from it.
    fn read_document(&mut self, kind: SourceKind, label: &str, text: &str, message: u64) {
        let source = self.source(kind, label);
        if kind != SourceKind::Document {
            self.sources[source].kind = kind;
        }
        for line in document_lines(cut::head(text, READ_BYTES_MAX)) {
            self.add(source, line.kind, line.heading, line.text, message);
        }
        // What the newest copy lacks was taken out of it.
        let newest = self.lines.iter().filter(|line| line.source == source);
        if newest.clone().any(|line| line.message == message) && label_is_command(label) {
            self.forget(|line| line.source == source && line.message < message);
        }
    }

    /// The number of a source.
    pub(super) fn source(&mut self, kind: SourceKind, label: &str) -> usize {
        let label = quote::line_within(label, LABEL_CHARS_MAX);
        if let Some(known) = self.sources.iter().position(|source| source.label == label) {
            return known;
        }
        self.sources.push(ExcerptSource { kind, label });
        self.sources.len() - 1
    }

    /// Adds a line, or says it again.
    pub(super) fn add(
        &mut self,
        source: usize,
        kind: LineKind,
        heading: &str,
        text: &str,
        message: u64,
    ) {
        let text = quote::line_within(text, LINE_CHARS_MAX);
        if text.is_empty() {
            return;
        }
        let known = self.lines.iter_mut().find(|line| line.source == source && line.text == text);
        if let Some(known) = known {
            known.message = message;
            return;
        }
        let heading = quote::line_within(heading, 60);
        self.bytes += text.len() + heading.len() + 16;
        self.lines.push(Excerpt { source, kind, message, heading, text });
    }

    fn forget(&mut self, is_gone: impl Fn(&Excerpt) -> bool) {
        self.lines.retain(|line| !is_gone(line));
    }

    /// What a line is worth by itself.
    pub(super) fn worth(&self, line: &Excerpt, now: u64) -> f64 {
        let age = now.saturating_sub(line.message) as f64;
        match self.sources[line.source].kind {
            SourceKind::Task => 1.5 * line.kind.worth(),
            SourceKind::Document => 0.6 * line.kind.worth() * 0.5f64.powf(age / HALF_LIFE_MESSAGES),
            _ => line.kind.worth() * 0.5f64.powf(age / HALF_LIFE_MESSAGES),
        }
    }

    /// Forgets the lightest lines, and sources without lines.
    fn forget_the_lightest(&mut self, now: u64) {
        if self.bytes <= BYTES_MAX {
            return;
        }
        let size = |line: &Excerpt| line.text.len() + line.heading.len() + 16;
        self.bytes = self.lines.iter().map(size).sum();
        if self.bytes > BYTES_MAX {
            let mut order: Vec<usize> = (0..self.lines.len()).collect();
            let worths: Vec<f64> = self.lines.iter().map(|line| self.worth(line, now)).collect();
            order.sort_by(|one, two| worths[*one].total_cmp(&worths[*two]).then(one.cmp(two)));
            let mut gone = FxHashSet::default();
            for at in order {
                if self.bytes <= BYTES_MAX * 3 / 4 {
                    break;
                }
                self.bytes -= size(&self.lines[at]);
                gone.insert(at);
            }
            let mut at = 0;
            self.lines.retain(|_| {
                at += 1;
                !gone.contains(&(at - 1))
            });
        }
        self.drop_empty_sources();
    }

    fn drop_empty_sources(&mut self) {
        let used: FxHashSet<usize> = self.lines.iter().map(|line| line.source).collect();
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        let mut at = 0;
        let mut kept = 0;
        self.sources.retain(|_| {
            let stays = used.contains(&at);
            if stays {
                numbers.insert(at, kept);
                kept += 1;
            }
            at += 1;
            stays
        });
        for line in &mut self.lines {
            line.source = numbers.get(&line.source).copied().unwrap_or_default();
        }
    }
}

/// The best lines, in their order.
fn best(lines: Vec<(LineKind, &str)>, count: usize) -> Vec<(LineKind, &str)> {
    if lines.len() <= count {
        return lines;
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|one, two| lines[*two].0.worth().total_cmp(&lines[*one].0.worth()));
    order.truncate(count);
    order.sort_unstable();
    order.into_iter().map(|at| lines[at]).collect()
}

/// A text without the numbers that a tool wrote before its lines.
fn bare(text: &str) -> Cow<'_, str> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if unnumbered(first).len() == first.trim().len() {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().map(unnumbered).collect();
    Cow::Owned(lines.join("\n"))
}

/// Whether the name of a source is a command, which prints the whole of it each time.
fn label_is_command(label: &str) -> bool {
    label.contains(' ')
}
