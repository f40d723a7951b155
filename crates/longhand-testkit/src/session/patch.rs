//! A change to one file of the project, as a unified diff.

use std::fmt::Write as _;

use super::diff;

/// What a patch shall do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PatchSize {
    pub(super) methods: usize,
    pub(super) helpers: usize,
    pub(super) tests: usize,
    pub(super) varied: usize,
}

/// A patch that has been made, and the item that it is about.
pub(super) struct Patch {
    pub(super) path: String,
    pub(super) symbol: String,
    pub(super) text: String,
}

impl Patch {
    pub(super) fn new(path: &str, symbol: String, before: &str, after: &str) -> Self {
        Self { path: path.to_owned(), symbol, text: diff::unified(path, before, after) }
    }

    /// Counts added and removed lines.
    pub(super) fn size(&self) -> (usize, usize) {
        let count = |sign: char, head: &str| {
            let lines = self.text.lines();
            lines.filter(|line| line.starts_with(sign) && !line.starts_with(head)).count()
        };
        (count('+', "+++ "), count('-', "--- "))
    }

    /// What the tool says when all went well.
    pub(super) fn applied(&self) -> String {
        let (added, removed) = self.size();
        let hunks = self.text.matches("\n@@ ").count();
        let plural = if hunks == 1 { "" } else { "s" };
        format!("Applied {hunks} hunk{plural} to {} (+{added} -{removed}).", self.path)
    }

    /// Returns the same patch for a file in which everything lies some lines further up.
    pub(super) fn moved_up(&self, lines: usize) -> String {
        let mut moved = String::with_capacity(self.text.len());
        for line in self.text.lines() {
            let numbers: Vec<&str> = line.split([' ', '-', '+', ',']).collect();
            if let ["@@", "", old, old_count, "", new, new_count, "@@"] = numbers.as_slice() {
                let up = |number: &str| number.parse().unwrap_or(1).max(lines + 1) - lines;
                let (old, new) = (up(old), up(new));
                let _ = write!(moved, "@@ -{old},{old_count} +{new},{new_count} @@");
            } else {
                moved.push_str(line);
            }
            moved.push('\n');
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Patch {
        let before = "a\n".repeat(30);
        Patch::new("x.rs", "f".to_owned(), &before, &format!("{before}b\nc\n"))
    }

    #[test]
    fn size_counts_changed_lines_only() {
        assert_eq!(sample().size(), (2, 0));
        assert_eq!(sample().applied(), "Applied 1 hunk to x.rs (+2 -0).");
    }

    #[test]
    fn moved_up_changes_the_line_numbers_only() {
        let patch = sample();
        assert!(patch.text.contains("@@ -28,3 +28,5 @@"));
        assert_eq!(patch.moved_up(8), patch.text.replace("-28,3 +28,5", "-20,3 +20,5"));
    }
}
