//! What session files need beyond their messages: whole lines, and links between them.

use std::borrow::Cow;

use longhand_core::Handle;
use longhand_core::json::{self, JsonCursor, JsonNode, JsonValue};
use rustc_hash::FxHashMap;

use crate::Dialect;
use crate::conversation::Conversation;
use crate::pi::{is_entry, path};
use crate::render::{input_message, text_block};
use crate::splice::Splices;

/// The links between the lines of a session file, and where they lead after an edit.
pub(crate) struct Links<'c> {
    source: &'c str,
    dialect: Dialect,
    nodes: Vec<JsonNode>,
    by_id: FxHashMap<Cow<'c, str>, usize>,
    /// From each line to the first above it that is still there.
    up: Vec<Up<'c>>,
}

#[derive(Clone, Copy)]
struct Up<'c> {
    /// The link to it, as it is written.
    link: &'c str,
    at: Option<usize>,
    /// Whether the way leads through the fold.
    folded: bool,
}

impl<'c> Links<'c> {
    /// Follows the links of a session file that has any; `folded` are the lines that a fold takes,
    /// `gone` those and all others that are taken out.
    pub(crate) fn of(
        conversation: &'c Conversation,
        gone: &[bool],
        folded: Option<&[bool]>,
    ) -> Option<Self> {
        let (id, parents) = fields(conversation.dialect)?;
        let source = conversation.bytes();
        let nodes: Vec<JsonNode> =
            (0..gone.len()).map(|element| node(conversation, element)).collect();
        let named = nodes.iter().enumerate();
        let by_id =
            named.filter_map(|(at, node)| Some((node.get(source, id)?.str(source)?, at))).collect();
        let up = Vec::with_capacity(nodes.len());
        let mut links = Self { source, dialect: conversation.dialect, nodes, by_id, up };
        for (at, node) in links.nodes.iter().enumerate() {
            let link = node.get(source, parents[0]);
            let text = link.map_or("null", |link| &source[link.span()]);
            let is_folded = folded.is_some_and(|folded| folded[at]);
            let up = match link.and_then(|link| links.target(link)) {
                Some(parent) if gone[parent] => {
                    let up = links.up.get(parent).copied().unwrap_or(Up::NONE);
                    Up { folded: up.folded || is_folded, ..up }
                }
                Some(parent) if !links.follows(at, parent) => {
                    Up { link: text, folded: is_folded, ..Up::NONE }
                }
                at => Up { link: text, at, folded: is_folded },
            };
            links.up.push(up);
        }
        Some(links)
    }

    fn target(&self, link: JsonValue) -> Option<usize> {
        self.by_id.get(&link.str(self.source)?).copied()
    }

    /// Whether a line is taken for the parent: it stands before its children, or the file is damaged.
    fn follows(&self, child: usize, parent: usize) -> bool {
        self.dialect != Dialect::Pi || parent < child
    }
}

impl Up<'_> {
    const NONE: Self = Self { link: "null", at: None, folded: false };
}

/// The line that stands for folded ones; it takes what it can from the first of them.
pub(crate) fn marker_line(
    conversation: &Conversation,
    handle: Handle,
    text: &str,
    first: usize,
    links: Option<&Links>,
) -> String {
    let source = conversation.bytes();
    let line = node(conversation, first);
    let copied = |keys: &[&str]| -> String {
        let fields = keys.iter().filter_map(|key| {
            Some(format!("\"{key}\":{},", &source[line.get(source, key)?.span()]))
        });
        fields.collect()
    };
    // The line's own parent may be gone, if it was one of thinking.
    let parent = |key: &str| match line.get(source, key).and(links) {
        Some(links) => format!("\"{key}\":{},", links.up[first].link),
        None => String::new(),
    };
    let quoted = json::quote(text);
    match conversation.dialect {
        Dialect::Codex => {
            format!(
                r#"{{{}"type":"response_item","payload":{}}}"#,
                copied(&["timestamp"]),
                input_message(text)
            )
        }
        Dialect::Pi => {
            // Early files are a list, and a name would make them a tree.
            let chain = is_entry(source, &line)
                .then(|| format!(r#""id":{},{}"#, json::quote(&name(handle)), parent("parentId")));
            let head = copied(&["timestamp"]);
            let content = text_block(&quoted);
            format!(
                r#"{{"type":"message",{}{head}"message":{{"role":"user","content":[{content}]}}}}"#,
                chain.unwrap_or_default()
            )
        }
        _ => {
            let head = copied(&[
                "isSidechain",
                "userType",
                "cwd",
                "sessionId",
                "version",
                "gitBranch",
                "timestamp",
            ]);
            let parent = parent("parentUuid");
            let uuid = json::quote(&name(handle));
            format!(
                r#"{{{parent}{head}"type":"user","message":{{"role":"user","content":{quoted}}},"uuid":{uuid}}}"#
            )
        }
    }
}

/// The line that keeps a pi session on its path, to be added at the end.
///
/// Its leaf is the last line that has a name. Once a fold has taken that, the last could be one of a
/// branch that was left.
pub(crate) fn leaf_line(
    links: &Links,
    handle: Handle,
    first: usize,
    gone: &[bool],
) -> Option<String> {
    if links.dialect != Dialect::Pi {
        return None;
    }
    let (source, nodes) = (links.source, &links.nodes);
    let leaf = (first..gone.len()).rev().find(|at| !gone[*at] && is_entry(source, &nodes[*at]))?;
    let path = path(source, nodes);
    if path.contains(&leaf) {
        return None;
    }
    let tip = path.into_iter().rev().find(|at| !gone[*at]).filter(|tip| *tip > first);
    let parent = match tip.and_then(|tip| nodes[tip].get(source, "id")) {
        Some(id) => source[id.span()].to_owned(),
        None => json::quote(&name(handle)),
    };
    let id = json::quote(&name(Handle::of([parent.as_str(), &name(handle)])));
    let time = nodes[leaf]
        .get(source, "timestamp")
        .map_or_else(String::new, |time| format!(r#""timestamp":{},"#, &source[time.span()]));
    Some(format!(
        r#"{{"type":"custom","id":{id},"parentId":{parent},{time}"customType":"longhand"}}"#
    ))
}

/// Gives lines whose parent was removed a new one: the fold's line if the parent was folded, else the nearest
/// ancestor that is still there.
///
/// `fold` is the fold and the first line that it takes.
pub(crate) fn relink(
    links: &Links,
    splices: &mut Splices,
    gone: &[bool],
    fold: Option<(Handle, usize)>,
) {
    let Some((_, parents)) = fields(links.dialect) else { return };
    let marker = fold.map(|(handle, first)| (first, json::quote(&name(handle))));
    for (at, line) in links.nodes.iter().enumerate().filter(|(at, _)| !gone[*at]) {
        for link in parents.iter().filter_map(|parent| line.get(links.source, parent)) {
            let Some(lost) = links.target(link).filter(|lost| gone[*lost]) else { continue };
            let up = if links.follows(at, lost) { links.up[lost] } else { Up::NONE };
            let heir = match &marker {
                Some((first, name)) if up.folded && up.at.is_none_or(|up| up < *first) => name,
                _ => up.link,
            };
            splices.replace(link.span(), heir.to_owned());
        }
    }
}

/// The field with a line's id, and the fields with its parent's id; the first of these makes the chain.
fn fields(dialect: Dialect) -> Option<(&'static str, &'static [&'static str])> {
    match dialect {
        Dialect::ClaudeCode => Some(("uuid", &["parentUuid", "logicalParentUuid"])),
        Dialect::Pi => Some(("id", &["parentId"])),
        _ => None,
    }
}

/// A line's name in the form of a UUID, made from a handle.
pub(crate) fn name(handle: Handle) -> String {
    let hex: String =
        handle.to_string().bytes().chain(*b"lo").map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
}

pub(crate) fn node(conversation: &Conversation, element: usize) -> JsonNode {
    let start = conversation.elements[element].start;
    JsonCursor::at(conversation.bytes(), start).node().unwrap_or_default()
}
