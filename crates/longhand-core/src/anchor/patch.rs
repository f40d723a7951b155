//! The files that a patch is about.

use crate::cut;

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It is new.
    Created,
    /// It is changed.
    Changed,
    /// It goes.
    Deleted,
}

/// The files of a patch, each once: a unified diff, or the form in which Codex writes patches.
///
/// ```
/// use longhand_core::anchor::{FileChange, patched};
///
/// assert_eq!(patched("--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@"), [(FileChange::Changed, "x.rs")]);
/// assert_eq!(patched("*** Add File: y.rs\n+1"), [(FileChange::Created, "y.rs")]);
/// ```
pub fn patched(diff: &str) -> Vec<(FileChange, &str)> {
    const HEADS: &[(&str, FileChange)] = &[
        ("*** Update File: ", FileChange::Changed),
        ("*** Add File: ", FileChange::Created),
        ("*** Delete File: ", FileChange::Deleted),
        ("*** Move to: ", FileChange::Created),
    ];
    let mut files: Vec<(FileChange, &str)> = Vec::new();
    let mut add = |change: FileChange, path| {
        if files.iter().all(|(_, known)| *known != path) {
            files.push((change, path));
        }
    };
    let mut before = "";
    for line in cut::lines(diff).filter(|line| line.starts_with(['*', '-', '+'])) {
        let heads =
            HEADS.iter().find_map(|(head, change)| Some((*change, line.strip_prefix(head)?)));
        if let Some((change, path)) = heads {
            add(change, path.trim());
        } else if let Some(path) = line.strip_prefix("--- ") {
            before = path.split('\t').next().unwrap_or(path).trim();
        } else if let Some(path) = line.strip_prefix("+++ ").filter(|_| !before.is_empty()) {
            match (before, path.split('\t').next().unwrap_or(path).trim()) {
                (_, "/dev/null") => add(FileChange::Deleted, bare(before)),
                ("/dev/null", path) => add(FileChange::Created, bare(path)),
                (_, path) => add(FileChange::Changed, bare(path)),
            }
            before = "";
        }
    }
    files
}

fn bare(path: &str) -> &str {
    path.strip_prefix("a/").or(path.strip_prefix("b/")).unwrap_or(path)
}
