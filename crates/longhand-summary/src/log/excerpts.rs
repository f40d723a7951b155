//! Telling lines of what was read, changed, run and reported, each under its source.

use std::borrow::Cow;

use longhand_core::anchor::{check_of, unnumbered};
use longhand_core::json::strings_of_object;
use longhand_core::{Tokens, cut};
use memchr::memmem;
use rustc_hash::{FxHashMap, FxHashSet};

use super::action::{Action, FileChange};
use super::answer::Answer;
use super::call::{Pointed, Pointers, ReadCall, TextChange};
use super::document::{
    DOCUMENT_BYTES_MIN, document_lines, has_headings, is_document, names_a_document,
};
use super::finding::worth;
use super::lines::{
    LINE_CHARS_MAX, LineKind, TellingLine, code_lines, new_lines, output_lines, trimmed_lines,
};
use super::work::{command_line, is_broken_off, is_same_file, never_began, refusal, report};
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

/// The most characters of a heading.
const HEADING_CHARS_MAX: usize = 80;

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
    pub(super) fn take(
        &mut self,
        call: &ReadCall,
        pointers: &Pointers,
        answer: &Answer,
        message: u64,
    ) {
        let pointed = || pointers.found_in(&call.arguments);
        let Answer { text, is_error, run } = answer;
        let (answer, is_error) = (cut::head(text, READ_BYTES_MAX), *is_error);
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
            Action::Open(path) if !is_error => self.read_file(path, pointed, answer, message),
            Action::Run(command) => {
                let Some(run) = run else { return };
                run.removed().for_each(|path| self.forget_source(path));
                self.read_output(command, &run.line, run.is_told(), pointed, answer, message);
            }
            Action::Delegate(_) if is_broken_off(answer) => {}
            Action::Delegate(about) if never_began(answer, is_error).is_none() => {
                let source = self.source(SourceKind::Report, about);
                self.forget(|line| line.source == source);
                let lines = document_lines(report(answer)).into_iter().filter_map(|line| {
                    let kind = match worth(line.text) {
                        0 => return None,
                        1 => LineKind::Text,
                        _ => LineKind::Finding,
                    };
                    Some((kind, line.heading, Cow::Borrowed(line.text)))
                });
                self.add_lines(source, lines, message);
            }
            // A record is told with what was looked up or changed.
            Action::Look(what) | Action::Change(what) if !is_error && !is_record(answer) => {
                let is_told = check_of(what).is_some();
                self.read_output(what, &command_line(what), is_told, pointed, answer, message);
            }
            _ => {}
        }
        self.forget_the_lightest(message);
    }

    fn read_edit(&mut self, files: &[(FileChange, String)], call: &ReadCall, message: u64) {
        for (kind, path) in files {
            if *kind == FileChange::Deleted {
                self.forget_source(path);
                continue;
            }
            for change in call.changes.iter().filter(|change| change.is_of(path)) {
                let TextChange { old, new, .. } = change;
                let is_whole = *kind == FileChange::Created && names_a_document(path);
                if is_whole && is_document(cut::head(new, READ_BYTES_MAX)) {
                    self.read_document(SourceKind::Document, path, new, message);
                    continue;
                }
                let old = trimmed_lines(old);
                self.forget_changed(path, &old, new);
                let lines = best(new_lines(&old, cut::head(new, READ_BYTES_MAX)), EDIT_LINES_MAX);
                self.add_telling(SourceKind::File, path, lines, message);
            }
        }
    }

    fn read_file(&mut self, path: &str, pointed: impl Fn() -> Pointed, answer: &str, message: u64) {
        if names_a_document(path) {
            let text = bare(answer);
            if is_document(&text) {
                let kind = SourceKind::of(pointed());
                return self.read_document(kind, path, &text, message);
            }
        }
        let lines = best(code_lines(answer), FILE_LINES_MAX);
        self.add_telling(SourceKind::File, path, lines, message);
    }

    fn read_output(
        &mut self,
        command: &str,
        label: &str,
        is_told: bool,
        pointed: impl Fn() -> Pointed,
        answer: &str,
        message: u64,
    ) {
        // What has no headings is a document only if the user pointed to it.
        let may_be_text = !is_told && answer.len() >= DOCUMENT_BYTES_MIN;
        let has_mark = || memchr::memchr(b'#', answer.as_bytes()).is_some();
        if may_be_text && (has_mark() || pointed() != Pointed::No) && is_document(answer) {
            let pointed = pointed();
            if pointed != Pointed::No || has_headings(answer) {
                return self.read_document(SourceKind::of(pointed), label, answer, message);
            }
        }
        self.forget_source(&quote::line_within(label, LABEL_CHARS_MAX));
        if is_told || self.read_texts_in(answer, pointed, label, message) {
            return;
        }
        let mut lines = best(output_lines(answer), OUTPUT_LINES_MAX);
        if !lines.is_empty() {
            let known = terms(command);
            lines.retain(|line| !repeats(&line.text, &known));
        }
        self.add_telling(SourceKind::Command, label, lines, message);
    }

    /// Reads the texts for people in an object that a command printed, such as the body of an issue; whether there are any.
    fn read_texts_in(
        &mut self,
        answer: &str,
        pointed: impl Fn() -> Pointed,
        label: &str,
        message: u64,
    ) -> bool {
        let Some(texts) = strings_of_object(answer.trim()) else { return false };
        let texts = texts.iter().filter_map(|text| text.str(answer.trim()));
        let documents: Vec<Cow<str>> = texts.filter(|text| is_document(text)).collect();
        for document in &documents {
            self.read_document(SourceKind::of(pointed()), label, document, message);
        }
        !documents.is_empty()
    }

    /// Forgets what a call in sight has made untrue.
    pub(super) fn replace_by(&mut self, call: &ReadCall, answer: &Answer) {
        if let Some(run) = &answer.run {
            self.forget_source(&quote::line_within(&run.line, LABEL_CHARS_MAX));
            run.removed().for_each(|path| self.forget_source(path));
        }
        match &call.action {
            Action::Edit(files) if refusal(answer.text, answer.is_error).is_none() => {
                for (change, path) in files {
                    if *change == FileChange::Deleted {
                        self.forget_source(path);
                    }
                    for change in call.changes.iter().filter(|change| change.is_of(path)) {
                        self.forget_changed(path, &trimmed_lines(&change.old), &change.new);
                    }
                }
            }
            _ => {}
        }
    }

    /// The number of a source that is known.
    fn known_source(&self, label: &str) -> Option<usize> {
        let is_exact = |source: &ExcerptSource| source.label == label;
        let is_other_form = |source: &ExcerptSource| {
            let names_a_file = matches!(
                source.kind,
                SourceKind::File | SourceKind::Document | SourceKind::Task | SourceKind::Part
            );
            names_a_file && !label_is_command(&source.label) && is_same_file(&source.label, label)
        };
        let found = self.sources.iter().position(is_exact);
        let is_path = || label.contains(['.', '/']) && !label_is_command(label);
        found.or_else(|| self.sources.iter().position(is_other_form).filter(|_| is_path()))
    }

    /// Forgets the lines of a source.
    fn forget_source(&mut self, label: &str) {
        if let Some(source) = self.known_source(label) {
            self.forget(|line| line.source == source);
        }
    }

    /// Forgets the lines of a file that a change took out.
    fn forget_changed(&mut self, label: &str, old: &FxHashSet<&str>, new: &str) {
        let Some(source) = self.known_source(label).filter(|_| !old.is_empty()) else { return };
        let stays = |text: &str| {
            memmem::find(new.as_bytes(), text.as_bytes()).is_some()
                && cut::lines(new).any(|line| cut::trim(line) == text)
        };
        self.forget(|line| {
            line.source == source && old.contains(&*line.text) && !stays(&line.text)
        });
    }

    /// Adds the lines of a document in the place of those that are known from it.
    fn read_document(&mut self, kind: SourceKind, label: &str, text: &str, message: u64) {
        let source = self.source(kind, label);
        if kind != SourceKind::Document {
            self.sources[source].kind = kind;
        }
        let lines = document_lines(cut::head(text, READ_BYTES_MAX)).into_iter();
        let lines = lines.map(|line| (line.kind, line.heading, Cow::Borrowed(line.text)));
        self.add_lines(source, lines, message);
        // What the newest copy lacks was taken out of it.
        let newest = self.lines.iter().filter(|line| line.source == source);
        if newest.clone().any(|line| line.message == message) && label_is_command(label) {
            self.forget(|line| line.source == source && line.message < message);
        }
    }

    fn add_telling(
        &mut self,
        kind: SourceKind,
        label: &str,
        lines: Vec<TellingLine>,
        message: u64,
    ) {
        if !lines.is_empty() {
            let source = self.source(kind, label);
            let lines = lines.into_iter().map(|line| (line.kind, line.inside, line.text));
            self.add_lines(source, lines, message);
        }
    }

    /// Adds lines of a source with their headings, or says them again.
    fn add_lines<'t>(
        &mut self,
        source: usize,
        lines: impl Iterator<Item = (LineKind, &'t str, Cow<'t, str>)>,
        message: u64,
    ) {
        let known = self.lines.iter().enumerate().filter(|(_, line)| line.source == source);
        let mut known: Vec<usize> = known.map(|(at, _)| at).collect();
        for (kind, heading, text) in lines {
            let place = |text: &str| known.iter().copied().find(|at| self.lines[*at].text == text);
            // Most of what is read again stands as it is.
            if let Some(at) = place(&text) {
                self.lines[at].message = message;
                continue;
            }
            let text = quote::line_within(&text, LINE_CHARS_MAX);
            match place(&text) {
                Some(at) => self.lines[at].message = message,
                None if text.is_empty() => {}
                None => {
                    known.push(self.lines.len());
                    let heading = quote::line_within(heading, HEADING_CHARS_MAX);
                    let line = Excerpt { source, kind, message, heading, text };
                    self.bytes += line.size();
                    self.lines.push(line);
                }
            }
        }
    }

    /// The number of a source.
    pub(super) fn source(&mut self, kind: SourceKind, label: &str) -> usize {
        let label = quote::line_within(label, LABEL_CHARS_MAX);
        if let Some(known) = self.known_source(&label) {
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
        self.add_lines(source, std::iter::once((kind, heading, Cow::Borrowed(text))), message);
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

/// Whether a line of an output says hardly more than the command, whose terms are known: that it ran.
fn repeats(line: &str, known: &[u64]) -> bool {
    const NEW_MAX: usize = 1;
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
