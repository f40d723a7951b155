//! The texts that sessions are made of, read from the files beside this one.

use std::collections::BTreeMap;

use crate::rng::Rng;

/// A piece of code with the names that it may carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Snippet {
    pub(super) names: &'static str,
    pub(super) body: &'static str,
}

impl Snippet {
    /// Says whether it belongs to one file only.
    pub(super) fn is_own(&self) -> bool {
        self.names.contains('@')
    }
}

pub(super) fn methods() -> Vec<Snippet> {
    snippets(include_str!("phrases/methods.txt"))
}

pub(super) fn helpers() -> Vec<Snippet> {
    snippets(include_str!("phrases/helpers.txt"))
}

pub(super) fn tests() -> Vec<Snippet> {
    snippets(include_str!("phrases/tests.txt"))
}

/// Code that belongs to one file: the name, its path and its section are in `names`.
pub(super) fn own_code() -> Vec<Snippet> {
    snippets(include_str!("phrases/own_code.txt"))
}

/// Documents of the project; the name is the path.
pub(super) fn documents() -> Vec<Snippet> {
    snippets(include_str!("phrases/documents.txt"))
}

pub(super) fn modules() -> Vec<PhraseRecord> {
    records(include_str!("phrases/modules.txt"))
}

pub(super) fn themes() -> Vec<PhraseRecord> {
    records(include_str!("phrases/themes.txt"))
}

pub(super) fn blockers() -> Vec<PhraseRecord> {
    records(include_str!("phrases/blockers.txt"))
}

pub(super) fn endings() -> Vec<&'static str> {
    include_str!("phrases/endings.txt").trim_end().split("\n---\n").collect()
}

pub(super) fn events() -> Vec<&'static str> {
    include_str!("phrases/events.txt").lines().collect()
}

pub(super) fn system() -> &'static str {
    include_str!("phrases/system.txt").trim_end()
}

fn snippets(text: &'static str) -> Vec<Snippet> {
    let snippet = |part: &'static str| {
        let (names, body) = part.split_once('\n').expect("a snippet has a name and a body");
        Snippet { names: names.trim_start_matches("= "), body }
    };
    text.trim_end().split("\n---\n").map(snippet).collect()
}

/// A block of `key: value` lines; indented lines go on with the value before them.
#[derive(Clone, Debug)]
pub(super) struct PhraseRecord(Vec<(&'static str, String)>);

impl PhraseRecord {
    pub(super) fn get(&self, key: &str) -> &str {
        self.all(key).next().unwrap_or_else(|| panic!("a record lacks the key {key}"))
    }

    pub(super) fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| *name == key).map(|(_, value)| value.as_str())
    }
}

fn records(text: &'static str) -> Vec<PhraseRecord> {
    text.trim_end().split("\n\n").map(record).collect()
}

fn record(block: &'static str) -> PhraseRecord {
    let mut fields: Vec<(&'static str, String)> = Vec::new();
    for line in block.lines() {
        if let (Some(more), Some((_, value))) = (line.strip_prefix("  "), fields.last_mut()) {
            value.push(' ');
            value.push_str(more);
        } else {
            let (key, value) = line.split_once(": ").expect("a record line is `key: value`");
            fields.push((key, value.to_owned()));
        }
    }
    PhraseRecord(fields)
}

/// What an agent says beside its calls, by occasion; nothing comes twice before all have come once.
pub(super) struct Prose {
    occasions: BTreeMap<&'static str, Vec<&'static str>>,
    unsaid: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Prose {
    pub(super) fn new() -> Self {
        let mut occasions = BTreeMap::new();
        for section in include_str!("phrases/prose.txt").trim_end().split("\n\n") {
            let mut lines = section.lines();
            let title = lines.next().expect("a section has a title");
            occasions.insert(title.trim_start_matches("# "), lines.collect());
        }
        Self { occasions, unsaid: BTreeMap::new() }
    }

    pub(super) fn next(&mut self, occasion: &'static str, rng: &mut Rng) -> &'static str {
        let all = self.occasions.get(occasion).expect("every occasion has its phrases");
        let unsaid = self.unsaid.entry(occasion).or_default();
        if unsaid.is_empty() {
            unsaid.clone_from(all);
            rng.shuffle(unsaid);
        }
        unsaid.pop().expect("it has just been filled")
    }
}
