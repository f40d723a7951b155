//! The history file of `longhand chat`, which the arrow keys go through.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{output, paths};

/// Its path, in the folder of the user's data.
pub(crate) fn path() -> Option<PathBuf> {
    Some(paths::data().ok()?.join("history"))
}

/// Removes lines from the file and returns how many there were.
pub(crate) fn forget(path: &Path, typed: &BTreeSet<String>) -> Result<usize> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(0) };
    let (mut kept, mut removed) = (String::new(), 0);
    for line in text.lines() {
        let line_typed = unescaped(line);
        let message = line_typed.trim();
        // A message that begins with a slash was typed with two.
        let is_said = typed.contains(message)
            || message
                .strip_prefix('/')
                .is_some_and(|rest| rest.starts_with('/') && typed.contains(rest));
        if is_said {
            removed += 1;
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if removed > 0 {
        output::write_file(path, &kept)
            .with_context(|| format!("cannot remove prompts from {}", path.display()))?;
    }
    Ok(removed)
}

/// A line of the file as it was typed: line breaks and backslashes are escaped there.
fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (letter, false) => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_lines_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::fs::write(&path, "#V2\nfirst\nsecret\\nwords\n/quit\nfirst\n//etc\n").unwrap();
        let typed =
            BTreeSet::from(["secret\nwords".to_owned(), "first".to_owned(), "/etc".to_owned()]);
        assert_eq!(forget(&path, &typed).unwrap(), 4);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "#V2\n/quit\n");
        assert_eq!(forget(&folder.path().join("none"), &typed).unwrap(), 0);
    }
}
