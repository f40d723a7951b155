//! Telling lines of what was read, changed, run and reported, each under its source.

use std::borrow::Cow;

use longhand_core::anchor::{check_of, failure_line, unnumbered};
use longhand_core::json::strings_of_object;
use longhand_core::{Tokens, cut};
use rustc_hash::{FxHashMap, FxHashSet};

use super::action::{Action, FileChange};
use super::call::{Pointed, ReadCall, TextChange};
use super::document::{document_lines, has_headings, is_document, names_a_document};
use super::finding::worth;
use super::lines::{LINE_CHARS_MAX, LineKind, TellingLine, code_lines, new_lines, output_lines};
use super::shell;
use super::work::{command_line, exit_code, is_broken_off, never_began, refusal};
use crate::quote;
use crate::terms::terms;

/// The most bytes of all lines; beyond that the lightest are forgotten.
const BYTES_MAX: usize = 40_000;

/// With more sources, those without lines are dropped.
const SOURCES_MAX: usize = 200;

/// How much of a text is read.
const READ_BYTES_MAX: usize = 64 * 1024;

/// The most lines that are kept of a file, of an edit, and of an output.
const FILE_LINES_MAX: usize = 60;
const EDIT_LINES_MAX: usize = 24;
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

impl Excerpt {
    /// About what it takes in a state.
    fn size(&self) -> usize {
        self.text.len() + self.heading.len() + 16
    }
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
            Action::Run(command) => {
                for (change, path) in shell::written(command) {
                    if change == FileChange::Deleted {
                        self.forget_source(&path, None);
                    }
                }
                let has_failed = is_error
                    || exit_code(answer).is_some_and(|code| code != 0)
                    || (!shell::only_looks(command) && failure_line(answer).is_some());
                self.read_output(command, call, answer, message, has_failed);
            }
            Action::Delegate(_) if is_broken_off(answer) => {}
            Action::Delegate(about) if never_began(answer, is_error).is_none() => {
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
            // A record is told with what was looked up or changed.
            Action::Look(what) | Action::Change(what) if !is_error && !is_record(answer) => {
                self.read_output(what, call, answer, message, false);
            }
            _ => {}
        }
        self.forget_the_lightest(message);
    }

    fn read_edit(&mut self, files: &[(FileChange, String)], call: &ReadCall, message: u64) {
        for (kind, path) in files {
            if *kind == FileChange::Deleted {
                self.forget_source(path, None);
                continue;
            }
            for change in call.changes.iter().filter(|change| change.is_of(path)) {
                let TextChange { old, new, .. } = change;
                let is_whole = *kind == FileChange::Created && names_a_document(path);
                if is_whole && is_document(cut::head(new, READ_BYTES_MAX)) {
                    self.read_document(SourceKind::Document, path, new, message);
                    continue;
                }
                self.forget_source(path, Some(change));
                let lines = best(new_lines(old, cut::head(new, READ_BYTES_MAX)), EDIT_LINES_MAX);
                self.add_lines(SourceKind::File, path, lines, message);
            }
        }
    }

    fn read_file(&mut self, path: &str, call: &ReadCall, answer: &str, message: u64) {
        let text = bare(answer);
        if names_a_document(path) && is_document(&text) {
            let kind = SourceKind::of(call.pointed);
            return self.read_document(kind, path, &text, message);
        }
        let lines = best(code_lines(&text), FILE_LINES_MAX);
        self.add_lines(SourceKind::File, path, lines, message);
    }

    fn read_output(
        &mut self,
        command: &str,
        call: &ReadCall,
        answer: &str,
        message: u64,
        has_failed: bool,
    ) {
        let label = command_line(command);
        let is_check = check_of(command).is_some();
        // What has no mark of a heading is looked at only if the user pointed to it.
        let may_be_text = call.pointed != Pointed::No || answer.contains('#');
        let is_text = !is_check && !has_failed && may_be_text && is_document(answer);
        if is_text && (call.pointed != Pointed::No || has_headings(answer)) {
            let kind = SourceKind::of(call.pointed);
            return self.read_document(kind, &label, answer, message);
        }
        self.forget_source(&quote::line_within(&label, LABEL_CHARS_MAX), None);
        // How a check ended is told with the checks, and a failure until it is repaired.
        if is_check || has_failed {
            return;
        }
        if self.read_texts_in(answer, call, &label, message) {
            return;
        }
        let mut lines = best(output_lines(answer), OUTPUT_LINES_MAX);
        lines.retain(|line| !repeats(&line.text, command));
        self.add_lines(SourceKind::Command, &label, lines, message);
    }

    /// Reads the texts for people in an object that a command printed, such as the body of an issue; whether there are any.
    fn read_texts_in(&mut self, answer: &str, call: &ReadCall, label: &str, message: u64) -> bool {
        let Some(texts) = strings_of_object(answer.trim()) else { return false };
        let texts = texts.iter().filter_map(|text| text.str(answer.trim()));
        let documents: Vec<Cow<str>> = texts.filter(|text| is_document(text)).collect();
        for document in &documents {
            self.read_document(SourceKind::of(call.pointed), label, document, message);
        }
        !documents.is_empty()
    }

    /// Forgets what a call in sight has made untrue.
    pub(super) fn replace_by(&mut self, call: &ReadCall, answer: &str, is_error: bool) {
        match &call.action {
            Action::Run(command) => {
                let label = quote::line_within(&command_line(command), LABEL_CHARS_MAX);
                self.forget_source(&label, None);
                for (change, path) in shell::written(command) {
                    if change == FileChange::Deleted {
                        self.forget_source(&path, None);
                    }
                }
            }
            Action::Edit(files) if refusal(answer, is_error).is_none() => {
                for (change, path) in files {
                    if *change == FileChange::Deleted {
                        self.forget_source(path, None);
                    }
                    for change in call.changes.iter().filter(|change| change.is_of(path)) {
                        self.forget_source(path, Some(change));
                    }
                }
            }
            _ => {}
        }
    }

    /// Forgets the lines of a source: all of them, or those that a change took out.
    fn forget_source(&mut self, label: &str, change: Option<&TextChange>) {
        let Some(source) = self.sources.iter().position(|source| source.label == label) else {
            return;
        };
        let trimmed = |text: &'_ str| text.lines().map(|line| line.trim().to_owned()).collect();
        let (gone, stays): (FxHashSet<String>, FxHashSet<String>) =
            change.map(|change| (trimmed(&change.old), trimmed(&change.new))).unwrap_or_default();
        self.forget(|line| {
            let is_gone =
                change.is_none() || (gone.contains(&line.text) && !stays.contains(&line.text));
            line.source == source && is_gone
        });
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

    fn add_lines(&mut self, kind: SourceKind, label: &str, lines: Vec<TellingLine>, message: u64) {
        if lines.is_empty() {
            return;
        }
        let source = self.source(kind, label);
        for line in lines {
            self.add(source, line.kind, line.inside, &line.text, message);
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
        let heading = quote::line_within(heading, 80);
        let line = Excerpt { source, kind, message, heading, text };
        self.bytes += line.size();
        self.lines.push(line);
    }

    fn forget(&mut self, is_gone: impl Fn(&Excerpt) -> bool) {
        let bytes = &mut self.bytes;
        self.lines.retain(|line| {
            let stays = !is_gone(line);
            *bytes -= if stays { 0 } else { line.size() };
            stays
        });
    }

    /// About how many tokens all lines have.
    pub(super) fn tokens(&self) -> Tokens {
        const BYTES_PER_TOKEN: u64 = 4;
        Tokens(self.bytes as u64 / BYTES_PER_TOKEN)
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
        if self.sources.len() > SOURCES_MAX {
            self.drop_empty_sources();
        }
        if self.bytes <= BYTES_MAX {
            return;
        }
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        let worths: Vec<f64> = self.lines.iter().map(|line| self.worth(line, now)).collect();
        order.sort_by(|one, two| worths[*one].total_cmp(&worths[*two]).then(one.cmp(two)));
        let mut gone = FxHashSet::default();
        for at in order {
            if self.bytes <= BYTES_MAX * 3 / 4 {
                break;
            }
            self.bytes -= self.lines[at].size();
            gone.insert(at);
        }
        let mut at = 0;
        self.lines.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
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

/// Whether an answer is JSON, as tools of services give it.
fn is_record(answer: &str) -> bool {
    let answer = answer.trim();
    (answer.starts_with('{') && answer.ends_with('}'))
        || (answer.starts_with('[') && answer.ends_with(']'))
}

/// Whether a line of an output says hardly more than the command: that it ran.
fn repeats(line: &str, command: &str) -> bool {
    const NEW_MAX: usize = 1;
    let known = terms(command);
    let said = terms(line);
    said.len() > NEW_MAX && said.iter().filter(|term| !known.contains(term)).count() <= NEW_MAX
}

/// The best lines, in their order.
fn best(lines: Vec<TellingLine<'_>>, count: usize) -> Vec<TellingLine<'_>> {
    if lines.len() <= count {
        return lines;
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|one, two| lines[*two].kind.worth().total_cmp(&lines[*one].kind.worth()));
    let kept: FxHashSet<usize> = order.into_iter().take(count).collect();
    let lines = lines.into_iter().enumerate().filter(|(at, _)| kept.contains(at));
    lines.map(|(_, line)| line).collect()
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
