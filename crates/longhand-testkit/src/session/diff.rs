//! Unified diffs of two short texts.

use std::fmt::Write as _;
use std::ops::Range;

const CONTEXT: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum DiffLine<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Renders the change from `old` to `new`, or nothing if there is none.
pub(super) fn unified(path: &str, old: &str, new: &str) -> String {
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let mut text = String::new();
    let (mut old_line, mut new_line, mut at) = (1, 1, 0);
    for hunk in hunks(&lines) {
        for line in &lines[at..hunk.start] {
            (old_line, new_line) = after(*line, old_line, new_line);
        }
        at = hunk.end;
        if text.is_empty() {
            let _ = writeln!(text, "--- a/{path}\n+++ b/{path}");
        }
        let (old_end, new_end) = lines[hunk.clone()]
            .iter()
            .fold((old_line, new_line), |(old, new), line| after(*line, old, new));
        let (old_count, new_count) = (old_end - old_line, new_end - new_line);
        let _ = writeln!(text, "@@ -{old_line},{old_count} +{new_line},{new_count} @@");
        for line in &lines[hunk] {
            let _ = match line {
                DiffLine::Same(line) => writeln!(text, " {line}"),
                DiffLine::Old(line) => writeln!(text, "-{line}"),
                DiffLine::New(line) => writeln!(text, "+{line}"),
            };
        }
        (old_line, new_line) = (old_end, new_end);
    }
    text
}

fn after(line: DiffLine, old: usize, new: usize) -> (usize, usize) {
    match line {
        DiffLine::Same(_) => (old + 1, new + 1),
        DiffLine::Old(_) => (old + 1, new),
        DiffLine::New(_) => (old, new + 1),
    }
}

/// Finds a longest common subsequence; quadratic, which is fine for some hundred lines.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            common[o][n] = if old[o] == new[n] {
                common[o + 1][n + 1] + 1
            } else {
                common[o + 1][n].max(common[o][n + 1])
            };
        }
    }
    let (mut o, mut n, mut lines) = (0, 0, Vec::new());
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            lines.push(DiffLine::Same(old[o]));
            (o, n) = (o + 1, n + 1);
        } else if n == new.len() || (o < old.len() && common[o + 1][n] >= common[o][n + 1]) {
            lines.push(DiffLine::Old(old[o]));
            o += 1;
        } else {
            lines.push(DiffLine::New(new[n]));
            n += 1;
        }
    }
    lines
}

/// Groups the changes whose context lines touch.
fn hunks(lines: &[DiffLine]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| !matches!(line, DiffLine::Same(_))) {
        let (start, end) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_diff() {
        assert_eq!(unified("a.rs", "1\n2\n", "1\n2\n"), "");
    }

    #[test]
    fn far_changes_make_two_hunks() {
        let old: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
        let mut new = old.clone();
        new[1] = "two".to_owned();
        new.remove(17);
        let diff = unified("a.rs", &old.join("\n"), &new.join("\n"));
        let expected = "--- a/a.rs\n+++ b/a.rs\n@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n\
                        @@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n";
        assert_eq!(diff, expected);
    }
}
