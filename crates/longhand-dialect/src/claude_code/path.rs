//! Which lines of a session file Claude Code loads, in which order.

use std::borrow::Cow;

use longhand_core::json::{JsonCursor, JsonKind, JsonNode, JsonValue};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{is_side, is_true, speaks};

/// The lines that are loaded.
pub(super) struct LoadedPath {
    /// Their elements, in the agent's order.
    pub(super) elements: Vec<usize>,
    /// The lines that begin what is loaded: the agent's compactions.
    pub(super) boundaries: Vec<usize>,
    /// The tool calls whose results the agent has cleared.
    pub(super) cleared: FxHashSet<String>,
    /// The newest line at which the agent changed what it had sent before.
    pub(super) changed: Option<usize>,
    /// How many lines of the conversation name a parent that is not there.
    pub(super) dangling: usize,
    /// Whether the order is not that of the file.
    pub(super) has_own_order: bool,
}

/// The lines of a file by their names.
struct NamedLines<'s> {
    text: &'s str,
    nodes: &'s [JsonNode],
    by_uuid: FxHashMap<Cow<'s, str>, usize>,
}

impl LoadedPath {
    /// Walks from the leaf to the root, or to the newest compaction; `None` if the lines have no names.
    pub(super) fn of(text: &str, nodes: &[JsonNode], all_side: bool) -> Option<Self> {
        let lines = NamedLines::of(text, nodes);
        let is_leaf = |at: &usize| {
            let line = &nodes[*at];
            lines.is_of_conversation(*at)
                && (all_side || !is_side(text, line))
                && !is_true(text, line, "isMeta")
                && line.get(text, "teamName").is_none_or(|team| team.kind != JsonKind::String)
        };
        let leaf = (0..nodes.len()).rev().find(is_leaf)?;
        let is_boundary = |at: &usize| lines.has_subtype(*at, "compact_boundary");
        let boundaries: Vec<usize> = (0..nodes.len()).filter(is_boundary).collect();
        let preserved = boundaries.last().map(|at| lines.preserved(*at)).unwrap_or_default();
        let path = lines.walk(leaf, &preserved);
        let cleared = path.iter().flat_map(|at| lines.cleared(*at)).collect();
        let dangling = (0..nodes.len()).filter(|at| lines.is_dangling(*at)).count();
        let has_own_order = !path.is_sorted();
        let clears =
            path.iter().copied().filter(|at| lines.has_subtype(*at, "microcompact_boundary"));
        let changed = clears.chain(boundaries.last().copied()).max();
        let elements = lines.with_siblings(&path, all_side);
        Some(Self { elements, boundaries, cleared, changed, dangling, has_own_order })
    }
}

impl<'s> NamedLines<'s> {
    fn of(text: &'s str, nodes: &'s [JsonNode]) -> Self {
        let mut lines = Self { text, nodes, by_uuid: FxHashMap::default() };
        for at in 0..nodes.len() {
            if lines.is_of_conversation(at)
                && let Some(uuid) = lines.string(at, "uuid")
            {
                lines.by_uuid.insert(uuid, at);
            }
        }
        lines
    }

    fn string(&self, at: usize, key: &str) -> Option<Cow<'s, str>> {
        self.nodes[at].get(self.text, key)?.str(self.text)
    }

    fn is_of_conversation(&self, at: usize) -> bool {
        const KINDS: [&str; 5] = ["user", "assistant", "progress", "system", "attachment"];
        let kind = self.string(at, "type");
        kind.is_some_and(|kind| KINDS.contains(&&*kind)) && self.string(at, "uuid").is_some()
    }

    fn has_subtype(&self, at: usize, name: &str) -> bool {
        self.nodes[at].get(self.text, "subtype").is_some_and(|value| value.is(self.text, name))
    }

    fn object(&self, value: JsonValue) -> JsonNode {
        JsonCursor::at(self.text, value.span().start).node().unwrap_or_default()
    }

    fn field(&self, at: usize, keys: [&str; 2]) -> Option<JsonNode> {
        let value = keys.iter().find_map(|key| self.nodes[at].get(self.text, key))?;
        Some(self.object(value))
    }

    fn parent(&self, at: usize) -> Option<usize> {
        self.by_uuid.get(&self.string(at, "parentUuid")?).copied()
    }

    fn is_dangling(&self, at: usize) -> bool {
        self.is_of_conversation(at)
            && self
                .string(at, "parentUuid")
                .is_some_and(|parent| !self.by_uuid.contains_key(&parent))
    }

    fn strings(&self, node: &JsonNode, key: &str) -> Vec<Cow<'s, str>> {
        let mut found = Vec::new();
        if let Some(list) = node.get(self.text, key) {
            let _ = JsonCursor::at(self.text, list.span().start).elements(|cursor| {
                found.extend(cursor.value()?.str(self.text));
                Ok(())
            });
        }
        found
    }

    /// The parents that messages have which a compaction kept verbatim: they follow its summary, and what followed
    /// that follows them.
    fn preserved(&self, boundary: usize) -> FxHashMap<usize, usize> {
        self.preserved_lines(boundary).map_or_else(FxHashMap::default, |(anchor, kept)| {
            let Some(last) = kept.last().copied() else { return FxHashMap::default() };
            let before = std::iter::once(anchor).chain(kept.iter().copied());
            let mut parents: FxHashMap<usize, usize> = kept.iter().copied().zip(before).collect();
            for at in 0..self.nodes.len() {
                if self.parent(at) == Some(anchor) && !parents.contains_key(&at) {
                    parents.insert(at, last);
                }
            }
            parents
        })
    }

    fn preserved_lines(&self, boundary: usize) -> Option<(usize, Vec<usize>)> {
        let metadata = self.field(boundary, ["compactMetadata", "compact_metadata"])?;
        let named = |node: &JsonNode, key: &str| {
            self.by_uuid.get(&node.get(self.text, key)?.str(self.text)?).copied()
        };
        if let Some(value) = metadata.get(self.text, "preservedMessages") {
            let kept = self.object(value);
            let lines: Option<Vec<usize>> = self
                .strings(&kept, "uuids")
                .iter()
                .map(|uuid| self.by_uuid.get(uuid).copied())
                .collect();
            return Some((named(&kept, "anchorUuid")?, lines?));
        }
        let kept = self.object(metadata.get(self.text, "preservedSegment")?);
        let key = |short, long| named(&kept, short).or_else(|| named(&kept, long));
        let (head, anchor) = (key("head", "headUuid")?, key("anchor", "anchorUuid")?);
        let mut lines = vec![key("tail", "tailUuid")?];
        while *lines.last()? != head {
            let parent = self.parent(*lines.last()?)?;
            if lines.len() > self.nodes.len() {
                return None;
            }
            lines.push(parent);
        }
        lines.reverse();
        Some((anchor, lines))
    }

    /// The lines from the root to a leaf.
    fn walk(&self, leaf: usize, preserved: &FxHashMap<usize, usize>) -> Vec<usize> {
        let mut seen = vec![false; self.nodes.len()];
        let mut path = Vec::new();
        let mut next = Some(leaf);
        while let Some(at) = next.filter(|at| !seen[*at]) {
            seen[at] = true;
            path.push(at);
            next = preserved.get(&at).copied().or_else(|| self.parent(at));
        }
        path.reverse();
        path
    }

    /// The calls whose results a line clears.
    fn cleared(&self, at: usize) -> Vec<String> {
        if !self.has_subtype(at, "microcompact_boundary") {
            return Vec::new();
        }
        let metadata = self.field(at, ["microcompactMetadata", "microcompact_metadata"]);
        let node = metadata.as_ref().unwrap_or(&self.nodes[at]);
        self.strings(node, "compactedToolIds").into_iter().map(Cow::into_owned).collect()
    }

    /// Adds what the walk misses where calls were parallel: the other lines of an answer, and their results.
    fn with_siblings(&self, path: &[usize], all_side: bool) -> Vec<usize> {
        // Of a line that is there twice, the last counts.
        let is_doubled = |at: usize| {
            let named = self.string(at, "uuid").and_then(|uuid| self.by_uuid.get(&uuid));
            named.is_some_and(|named| *named != at)
        };
        let is_here =
            |at: usize| (all_side || !is_side(self.text, &self.nodes[at])) && !is_doubled(at);
        let mut answers: FxHashMap<Cow<str>, Vec<usize>> = FxHashMap::default();
        let mut results: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for at in
            (0..self.nodes.len()).filter(|at| is_here(*at) && speaks(self.text, &self.nodes[*at]))
        {
            match self.message_id(at) {
                Some(id) => answers.entry(id).or_default().push(at),
                None if self.nodes[at].get(self.text, "toolUseResult").is_some()
                    || self.has_result(at) =>
                {
                    if let Some(parent) = self.parent(at) {
                        results.entry(parent).or_default().push(at);
                    }
                }
                None => {}
            }
        }
        let mut taken = vec![false; self.nodes.len()];
        for at in path {
            taken[*at] = true;
        }
        let mut out = Vec::with_capacity(path.len());
        for at in path {
            let siblings = self.message_id(*at).and_then(|id| answers.remove(&id));
            let Some(siblings) = siblings else {
                out.push(*at);
                continue;
            };
            let mut missed: Vec<usize> =
                siblings.iter().copied().filter(|sibling| !taken[*sibling]).collect();
            let answered = siblings.iter().filter_map(|sibling| results.get(sibling)).flatten();
            let of_missed: Vec<usize> =
                answered.copied().filter(|result| !taken[*result]).collect();
            out.extend(missed.iter().copied().filter(|sibling| sibling < at));
            out.push(*at);
            missed.retain(|sibling| sibling > at);
            missed.extend(of_missed);
            for line in &missed {
                taken[*line] = true;
            }
            out.extend(missed);
        }
        out
    }

    /// The id of the answer that a line belongs to.
    fn message_id(&self, at: usize) -> Option<Cow<'s, str>> {
        if !self.nodes[at].get(self.text, "type")?.is(self.text, "assistant") {
            return None;
        }
        self.object(self.nodes[at].get(self.text, "message")?).get(self.text, "id")?.str(self.text)
    }

    fn has_result(&self, at: usize) -> bool {
        let message = self.nodes[at].get(self.text, "message");
        message.is_some_and(|value| self.text[value.span()].contains("\"tool_result\""))
    }
}
