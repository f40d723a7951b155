//! What the text of an edit does, in a few words.

use rustc_hash::FxHashSet;

use crate::anchor::{is_definition, patched};
use crate::cut;
use crate::stub::clean;

/// The most characters of a definition, and of a line.
const DEFINITION_CHARS_MAX: usize = 60;
const LINE_CHARS_MAX: usize = 80;

/// The most definitions of a text, and the most files of a patch that are named.
const DEFINITIONS_MAX: usize = 3;
const FILES_MAX: usize = 8;

/// How much of a text is read.
const READ_BYTES_MAX: usize = 16 * 1024;

/// Lines with fewer letters and digits say nothing alone.
const LINE_LETTERS_MIN: usize = 8;

/// What an argument of a call is to a file.
pub(crate) enum ArgumentUse<'t> {
    /// A text that is replaced; what takes its place is told there.
    Old,
    /// What takes the place of another text.
    New(&'t str),
    /// Anything else: a whole file, a patch, a prompt.
    Other,
}

impl<'t> ArgumentUse<'t> {
    /// The use by the key of an argument, after the last text that is replaced.
    pub(crate) fn of(key: &str, old: Option<&'t str>) -> Self {
        let key = key.to_ascii_lowercase();
        if key.starts_with("old") || key == "search" {
            return Self::Old;
        }
        let is_new = key.starts_with("new") || key.starts_with("replace");
        match old.filter(|_| is_new) {
            Some(old) => Self::New(old),
            None => Self::Other,
        }
    }
}

/// What a text does, to be said after its size; empty if nothing can be told.
pub(crate) fn touched(text: &str, used: &ArgumentUse) -> String {
    let text = cut::head(text, READ_BYTES_MAX);
    match used {
        ArgumentUse::Old => String::new(),
        ArgumentUse::New(old) => changed(old, text),
        ArgumentUse::Other => {
            let files = patched(text);
            if files.is_empty() {
                return defined(text);
            }
            let files = files.iter().take(FILES_MAX).map(|(_, path)| clean(path, 80));
            let files: Vec<String> = files.collect();
            let added = text.lines().filter_map(|line| line.strip_prefix('+'));
            let added = telling(added.filter(|line| !line.starts_with("++")).map(str::trim));
            let added = added.map(|line| format!("; + {}", clean(line, LINE_CHARS_MAX)));
            format!(" for {}{}", files.join(" "), added.unwrap_or_default())
        }
    }
}

/// The definition or heading that an edit is in, and its most telling new line; of one that only removes, what it removes.
fn changed(old: &str, new: &str) -> String {
    let before: FxHashSet<&str> = old.lines().map(str::trim).collect();
    let after: FxHashSet<&str> = new.lines().map(str::trim).collect();
    let added = || new.lines().map(str::trim).filter(|line| !before.contains(line));
    let removed = old.lines().map(str::trim).filter(|line| !after.contains(line));
    let (mark, line) = match (telling(added()), telling(removed)) {
        (Some(line), _) => ('+', line),
        (None, Some(line)) => ('-', line),
        (None, None) => return String::new(),
    };
    let source = if mark == '+' { new } else { old };
    let inside = source
        .lines()
        .map(str::trim)
        .take_while(|other| *other != line)
        .filter(|other| is_title(other))
        .last();
    let inside = inside.map(|inside| format!("; in {}", clean(inside, DEFINITION_CHARS_MAX)));
    format!("{}; {mark} {}", inside.unwrap_or_default(), clean(line, LINE_CHARS_MAX))
}

/// The first definitions or headings of a text.
fn defined(text: &str) -> String {
    let titles = text.lines().filter(|line| !line.starts_with([' ', '\t'])).map(str::trim);
    let titles = titles.filter(|line| is_title(line)).take(DEFINITIONS_MAX);
    titles.map(|title| format!("; {}", clean(title, DEFINITION_CHARS_MAX))).collect()
}

/// The first line that defines something, or else the first that says something.
fn telling<'t>(lines: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    const COMMENTS: &[&str] = &["//", "#", "*", "--", "/*", "\"\"\"", "<!--"];
    const IMPORTS: &[&str] = &["import ", "use ", "from ", "require", "alias "];
    let says = |line: &str| {
        line.bytes().filter(u8::is_ascii_alphanumeric).count() >= LINE_LETTERS_MIN
            || line.chars().filter(|c| !c.is_ascii() && c.is_alphanumeric()).count() >= 4
    };
    let (mut first, mut any) = (None, None);
    for line in lines.filter(|line| says(line)) {
        if is_definition(line) {
            return Some(line);
        }
        let is_aside = COMMENTS.iter().chain(IMPORTS).any(|start| line.starts_with(start));
        if !is_aside && first.is_none() {
            first = Some(line);
        }
        any = any.or(Some(line));
    }
    first.or(any)
}

/// Whether a line is the head of what follows: a definition, or a heading of a document.
fn is_title(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    let is_heading = (2..=6).contains(&(line.len() - text.len())) && text.starts_with(' ');
    is_heading || is_definition(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &str) {
        assert_eq!(touched(new, &ArgumentUse::New(old)), expected);
    }

    #[test]
    fn an_edit_is_told_by_its_function_and_its_line() {
        check(
            "fn drain(&mut self) {\n    let slot = 1;\n}",
            "fn drain(&mut self) {\n    // before all else\n    self.cascade(slot)];\n    let slot = 1;\n}",
            "; in fn drain(&mut self) {; + self.cascade(slot));",
        );
        check("", "}\nfn turn(&self) {\n}\n", "; + fn turn(&self) {");
        check(
            "## Limits\nAt most 512 slots.\n",
            "## Limits\n",
            "; in ## Limits; - At most 512 slots.",
        );
        check("a", "a", "");
    }

    #[test]
    fn a_whole_text_is_told_by_what_it_defines() {
        let file = "use std::fmt;\n\npub struct Wheel {\n    slots: u8,\n}\n\nimpl Wheel {\n    fn a() {}\n}\n";
        assert_eq!(touched(file, &ArgumentUse::Other), "; pub struct Wheel {; impl Wheel {");
        let patch = "--- a/src/w.rs\n+++ b/src/w.rs\n@@ -1 +1 @@\n-old_slots()\n+new_slots(3)\n";
        assert_eq!(touched(patch, &ArgumentUse::Other), " for src/w.rs; + new_slots(3)");
        assert_eq!(touched("just words", &ArgumentUse::Other), "");
    }
}
