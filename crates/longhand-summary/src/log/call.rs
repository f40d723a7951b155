//! What is kept of a call until its answer is read.

use std::borrow::Cow;

use longhand_core::anchor::{FileChange, identifiers, patched};
use longhand_core::json::{JsonCursor, JsonKind, JsonNode};
use longhand_core::{ToolCall, cut};

use super::action::{Action, action};

/// The keys of a text that is replaced, and of the text that takes its place.
const OLD_TEXTS: &[&str] = &["old_string", "oldText", "oldString", "old_str", "old_text", "search"];
#[rustfmt::skip]
const NEW_TEXTS: &[&str] = &[
    "new_string", "newText", "newString", "new_str", "new_text", "replace", "replacement", "code_edit", "new_source",
    "insert_text", "content", "contents", "file_text", "text_content",
];

/// A text of more bytes is a plan, and no setting.
const PLAN_BYTES_MIN: usize = 120;

/// The most pointers that are kept.
const POINTERS_MAX: usize = 60;

/// A text that is replaced, and what takes its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextChange {
    /// The file, where one call changes several.
    pub(super) path: Option<String>,
    pub(super) old: String,
    pub(super) new: String,
}

impl TextChange {
    /// Whether it may be a change of a file.
    pub(super) fn is_of(&self, path: &str) -> bool {
        self.path.as_deref().is_none_or(|own| own == path)
    }
}

/// A call that was read.
#[derive(Clone, Debug)]
pub(super) struct ReadCall<'m> {
    pub(super) action: Action,
    /// All that it says.
    pub(super) arguments: Cow<'m, str>,
    pub(super) changes: Vec<TextChange>,
    /// Whether it goes on in the background.
    pub(super) is_background: bool,
    /// A plan that is put before the user.
    pub(super) plan: Option<String>,
}

impl<'m> ReadCall<'m> {
    /// Reads a call, whose arguments are handed in decoded.
    pub(super) fn of(call: &ToolCall, arguments: Cow<'m, str>, node: Option<&JsonNode>) -> Self {
        let source = &*arguments;
        let action = action(call, source, node);
        let edits = matches!(action, Action::Edit(_) | Action::EditOpen);
        let (mut changes, mut is_background, mut plan) = (Vec::new(), false, None);
        match node.filter(|_| !call.freeform) {
            Some(node) if edits => changes = changes_in(source, node),
            Some(node) => {
                let background = node.get(source, "run_in_background");
                is_background = background.is_some_and(|value| &source[value.span()] == "true");
                plan = node.get(source, "plan").and_then(|plan| plan.str(source));
                plan = plan.filter(|plan| plan.len() >= PLAN_BYTES_MIN);
            }
            None if edits => changes = patch_changes(source),
            None => {}
        }
        let plan = plan.map(Cow::into_owned);
        Self { action, arguments, changes, is_background, plan }
    }

    /// Reads a command that is written as text. What an editor is told to insert goes to the file that is open.
    pub(super) fn of_text(command: &'m str, action: Action, open_file: &str) -> Self {
        let mut changes = Vec::new();
        let mut action = action;
        if action == Action::EditOpen && !open_file.is_empty() {
            let lines = command.lines().skip(1);
            let lines = lines.take_while(|line| !line.trim().starts_with("end_of_"));
            let new = lines.collect::<Vec<_>>().join("\n");
            changes.push(TextChange { new, ..TextChange::default() });
            action = Action::Edit(vec![(FileChange::Changed, open_file.to_owned())]);
        }
        let arguments = Cow::Borrowed(command);
        Self { action, arguments, changes, is_background: false, plan: None }
    }
}

/// Whether a call looks at something that the user pointed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pointed {
    No,
    /// At a part of it: the user named `TW-9`, and it looks at `TW-9.2`.
    InPart,
    Yes,
}

/// What a call replaces and by what, also in a list of several edits or in a patch.
fn changes_in(source: &str, node: &JsonNode) -> Vec<TextChange> {
    let text = |node: &JsonNode, keys: &[&str]| {
        let value = keys.iter().find_map(|key| node.get(source, key)?.str(source));
        value.map(Cow::into_owned)
    };
    let change = |node: &JsonNode| {
        let old = text(node, OLD_TEXTS).unwrap_or_default();
        Some(TextChange { path: None, old, new: text(node, NEW_TEXTS)? })
    };
    let mut changes: Vec<TextChange> = change(node).into_iter().collect();
    if let Some(list) = node.get(source, "edits").filter(|list| list.kind == JsonKind::Array) {
        let mut cursor = JsonCursor::at(source, list.span().start);
        let _ = cursor.elements(|cursor| {
            let node = cursor.node()?;
            changes.extend(change(&node));
            Ok(())
        });
    }
    if changes.is_empty() {
        let patches = ["patch", "input", "diff"].iter();
        let patches = patches.filter_map(|key| node.get(source, key)?.str(source));
        changes.extend(patches.flat_map(|patch| patch_changes(&patch)));
    }
    changes
}

/// The lines that a patch takes out of each file, and those that it puts in.
fn patch_changes(patch: &str) -> Vec<TextChange> {
    let mut changes: Vec<TextChange> = Vec::new();
    for line in cut::lines(patch) {
        let file = match line.as_bytes() {
            [b'-', b'-', b'-', ..] => continue,
            [b'+', b'+', b'+', b' ', ..] => Some(line[4..].trim().trim_start_matches("b/")),
            [b'*', ..] => patched(line).first().map(|file| file.1),
            _ => None,
        };
        if let Some(file) = file {
            changes.push(TextChange { path: Some(file.to_owned()), ..TextChange::default() });
            continue;
        }
        if changes.is_empty() {
            changes.push(TextChange::default());
        }
        let Some(newest) = changes.last_mut() else { continue };
        let side = match line.as_bytes().first() {
            Some(b'-') => &mut newest.old,
            Some(b'+') => &mut newest.new,
            _ => continue,
        };
        side.push_str(&line[1..]);
        side.push('\n');
    }
    changes
}

/// What the user pointed to: paths, ids, numbers of issues.
#[derive(Clone, Debug, Default)]
pub(super) struct Pointers {
    pub(super) names: Vec<String>,
}

impl Pointers {
    /// Adds what a user's words point to.
    pub(super) fn read(&mut self, words: &str) {
        const BYTES_MIN: usize = 4;
        let words = cut::head(words, 8_000);
        let is_pointer =
            |name: &&str| name.len() >= BYTES_MIN && !name.starts_with("--") && name.len() <= 120;
        for name in identifiers(words).filter(is_pointer) {
            self.add(name);
        }
        for number in numbers(words) {
            self.add(number);
        }
    }

    pub(super) fn add(&mut self, name: &str) {
        let name = crate::quote::line(name.trim_start_matches('@'));
        self.names.retain(|known| *known != name);
        self.names.push(name);
        if self.names.len() > POINTERS_MAX {
            self.names.remove(0);
        }
    }

    /// Whether a text names one of them.
    pub(super) fn found_in(&self, text: &str) -> Pointed {
        let bytes = text.as_bytes();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let found = self.names.iter().flat_map(|name| {
            memchr::memmem::find_iter(bytes, name.as_bytes()).map(move |at| {
                let before = at.checked_sub(1).map(|before| bytes[before]);
                let rest = &bytes[at + name.len()..];
                let goes_on = matches!(rest, [b'.', next, ..] if next.is_ascii_alphanumeric());
                match rest.first() {
                    _ if before.is_some_and(is_word) => Pointed::No,
                    Some(next) if is_word(*next) => Pointed::No,
                    _ if goes_on => Pointed::InPart,
                    _ => Pointed::Yes,
                }
            })
        });
        found.max().unwrap_or(Pointed::No)
    }
}

/// The numbers of issues and the like: `#31`, `issue 31`.
fn numbers(words: &str) -> impl Iterator<Item = &str> {
    const KINDS: &[&str] = &["issue", "ticket", "pr", "bug", "task", "pull", "story", "request"];
    let mut before = "";
    words.split_whitespace().filter_map(move |word| {
        let is_named = KINDS.iter().any(|kind| before.eq_ignore_ascii_case(kind));
        before = word;
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
        let digits = bare.strip_prefix('#').or(is_named.then_some(bare))?;
        let is_number =
            (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(digits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_points_to_is_found_in_calls() {
        let mut pointers = Pointers::default();
        pointers.read("Please do issue 31 and TW-9, and read docs/wheel.md first.");
        for (text, expected) in [
            (r#"{"command":"issues show 31"}"#, Pointed::Yes),
            (r#"{"command":"issues show 314"}"#, Pointed::No),
            (r#"{"command":"t show TW-9.2"}"#, Pointed::InPart),
            (r#"{"command":"t show TW-91"}"#, Pointed::No),
            (r#"{"path":"/src/docs/wheel.md"}"#, Pointed::Yes),
        ] {
            assert_eq!(pointers.found_in(text), expected, "{text}");
        }
    }

    #[test]
    fn a_patch_has_two_sides_for_each_file() {
        let sides = |patch: &str| {
            let changes = patch_changes(patch).into_iter();
            changes.map(|change| (change.path, change.old, change.new)).collect::<Vec<_>>()
        };
        let side = |path: &str, old: &str, new: &str| {
            (Some(path.to_owned()), old.to_owned(), new.to_owned())
        };
        assert_eq!(
            sides("--- a/w.rs\n+++ b/w.rs\n@@ -1 +1 @@\n-old_one\n+new_one\n same"),
            [side("w.rs", "old_one\n", "new_one\n")]
        );
        assert_eq!(
            sides(
                "*** Begin Patch\n*** Update File: a.rs\n-one\n+two\n*** Add File: b.rs\n+three\n*** End Patch"
            )
            .into_iter()
            .filter(|side| side.0.is_some())
            .collect::<Vec<_>>(),
            [side("a.rs", "one\n", "two\n"), side("b.rs", "", "three\n")]
        );
    }
}
