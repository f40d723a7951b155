//! What session files need beyond their messages: whole lines, and links between them.

use longhand_core::Handle;
use longhand_core::json::{self, Cursor, Node, Value};
use rustc_hash::FxHashMap;

use crate::Dialect;
use crate::conversation::Conversation;
use crate::pi::{is_entry, path};
use crate::render::{input_message, text_block};
use crate::splice::Splices;

/// The line that stands for folded ones; it takes what it can from the first of them.
pub(crate) fn marker_line(
    conversation: &Conversation,
    handle: Handle,
    text: &str,
    first: usize,
    gone: &[bool],
) -> String {
    let source = conversation.bytes();
    let line = node(conversation, first);
    let copied = |keys: &[&str]| -> String {
        let fields = keys.iter().filter_map(|key| {
            Some(format!("\"{key}\":{},", &source[line.get(source, key)?.span()]))
        });
        fields.collect()
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
            let chain = links(Dialect::Pi).and_then(|(id, _)| line.get(source, id)).map(|_| {
                format!(r#""id":{},{}"#, json::quote(&name(handle)), copied(&["parentId"]))
            });
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
            let parent = kept_parent(conversation, first, gone)
                .map(|parent| format!(r#""parentUuid":{parent},"#))
                .unwrap_or_default();
            let uuid = json::quote(&name(handle));
            format!(
                r#"{{{parent}{head}"type":"user","message":{{"role":"user","content":{quoted}}},"uuid":{uuid}}}"#
            )
        }
    }
}

/// The link to the nearest line up from one that is still there: a line of thinking may be gone.
fn kept_parent<'c>(conversation: &'c Conversation, child: usize, gone: &[bool]) -> Option<&'c str> {
    let source = conversation.bytes();
    let (id, parents) = links(conversation.dialect)?;
    let mut link = node(conversation, child).get(source, parents[0])?;
    let mut at = child;
    while let Some(name) = link.str(source) {
        let is_parent = |line: &usize| {
            node(conversation, *line).get(source, id).is_some_and(|own| own.is(source, &name))
        };
        // A parent stands before its children.
        let Some(parent) = (0..at).rev().find(is_parent).filter(|parent| gone[*parent]) else {
            break;
        };
        let Some(next) = node(conversation, parent).get(source, parents[0]) else { break };
        (at, link) = (parent, next);
    }
    Some(&source[link.span()])
}

/// The line that keeps a pi session on its path, to be added at the end.
///
/// Its leaf is the last line that has a name. Once a fold has taken that, the last could be one of a
/// branch that was left.
pub(crate) fn leaf_line(
    conversation: &Conversation,
    handle: Handle,
    first: usize,
    gone: &[bool],
) -> Option<String> {
    if conversation.dialect != Dialect::Pi {
        return None;
    }
    let source = conversation.bytes();
    let nodes: Vec<Node> = (0..gone.len()).map(|element| node(conversation, element)).collect();
    let leaf = (first..gone.len()).rev().find(|at| !gone[*at] && is_entry(source, &nodes[*at]))?;
    let path = path(source, &nodes);
    if path.contains(&leaf) {
        return None;
    }
    let tip = path.into_iter().rev().find(|at| !gone[*at]).filter(|tip| *tip > first);
    let parent = match tip.and_then(|tip| nodes[tip].get(source, "id")) {
        Some(id) => source[id.span()].to_owned(),
        None => json::quote(&name(handle)),
    };
    let id = json::quote(&name(Handle::of([parent.as_str(), &name(handle)])));
    let time = nodes[leaf].get(source, "timestamp");
    let time = time.map_or("null", |time| &source[time.span()]);
    Some(format!(
        r#"{{"type":"custom","id":{id},"parentId":{parent},"timestamp":{time},"customType":"longhand"}}"#
    ))
}

/// Points lines whose parent is gone at what stands in its place: the fold's line if the way up leads
/// through the fold, else the next line up that is still there.
///
/// `fold` names the lines that a fold took, and the fold.
pub(crate) fn relink(
    conversation: &Conversation,
    splices: &mut Splices,
    gone: &[bool],
    fold: Option<(Handle, &[bool])>,
) {
    let Some((id, parents)) = links(conversation.dialect) else { return };
    if !gone.contains(&true) {
        return;
    }
    let source = conversation.bytes();
    let nodes: Vec<Node> = (0..gone.len()).map(|element| node(conversation, element)).collect();
    let by_id: FxHashMap<_, usize> = nodes
        .iter()
        .enumerate()
        .filter_map(|(at, node)| Some((node.get(source, id)?.str(source)?, at)))
        .collect();
    // A parent stands before its children, or the file is damaged and the link leads nowhere.
    let target = |at: usize, link: Value| {
        by_id.get(&link.str(source)?).copied().filter(|parent| *parent < at)
    };
    let is_folded = |at: usize| fold.is_some_and(|(_, folded)| folded[at]);
    // From each line up to the first that is still there: its link and place, and whether a fold is
    // passed.
    let mut up: Vec<(&str, Option<usize>, bool)> = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let link = node.get(source, parents[0]);
        let parent = link.and_then(|link| target(at, link));
        let text = link.map_or("null", |link| &source[link.span()]);
        let (text, kept, passed) = match parent {
            Some(parent) if gone[parent] => up.get(parent).copied().unwrap_or((text, None, false)),
            kept => (text, kept, false),
        };
        up.push((text, kept, passed || is_folded(at)));
    }
    let marker = fold.map(|(handle, folded)| {
        (folded.iter().position(|folded| *folded).unwrap_or(0), json::quote(&name(handle)))
    });
    for (at, line) in nodes.iter().enumerate().filter(|(at, _)| !gone[*at]) {
        for link in parents.iter().filter_map(|parent| line.get(source, parent)) {
            let Some(lost) = target(at, link).filter(|lost| gone[*lost]) else { continue };
            let (text, kept, passed) = up[lost];
            let heir = match &marker {
                Some((first, name)) if passed && kept.is_none_or(|kept| kept < *first) => name,
                _ => text,
            };
            splices.replace(link.span(), heir.to_owned());
        }
    }
}

/// The field that names a line, and those that point at one; the chain is that of the first.
fn links(dialect: Dialect) -> Option<(&'static str, &'static [&'static str])> {
    match dialect {
        Dialect::ClaudeCode => Some(("uuid", &["parentUuid", "logicalParentUuid"])),
        Dialect::Pi => Some(("id", &["parentId"])),
        _ => None,
    }
}

/// A line's name in the form of a UUID, made from a handle.
fn name(handle: Handle) -> String {
    let hex: String =
        handle.to_string().bytes().chain(*b"lo").map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..32])
}

fn node(conversation: &Conversation, element: usize) -> Node {
    let start = conversation.elements[element].start;
    Cursor::at(conversation.bytes(), start).node().unwrap_or_default()
}
