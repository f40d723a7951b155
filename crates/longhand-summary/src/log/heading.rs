//! The titles of a page.

use super::standing::StatementKind;

pub(super) const WORDS: &str = "The user said:";
pub(super) const REPLIED: &str = "The user's replies to calls:";
pub(super) const CHECKED: &str = "Checks, newest outcome:";
pub(super) const TASKS: &str = "Task list as last written:";
pub(super) const FAILED: &str = "Failed, not repaired since:";
pub(super) const REPORTED: &str = "Sub-agents reported:";
pub(super) const BACKGROUND: &str = "Background tasks:";
pub(super) const CHANGED: &str = "Changed by calls:";
pub(super) const FOUND: &str = "Looked up:";
pub(super) const DOCUMENTS: &str = "From documents:";
pub(super) const EXCERPTS: &str = "Lines of what was read, changed (+) and run:";
pub(super) const STORY: &str = "How it went:";
pub(super) const SEEN: &str = "Names, by file or command:";
pub(super) const FOLDER: &str = "Folder: ";
pub(super) const FILES: &str = "Files changed: ";
pub(super) const COMMITS: &str = "Commits: ";
pub(super) const BRANCH: &str = "Branch: ";
pub(super) const NAMES: &str = "Names: ";

/// A title, and the kind of statements below it if it has any.
#[derive(Clone, Copy)]
pub(super) struct Heading {
    pub(super) title: &'static str,
    pub(super) kind: Option<StatementKind>,
}

const fn heading(title: &'static str, kind: Option<StatementKind>) -> Heading {
    Heading { title, kind }
}

/// The titles in the order in which they stand.
pub(super) const HEADINGS: [Heading; 22] = [
    heading(WORDS, None),
    heading(REPLIED, None),
    heading("Decided:", Some(StatementKind::Decision)),
    heading("Open questions:", Some(StatementKind::Question)),
    heading("Asked in passing:", Some(StatementKind::Aside)),
    heading("Blocked:", Some(StatementKind::Blocker)),
    heading(DOCUMENTS, None),
    heading(FOLDER, None),
    heading(FILES, None),
    heading(CHECKED, None),
    heading(BRANCH, None),
    heading(COMMITS, None),
    heading(TASKS, None),
    heading(FAILED, None),
    heading(REPORTED, None),
    heading(BACKGROUND, None),
    heading(CHANGED, None),
    heading(FOUND, None),
    heading(STORY, None),
    heading(EXCERPTS, None),
    heading(SEEN, None),
    heading(NAMES, None),
];
