//! The state of the work: files, checks, commits, tasks, failures, reports, changes.

use longhand_core::anchor::{check_of, failure_line, is_check_tool, patched, verdict_line};

use longhand_core::cut;

use super::action::{Action, FileChange, Task};
use super::record::record_line;
use super::shell;
use super::speech::around;
use crate::quote;

/// How many of each are kept; the oldest go first.
const FILES_MAX: usize = 300;
const CHECKS_MAX: usize = 40;
const COMMITS_MAX: usize = 80;
const TASKS_MAX: usize = 60;
const FAILURES_MAX: usize = 40;
const REPORTS_MAX: usize = 20;
const CHANGES_MAX: usize = 60;
const LOOKUPS_MAX: usize = 40;

/// The longest first line that may say that a command was broken off: output is longer, or other.
const BROKEN_OFF_BYTES_MAX: usize = 120;

/// The most characters of a verdict or a telling line.
const LINE_CHARS_MAX: usize = 200;

/// What is said of a check that failed and later ended without a verdict.
pub(super) const QUIET_SINCE: &str = " (a later run showed no failure)";

/// The most characters of what a sub-agent reports.
const REPORT_CHARS_MAX: usize = 400;

/// The most characters of a record that a call found.
const RECORD_CHARS_MAX: usize = 400;

/// The changes, checks, failures and tasks so far.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkState {
    pub(super) files: Vec<FileChanges>,
    /// The newest outcome of each check.
    pub(super) checks: Vec<Noted>,
    /// Commits by their hash.
    pub(super) commits: Vec<Noted>,
    pub(super) branch: String,
    /// The task list as it was written last.
    pub(super) tasks: Vec<Task>,
    /// Failures by their command, until the same command succeeds.
    pub(super) failures: Vec<Noted>,
    /// The reports of sub-agents, by their tasks.
    pub(super) reports: Vec<Noted>,
    /// What calls changed in the outside world.
    pub(super) changes: Vec<Noted>,
    /// The newest record that each call found, such as a booking or a customer.
    pub(super) lookups: Vec<Noted>,
    /// The file that an editor has open.
    pub(super) open_file: String,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileChanges {
    pub(super) path: String,
    /// The newest change; a created file stays `Created` until it is deleted.
    pub(super) change: FileChange,
    pub(super) count: u32,
    pub(super) message: u64,
}

/// A line about something, and the message that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) about: String,
    pub(super) line: String,
    pub(super) message: u64,
}

impl WorkState {
    /// Adds the effect of a call, judged by its result.
    pub(super) fn take(&mut self, action: &Action, answer: &str, is_error: bool, message: u64) {
        match action {
            Action::Plan(tasks) => self.tasks = tasks.iter().take(TASKS_MAX).cloned().collect(),
            Action::Edit(files) => {
                let Some(line) = refusal(answer, is_error) else {
                    return files
                        .iter()
                        .for_each(|(change, path)| self.change(*change, path, message));
                };
                for (_, path) in files {
                    self.fail(&edit_of(path), line, message);
                }
            }
            Action::EditOpen => {
                if refusal(answer, is_error).is_none() && !self.open_file.is_empty() {
                    let path = self.open_file.clone();
                    self.change(FileChange::Changed, &path, message);
                }
                self.opens(answer);
            }
            Action::Open(path) => {
                self.open_file.clone_from(path);
                self.opens(answer);
                self.find(path, answer, message);
            }
            Action::Run(command) => self.run(command, answer, is_error, message),
            Action::Delegate(about) => {
                let line = quote::line_within(report(answer), REPORT_CHARS_MAX);
                if !line.is_empty() {
                    note(&mut self.reports, about, &line, message, REPORTS_MAX);
                }
            }
            Action::Change(what) => {
                let line = match refusal(answer, is_error) {
                    Some(line) => format!("refused: {}", quote::line_within(line, 120)),
                    None => match record_line(answer, what) {
                        Some(record) => quote::line_within(&record, 160),
                        None => quote::line_within(answer, 100),
                    },
                };
                note(&mut self.changes, what, &line, message, CHANGES_MAX);
            }
            Action::Look(what) => {
                self.find(what, answer, message);
                if let Some(record) = record_line(answer, what) {
                    let record = quote::line_within(&record, RECORD_CHARS_MAX);
                    note(&mut self.lookups, what, &record, message, LOOKUPS_MAX);
                }
            }
        }
    }

    /// Adds the report that Claude Code gives of a background sub-agent. Only a sub-agent that was started counts,
    /// since any tool may quote such words.
    pub(super) fn hear_of_sub_agents(&mut self, text: &str, message: u64) {
        let Some(notice) = inside(text, "<task-notification>", "</task-notification>") else {
            return;
        };
        let about = inside(notice, "<summary>Agent \"", "\"");
        let Some((about, said)) = about.zip(inside(notice, "<result>", "</result>")) else {
            return;
        };
        let line = quote::line_within(said, REPORT_CHARS_MAX);
        if !line.is_empty() && self.reports.iter().any(|report| report.about == about) {
            note(&mut self.reports, about, &line, message, REPORTS_MAX);
        }
    }

    /// Counts a change of a file.
    pub(super) fn change(&mut self, change: FileChange, path: &str, message: u64) {
        let path = quote::line_within(path, 200);
        self.failures.retain(|failure| failure.about != edit_of(&path));
        if let Some(at) = self.files.iter().position(|file| is_same_file(&file.path, &path)) {
            let mut file = self.files.remove(at);
            if path.len() > file.path.len() {
                file.path = path;
            }
            file.change = match (file.change, change) {
                (_, FileChange::Deleted) => FileChange::Deleted,
                (FileChange::Created | FileChange::Deleted, _) => FileChange::Created,
                (FileChange::Changed, _) => FileChange::Changed,
            };
            file.count += 1;
            file.message = message;
            self.files.push(file);
        } else {
            self.files.push(FileChanges { path, change, count: 1, message });
        }
        if self.files.len() > FILES_MAX {
            self.files.remove(0);
        }
    }

    /// Whether a check that failed passed later, as part of a larger one.
    pub(super) fn has_passed_since(&self, check: &Noted) -> bool {
        let is_larger =
            |other: &&Noted| check.about.starts_with(&other.about) && other.about != check.about;
        let later = self.checks.iter().filter(|other| other.message > check.message);
        !passes(&check.line) && later.filter(is_larger).any(|other| passes(&other.line))
    }

    fn run(&mut self, command: &str, answer: &str, is_error: bool, message: u64) {
        for (change, path) in patched(command) {
            self.change(change, path, message);
        }
        for (change, path) in shell::written(command) {
            self.change(change, &path, message);
        }
        if command.contains("git") || command.contains("commit") {
            for (branch, hash, subject) in shell::commits(answer) {
                self.branch = quote::line_within(branch, 100);
                note(
                    &mut self.commits,
                    hash,
                    &quote::line_within(subject, 100),
                    message,
                    COMMITS_MAX,
                );
            }
            if let Some(branch) = shell::branch(answer) {
                self.branch = quote::line_within(branch, 100);
            }
        }
        let name = command.split(' ').next().unwrap_or_default();
        let check = check_of(command).or_else(|| is_check_tool(name).then(|| command.to_owned()));
        let about = command_line(check.as_deref().unwrap_or(command));
        let verdict = check.as_ref().and_then(|_| verdict_line(answer));
        if let Some(verdict) = verdict {
            let verdict = quote::line_within(verdict, LINE_CHARS_MAX);
            note(&mut self.checks, &about, &verdict, message, CHECKS_MAX);
        }
        let failure = failure_line(answer).filter(|(line, is_grave)| {
            (!shell::only_looks(command) || (*is_grave && is_logged(line))) && !counts_none(line)
        });
        let has_failed = is_error || exit_code(answer).is_some_and(|code| code != 0);
        match failure {
            Some((line, _)) => self.fail(&about, line, message),
            None if has_failed && !shell::only_looks(command) => {
                let is_telling = |line: &&str| {
                    !line.trim().is_empty() && exit_code(line).is_none() && line.len() > 3
                };
                let line = answer.lines().rev().find(is_telling).unwrap_or("failed");
                self.fail(&about, line, message);
            }
            None if is_broken_off(answer) => {}
            None => {
                let is_repaired = |failure: &Noted| {
                    is_part(&failure.about, &about)
                        || (check.is_none() && is_other_form(&failure.about, &about))
                };
                self.failures.retain(|failure| !is_repaired(failure));
                let earlier = self.checks.iter_mut().find(|known| known.about == about);
                if let Some(earlier) =
                    earlier.filter(|known| verdict.is_none() && !passes(&known.line))
                {
                    earlier.line =
                        format!("{}{QUIET_SINCE}", earlier.line.trim_end_matches(QUIET_SINCE));
                    earlier.message = message;
                }
            }
        }
    }

    /// Looks for grave lines in a log that was read.
    fn find(&mut self, what: &str, answer: &str, message: u64) {
        if let Some((line, true)) = failure_line(answer).filter(|(line, _)| is_logged(line)) {
            self.fail(what, line, message);
        }
    }

    fn fail(&mut self, about: &str, line: &str, message: u64) {
        let (about, line) =
            (quote::line_within(about, 120), quote::line_within(line, LINE_CHARS_MAX));
        note(&mut self.failures, &about, &line, message, FAILURES_MAX);
    }

    /// Learns from an editor which file it has open: `[File: src/a.py (12 lines total)]`.
    pub(super) fn opens(&mut self, answer: &str) {
        let path = answer.lines().take(3).chain(answer.lines().rev().take(4)).find_map(|line| {
            let rest = line.strip_prefix("[File: ").or(line.strip_prefix("(Open file: "))?;
            rest.split([' ', ')', ']']).next().filter(|path| !path.is_empty() && *path != "n/a")
        });
        if let Some(path) = path {
            path.clone_into(&mut self.open_file);
        }
    }
}

/// Adds a line as the newest, and drops an older one about the same.
pub(super) fn note(lines: &mut Vec<Noted>, about: &str, line: &str, message: u64, max: usize) {
    lines.retain(|known| known.about != about);
    lines.push(Noted { about: about.to_owned(), line: line.to_owned(), message });
    if lines.len() > max {
        lines.remove(0);
    }
}

/// What is said of an edit that failed.
fn edit_of(path: &str) -> String {
    format!("edit {path}")
}

/// Whether two paths lead to one file, one of them perhaps from the root.
fn is_same_file(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() > other.len() { (one, other) } else { (other, one) };
    let short = short.trim_start_matches("./");
    long == short
        || (long.starts_with('/')
            && !short.starts_with('/')
            && long.strip_suffix(short).is_some_and(|root| root.ends_with('/')))
}

/// A command without a leading `cd` and without redirections.
fn command_line(command: &str) -> String {
    let mut rest = command.trim();
    while let Some((first, next)) =
        rest.split_once("&&").filter(|(first, _)| first.starts_with("cd "))
    {
        if first.contains('\n') {
            break;
        }
        rest = next.trim();
    }
    quote::line_within(&rest.replace(" 2>&1", "").replace(" 2>/dev/null", ""), 120)
}

/// Whether a command narrows another, as `cargo test parser` does `cargo test`. If the wider one passes, so does the
/// narrow one.
fn is_part(narrow: &str, command: &str) -> bool {
    narrow.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether two commands do the same to the same: `git push` and `git push -u origin main` do,
/// `sh check.sh 7` and `sh check.sh 8` do not.
fn is_other_form(one: &str, other: &str) -> bool {
    let operands = |command: &'_ str| -> Vec<String> {
        command.split(' ').filter(|word| !word.starts_with('-')).map(str::to_owned).collect()
    };
    let (one, other) = (operands(one), operands(other));
    let (long, short) = if one.len() > other.len() { (&one, &other) } else { (&other, &one) };
    long.iter().take(2).eq(short.iter().take(2)) && short.iter().all(|word| long.contains(word))
}

/// The report of a sub-agent without opencode's tags, or a note that it has not reported yet.
fn report(answer: &str) -> &str {
    if answer.starts_with("Async agent launched") {
        return "works in the background";
    }
    inside(answer, "<task_result>", "</task_result>").unwrap_or(answer)
}

fn inside<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = around(text, open)?;
    around(rest, close).map(|(inside, _)| inside)
}

/// The line with which a tool says that it did not do it.
fn refusal(answer: &str, is_error: bool) -> Option<&str> {
    let first = answer.trim_start().lines().next().unwrap_or_default();
    let low = cut::head(first, 40).to_ascii_lowercase();
    let heads = ["<tool_use_error>", "error", "failed", "your proposed edit has introduced"];
    let is_refused = is_error || heads.iter().any(|head| low.starts_with(head));
    is_refused
        .then(|| first.trim_start_matches("<tool_use_error>").trim_end_matches("</tool_use_error>"))
}

/// Whether a command was stopped or never run, so that its outcome is unknown.
fn is_broken_off(answer: &str) -> bool {
    const SIGNS: [&str; 7] =
        ["abort", "interrupt", "no result", "cancel", "rejected", "not executed", "was killed"];
    let first = answer.trim_start().lines().next().unwrap_or_default();
    first.len() <= BROKEN_OFF_BYTES_MAX && {
        let first = first.to_ascii_lowercase();
        SIGNS.iter().any(|sign| first.contains(sign))
    }
}

/// The exit code that an agent writes beside an output.
fn exit_code(text: &str) -> Option<i64> {
    const SIGNS: &[&str] =
        &["Exit code ", "Exit code: ", "Command exited with code ", "exit code: "];
    let ends = text.lines().take(3).chain(text.lines().rev().take(2));
    ends.into_iter().find_map(|line| {
        let rest = SIGNS.iter().find_map(|sign| line.trim().strip_prefix(sign))?;
        rest.split(|c: char| !c.is_ascii_digit() && c != '-').next()?.parse().ok()
    })
}

/// Whether a line reads like one of a log or a crash, and not like one of a program.
fn is_logged(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit() || c == '[' || c == '<')
        || ["FATAL", "CRITICAL", "thread", "panic", "fatal", "level="]
            .iter()
            .any(|head| line.starts_with(head))
        || line
            .split_whitespace()
            .take(4)
            .any(|word| matches!(word.trim_matches(['[', ']', ':']), "FATAL" | "CRITICAL"))
}

/// Whether a verdict says that all is well.
fn passes(verdict: &str) -> bool {
    let low = verdict.to_ascii_lowercase();
    let words: Vec<&str> =
        low.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let fails = words.iter().enumerate().any(|(at, word)| {
        let is_bad = word.starts_with("fail") || word.starts_with("error");
        // "0 failed", "failures: 0"
        let is_none = (at > 0 && words[at - 1] == "0") || words.get(at + 1) == Some(&"0");
        is_bad && !is_none
    });
    !fails
}

/// Whether a line only says that nothing failed.
fn counts_none(line: &str) -> bool {
    let low = line.to_ascii_lowercase();
    ["0 error", "0 fail", "no error", "0 exception"].iter().any(|none| low.contains(none))
}

impl WorkState {
    /// All lines, by the letter of their kind.
    pub(super) fn noted(&self) -> [(&'static str, &[Noted]); 6] {
        [
            ("c", &self.checks),
            ("g", &self.commits),
            ("x", &self.failures),
            ("a", &self.reports),
            ("d", &self.changes),
            ("r", &self.lookups),
        ]
    }

    /// The lines of a kind.
    pub(super) fn noted_mut(&mut self, kind: &str) -> Option<&mut Vec<Noted>> {
        match kind {
            "c" => Some(&mut self.checks),
            "g" => Some(&mut self.commits),
            "x" => Some(&mut self.failures),
            "a" => Some(&mut self.reports),
            "d" => Some(&mut self.changes),
            "r" => Some(&mut self.lookups),
            _ => None,
        }
    }
}
