//! What session files need beyond their messages: whole lines, and links between them.

use longhand_core::Handle;
use longhand_core::json::{self, Cursor, Node, Value};
use rustc_hash::FxHashMap;

use crate::Dialect;
use crate::conversation::Conversation;
use crate::render::{input_message, text_block};
use crate::splice::Splices;

/// The line that stands for folded ones; it takes what it can from the first of them.
pub(crate) fn marker_line(
    conversation: &Conversation,
    handle: Handle,
    text: &str,
    first: usize,
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
                "parentUuid",
                "isSidechain",
                "userType",
                "cwd",
                "sessionId",
                "version",
                "gitBranch",
                "timestamp",
            ]);
            let uuid = json::quote(&name(handle));
            format!(
                r#"{{{head}"type":"user","message":{{"role":"user","content":{quoted}}},"uuid":{uuid}}}"#
            )
        }
    }
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
    let target = |link: Value| by_id.get(&link.str(source)?).copied();
    let is_folded = |at: usize| fold.is_some_and(|(_, folded)| folded[at]);
    // From each line up to the first that is still there: its link and place, and whether a fold is
    // passed. A parent stands before its children.
    let mut up: Vec<(&str, Option<usize>, bool)> = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let link = node.get(source, parents[0]);
        let parent = link.and_then(target);
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
    for line in nodes.iter().enumerate().filter(|(at, _)| !gone[*at]).map(|(_, line)| line) {
        for link in parents.iter().filter_map(|parent| line.get(source, parent)) {
            let Some(lost) = target(link).filter(|at| gone[*at]) else { continue };
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
