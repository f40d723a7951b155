//! What takes up a window, part by part.

use std::collections::BTreeMap;

use longhand_core::{Change, Place, Shown};
use serde::{Deserialize, Serialize};

use super::prompt_parts::PromptKind;
use super::seen_window::SeenWindow;
use super::window_page::Counter;
use super::{Access, App, AppError};

/// What takes up a window. The tokens of all parts and what is free make up the budget, unless it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextMap {
    /// The most tokens it may have; 0 if there is no limit.
    pub budget: u64,
    /// The sum of all parts.
    pub tokens: u64,
    /// The tokens that are free.
    pub free: u64,
    /// How many tokens it is over the budget.
    pub over: u64,
    /// The number of the request whose window it is; `None` for the window as it is now.
    pub request: Option<u64>,
    /// The parts, in the order of a window.
    pub parts: Vec<MapPart>,
}

/// A part of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MapPart {
    /// What it is.
    pub kind: MapKind,
    /// What people call it: the name of a server, or the kind in plain words.
    pub name: String,
    /// Its tokens.
    pub tokens: u64,
    /// How many messages, parts or tools that is.
    pub count: u64,
    /// The first entry that it stands for.
    pub entry: Option<u64>,
    /// What opens what it leaves out.
    pub handle: Option<String>,
}

/// What a part of a window is, in the order of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapKind {
    /// The system prompt.
    System,
    /// Tools of the client's own, and other settings.
    Tools,
    /// The tools of an MCP server.
    Mcp,
    /// The block of a fold.
    Fold,
    /// Text that was brought back.
    Recalled,
    /// Parts with a marker in their place.
    Stubbed,
    /// Parts that are cut to head and tail.
    Clipped,
    /// What is shown as it came.
    Verbatim,
}

impl MapKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::System => "system prompt",
            Self::Tools => "tools",
            Self::Mcp => "MCP server",
            Self::Fold => "fold",
            Self::Recalled => "recalled",
            Self::Stubbed => "stubs",
            Self::Clipped => "clips",
            Self::Verbatim => "verbatim",
        }
    }
}

/// The parts of a map, by kind and name.
#[derive(Default)]
struct Parts(BTreeMap<(MapKind, String), MapPart>);

impl Parts {
    fn add(&mut self, kind: MapKind, name: &str, tokens: u64, entry: Option<u64>) -> &mut MapPart {
        let part = self.0.entry((kind, name.to_owned())).or_insert_with(|| MapPart {
            kind,
            name: name.to_owned(),
            tokens: 0,
            count: 0,
            entry,
            handle: None,
        });
        part.tokens += tokens;
        part.count += 1;
        part
    }

    fn add_kind(&mut self, kind: MapKind, tokens: u64, entry: Option<u64>) -> &mut MapPart {
        self.add(kind, kind.as_str(), tokens, entry)
    }
}

impl App {
    /// What takes up the window of a request, or the window as it is now.
    pub fn context_map(&self, name: &str, request: Option<u64>) -> Result<ContextMap, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        Ok(map_of(&self.seen_window(&info, request)?))
    }
}

fn map_of(seen: &SeenWindow) -> ContextMap {
    let mut counter = Counter::new(seen);
    let mut parts = Parts::default();
    for part in &seen.prompt {
        let tokens = counter.text(&part.text);
        match &part.kind {
            PromptKind::System => parts.add_kind(MapKind::System, tokens, None),
            PromptKind::Tool | PromptKind::Setting => parts.add_kind(MapKind::Tools, tokens, None),
            PromptKind::OfServer(server) => parts.add(MapKind::Mcp, server, tokens, None),
        };
    }
    if let Some(block) = &seen.window.block {
        let first = seen.folded.first().map(|(span, _)| span.first.0);
        let part = parts.add_kind(MapKind::Fold, counter.text(&block.text), first);
        part.count = seen.folded.iter().map(|(_, count)| count).sum();
        part.handle = Some(block.handle.to_string());
    }
    for (before, text) in &seen.window.inserts {
        let entry = before.checked_sub(1).and_then(|at| seen.seqs.get(at)).map(|seq| seq.0);
        parts.add_kind(MapKind::Recalled, counter.text(text), entry);
    }
    for (at, message) in seen.messages.iter().enumerate() {
        if seen.window.messages[at] == Shown::Folded {
            continue;
        }
        let entry = Some(seen.seqs[at].0);
        for part in 0..message.parts.len() {
            let change = seen.window.change(at, part);
            let (_, tokens) = counter.part(message, part, change);
            let kind = match change {
                None => MapKind::Verbatim,
                Some(Change::Removed) => continue,
                Some(Change::Text(_)) => {
                    let place = Place { entry: seen.seqs[at], part: message.said_before(part) };
                    let is_clip = seen.edit_of(place).is_some_and(|edit| edit.is_clip);
                    if is_clip { MapKind::Clipped } else { MapKind::Stubbed }
                }
            };
            parts.add_kind(kind, tokens, entry);
        }
    }
    let parts: Vec<MapPart> = parts.0.into_values().collect();
    let tokens: u64 = parts.iter().map(|part| part.tokens).sum();
    let budget = seen.told_by.as_ref().map_or(0, |request| request.limit);
    ContextMap {
        budget,
        tokens,
        free: budget.saturating_sub(tokens),
        over: if budget > 0 { tokens.saturating_sub(budget) } else { 0 },
        request: seen.request.as_ref().map(|(number, _)| *number),
        parts,
    }
}
