//! All that a page may tell of a log, the worthiest first.

use rustc_hash::FxHashSet;

use super::Log;
use super::choice::StoryStep;
use super::files::file_item;
use super::heading::{
    BACKGROUND, BRANCH, CHANGED, CHECKED, COMMITS, FAILED, FILES, FOLDER, FOUND, HEADINGS, REPLIED,
    REPORTED, STORY, TASKS, WORDS,
};
use super::record::ids;
use super::sheet::{SheetTier, SheetUnit, unit};
use super::speech::{in_brief, in_short};
use super::standing::StatementKind;
use super::story::{AGED_CHARS_MAX, StoryLine, whole_sentences};
use super::work::{self, Noted};
use crate::quote;

/// The most characters of old words where there are many.
const BRIEF_CHARS: usize = 60;

/// How many of the newest files, checks and commits, records, and ends of rounds have their turn before the older ones.
const NEW_FILES: usize = 20;
const NEW_CHECKS: usize = 10;
const NEW_RECORDS: usize = 8;
const NEW_ENDS: usize = 8;

/// The most characters of a line in full.
const FULL_CHARS: usize = 400;

/// What is said of a check that failed in part and passed as a whole.
const PASSED_SINCE: &str = " (all passed since)";

/// What a log knows, seen from the messages that stay in sight after it.
pub(super) struct Contents<'l> {
    pub(super) log: &'l Log,
    /// The open statements and the state of the work after the messages in sight.
    pub(super) now: &'l Log,
    /// Messages in sight whose results are not shown.
    pub(super) unseen: &'l [u64],
    /// The common folder, which is named only once.
    pub(super) folder: &'l str,
}

impl Contents<'_> {
    /// Everything that a page can show, the most important first.
    pub(super) fn tiers(&self) -> Vec<SheetTier> {
        let tier = |percent, units| SheetTier { percent, is_capped: false, matters: false, units };
        let matters = |percent, units| SheetTier { matters: true, ..tier(percent, units) };
        let (new_files, old_files) = newest(self.files(), NEW_FILES);
        let (new_checks, old_checks) = newest(self.checks(), NEW_CHECKS);
        let (new_commits, old_commits) = newest(self.commits(), NEW_CHECKS);
        let (new_records, old_records) = newest(self.records(), NEW_RECORDS);
        let (new_ends, old_ends) = newest(self.ends(), NEW_ENDS);
        let standing = [StatementKind::Question, StatementKind::Blocker, StatementKind::Decision]
            .map(|kind| self.standing(kind));
        let facts =
            [self.tasks(), self.branch(), self.folder(), new_files, new_checks, new_commits];
        let mut asides = self.standing(StatementKind::Aside);
        asides.truncate(3);
        vec![
            SheetTier { is_capped: true, ..tier(33, self.told_by_model()) },
            matters(40, self.words(true)),
            matters(44, self.replies()),
            matters(72, joined(standing)),
            matters(80, self.words(false)),
            matters(92, joined(facts)),
            matters(94, joined([old_files, old_checks, old_commits])),
            matters(
                96,
                joined([self.changes(), self.failures(), self.reports(), self.background()]),
            ),
            matters(97, new_records),
            // If files were changed, only the story says why. In a plain chat it matters least.
            SheetTier { matters: !self.log.work.files.is_empty(), ..tier(98, new_ends) },
            tier(98, old_ends),
            tier(0, asides),
            tier(0, old_records),
        ]
    }

    /// What users said: the sentences that last, or the others.
    fn words(&self, lasts: bool) -> Vec<SheetUnit> {
        let words = self.log.words.iter().enumerate().filter(|(_, words)| words.lasts == lasts);
        let units = words.rev().map(|(place, words)| {
            let line = |text: &str| format!("- {}: \"{text}\"", words.round);
            let brief = line(&in_brief(&words.text, BRIEF_CHARS));
            let (short, full) = (line(&in_short(&words.text)), line(&words.text));
            let mut unit = unit(WORDS, place, short, full, words.lasts);
            // Of orders nothing is cut but what was clipped when they were heard.
            unit.brief = Some(brief).filter(|_| !lasts || words.text.ends_with('…'));
            unit
        });
        units.collect()
    }

    /// The open statements of a kind.
    fn standing(&self, kind: StatementKind) -> Vec<SheetUnit> {
        let heading = HEADINGS.iter().find(|heading| heading.kind == Some(kind));
        let title = heading.map_or("", |heading| heading.title);
        let stands = |at: usize| self.now.standing.items.get(at).is_some_and(|item| !item.settled);
        // A question in passing is only shown for a few rounds.
        let is_new = |round: u64| kind != StatementKind::Aside || round + 2 > self.now.rounds;
        let items = self.log.standing.items.iter().enumerate().filter(|(at, item)| {
            // Decisions of users are shown in their own words, elsewhere.
            let is_of_kind = item.kind == kind && !item.by_user;
            is_of_kind && !item.settled && stands(*at) && is_new(item.round)
        });
        let units = items.rev().map(|(place, item)| {
            let line = |chars| {
                let text = quote::line_within(headless(&item.text), chars);
                format!("- ({}) {text}", item.round)
            };
            unit(title, place, line(200), line(FULL_CHARS), kind != StatementKind::Aside)
        });
        units.collect()
    }

    fn tasks(&self) -> Vec<SheetUnit> {
        let tasks = self.now.work.tasks.iter().map(|(mark, text)| format!("- [{mark}] {text}"));
        let tasks = tasks.collect::<Vec<_>>().join("\n");
        let is_empty = tasks.is_empty();
        // A list of tasks is shown whole or not at all.
        let tasks = unit(TASKS, 0, tasks.clone(), tasks, false);
        if is_empty { Vec::new() } else { vec![tasks] }
    }

    fn branch(&self) -> Vec<SheetUnit> {
        let branch = Some(&self.log.work.branch).filter(|branch| !branch.is_empty());
        branch.map(|branch| list_item(BRANCH, 0, branch.clone())).into_iter().collect()
    }

    fn folder(&self) -> Vec<SheetUnit> {
        let folder = Some(self.folder).filter(|folder| !folder.is_empty());
        folder.map(|folder| list_item(FOLDER, 0, quote::line(folder))).into_iter().collect()
    }

    fn files(&self) -> Vec<SheetUnit> {
        let files = self.log.work.files.iter().enumerate().rev();
        // What happened to it later counts, also in sight.
        let files =
            files.map(|(place, file)| (place, self.now.work.file(&file.path).unwrap_or(file)));
        files.map(|(place, file)| list_item(FILES, place, file_item(file, self.folder))).collect()
    }

    fn commits(&self) -> Vec<SheetUnit> {
        let commits = self.now.work.commits.iter().enumerate().rev();
        let commits = commits.filter(|(_, commit)| self.is_out_of_sight(commit));
        let units = commits.map(|(place, commit)| {
            let hash = commit.about.clone();
            let full = format!("{hash} {}", quote::line_within(&commit.line, 70));
            unit(COMMITS, place, hash, full, false)
        });
        units.collect()
    }

    /// The newest outcomes of checks. A check that ran again later is shown only if the later outcome is not in sight.
    fn checks(&self) -> Vec<SheetUnit> {
        let is_told =
            |check: &Noted| self.is_out_of_sight(check) || check.line.ends_with(work::QUIET_SINCE);
        let checks = self.now.work.checks.iter().enumerate();
        let now = &self.now.work;
        let checks = checks.filter(|(_, check)| is_told(check) && !now.is_of_deleted(check)).rev();
        let units = checks.map(|(place, check)| {
            let mut unit = noted_unit(CHECKED, place, &code(&check.about), &check.line, 200);
            if self.now.work.has_passed_since(check) {
                unit.short.push_str(PASSED_SINCE);
                unit.full.push_str(PASSED_SINCE);
            }
            unit
        });
        units.collect()
    }

    fn failures(&self) -> Vec<SheetUnit> {
        let (work, now) = (&self.log.work, &self.now.work);
        // A failed check is already shown with its verdict.
        let has_verdict = |failure: &Noted| {
            work.checks
                .iter()
                .any(|check| check.about == failure.about && check.line.contains("rror"))
        };
        let failures = work.failures.iter().enumerate();
        let failures = failures.filter(|(_, failure)| now.failures.contains(failure));
        let failures = failures.filter(|(_, failure)| {
            !has_verdict(failure) && !now.is_of_deleted(failure) && !now.has_passed_since(failure)
        });
        let failures = failures.rev();
        let units = failures.map(|(place, failure)| {
            noted_unit(FAILED, place, &code(&failure.about), &failure.line, 160)
        });
        units.collect()
    }

    fn reports(&self) -> Vec<SheetUnit> {
        still_true(REPORTED, &self.log.work.reports, &self.now.work.reports, 140)
    }

    fn replies(&self) -> Vec<SheetUnit> {
        still_true(REPLIED, &self.log.work.replies, &self.now.work.replies, FULL_CHARS)
    }

    /// Background tasks as they ended, also after the folded messages.
    fn background(&self) -> Vec<SheetUnit> {
        let tasks = self.log.work.background.iter().enumerate().rev();
        let units = tasks.map(|(place, task)| {
            let newest = self.now.work.background.iter().find(|other| other.about == task.about);
            noted_unit(BACKGROUND, place, &task.about, &newest.unwrap_or(task).line, 160)
        });
        units.collect()
    }

    fn changes(&self) -> Vec<SheetUnit> {
        still_true(CHANGED, &self.log.work.changes, &self.now.work.changes, 60)
    }

    /// The records that calls found: in short their ids, each with the newest record that has it.
    fn records(&self) -> Vec<SheetUnit> {
        let now = &self.now.work.lookups;
        let records = self.log.work.lookups.iter().enumerate();
        let mut told = FxHashSet::default();
        let records = records.filter(|(_, record)| now.contains(record)).rev();
        let units = records.filter_map(|(place, record)| {
            let ids: Vec<&str> = ids(&record.line).filter(|id| told.insert(*id)).collect();
            if ids.is_empty() {
                return None;
            }
            let mut unit = noted_unit(FOUND, place, &record.about, &record.line, FULL_CHARS);
            unit.short = noted_unit(FOUND, place, &record.about, &ids.join(", "), 240).short;
            Some(unit)
        });
        units.collect()
    }

    fn told_by_model(&self) -> Vec<SheetUnit> {
        let told = self.log.story.told.as_ref().map_or(&[][..], |told| &told.1);
        let units = told.iter().enumerate().rev().map(|(place, line)| {
            let line = |chars| format!("- {}", quote::line_within(line, chars));
            unit(STORY, place, line(400), line(2_000), false)
        });
        units.collect()
    }

    /// How rounds ended.
    fn ends(&self) -> Vec<SheetUnit> {
        let units = self.story(true).rev().map(|(place, line)| {
            let full = format!("- {}: {}", line.round, line.text);
            unit(STORY, place, whole_sentences(&full, AGED_CHARS_MAX), full, false)
        });
        units.collect()
    }

    /// What was said before rounds ended.
    pub(super) fn steps(&self) -> Vec<StoryStep> {
        let steps = self.story(false).map(|(place, line)| StoryStep {
            place,
            text: format!("- {}: {}", line.round, line.text),
            worth: f64::from(line.worth),
        });
        steps.collect()
    }

    /// The lines of the story and their places. What a model has summarised with every name in it is left out.
    fn story(&self, ends: bool) -> impl DoubleEndedIterator<Item = (usize, &StoryLine)> {
        let story = &self.log.story;
        let from = story.told.as_ref().map_or(0, |told| told.1.len());
        let lines = story.lines.iter().enumerate().map(move |(at, line)| (from + at, line));
        lines.filter(move |(_, line)| line.is_end == ends && !story.is_told(line))
    }

    /// Whether the message that something is from is not shown.
    fn is_out_of_sight(&self, noted: &Noted) -> bool {
        noted.message <= self.log.messages || self.unseen.contains(&noted.message)
    }
}

/// Lines that nothing newer has replaced.
fn still_true(title: &'static str, noted: &[Noted], now: &[Noted], chars: usize) -> Vec<SheetUnit> {
    let noted = noted.iter().enumerate().filter(|(_, line)| now.contains(line)).rev();
    noted.map(|(place, line)| noted_unit(title, place, &line.about, &line.line, chars)).collect()
}

fn noted_unit(title: &str, place: usize, about: &str, line: &str, chars: usize) -> SheetUnit {
    let line = |chars| match quote::line_within(line, chars) {
        line if line.is_empty() => format!("- {about}"),
        line => format!("- {about}: {line}"),
    };
    unit(title, place, line(chars), line(FULL_CHARS), false)
}

fn code(command: &str) -> String {
    format!("`{command}`")
}

fn joined(units: impl IntoIterator<Item = Vec<SheetUnit>>) -> Vec<SheetUnit> {
    units.into_iter().flatten().collect()
}

/// The first units, and the others.
fn newest(mut units: Vec<SheetUnit>, count: usize) -> (Vec<SheetUnit>, Vec<SheetUnit>) {
    let rest = units.split_off(count.min(units.len()));
    (units, rest)
}

fn list_item(title: &str, place: usize, item: String) -> SheetUnit {
    unit(title, place, item.clone(), item, false)
}

/// A statement without the word that heads it, which stands above it.
fn headless(text: &str) -> &str {
    const HEADS: &[&str] = &[
        "decision",
        "decided",
        "open question",
        "open questions",
        "question",
        "blocked",
        "blocker",
    ];
    let bare = text.trim_start_matches(['*', '_', '-', '#', '>', ' ']);
    let Some((head, rest)) = bare.split_once(':') else { return text };
    let head = head.trim_matches(['*', '_', ' ']);
    let is_head = HEADS.iter().any(|known| head.eq_ignore_ascii_case(known));
    if is_head { rest.trim_start_matches(['*', '_', ' ']) } else { text }
}
