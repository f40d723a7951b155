//! What a call is about, by the keys of its arguments and not by the name of its tool.

use crate::anchor::patched;
use crate::json::{JsonCursor, JsonNode};
use crate::touched::ArgumentUse;
use crate::{ToolCall, content_hash};

/// Keys of the arguments that name a file, and of those that hold all of it.
const PATHS: &[&str] = &["file_path", "path", "filePath", "filename", "file", "target_file"];
const WHOLE_TEXTS: &[&str] = &["content", "contents", "file_text"];

/// Keys of other arguments that change a file.
const CHANGES: &[&str] = &["edits", "patch", "diff", "replacement", "code_edit", "insert_text"];

/// Keys under which patches come.
const PATCHES: &[&str] = &["input", "patch", "diff"];

/// Keys of the arguments that ask a person something.
const QUESTIONS: &[&str] = &["question", "questions"];

/// Words in the names of tools that look for something in a file or a folder: no reading replaces that.
const SEARCHES: &[&str] = &["search", "grep", "find", "list", "glob"];

/// Arguments of more bytes are compared as they are, and not looked into.
const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallSubject {
    /// The file that it reads or writes, by a hash of its path.
    pub(crate) file: Option<u128>,
    /// What it does with that file.
    pub(crate) file_use: FileUse,
    /// Whether its result is all of the file, or its arguments are.
    pub(crate) has_all: bool,
    /// The files of a patch, by hashes of their paths.
    pub(crate) patched: Vec<u128>,
    /// Whether it asks a person.
    pub(crate) asks: bool,
}

/// What a call does with its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileUse {
    /// It reads the file, or a part of it.
    Reads,
    /// It writes the file as a whole.
    WritesAll,
    /// It changes a part of it.
    Changes,
}

impl CallSubject {
    pub(crate) fn of(call: &ToolCall) -> Self {
        let mut subject = Self {
            file: None,
            file_use: FileUse::Reads,
            has_all: false,
            patched: Vec::new(),
            asks: false,
        };
        if call.arguments.raw_len() > ARGUMENTS_BYTES_MAX {
            return subject;
        }
        let decoded = call.arguments.decode();
        if call.freeform {
            subject.patched = files_of(&decoded);
            return subject;
        }
        let Ok(node) = JsonCursor::new(&decoded).node() else { return subject };
        let has = |keys: &[&str]| keys.iter().any(|key| node.get(&decoded, key).is_some());
        let name = call.name.decode().to_ascii_lowercase();
        let searches = SEARCHES.iter().any(|word| name.contains(word));
        let path = text_of(&node, &decoded, PATHS).filter(|_| !searches);
        subject.file = path.as_deref().map(content_hash);
        let is_whole = text_of(&node, &decoded, WHOLE_TEXTS).is_some();
        subject.has_all = node.fields.len() == 1 || is_whole;
        let replaces = || {
            let mut keys = node.fields.iter().filter_map(|(key, _)| key.str(&decoded));
            keys.any(|key| !matches!(ArgumentUse::of(&key, Some("")), ArgumentUse::Other))
        };
        subject.file_use = if is_whole {
            FileUse::WritesAll
        } else if has(CHANGES) || replaces() {
            FileUse::Changes
        } else {
            FileUse::Reads
        };
        let changes = text_of(&node, &decoded, PATCHES);
        subject.patched = changes.as_deref().map(files_of).unwrap_or_default();
        subject.asks = has(QUESTIONS);
        subject
    }

    /// Whether it changes a file.
    pub(crate) fn writes(&self) -> bool {
        self.file.is_some() && self.file_use != FileUse::Reads || !self.patched.is_empty()
    }
}

/// What the arguments of a call write as a whole into its file.
pub(crate) fn whole_text(call: &ToolCall) -> Option<String> {
    let decoded = call.arguments.decode();
    let node = JsonCursor::new(&decoded).node().ok()?;
    text_of(&node, &decoded, WHOLE_TEXTS)
}

/// The same call has the same hash, byte for byte.
pub(crate) fn same_call(call: &ToolCall) -> u128 {
    content_hash(&format!("{}\0{}", call.name.raw(), call.arguments.raw()))
}

fn text_of(node: &JsonNode, source: &str, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| Some(node.get(source, key)?.str(source)?.into_owned()))
}

fn files_of(patch: &str) -> Vec<u128> {
    patched(patch).into_iter().map(|(_, path)| content_hash(path)).collect()
}
