//! The state of the work: files, checks, commits, tasks, failures, reports, changes.

use longhand_core::anchor::{
    SentenceForm, grave_line, is_check_tool, patched, sentences, unnumbered, verdict_line,
};

use longhand_core::cut;

use super::action::{Action, FileChange, Task};
use super::answer::{Answer, CommandRun};
use super::finding::worth;
use super::record::record_line;
use super::shell;
use super::speech::{Reply, around};
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
const REPLIES_MAX: usize = 20;
const BACKGROUND_MAX: usize = 20;

/// The most characters of what a user replied to a call.
const REPLY_CHARS_MAX: usize = 400;

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
    /// What users replied to calls, by the calls.
    pub(super) replies: Vec<Noted>,
    /// Commands that run in the background, by their ids.
    pub(super) background: Vec<Noted>,
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
    pub(super) fn take(&mut self, action: &Action, answer: &Answer, message: u64) {
        let Answer { text: answer, is_error, run } = answer;
        let is_error = *is_error;
        match action {
            Action::Plan(tasks) => self.tasks = tasks.iter().take(TASKS_MAX).cloned().collect(),
            Action::AddTask(_) | Action::MarkTask(..) if refusal(answer, is_error).is_some() => {}
            Action::AddTask(subject) => self.add_task(subject, answer),
            Action::MarkTask(id, mark) => self.mark_task(id, *mark),
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
            Action::Run(command) => {
                if let Some(run) = run {
                    self.run(command, run, answer, message);
                }
            }
            Action::Delegate(about) => {
                if let Some(line) = never_began(answer, is_error) {
                    return self.fail(&delegation_of(about), line, message);
                }
                let line = told_of(report(answer));
                if !line.is_empty() && !is_broken_off(answer) {
                    self.failures.retain(|failure| failure.about != delegation_of(about));
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

    /// Adds a task under the id that its tool gave it, or else the next number.
    fn add_task(&mut self, subject: &str, answer: &str) {
        let id = around(answer, "#").map(|(_, rest)| rest);
        let id = id.map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or(""));
        let id = id.filter(|id| !id.is_empty());
        let id = id.map_or_else(|| (self.tasks.len() + 1).to_string(), str::to_owned);
        self.tasks.push((' ', format!("#{id} {subject}")));
        if self.tasks.len() > TASKS_MAX {
            // What is done is missed least.
            let done = self.tasks.iter().position(|(mark, _)| matches!(mark, 'x' | '-'));
            self.tasks.remove(done.unwrap_or(0));
        }
    }

    fn mark_task(&mut self, id: &str, mark: char) {
        let head = format!("#{} ", id.trim_start_matches('#'));
        if let Some(task) = self.tasks.iter_mut().find(|(_, text)| text.starts_with(&head)) {
            task.0 = mark;
        }
    }

    /// Adds what a user replied to a call.
    pub(super) fn hear_reply(&mut self, call: &str, reply: &Reply, message: u64) {
        let (what, words) = match reply {
            Reply::Refused(words) => ("refused", words),
            Reply::Answered(words) => ("answered", words),
        };
        let words = quote::line_within(words, REPLY_CHARS_MAX);
        let line = if words.is_empty() { what.to_owned() } else { format!("{what}: \"{words}\"") };
        note(&mut self.replies, &quote::line_within(call, 120), &line, message, REPLIES_MAX);
    }

    /// Adds a command that goes on in the background, if its answer says under which id.
    pub(super) fn start_in_background(&mut self, command: &str, answer: &str, message: u64) {
        let mut words = answer
            .split_whitespace()
            .skip_while(|word| !word.trim_end_matches(':').eq_ignore_ascii_case("id"));
        let Some(id) = words.nth(1).map(|id| id.trim_matches(|c: char| !c.is_alphanumeric()))
        else {
            return;
        };
        let line = format!("{}: running", command_line(command));
        note(&mut self.background, &quote::line_within(id, 40), &line, message, BACKGROUND_MAX);
    }

    /// Learns how a command in the background ended. Only one that was started counts.
    fn hear_of_background(&mut self, text: &str, message: u64) {
        let tags = [("<task-id>", "</task-id>"), ("<task_id>", "</task_id>")];
        let Some(id) = tags.iter().find_map(|(open, close)| inside(text, open, close)) else {
            return;
        };
        let status = inside(text, "<status>", "</status>").unwrap_or_default();
        let code = inside(text, "<exit_code>", "</exit_code>")
            .or_else(|| around(text, "exit code ").map(|(_, rest)| rest));
        let code =
            code.map(|code| code.chars().take_while(char::is_ascii_digit).collect::<String>());
        let Some(task) = self.background.iter_mut().find(|task| task.about == id.trim()) else {
            return;
        };
        let command = task.line.rsplit_once(": ").map_or("", |(command, _)| command);
        let ending = match code.filter(|code| !code.is_empty()) {
            Some(code) => format!("{}, exit code {code}", quote::line_within(status, 20)),
            None => quote::line_within(status, 20),
        };
        if !ending.is_empty() {
            task.line = format!("{command}: {ending}");
            task.message = message;
        }
    }

    /// Adds the report that Claude Code gives of a background sub-agent. Only a sub-agent that was started counts,
    /// since any tool may quote such words.
    pub(super) fn hear_of_tasks(&mut self, text: &str, message: u64) {
        if !self.background.is_empty() {
            self.hear_of_background(text, message);
        }
        let Some(notice) = inside(text, "<task-notification>", "</task-notification>") else {
            return;
        };
        let about = inside(notice, "<summary>Agent \"", "\"");
        let Some((about, said)) = about.zip(inside(notice, "<result>", "</result>")) else {
            return;
        };
        let line = told_of(said);
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

    /// Whether a check that failed passed later, as part of a larger one or in another spelling.
    pub(super) fn has_passed_since(&self, check: &Noted) -> bool {
        let later = self.checks.iter().filter(|other| other.message > check.message);
        let mut later = later.filter(|other| other.about != check.about && passes(&other.line));
        !passes(&check.line) && later.any(|other| covers(&other.about, &check.about))
    }

    /// Whether something is about a file that was deleted and not made again.
    pub(super) fn is_of_deleted(&self, noted: &Noted) -> bool {
        let names = |text: &str, path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.len() > 3 && text.contains(name)
        };
        let deleted = self.files.iter().filter(|file| file.change == FileChange::Deleted);
        let mut deleted = deleted.filter(|file| file.message >= noted.message);
        deleted.any(|file| names(&noted.about, &file.path) || names(&noted.line, &file.path))
    }

    /// The newest change of a file.
    pub(super) fn file(&self, path: &str) -> Option<&FileChanges> {
        self.files.iter().find(|file| is_same_file(&file.path, path))
    }

    /// Marks the files inside a folder that is removed.
    fn delete_inside(&mut self, folder: &str, message: u64) {
        let folder = format!("{}/", folder.trim_end_matches('/').trim_start_matches("./"));
        for file in &mut self.files {
            let is_inside = file.path.starts_with(&folder)
                || (file.path.starts_with('/') && file.path.contains(&format!("/{folder}")));
            if is_inside {
                (file.change, file.message) = (FileChange::Deleted, message);
            }
        }
    }

    fn run(&mut self, command: &str, run: &CommandRun, answer: &str, message: u64) {
        for (change, path) in patched(command) {
            self.change(change, path, message);
        }
        for (change, path) in &run.written {
            if *change == FileChange::Deleted {
                self.delete_inside(path, message);
            }
            // A folder is told by the files that were in it.
            if *change == FileChange::Deleted && !path.contains(['.', '/']) {
                continue;
            }
            self.change(*change, path, message);
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
                // Earlier tries were of the same work: in other words, or of other files.
                self.failures.retain(|failure| !commits(&failure.about));
            }
            if let Some(branch) = shell::branch(answer) {
                self.branch = quote::line_within(branch, 100);
            }
        }
        let name = command.split(' ').next().unwrap_or_default();
        let check = run.check.as_deref().or_else(|| is_check_tool(name).then_some(command));
        let about = run.check.as_deref().map_or_else(|| run.line.clone(), command_line);
        let verdict = check.and_then(|_| verdict_line(answer));
        if let Some(verdict) = verdict {
            let verdict = quote::line_within(verdict, LINE_CHARS_MAX);
            note(&mut self.checks, &about, &verdict, message, CHECKS_MAX);
        }
        let failure = run.failure.filter(|(line, is_grave)| {
            (!run.only_looks || (*is_grave && is_logged(line))) && !counts_none(line)
        });
        match failure {
            Some((line, _)) => self.fail(&about, line, message),
            None if run.ended_badly && !run.only_looks => {
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
                        || (check.is_some() && covers(&about, &failure.about))
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
        if let Some(line) = grave_line(answer).filter(|line| is_logged(line)) {
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

/// What is said of a sub-agent that did not do its work.
fn delegation_of(about: &str) -> String {
    format!("sub-agent {about}")
}

/// Whether two paths lead to one file, one of them perhaps from the root.
pub(super) fn is_same_file(one: &str, other: &str) -> bool {
    let (long, short) = if one.len() > other.len() { (one, other) } else { (other, one) };
    let short = short.trim_start_matches("./");
    long == short
        || (long.starts_with('/')
            && !short.starts_with('/')
            && long.strip_suffix(short).is_some_and(|root| root.ends_with('/')))
}

/// A command without a leading `cd` and without redirections.
pub(super) fn command_line(command: &str) -> String {
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

/// Whether a command stages or commits work.
fn commits(command: &str) -> bool {
    let pieces = command.split("&&").flat_map(|piece| piece.split(';'));
    pieces.map(str::trim).any(|piece| {
        let mut words = piece.split_whitespace();
        matches!(words.next(), Some("git" | "hg" | "jj"))
            && words.any(|word| matches!(word, "add" | "commit"))
    })
}

/// Whether a command narrows another, as `cargo test parser` does `cargo test`. If the wider one passes, so does the
/// narrow one.
fn is_part(narrow: &str, command: &str) -> bool {
    narrow.strip_prefix(command).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Whether a check that passes proves that another passes as well: the same program, at no fewer files or filters.
fn covers(wide: &str, narrow: &str) -> bool {
    let ((wide_program, wide), (program, narrow)) = (spelled(wide), spelled(narrow));
    !program.is_empty()
        && wide_program == program
        && wide.iter().all(|operand| {
            let is_inside = |other: &&str| {
                other.strip_prefix(operand).is_some_and(|rest| {
                    rest.is_empty()
                        || rest.starts_with([':', '/', '#'])
                        || operand.ends_with('/')
                        || is_name_of_tests(operand)
                })
            };
            narrow.iter().any(is_inside)
        })
}

/// Whether an operand is the beginning of names of tests: a runner takes all that begin so.
fn is_name_of_tests(operand: &str) -> bool {
    const LETTERS_MIN: usize = 6;
    operand.bytes().filter(u8::is_ascii_alphabetic).count() >= LETTERS_MIN
        && operand.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The program that a check runs and what it runs it on, however it is started.
fn spelled(command: &str) -> (String, Vec<&str>) {
    #[rustfmt::skip]
    const STARTERS: &[&str] = &[
        "npx", "bunx", "pnpx", "exec", "poetry", "uv", "run", "python", "python3", "-m", "timeout", "time", "env",
        "sudo", "bundle", "dlx", "mise", "direnv",
    ];
    const RUNNERS: &[&str] = &[
        "cargo", "npm", "pnpm", "yarn", "bun", "deno", "go", "make", "just", "mix", "dotnet",
        "gradle", "mvn",
    ];
    let is_plain = |word: &&str| !word.starts_with('-') && !word.contains('=');
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b's');
    let words = command.split(['|', ';']).next().unwrap_or_default().split_whitespace();
    let mut words =
        words.skip_while(|word| STARTERS.contains(word) || is_number(word) || word.contains('='));
    let Some(first) = words.next() else { return (String::new(), Vec::new()) };
    let mut program = first.rsplit('/').next().unwrap_or(first).to_owned();
    let mut rest: Vec<&str> = words.filter(is_plain).collect();
    if RUNNERS.contains(&program.as_str()) {
        rest.retain(|word| *word != "run");
        if !rest.is_empty() {
            program = format!("{program} {}", rest.remove(0));
        }
    }
    (program, rest)
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

/// The report of a sub-agent without what clients write around it, or a note that it has not reported yet.
pub(super) fn report(answer: &str) -> &str {
    /// How lines of clients below a report begin: how to go on with the agent, and what it used.
    const BELOW: &[&str] = &["\nagentId:", "\n<usage>"];
    if answer.starts_with("Async agent launched") {
        return "works in the background";
    }
    let report = inside(answer, "<task_result>", "</task_result>").unwrap_or(answer);
    let end = BELOW.iter().filter_map(|mark| around(report, mark)).map(|(before, _)| before.len());
    &report[..end.min().unwrap_or(report.len())]
}

/// What a report says first after its preamble.
fn told_of(report: &str) -> String {
    let findings = sentences(report).filter(|sentence| sentence.form != SentenceForm::Heading);
    let start = findings.map(|sentence| sentence.text).find(|sentence| worth(sentence) > 0);
    let start = start.map_or(0, |first| first.as_ptr().addr() - report.as_ptr().addr());
    quote::line_within(&report[start..], REPORT_CHARS_MAX)
}

fn inside<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = around(text, open)?;
    around(rest, close).map(|(inside, _)| inside)
}

/// The line with which a tool says that it did not do it.
pub(super) fn refusal(answer: &str, is_error: bool) -> Option<&str> {
    let first = answer.trim_start().lines().next().unwrap_or_default();
    let low = cut::head(first, 40).to_ascii_lowercase();
    let heads = ["<tool_use_error>", "error", "failed", "your proposed edit has introduced"];
    let is_refused = is_error || heads.iter().any(|head| low.starts_with(head));
    is_refused
        .then(|| first.trim_start_matches("<tool_use_error>").trim_end_matches("</tool_use_error>"))
}

/// The line that says why a sub-agent did not begin. Its report may speak of errors and failures, too.
pub(super) fn never_began(answer: &str, is_error: bool) -> Option<&str> {
    const TAG: &str = "<tool_use_error>";
    let first = answer.trim_start().lines().find(|line| !line.trim().is_empty())?;
    let word = first.split_whitespace().next().unwrap_or_default();
    let is_refused = is_error || first.starts_with(TAG) || word.ends_with("rror:");
    is_refused.then(|| first.trim_start_matches(TAG).trim_end_matches("</tool_use_error>"))
}

/// Whether a command was stopped or never run, so that its outcome is unknown.
pub(super) fn is_broken_off(answer: &str) -> bool {
    const SIGNS: [&str; 7] =
        ["abort", "interrupt", "no result", "cancel", "rejected", "not executed", "was killed"];
    let first = answer.trim_start().lines().next().unwrap_or_default();
    first.len() <= BROKEN_OFF_BYTES_MAX && {
        let first = first.to_ascii_lowercase();
        SIGNS.iter().any(|sign| first.contains(sign))
    }
}

/// The exit code that an agent writes beside an output.
pub(super) fn exit_code(text: &str) -> Option<i64> {
    const SIGNS: &[&str] =
        &["Exit code ", "Exit code: ", "Command exited with code ", "exit code: "];
    let ends = text.lines().take(3).chain(text.lines().rev().take(2));
    ends.into_iter().find_map(|line| {
        let line = line.trim();
        let rest = SIGNS.iter().find_map(|sign| line.strip_prefix(sign))?;
        rest.split(|c: char| !c.is_ascii_digit() && c != '-').next()?.parse().ok()
    })
}

/// Whether a line reads like one of a log or a crash, and not like one of a program.
fn is_logged(line: &str) -> bool {
    let line = unnumbered(line);
    if ["//", "#", "*", "--", "/*", "\"", "%"].iter().any(|mark| line.starts_with(mark)) {
        return false;
    }
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
    pub(super) fn noted(&self) -> [(&'static str, &[Noted]); 8] {
        [
            ("c", &self.checks),
            ("g", &self.commits),
            ("x", &self.failures),
            ("a", &self.reports),
            ("d", &self.changes),
            ("r", &self.lookups),
            ("k", &self.replies),
            ("j", &self.background),
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
            "k" => Some(&mut self.replies),
            "j" => Some(&mut self.background),
            _ => None,
        }
    }
}
