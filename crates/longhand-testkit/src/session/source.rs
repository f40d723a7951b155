//! One file of the invented project: code that can be read, grown and varied.

use super::grammar::{Bindings, expand};
use super::phrases::{PhraseRecord, Snippet};
use crate::rng::Rng;

/// Which part of a file an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Section {
    Methods,
    Helpers,
    Tests,
}

#[derive(Clone, Debug)]
pub(super) struct SourceItem {
    pub(super) name: String,
    pub(super) section: Section,
    snippet: Snippet,
    bindings: Bindings,
    text: String,
}

#[derive(Clone, Debug)]
pub(super) struct SourceFile {
    pub(super) path: String,
    head: String,
    kind: String,
    bindings: Bindings,
    items: Vec<SourceItem>,
}

impl SourceFile {
    /// Makes a file with its head and no items yet.
    pub(super) fn new(module: &PhraseRecord, world: &Bindings, rng: &mut Rng) -> Self {
        let mut bindings = world.clone();
        for key in ["queue", "map", "counter", "tally", "time", "due", "weight", "about"] {
            bindings.insert(key.to_owned(), module.get(key).to_owned());
        }
        let (kind, item) = (module.get("kind"), module.get("item"));
        let short = kind.rsplit(|c: char| c.is_uppercase()).next().unwrap_or(kind);
        let short = kind[kind.len() - short.len() - 1..].to_lowercase();
        for (key, value) in [("Kind", kind), ("Item", item), ("Id", module.get("id"))] {
            bindings.insert(key.to_owned(), value.to_owned());
        }
        let capacity = rng.choose(&["256", "1024", "2048", "4096"]);
        let capacity = if kind == "Wheel" { &world["slots"] } else { *capacity };
        bindings.insert("capacity".to_owned(), capacity.to_owned());
        bindings.insert("item".to_owned(), item.to_lowercase());
        bindings.insert("short".to_owned(), short);
        let path = module.get("path").to_owned();
        let head = if path.starts_with("tests/") { SUITE_HEAD } else { MODULE_HEAD };
        let head = expand(head, rng, &mut bindings.clone());
        Self { path, head, kind: kind.to_owned(), bindings, items: Vec::new() }
    }

    /// Adds an item made of a snippet whose name is still free, and returns that name.
    pub(super) fn grow(
        &mut self,
        section: Section,
        snippets: &[Snippet],
        rng: &mut Rng,
    ) -> Option<String> {
        let mut order: Vec<&Snippet> = snippets.iter().collect();
        rng.shuffle(&mut order);
        order.sort_by_key(|snippet| self.uses(snippet));
        for snippet in order {
            let mut names: Vec<&str> = snippet.names.split(' ').collect();
            rng.shuffle(&mut names);
            for name in names {
                let mut bindings = self.bindings.clone();
                let name = expand(name, rng, &mut bindings);
                if !self.items.iter().any(|item| item.name == name) {
                    self.add(section, *snippet, name.clone(), rng);
                    return Some(name);
                }
            }
        }
        None
    }

    /// Adds an item of the given name somewhere in the file.
    pub(super) fn add(&mut self, section: Section, snippet: Snippet, name: String, rng: &mut Rng) {
        let mut bindings = self.bindings.clone();
        bindings.insert("fn".to_owned(), name.clone());
        let text = expand(snippet.body, rng, &mut bindings);
        let place = rng.range(0..self.items.len() + 1);
        self.items.insert(place, SourceItem { name, section, snippet, bindings, text });
    }

    fn uses(&self, snippet: &Snippet) -> usize {
        self.items.iter().filter(|item| item.snippet == *snippet).count()
    }

    /// Writes an item anew with other choices; the remark is added if nothing else changes.
    pub(super) fn vary(&mut self, name: &str, remark: &str, rng: &mut Rng) {
        let Some(item) = self.items.iter_mut().find(|item| item.name == name) else { return };
        let before = item.text.clone();
        for _ in 0..3 {
            let varied = expand(item.snippet.body, rng, &mut item.bindings);
            item.text = with_docs_of(&before, &varied);
            if item.text != before {
                return;
            }
        }
        item.text = remarked(&before, remark, rng);
    }

    /// The names of a section, in the order of the file.
    pub(super) fn names(&self, section: Section) -> Vec<&str> {
        let of_section = self.items.iter().filter(|item| item.section == section);
        of_section.map(|item| item.name.as_str()).collect()
    }

    /// The functions that a patch may rewrite; what makes the file special comes first.
    pub(super) fn rewritable(&self, rng: &mut Rng) -> Vec<String> {
        let section =
            if self.path.starts_with("tests/") { Section::Tests } else { Section::Methods };
        let mut items: Vec<&SourceItem> =
            self.items.iter().filter(|item| item.section == section).collect();
        rng.shuffle(&mut items);
        items.sort_by_key(|item| !item.snippet.is_own());
        items.into_iter().map(|item| item.name.clone()).collect()
    }

    pub(super) fn text(&self) -> String {
        let tests = self.section(Section::Tests);
        if self.path.starts_with("tests/") {
            return format!("{}\n\n{}\n", self.head, dedent(&tests));
        }
        let mut text = format!(
            "{}\n\nimpl {} {{\n{}\n}}\n",
            self.head,
            self.kind,
            self.section(Section::Methods)
        );
        let helpers = self.section(Section::Helpers);
        if !helpers.is_empty() {
            text.push('\n');
            text.push_str(&helpers);
            text.push('\n');
        }
        if !tests.is_empty() {
            text.push_str("\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n");
            text.push_str(&tests);
            text.push_str("\n}\n");
        }
        text
    }

    fn section(&self, section: Section) -> String {
        let of_section = self.items.iter().filter(|item| item.section == section);
        of_section.map(|item| item.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }
}

/// Keeps the old doc comment: a fix that only rewords it would look odd.
fn with_docs_of(old: &str, new: &str) -> String {
    let is_doc = |line: &&str| line.trim_start().starts_with("///");
    let docs = old.lines().take_while(is_doc);
    docs.chain(new.lines().skip_while(is_doc)).collect::<Vec<_>>().join("\n")
}

/// Puts the remark above one of the lines in the body.
fn remarked(text: &str, remark: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let statements: Vec<usize> = (1..lines.len().saturating_sub(1))
        .filter(|&n| {
            lines[n].trim_end().ends_with([';', '{']) && lines[n - 1].ends_with([';', '{'])
        })
        .collect();
    let at = if statements.is_empty() { 0 } else { *rng.choose(&statements) };
    let indent = lines[at].len() - lines[at].trim_start().len();
    lines.insert(at, format!("{:indent$}{remark}", ""));
    lines.join("\n")
}

fn dedent(text: &str) -> String {
    text.lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}

const MODULE_HEAD: &str = "\
//! $about

use std::collections::{BTreeMap, VecDeque};
«use std::fmt;¦use std::fmt::{self, Write as _};¦use std::io::Write;»
? use std::time::Duration;

? use tracing::instrument;
use crate::clock::Tick;
use crate::error::Error;
? use crate::ids::$Id;

«/// How many are held at most; a power of two.¦/// More than this and something is wrong upstream.¦/// Chosen so that a full table fits into one page.¦// Must be a power of two: indices are masked, not divided.»
const CAPACITY: usize = $capacity;

/// $about
#[derive(Clone, Debug, Default)]
pub struct $Kind {
    /// Ordered by `$due`.
    $queue: VecDeque<$Item>,
    $map: BTreeMap<$Id, $Item>,
    /// Everything up to here has been dealt with.
    $time: Tick,
    $counter: u64,
    $tally: u64,
    ? limits: Limits,
}

/// «What the table holds: plain data, copied freely.¦One entry. Small on purpose: there are millions.¦A $item as the journal knows it.¦The unit that moves between nodes.¦Never changed in place once it is shared.»
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct $Item {
    pub id: $Id,
    pub $due: Tick,
    pub $weight: u32,
    ? pub note: Option<Box<str>>,
}";

const SUITE_HEAD: &str = "\
//! $about

use std::time::Duration;

use tidewheel::testing::{filled, random, small, start_with, ManualClock};
use tidewheel::{Error, Event, JobId, $Kind, Tick};

/// «Enough to fill a level and a half.¦Small enough to step through by hand.»
const COUNT: usize = $gap;

fn $item(id: u64, due: u64) -> tidewheel::$Item {
    tidewheel::$Item { id: id.into(), $due: Tick(due), $weight: 0«¦, ..Default::default()» }
}";
