//! Faults of session files, and the file without them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use longhand_core::json::JsonNode;
use rustc_hash::FxHashMap;

use crate::source::{BadLines, RequestSource};
use crate::splice::Splices;
use crate::{Dialect, DialectError, detect};

/// A fault of a session file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileFault {
    /// The line that has it, from 1.
    pub line: u32,
    /// What it is.
    pub kind: FaultKind,
}

/// What is wrong with a line of a session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// It names a parent that is not in the file: the agent loads nothing before it. It gets the line before as its
    /// parent.
    Dangling,
    /// Its parents lead back to it. It gets no parent.
    Circle,
    /// It is the same as an earlier one, and is taken out.
    Doubled,
    /// It has the name of another line, and says something else. It is left as it is.
    Namesake,
    /// The last line ends in its middle, and what the agent adds would be lost with it. It is taken out.
    Cut,
    /// It cannot be read, and the agent passes it over. It is left as it is.
    Unreadable,
}

impl FaultKind {
    /// Whether the fault is mended.
    pub fn is_mended(self) -> bool {
        !matches!(self, Self::Namesake | Self::Unreadable)
    }

    /// What it is, and what is done about it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dangling => "its parent is not in the file; linked to the line before",
            Self::Circle => "its parents lead back to it; it begins the path now",
            Self::Doubled => "the same as an earlier line; taken out",
            Self::Namesake => {
                "has the id of an earlier line and says something else; left as it is"
            }
            Self::Cut => "ends in its middle; taken out",
            Self::Unreadable => "cannot be read; agents pass it over, and it is left as it is",
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.kind.as_str())
    }
}

/// A session file whose faults are mended.
#[derive(Clone, Debug)]
pub struct MendedFile {
    /// The format of the file.
    pub dialect: Dialect,
    /// The file, with every line that has no fault as it was.
    pub text: String,
    /// The faults that the file had, by their lines.
    pub faults: Vec<FileFault>,
}

/// Finds the faults of a session file, and mends them.
///
/// ```
/// let line = |id: &str, parent: &str| {
///     format!(r#"{{"type":"user","uuid":"{id}","parentUuid":{parent},"message":{{"role":"user","content":"x"}}}}"#)
/// };
/// let file = format!("{}\n{}\n{{\"ty", line("1", "null"), line("2", r#""gone""#));
/// let mended = longhand_dialect::mend(file)?;
/// assert_eq!(mended.text, format!("{}\n{}\n", line("1", "null"), line("2", r#""1""#)));
/// assert_eq!(mended.faults.len(), 2);
/// # Ok::<(), longhand_dialect::DialectError>(())
/// ```
pub fn mend(text: String) -> Result<MendedFile, DialectError> {
    let text = Arc::new(text);
    let source = RequestSource::read_with(Arc::clone(&text), &[], BadLines::PassedOver)?;
    let dialect = detect::detect(&source)?;
    if !dialect.is_session_file() {
        let what = format!("{dialect} is no session file");
        return Err(DialectError::NotAConversation(what));
    }
    let mut mending = Mending {
        text: &text,
        lines: &source.lines,
        nodes: &source.elements,
        splices: Splices::default(),
        faults: Vec::new(),
    };
    mending.unread(&source.unread);
    match dialect {
        Dialect::ClaudeCode => mending.links("uuid", "parentUuid"),
        Dialect::Pi => mending.links("id", "parentId"),
        _ => {}
    }
    let Mending { splices, mut faults, .. } = mending;
    faults.sort_by_key(|fault| fault.line);
    let text = if faults.iter().any(|fault| fault.kind.is_mended()) {
        splices.apply(&text)
    } else {
        text.to_string()
    };
    Ok(MendedFile { dialect, text, faults })
}

struct Mending<'s> {
    text: &'s str,
    lines: &'s [u32],
    nodes: &'s [JsonNode],
    splices: Splices,
    faults: Vec<FileFault>,
}

impl<'s> Mending<'s> {
    fn fault(&mut self, at: usize, kind: FaultKind) {
        self.faults.push(FileFault { line: self.lines[at], kind });
    }

    fn string(&self, at: usize, key: &str) -> Option<Cow<'s, str>> {
        self.nodes[at].get(self.text, key)?.str(self.text)
    }

    /// A last line that is cut is taken out.
    fn unread(&mut self, unread: &[u32]) {
        let last_read = self.nodes.last().map_or(0, |node| node.value.span().end);
        for line in unread {
            let is_last = self.lines.last().is_none_or(|last| last < line);
            // Of several at the end, the first is taken out with those after it.
            if !is_last {
                self.faults.push(FileFault { line: *line, kind: FaultKind::Unreadable });
                continue;
            }
            let rest = &self.text[last_read..];
            let kept = rest.find('\n').map_or(last_read, |end| last_read + end + 1);
            self.splices.replace(kept..self.text.len(), String::new());
            self.faults.push(FileFault { line: *line, kind: FaultKind::Cut });
            return;
        }
    }

    /// Takes out lines that are there twice, but for their links; returns which are gone.
    fn doubled(&mut self, id: &dyn Fn(usize) -> Option<Cow<'s, str>>, parent: &str) -> Vec<bool> {
        let mut gone = vec![false; self.nodes.len()];
        let mut named: FxHashMap<Cow<'s, str>, usize> = FxHashMap::default();
        for (at, is_gone) in gone.iter_mut().enumerate() {
            let Some(name) = id(at) else { continue };
            let Some(first) = named.get(&name).copied() else {
                named.insert(name, at);
                continue;
            };
            let bytes = |at: usize| {
                let line = self.nodes[at].value.span();
                let value = self.nodes[at].get(self.text, parent).map(|value| value.span());
                let value = value.unwrap_or(line.end..line.end);
                (&self.text[line.start..value.start], &self.text[value.end..line.end])
            };
            *is_gone = bytes(first) == bytes(at);
            self.fault(at, if *is_gone { FaultKind::Doubled } else { FaultKind::Namesake });
        }
        gone
    }

    fn links(&mut self, id: &'static str, parent: &'static str) {
        let (text, nodes) = (self.text, self.nodes);
        // Lines of other kinds have no parent.
        let name_of = move |at: usize| {
            nodes[at].get(text, parent)?;
            nodes[at].get(text, id)?.str(text)
        };
        let gone = self.doubled(&name_of, parent);
        let spans: Vec<_> = nodes.iter().map(|node| node.value.span()).collect();
        self.splices.remove(&spans, &gone, &[]);
        let named: FxHashMap<Cow<str>, usize> = (0..nodes.len())
            .filter(|at| !gone[*at])
            .filter_map(|at| Some((name_of(at)?, at)))
            .collect();
        let mut parents: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut before: FxHashMap<(bool, Option<Cow<str>>), usize> = FxHashMap::default();
        for at in (0..nodes.len()).filter(|at| !gone[*at]) {
            if name_of(at).is_none() {
                continue;
            }
            // A sub-agent has a chain of its own.
            let side = nodes[at].get(text, "isSidechain");
            let chain =
                (side.is_some_and(|side| &text[side.span()] == "true"), self.string(at, "agentId"));
            if let Some(name) = self.string(at, parent) {
                parents[at] = named.get(&name).copied();
                if parents[at].is_none() {
                    parents[at] = before.get(&chain).copied();
                    self.link(at, parent, parents[at].and_then(name_of));
                    self.fault(at, FaultKind::Dangling);
                }
            }
            before.insert(chain, at);
        }
        self.circles(&mut parents, parent);
    }

    /// Cuts every circle at its first line.
    fn circles(&mut self, parents: &mut [Option<usize>], key: &str) {
        let mut walk_of: Vec<Option<usize>> = vec![None; parents.len()];
        for start in 0..parents.len() {
            let mut next = Some(start);
            while let Some(at) = next.filter(|at| walk_of[*at].is_none()) {
                walk_of[at] = Some(start);
                next = parents[at];
            }
            let Some(met) = next.filter(|at| walk_of[*at] == Some(start)) else { continue };
            let mut first = met;
            let mut at = parents[met];
            while let Some(other) = at.filter(|other| *other != met) {
                first = first.min(other);
                at = parents[other];
            }
            parents[first] = None;
            self.link(first, key, None);
            self.fault(first, FaultKind::Circle);
        }
    }

    fn link(&mut self, at: usize, key: &str, parent: Option<Cow<str>>) {
        let Some(place) = self.nodes[at].get(self.text, key) else { return };
        let parent =
            parent.map_or_else(|| "null".to_owned(), |name| longhand_core::json::quote(&name));
        self.splices.replace(place.span(), parent);
    }
}
