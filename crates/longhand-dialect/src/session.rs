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

/// Points lines whose parent is gone at what stands in its place.
///
/// `fold` names the lines that a fold took, and the fold.
pub(crate) fn relink(
    conversation: &Conversation,
    splices: &mut Splices,
    gone: &[bool],
    fold: Option<(Handle, &[bool])>,
) {
    let Some((id, parent)) = links(conversation.dialect) else { return };
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
    for line in nodes.iter().enumerate().filter(|(at, _)| !gone[*at]).map(|(_, line)| line) {
        let Some(link) = line.get(source, parent) else { continue };
        let (mut heir, mut at) = (source[link.span()].to_owned(), target(link));
        // Up the chain to the fold's block or the first line that is still there.
        for _ in 0..nodes.len() {
            let Some(lost) = at.filter(|at| gone[*at]) else { break };
            if let Some((handle, _)) = fold.filter(|(_, folded)| folded[lost]) {
                heir = json::quote(&name(handle));
                break;
            }
            let Some(next) = nodes[lost].get(source, parent) else { break };
            (heir, at) = (source[next.span()].to_owned(), target(next));
        }
        if heir != source[link.span()] {
            splices.replace(link.span(), heir);
        }
    }
}

/// The fields by which lines are linked.
fn links(dialect: Dialect) -> Option<(&'static str, &'static str)> {
    match dialect {
        Dialect::ClaudeCode => Some(("uuid", "parentUuid")),
        Dialect::Pi => Some(("id", "parentId")),
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
