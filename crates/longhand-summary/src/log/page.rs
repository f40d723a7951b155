//! What a block shows of a log: as much as has room, in the order of its worth.

use std::borrow::Cow;

use longhand_core::anchor::identifiers;
use longhand_core::json::strings_of_object;
use longhand_core::{Message, Part, Scale, Tokens};
use memchr::memmem;
use rustc_hash::FxHashSet;

use super::files::{common_root, file_item};
use super::names::Names;
use super::speech::in_short;
use super::standing::Kind;
use super::story::AGED_CHARS_MAX;
use super::work::{self, Noted};
use super::{Log, bounded};
use crate::quote;

pub(super) const WORDS: &str = "The user said:";
pub(super) const CHECKED: &str = "Checks, newest outcome:";
pub(super) const TASKS: &str = "Task list as last written:";
pub(super) const FAILED: &str = "Failed, not repaired since:";
pub(super) const REPORTED: &str = "Sub-agents reported:";
pub(super) const CHANGED: &str = "Changed by calls:";
pub(super) const STORY: &str = "How it went:";
const FOLDER: &str = "Folder: ";
const FILES: &str = "Files changed: ";
const COMMITS: &str = "Commits: ";
const BRANCH: &str = "Branch: ";
const NAMES: &str = "Names: ";

/// A title, and the kind of statements below it if it has any.
#[derive(Clone, Copy)]
pub(super) struct Heading {
    pub(super) title: &'static str,
    pub(super) kind: Option<Kind>,
}

const fn heading(title: &'static str, kind: Option<Kind>) -> Heading {
    Heading { title, kind }
}

/// The titles in the order in which they stand.
pub(super) const HEADINGS: [Heading; 16] = [
    heading(WORDS, None),
    heading("Decided:", Some(Kind::Decision)),
    heading("Open questions:", Some(Kind::Question)),
    heading("Asked in passing:", Some(Kind::Aside)),
    heading("Blocked:", Some(Kind::Blocker)),
    heading(FOLDER, None),
    heading(FILES, None),
    heading(CHECKED, None),
    heading(BRANCH, None),
    heading(COMMITS, None),
    heading(TASKS, None),
    heading(FAILED, None),
    heading(REPORTED, None),
    heading(CHANGED, None),
    heading(STORY, None),
    heading(NAMES, None),
];

/// The most that is kept for names, as a share of the room, and what is kept for ids in any case.
const NAMES_PERCENT_MAX: u64 = 60;
const NAMES_PERCENT_MIN: u64 = 15;

/// The share that names and the story get beside the lines that matter: one in so many.
const OTHERS_SHARE: u64 = 5;

/// What the story has in any case, as a share of the room.
const OTHERS_PERCENT: u64 = 4;

/// The most that plain words of users take before the oldest of them are told more briefly.
const WORDS_PERCENT: u64 = 60;
const BRIEF_CHARS: usize = 60;

/// Less than any line takes.
const UNIT_TOKENS_MIN: Tokens = Tokens(3);

/// The least room that is shared out.
const SHARED_FROM: Tokens = Tokens(400);

/// What is said of a check that failed in part and passed as a whole.
const PASSED_SINCE: &str = " (all passed since)";

/// A log as far as there was room for it.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The lines.
    pub text: String,
    /// How many things it tells.
    pub told: usize,
    /// What had no room.
    pub left_out: Vec<String>,
    /// Whether something had no room that a conversation cannot do without: a user's rule, a decision,
    /// a blocker, an open question.
    pub is_lossy: bool,
    /// The room that all that matters would take, with a share for names and the story.
    pub wanted: Tokens,
}

/// Something that can be told, in short and in full.
struct Unit {
    /// Where it stands: the number of its heading, and its place below it.
    heading: usize,
    place: usize,
    short: String,
    full: String,
    /// Still shorter, for old words where there are many.
    brief: Option<String>,
    /// Whether a conversation cannot do without it.
    is_essential: bool,
    shown: Shown,
    /// What it takes in short and in full, once that was counted.
    weights: [Option<Tokens>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    No,
    Short,
    Full,
}

impl Unit {
    fn text(&self) -> &str {
        match self.shown {
            Shown::No => "",
            Shown::Short => &self.short,
            Shown::Full => &self.full,
        }
    }
}

/// How often a sheet is gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Shares,
    Rest,
    /// What is told when all that matters had its turn.
    Others,
    Full,
    Minor,
}

impl Pass {
    fn takes(self, tier: &Tier) -> bool {
        let is_first = tier.matters || tier.is_capped;
        match self {
            Pass::Shares => is_first || tier.percent > 0,
            Pass::Rest => is_first,
            Pass::Others => !is_first && tier.percent > 0,
            Pass::Full => tier.percent > 0,
            Pass::Minor => tier.percent == 0,
        }
    }
}

/// Units of equal worth, the best first, and the share of the room up to which they are told at first;
/// those without a share are told when all others had their turn.
struct Tier {
    percent: u64,
    /// Whether the share holds in little room too: what a model was paid for has a place, and no more.
    is_capped: bool,
    /// Whether a block is made larger for their sake.
    matters: bool,
    units: Vec<Unit>,
}

impl Log {
    /// Shows what is known in at most `limit` tokens.
    ///
    /// The messages that stay in sight after the folded ones may have answered, lifted or repaired
    /// something; and what they name need not be named again.
    pub fn page(
        &self,
        after: &[&Message],
        hidden: &[(usize, &Part)],
        limit: Tokens,
        scale: &Scale,
    ) -> Page {
        let now = self.seen_from(after);
        let unseen: Vec<u64> =
            hidden.iter().map(|(at, _)| self.messages + *at as u64 + 1).collect();
        let tiers = self.tiers(&now, &unseen);
        let mut sheet = Sheet { tiers, scale, limit, spent: Tokens::ZERO };
        let wanted = sheet.wanted();
        sheet.shorten_words(limit);
        let names = names_room(limit, wanted, self.names.has_own());
        sheet.fill(limit.saturating_sub(names));
        let (mut text, names_from) = sheet.text();
        let room = limit.saturating_sub(scale.text(&text) + Tokens(1));
        let (names, has_all) = self.names_line(&text, after, hidden, room, scale);
        text.insert_str(names_from, &names);
        text.truncate(text.trim_end().len());
        while scale.text(&text) > limit {
            // Joined, lines may count for more than they did one by one.
            if !sheet.drop_last() {
                text.clear();
                break;
            }
            text = sheet.text().0;
        }
        let page = sheet.page(text);
        Page { is_lossy: page.is_lossy || !has_all, wanted, ..page }
    }

    /// What stands and how the work is after some more messages; no words, names or story of them.
    fn seen_from(&self, after: &[&Message]) -> Log {
        let mut now = Log {
            rounds: self.rounds,
            messages: self.messages,
            standing: self.standing.clone(),
            work: self.work.clone(),
            calls_tools: self.calls_tools,
            acting: self.acting.clone(),
            ..Log::default()
        };
        now.read(after);
        now
    }

    /// Everything that can be told, the worthiest first.
    ///
    /// `unseen` are messages in sight whose results are not shown.
    fn tiers(&self, now: &Log, unseen: &[u64]) -> Vec<Tier> {
        let words = |lasts: bool| {
            let own = self.words.iter().enumerate().filter(move |(_, words)| words.lasts == lasts);
            own.rev().map(move |(place, words)| {
                let line = |text: &str| format!("- {}: \"{text}\"", words.round);
                let brief = line(&quote::line_within(&words.text, BRIEF_CHARS));
                let (short, full) = (line(&in_short(&words.text)), line(&words.text));
                let brief = Some(brief).filter(|_| !lasts);
                Unit { brief, ..unit(WORDS, place, short, full, words.lasts) }
            })
        };
        let standing = |kind: Kind| {
            let still =
                move |at: &usize| now.standing.items.get(*at).is_some_and(|own| !own.settled);
            let own = self.standing.items.iter().enumerate();
            // What was asked in passing is soon passed over.
            let is_new = move |round: u64| kind != Kind::Aside || round + 2 > now.rounds;
            let own = own.filter(move |(at, item)| {
                // What users decide is told in their own words.
                let is_own = item.kind == kind && !item.by_user;
                is_own && !item.settled && still(at) && is_new(item.round)
            });
            own.rev().map(move |(place, item)| {
                let title =
                    HEADINGS.iter().find(|own| own.kind == Some(kind)).map_or("", |own| own.title);
                let line = |chars| {
                    let text = quote::line_within(headless(&item.text), chars);
                    format!("- ({}) {text}", item.round)
                };
                unit(title, place, line(200), line(400), kind != Kind::Aside)
            })
        };
        let is_newest = |of: &[Noted], own: &Noted| of.iter().any(|newest| newest == own);
        let noted =
            |title: &'static str, noted: &[Noted], newest: &[Noted], chars: usize, code: bool| {
                let own = noted.iter().enumerate().filter(|(_, own)| is_newest(newest, own)).rev();
                let units = own.map(|(place, own)| {
                    let about = if code { format!("`{}`", own.about) } else { own.about.clone() };
                    let line = |chars| match quote::line_within(&own.line, chars) {
                        line if line.is_empty() => format!("- {about}"),
                        line => format!("- {about}: {line}"),
                    };
                    unit(title, place, line(chars), line(400), false)
                });
                units.collect::<Vec<_>>()
            };
        let work = &self.work;
        let tasks = now.work.tasks.iter().map(|(mark, text)| format!("- [{mark}] {text}"));
        let tasks = tasks.collect::<Vec<_>>().join("\n");
        let tasks = Some(tasks).filter(|tasks| !tasks.is_empty());
        let tasks = tasks.map(|tasks| unit(TASKS, 0, tasks.clone(), tasks, false));
        let root = common_root(&work.files);
        let folder = Some(&root).filter(|root| !root.is_empty());
        let folder = folder.map(|root| list_item(FOLDER, 0, quote::line(root)));
        let files = work.files.iter().enumerate().rev();
        let files = files.map(|(place, file)| list_item(FILES, place, file_item(file, &root)));
        let told =
            |commit: &Noted| commit.message <= self.messages || unseen.contains(&commit.message);
        let commits = now.work.commits.iter().enumerate().rev();
        let commits = commits.filter(|(_, commit)| told(commit)).map(|(place, commit)| {
            let item =
                |chars| format!("{} {}", commit.about, quote::line_within(&commit.line, chars));
            let short = commit.about.clone();
            Unit { full: item(70), ..unit(COMMITS, place, short, String::new(), false) }
        });
        let branch = Some(&work.branch).filter(|branch| !branch.is_empty());
        let branch = branch.map(|branch| list_item(BRANCH, 0, branch.clone()));
        // A check that ran again since is told if its newer outcome is not in sight.
        let is_unseen = |noted: &Noted| {
            noted.message <= self.messages
                || noted.line.ends_with(work::QUIET_SINCE)
                || unseen.contains(&noted.message)
        };
        let known: Vec<Noted> =
            now.work.checks.iter().filter(|own| is_unseen(own)).cloned().collect();
        let mut checks = noted(CHECKED, &known, &known, 200, true);
        for (unit, check) in checks.iter_mut().zip(known.iter().rev()) {
            if now.work.has_passed_since(check) {
                unit.short.push_str(PASSED_SINCE);
                unit.full.push_str(PASSED_SINCE);
            }
        }
        let (new_files, old_files) = newest(files, 20);
        let (new_checks, old_checks) = newest(checks, 10);
        let (new_commits, old_commits) = newest(commits, 10);
        let facts = tasks
            .into_iter()
            .chain(branch)
            .chain(folder)
            .chain(new_files)
            .chain(new_checks)
            .chain(new_commits);
        let older = old_files.into_iter().chain(old_checks).chain(old_commits);
        // A check that failed is told with its verdict.
        let is_told = |failure: &Noted| {
            work.checks
                .iter()
                .any(|check| check.about == failure.about && check.line.contains("rror"))
        };
        let untold: Vec<Noted> =
            work.failures.iter().filter(|own| !is_told(own)).cloned().collect();
        let failures = noted(FAILED, &untold, &now.work.failures, 160, true);
        let reports = noted(REPORTED, &work.reports, &now.work.reports, 140, false);
        let changes = noted(CHANGED, &work.changes, &now.work.changes, 60, false);
        let outside = changes.into_iter().chain(failures).chain(reports);
        let standing_all =
            standing(Kind::Question).chain(standing(Kind::Blocker)).chain(standing(Kind::Decision));
        let tier =
            |percent, units: Vec<Unit>| Tier { percent, is_capped: false, matters: false, units };
        let matters = |percent, units: Vec<Unit>| Tier { matters: true, ..tier(percent, units) };
        let (told, ends) = self.story_ends();
        vec![
            Tier { is_capped: true, ..tier(33, told) },
            matters(40, words(true).collect()),
            matters(72, standing_all.collect()),
            matters(80, words(false).collect()),
            matters(92, facts.collect()),
            matters(94, older.collect()),
            matters(96, outside.collect()),
            tier(98, ends),
            tier(0, standing(Kind::Aside).take(3).collect()),
            tier(0, self.story_steps()),
        ]
    }

    /// What a model told, and the ends of the rounds after that; newest first.
    fn story_ends(&self) -> (Vec<Unit>, Vec<Unit>) {
        let told = self.story.told.as_ref().map_or(&[][..], |told| &told.1);
        let told = told.iter().enumerate().rev().map(|(place, line)| {
            let line = |chars| format!("- {}", quote::line_within(line, chars));
            unit(STORY, place, line(400), line(2_000), false)
        });
        (told.collect(), self.story_units(true))
    }

    /// What was said before the ends of rounds, newest first.
    fn story_steps(&self) -> Vec<Unit> {
        self.story_units(false)
    }

    fn story_units(&self, ends: bool) -> Vec<Unit> {
        let from = self.story.told.as_ref().map_or(0, |told| told.1.len());
        let own = self.story.lines.iter().enumerate().rev();
        let own =
            own.filter(|(_, line)| line.round >= self.story.first_own() && line.is_end == ends);
        own.map(|(at, line)| story_unit(from + at, format!("- {}: {}", line.round, line.text)))
            .collect()
    }

    /// Names that nothing in sight has yet, and whether all ids are among them that must not be
    /// forgotten.
    fn names_line(
        &self,
        text: &str,
        after: &[&Message],
        hidden: &[(usize, &Part)],
        room: Tokens,
        scale: &Scale,
    ) -> (String, bool) {
        let mut has_all = true;
        let mut names = Cow::Borrowed(&self.names);
        for (at, part) in hidden {
            read_hidden(names.to_mut(), part, self.messages + *at as u64 + 1);
        }
        let seen = in_sight(after, hidden);
        let seen: FxHashSet<&str> = identifiers(&seen).collect();
        let now = self.messages + after.len() as u64;
        let mut line = NAMES.to_owned();
        let mut spent = scale.text(NAMES) + Tokens(1);
        let mut misses = 0;
        for name in names.ranked(now) {
            if seen.contains(name) || has(text, name) || has(&line, name) {
                continue;
            }
            let item = names.written(name) + ", ";
            let tokens = scale.text(&item);
            if spent + tokens > room {
                misses += 1;
                has_all &= !names.is_own(name);
                if misses > 8 {
                    break;
                }
                continue;
            }
            spent += tokens;
            line.push_str(&item);
        }
        let line = line.strip_suffix(", ").map(|names| format!("{names}\n"));
        (line.unwrap_or_default(), has_all)
    }
}

/// Units on their way to a text.
struct Sheet<'s, 'm> {
    tiers: Vec<Tier>,
    scale: &'s Scale<'m>,
    limit: Tokens,
    spent: Tokens,
}

impl Sheet<'_, '_> {
    /// Tells what there is room for: each tier up to its share, then what is left, then in full, and
    /// what has no share at the end.
    fn fill(&mut self, room: Tokens) {
        let mut tiers = std::mem::take(&mut self.tiers);
        let mut titled = [false; HEADINGS.len()];
        let passes = [Pass::Shares, Pass::Rest, Pass::Others, Pass::Full, Pass::Minor];
        for pass in passes {
            for tier in tiers.iter_mut().filter(|tier| pass.takes(tier)) {
                // In little room worth alone counts.
                let has_share = pass == Pass::Shares && (room >= SHARED_FROM || tier.is_capped);
                let share = if has_share { tier.percent } else { 100 };
                let mut cap = Tokens(room.0 * share / 100);
                if has_share && !tier.matters && !tier.is_capped {
                    cap = cap.min(self.spent + Tokens(room.0 * OTHERS_PERCENT / 100));
                }
                for unit in &mut tier.units {
                    self.show(unit, pass, cap, &mut titled);
                }
            }
        }
        self.tiers = tiers;
    }

    /// Tells the oldest words of users more briefly where not all of them have room.
    fn shorten_words(&mut self, limit: Tokens) {
        let cap = Tokens(limit.0 * WORDS_PERCENT / 100);
        let mut tiers = std::mem::take(&mut self.tiers);
        let is_brief = |unit: &&mut Unit| unit.brief.is_some();
        let mut units: Vec<&mut Unit> =
            tiers.iter_mut().flat_map(|tier| &mut tier.units).filter(is_brief).collect();
        let mut sum: Tokens = units.iter().map(|unit| self.weight(&unit.short)).sum();
        for unit in units.iter_mut().rev() {
            if sum <= cap {
                break;
            }
            let Some(brief) = unit.brief.take() else { continue };
            sum = sum.saturating_sub(self.weight(&unit.short)) + self.weight(&brief);
            unit.short = brief;
        }
        self.tiers = tiers;
    }

    /// What the lines that matter take in short, and some room for the others.
    fn wanted(&self) -> Tokens {
        let mut titled = [false; HEADINGS.len()];
        let mut sum = Tokens::ZERO;
        for unit in self.tiers.iter().filter(|tier| tier.matters).flat_map(|tier| &tier.units) {
            if !std::mem::replace(&mut titled[unit.heading], true) {
                sum += self.weight(HEADINGS[unit.heading].title);
            }
            sum += self.weight(&unit.short);
        }
        Tokens(sum.0 + sum.0 / OTHERS_SHARE)
    }

    /// Shows a unit in short, or in full what was shown in short, if it fits.
    fn show(&mut self, unit: &mut Unit, pass: Pass, cap: Tokens, titled: &mut [bool]) {
        let (from, to) = if pass == Pass::Full {
            (Shown::Short, Shown::Full)
        } else {
            (Shown::No, Shown::Short)
        };
        let is_full = from == Shown::No && self.spent + UNIT_TOKENS_MIN > cap;
        if unit.shown != from || is_full {
            return;
        }
        let before = self.weight_of(unit);
        unit.shown = to;
        let title = HEADINGS[unit.heading].title;
        let title = if titled[unit.heading] { Tokens::ZERO } else { self.weight(title) };
        let added = self.weight_of(unit).saturating_sub(before) + title;
        if self.spent + added <= cap {
            self.spent += added;
            titled[unit.heading] = true;
        } else {
            unit.shown = from;
        }
    }

    /// What a unit takes as it is shown.
    fn weight_of(&self, unit: &mut Unit) -> Tokens {
        let form = match unit.shown {
            Shown::No => return Tokens::ZERO,
            Shown::Short => 0,
            Shown::Full => 1,
        };
        if let Some(weight) = unit.weights[form] {
            return weight;
        }
        let weight = self.weight(unit.text());
        unit.weights[form] = Some(weight);
        weight
    }

    fn weight(&self, text: &str) -> Tokens {
        self.scale.text(text) + Tokens(1)
    }

    /// The lines that are told, and where the names belong.
    fn text(&self) -> (String, usize) {
        let mut shown: Vec<&Unit> = self.units().filter(|unit| unit.shown != Shown::No).collect();
        shown.sort_by_key(|unit| (unit.heading, unit.place));
        let mut text = String::new();
        for group in shown.chunk_by(|one, two| one.heading == two.heading) {
            let title = HEADINGS[group[0].heading].title;
            text.push_str(title);
            let is_list = title.ends_with(' ');
            let separator = if title == COMMITS {
                "; "
            } else if is_list {
                ", "
            } else {
                "\n"
            };
            if !is_list {
                text.push('\n');
            }
            let items: Vec<&str> = group.iter().map(|unit| unit.text()).collect();
            text.push_str(&items.join(separator));
            text.push('\n');
        }
        let end = text.len();
        (text, end)
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        self.tiers.iter().flat_map(|tier| &tier.units)
    }

    /// Takes the lightest line out again.
    fn drop_last(&mut self) -> bool {
        let units = self.tiers.iter_mut().flat_map(|tier| &mut tier.units);
        let last = units.filter(|unit| unit.shown != Shown::No).last();
        last.is_some_and(|unit| {
            unit.shown = Shown::No;
            true
        })
    }

    fn page(&self, text: String) -> Page {
        debug_assert!(self.scale.text(&text) <= self.limit);
        let told = self.units().filter(|unit| unit.shown != Shown::No).count();
        let missing: Vec<&Unit> = self.units().filter(|unit| unit.shown == Shown::No).collect();
        Page {
            text,
            told,
            wanted: Tokens::ZERO,
            is_lossy: missing.iter().any(|unit| unit.is_essential),
            left_out: missing
                .iter()
                .map(|unit| unit.short.trim_start_matches("- ").to_owned())
                .collect(),
        }
    }
}

fn unit(title: &str, place: usize, short: String, full: String, is_essential: bool) -> Unit {
    let heading = HEADINGS.iter().position(|own| own.title == title).unwrap_or(0);
    let brief = None;
    Unit { heading, place, short, full, brief, is_essential, shown: Shown::No, weights: [None; 2] }
}

/// The first units, and the others.
fn newest(units: impl IntoIterator<Item = Unit>, count: usize) -> (Vec<Unit>, Vec<Unit>) {
    let mut first: Vec<Unit> = units.into_iter().collect();
    let rest = first.split_off(count.min(first.len()));
    (first, rest)
}

fn story_unit(place: usize, line: String) -> Unit {
    unit(STORY, place, quote::line_within(&line, AGED_CHARS_MAX), line, false)
}

fn list_item(title: &str, place: usize, item: String) -> Unit {
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
    let is_head = HEADS.iter().any(|own| head.eq_ignore_ascii_case(own));
    if is_head { rest.trim_start_matches(['*', '_', ' ']) } else { text }
}

/// What can be read in the messages that stay.
fn in_sight(after: &[&Message], hidden: &[(usize, &Part)]) -> String {
    let is_hidden = |part: &Part| hidden.iter().any(|(_, own)| std::ptr::eq(*own, part));
    let mut seen = String::new();
    for part in after.iter().flat_map(|message| &message.parts).filter(|part| !is_hidden(part)) {
        texts_of(part, |text| {
            seen.push_str(text);
            seen.push('\n');
        });
    }
    seen
}

/// Counts the names of a body that is not shown.
fn read_hidden(names: &mut Names, part: &Part, message: u64) {
    texts_of(part, |text| names.read(bounded(text), message, 1));
}

fn texts_of(part: &Part, mut read: impl FnMut(&str)) {
    match part {
        Part::Text(text) => read(&text.decode()),
        Part::Call(call) => {
            let arguments = call.arguments.decode();
            match strings_of_object(&arguments) {
                Some(values) => {
                    for value in values.iter().filter_map(|value| value.str(&arguments)) {
                        read(&value);
                    }
                }
                None => read(&arguments),
            }
        }
        Part::Result(result) => {
            result.content.iter().filter_map(Part::text).for_each(|text| read(&text.decode()));
        }
        _ => {}
    }
}

/// What is kept for names: what the lines that matter leave, up to a share.
///
/// Ids that must not be forgotten have a place in any case.
fn names_room(limit: Tokens, wanted: Tokens, has_own: bool) -> Tokens {
    let least = if has_own { limit.0 * NAMES_PERCENT_MIN / 100 } else { 0 };
    let room = limit.saturating_sub(wanted).min(Tokens(limit.0 * NAMES_PERCENT_MAX / 100));
    room.max(Tokens(least))
}

fn has(text: &str, name: &str) -> bool {
    memmem::find(text.as_bytes(), name.as_bytes()).is_some()
}
