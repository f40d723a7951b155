//! Results that refer back: a client's tool refuses to repeat what it believes the model still sees.
//!
//! If the window no longer has the content, the result is replaced by it. Only results that no window has shown
//! yet are looked at, because changing them breaks no prefix.

use rustc_hash::FxHashSet;

use crate::clip::clip_to;
use crate::cut;
use crate::edit::{Batch, Edit};
use crate::json::JsonCursor;
use crate::plan::original_text;
use crate::project::{Change, Path, Projection};
use crate::{Handle, Message, Part, Role, ToolCall, ToolResult};

/// What tools say instead of repeating a file; the file takes the place of these words.
const REFUSALS: &[&str] = &[
    "file unchanged since your last read",
    "file unchanged since last read",
    "refer to that earlier tool_result",
    "this file is already in your context",
    "has not been modified since it was last read",
    "content is unchanged since the last read",
];

/// What tools say of a file that they changed.
const CLAIMS: &[&str] = &["file state is current in your context"];

/// What clients write above files that they put into a user turn and update with every request.
const SHOWN_FILES: &[&str] = &[
    "I have *added these files to the chat*",
    "*Trust this message as the true contents of these files!*",
];

/// How far into a message those words are looked for.
const SHOWN_FILES_BYTES: usize = 400;

/// A longer result is no mere reference.
const REFERENCE_BYTES_MAX: usize = 1_000;

/// The first line of a result that was replaced by the content it refers to.
const AGAIN: &str =
    "(The tool did not repeat this. Longhand shows it again, as it was read before:)\n";

/// The most bytes that are quoted of a later change.
const CHANGE_BYTES_MAX: usize = 2_000;

/// The arguments that name a file.
const PATHS: &[&str] = &["file_path", "filePath", "path", "file", "filename", "notebook_path"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferenceKind {
    Refusal,
    Claim,
}

/// A result that refers back.
struct BackReference<'m> {
    at: (usize, usize),
    kind: ReferenceKind,
    result: &'m ToolResult,
    path: String,
    /// The call that it answers.
    id: String,
}

/// The messages that the newest results refer to, as they came, and the files that the client shows now.
pub(crate) fn referents(messages: &[Message]) -> Vec<usize> {
    let found = references(messages).into_iter();
    let found = found.filter_map(|reference| Some(referent(messages, &reference)?.0));
    found.chain(messages.iter().rposition(shows_files)).collect()
}

/// Whether a message of the user is the client's newest copy of its files.
fn shows_files(message: &Message) -> bool {
    let text = message.parts.first().and_then(Part::text);
    let Some(text) = text.filter(|_| message.role == Role::User) else { return false };
    let beginning = cut::head(text.raw(), SHOWN_FILES_BYTES);
    SHOWN_FILES.iter().any(|words| beginning.contains(words))
}

/// A batch that brings back what the newest results refer to and the window does not show; `None` if there is
/// nothing to bring back. What comes back has at most `bytes_max` bytes.
pub fn brought_back(path: &Path, now: &Projection, bytes_max: usize) -> Option<Batch> {
    let messages = path.messages;
    let head = path.seqs.last().copied()?;
    let mut edits = Vec::new();
    let mut again = FxHashSet::default();
    for reference in references(messages) {
        let (message, part) = reference.at;
        let is_new = now.change(message, part).is_none() && !again.contains(&reference.path);
        let Some(lost) = lost(messages, now, &reference).filter(|_| is_new) else { continue };
        let Some(at) = path.place(message, part) else { continue };
        let Some(words) = reference.result.single_text() else { continue };
        let words = original_text(words);
        let text = match reference.kind {
            ReferenceKind::Claim => format!(
                "{words}\n(The text of {} is not in view any more; read it again to see it.)",
                reference.path
            ),
            ReferenceKind::Refusal => {
                let handle = Handle::of([lost.as_str()]);
                let shown = clip_to(handle, &lost, bytes_max).unwrap_or(lost);
                format!("{AGAIN}{shown}{}", changes(messages, &reference))
            }
        };
        again.insert(reference.path);
        edits.push(Edit::Clip { at, handle: Handle::of([words.as_ref()]), text });
    }
    (!edits.is_empty()).then(|| Batch { head, edits, ..Batch::default() })
}

/// The results after the model's newest words that refer back.
fn references(messages: &[Message]) -> Vec<BackReference<'_>> {
    let newest = messages.iter().rposition(|message| message.role == Role::Assistant);
    let first = newest.map_or(messages.len(), |newest| newest + 1);
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate().skip(first) {
        for (part, content) in message.parts.iter().enumerate() {
            let Part::Result(result) = content else { continue };
            let Some(kind) = kind_of(result) else { continue };
            let id = result.call.decode().into_owned();
            let path = call_of(&messages[..at], &id).and_then(path_of);
            found.extend(path.map(|path| BackReference { at: (at, part), kind, result, path, id }));
        }
    }
    found
}

fn kind_of(result: &ToolResult) -> Option<ReferenceKind> {
    let text = result.single_text().filter(|text| text.raw_len() <= REFERENCE_BYTES_MAX)?;
    let text = text.decode().to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| text.contains(words));
    if says(REFUSALS) {
        return Some(ReferenceKind::Refusal);
    }
    says(CLAIMS).then_some(ReferenceKind::Claim)
}

/// Whether a result says that the model was shown the content before, and nothing else.
pub(crate) fn is_refusal(result: &ToolResult) -> bool {
    kind_of(result) == Some(ReferenceKind::Refusal)
}

/// The call with an id.
fn call_of<'m>(messages: &'m [Message], id: &str) -> Option<&'m ToolCall> {
    let mut calls = messages.iter().rev().flat_map(Message::calls);
    calls.find(|call| call.id.decode() == id)
}

/// The file that a call is about.
fn path_of(call: &ToolCall) -> Option<String> {
    let arguments = call.arguments.decode();
    let node = JsonCursor::new(&arguments).node().ok()?;
    let field = |name: &&str| {
        let mut fields = node.fields.iter();
        let (_, value) = fields.find(|(key, _)| key.str(&arguments).as_deref() == Some(*name))?;
        value.str(&arguments).map(std::borrow::Cow::into_owned)
    };
    PATHS.iter().find_map(field)
}

/// Earlier results about the same file that show it, newest first.
fn shown_before<'m>(
    messages: &'m [Message],
    reference: &'m BackReference,
) -> impl Iterator<Item = ((usize, usize), &'m ToolResult)> {
    let results = messages[..reference.at.0].iter().enumerate().rev().flat_map(|(at, message)| {
        let parts = message.parts.iter().enumerate();
        parts.filter_map(move |(part, content)| match content {
            Part::Result(result) => Some(((at, part), result)),
            _ => None,
        })
    });
    results.filter(|((at, _), result)| {
        let id = result.call.decode();
        let call = call_of(&messages[..*at], &id);
        call.and_then(path_of).as_ref() == Some(&reference.path)
    })
}

/// The result that a reference refers to: the newest that read the file.
fn referent<'m>(
    messages: &'m [Message],
    reference: &'m BackReference,
) -> Option<(usize, usize, &'m ToolResult)> {
    let mut shown = shown_before(messages, reference);
    let (at, result) = shown.find(|(_, result)| is_content(result))?;
    Some((at.0, at.1, result))
}

/// Whether a result is what a file says, and not just that something was done with it.
fn is_content(result: &ToolResult) -> bool {
    let is_long = |text: &crate::Text| text.raw_len() > REFERENCE_BYTES_MAX / 4;
    !result.error && kind_of(result).is_none() && result.single_text().is_some_and(is_long)
}

/// What a reference refers to, if the window does not show it.
fn lost(messages: &[Message], now: &Projection, reference: &BackReference) -> Option<String> {
    for ((at, part), result) in shown_before(messages, reference) {
        let is_shown = !now.is_folded(at);
        match now.change(at, part) {
            Some(Change::Text(text)) if is_shown && text.starts_with(AGAIN) => return None,
            None if is_shown && is_content(result) => return None,
            _ if is_content(result) => {
                return result.single_text().map(|text| original_text(text).into_owned());
            }
            _ => {}
        }
    }
    None
}

/// The changes to a file since it was read, quoted from the arguments of the calls.
fn changes(messages: &[Message], reference: &BackReference) -> String {
    let Some((from, _, read)) = referent(messages, reference) else { return String::new() };
    let read = read.call.decode();
    let mut text = String::new();
    let calls = messages[..reference.at.0].iter().skip(from).flat_map(Message::calls);
    for call in calls.filter(|call| call.id.decode() != read && call.id.decode() != reference.id) {
        if path_of(call).as_ref() != Some(&reference.path) || is_reading(&call.name.decode()) {
            continue;
        }
        let arguments = call.arguments.decode();
        text.push_str(&format!(
            "\n(Changed since by {}: {})",
            call.name.decode(),
            cut::head(&arguments, CHANGE_BYTES_MAX)
        ));
    }
    text
}

/// Whether a tool only looks at a file.
pub(crate) fn is_reading(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    ["read", "view", "cat", "open_file"].iter().any(|word| tool.contains(word))
        && !tool.contains("write")
}
