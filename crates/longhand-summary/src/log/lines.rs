//! The lines of programs and outputs that tell most by themselves.

use std::borrow::Cow;

use longhand_core::anchor::{after_number, is_definition, unnumbered};
use longhand_core::cut;
use memchr::memmem;
use rustc_hash::FxHashSet;

use super::finding::{begins_with_one_of, is_of_word};

/// The most characters of a line.
pub(super) const LINE_CHARS_MAX: usize = 200;

/// An output of no more lines and bytes is told whole.
const WHOLE_LINES_MAX: usize = 6;
const WHOLE_BYTES_MAX: usize = 500;

/// What a line of a source tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// It orders, forbids or limits.
    Rule,
    /// A line of a document.
    Text,
    /// It defines a name.
    Definition,
    /// It says something to people: an error, a log line, a label.
    Literal,
    /// It is new by an edit.
    New,
    /// A definition or a message that is new by an edit.
    NewDefinition,
    /// What a command printed.
    Output,
    /// What a sub-agent found.
    Finding,
}

impl LineKind {
    pub(super) const ALL: [LineKind; 8] = [
        LineKind::Rule,
        LineKind::Text,
        LineKind::Definition,
        LineKind::Literal,
        LineKind::New,
        LineKind::NewDefinition,
        LineKind::Output,
        LineKind::Finding,
    ];

    /// The letter that stands for it in a state.
    pub(super) fn letter(self) -> &'static str {
        match self {
            LineKind::Rule => "r",
            LineKind::Text => "t",
            LineKind::Definition => "d",
            LineKind::Literal => "l",
            LineKind::New => "n",
            LineKind::NewDefinition => "e",
            LineKind::Output => "o",
            LineKind::Finding => "f",
        }
    }

    /// What a line of this kind is worth, beside the names that only it has.
    pub(super) fn worth(self) -> f64 {
        match self {
            LineKind::Rule => 5.0,
            LineKind::Finding => 4.0,
            LineKind::NewDefinition => 3.0,
            LineKind::Literal | LineKind::New | LineKind::Definition => 2.0,
            LineKind::Text | LineKind::Output => 1.5,
        }
    }

    /// Whether an edit put it there.
    pub(super) fn is_new(self) -> bool {
        matches!(self, LineKind::New | LineKind::NewDefinition)
    }
}

/// A line that tells something by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TellingLine<'t> {
    pub(super) kind: LineKind,
    /// The definition that it is part of, if it is known.
    pub(super) inside: &'t str,
    pub(super) text: Cow<'t, str>,
}

/// The lines of a program that define names or say something to people.
pub(super) fn code_lines(text: &str) -> Vec<TellingLine<'_>> {
    let mut found = Vec::new();
    let mut inside = "";
    let mut quotes = Quotes { text, next: 0 };
    let mut lines = cut::lines(text);
    while let Some(line) = lines.next() {
        let (line, is_indented) = unindented(line);
        if defines(line, is_indented) {
            let text = whole_definition(line, lines.clone());
            found.push(TellingLine { kind: LineKind::Definition, inside: "", text });
            inside = line;
        } else if quotes.are_in(line) && speaks(line) {
            found.push(TellingLine { kind: LineKind::Literal, inside, text: Cow::Borrowed(line) });
        }
    }
    found
}

/// The lines of a text without the blanks around them.
pub(super) fn trimmed_lines(text: &str) -> FxHashSet<&str> {
    cut::lines(text).map(cut::trim).collect()
}

/// The lines that an edit put in the place of old ones.
pub(super) fn new_lines<'t>(old: &FxHashSet<&str>, new: &'t str) -> Vec<TellingLine<'t>> {
    let mut found = Vec::new();
    let mut inside = "";
    let mut quotes = Quotes { text: new, next: 0 };
    let mut lines = cut::lines(new);
    while let Some(line) = lines.next() {
        let (line, is_indented) = unindented(line);
        let is_definition = defines(line, is_indented);
        let is_told = !old.contains(line) && says_something(line);
        if is_told && is_definition {
            let text = whole_definition(line, lines.clone());
            found.push(TellingLine { kind: LineKind::NewDefinition, inside: "", text });
        } else if is_told {
            let kind = if quotes.are_in(line) && speaks(line) {
                LineKind::NewDefinition
            } else {
                LineKind::New
            };
            found.push(TellingLine { kind, inside, text: Cow::Borrowed(line) });
        }
        if is_definition {
            inside = line;
        }
    }
    found
}

/// A definition with the lines that its list of parameters goes on in.
fn whole_definition<'t>(first: &'t str, rest: impl Iterator<Item = &'t str>) -> Cow<'t, str> {
    const LINES_MAX: usize = 10;
    if !first.ends_with('(') {
        return Cow::Borrowed(first);
    }
    let mut whole = first.to_owned();
    for line in rest.take(LINES_MAX).map(unnumbered) {
        if whole.len() + line.len() > LINE_CHARS_MAX {
            break;
        }
        if !whole.ends_with('(') && !line.starts_with(')') {
            whole.push(' ');
        }
        whole.push_str(line);
        if line.starts_with(')') {
            break;
        }
    }
    Cow::Owned(whole)
}

/// The lines of an output: all of a short one, or else those of a program that was printed.
///
/// Verdicts and failures are told elsewhere, as long as they are true.
pub(super) fn output_lines(text: &str) -> Vec<TellingLine<'_>> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if text.len() > WHOLE_BYTES_MAX || lines().count() > WHOLE_LINES_MAX {
        return code_lines(text);
    }
    let whole =
        |text| TellingLine { kind: LineKind::Output, inside: "", text: Cow::Borrowed(text) };
    lines().map(whole).collect()
}

/// Whether a line of a program defines a name that counts outside of a function.
fn defines(line: &str, is_indented: bool) -> bool {
    is_definition(line) && !(is_indented && is_value(line))
}

/// A line without its number and the blanks around it, and whether there were some before it.
fn unindented(line: &str) -> (&str, bool) {
    let line = after_number(line);
    (cut::trim(line), line.starts_with([' ', '\t']))
}

/// Whether a definition gives a name a value. Within a function that is one of its steps.
fn is_value(line: &str) -> bool {
    ["const ", "val "].iter().any(|keyword| line.starts_with(keyword))
}

/// The places of quotes in a text, of which most lines have none.
struct Quotes<'t> {
    text: &'t str,
    /// The first that is not before the newest line, or else the end of the text.
    next: usize,
}

impl Quotes<'_> {
    /// Whether a line of the text has one; lines are asked about in their order.
    fn are_in(&mut self, line: &str) -> bool {
        let start = line.as_ptr().addr() - self.text.as_ptr().addr();
        if self.next <= start {
            let rest = &self.text.as_bytes()[start..];
            let next = memchr::memchr3(b'"', b'\'', b'`', rest);
            self.next = next.map_or(self.text.len(), |next| start + next);
        }
        self.next < start + line.len()
    }
}

/// Whether a line has a text for people in quotes.
fn speaks(line: &str) -> bool {
    const COMMENTS: &[&str] = &["//", "#", "*", "/*", "--", ";"];
    // A comment may have an apostrophe and words after it.
    if begins_with_one_of(line, COMMENTS) {
        return false;
    }
    let line = without_trailing_comment(line);
    [b'"', b'\'', b'`'].into_iter().any(|mark| {
        let mut marks = memchr::memchr_iter(mark, line.as_bytes());
        while let Some(open) = marks.next() {
            let close = marks.next().unwrap_or(line.len());
            if is_speech(&line[open + 1..close]) {
                return true;
            }
        }
        false
    })
}

/// Whether a text has three plain words in a row.
fn is_speech(text: &str) -> bool {
    const WORDS_MIN: usize = 3;
    const BYTES_MAX: usize = 300;
    let is_plain = |word: &str| {
        let word = word.trim_end_matches([',', '.', ':', '!', '?', '…', '\'']);
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '\'')
    };
    // Most texts in quotes are single words.
    let spaces = memchr::memchr_iter(b' ', text.as_bytes());
    if text.len() >= BYTES_MAX || spaces.take(WORDS_MIN - 1).count() < WORDS_MIN - 1 {
        return false;
    }
    let mut row = 0;
    text.split(' ').any(|word| {
        row = if is_plain(word) { row + 1 } else { 0 };
        row >= WORDS_MIN
    })
}

/// Whether a line has three different words of more than one letter.
fn has_three_words(line: &str) -> bool {
    if line.is_ascii() {
        return are_three(line.as_bytes().split(|byte| !is_of_word(*byte)));
    }
    are_three(line.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::as_bytes))
}

fn are_three<'w>(words: impl Iterator<Item = &'w [u8]>) -> bool {
    let (mut first, mut second): (&[u8], &[u8]) = (&[], &[]);
    for word in words.filter(|word| word.len() > 1) {
        if word == first || word == second {
            continue;
        }
        if !second.is_empty() {
            return true;
        }
        (first, second) = (word, first);
    }
    false
}

/// A line of a program without the comment at its end.
fn without_trailing_comment(line: &str) -> &str {
    memmem::find(line.as_bytes(), b" // ").map_or(line, |at| &line[..at])
}

/// Whether a line of an edit says something by itself.
fn says_something(line: &str) -> bool {
    const BYTES_MIN: usize = 10;
    const IMPORTS: &[&str] =
        &["import ", "use ", "using ", "from ", "#include", "require ", "alias "];
    line.len() >= BYTES_MIN
        && line.bytes().filter(|byte| is_of_word(*byte) && *byte != b'_').count() * 2
            >= line.len().min(80)
        && (has_three_words(line) || is_definition(line))
        && !IMPORTS.iter().any(|import| line.starts_with(import))
        && !is_fragment(line)
}

/// Whether a line is only a part of a statement, or says how something looks: nobody can tell what it does by it.
fn is_fragment(line: &str) -> bool {
    const GOES_ON: &[&str] = &["||", "&&", "#!", "style=", "class=", "className="];
    let calls_on = || line.starts_with('.') && line.contains('(');
    let opens = || line.ends_with(['(', '[']) && !is_definition(line);
    begins_with_one_of(line, GOES_ON)
        || line.ends_with('\\')
        || calls_on()
        || opens()
        || (line.starts_with('<') && !has_text(line))
}

/// Whether a line of markup has three plain words in a row outside of its tags.
fn has_text(line: &str) -> bool {
    line.split('>').any(|text| is_speech(text.split('<').next().unwrap_or_default().trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_within_a_function_is_no_definition() {
        let code =
            "const slots = 512;\nfunction turn() {\n  const slot = slots[at];\n\tval x = 1\n}";
        assert_eq!(texts(&code_lines(code)), ["const slots = 512;", "function turn() {"]);
        let read = "  1→const slots = 512;\n  2→  const slot = slots[at];\n";
        assert_eq!(texts(&code_lines(read)), ["const slots = 512;"]);
    }

    #[test]
    fn what_is_said_to_people_is_found() {
        let code = "  12→  let a = 1;\n  13→  throw new Error(`Slot not found: ${slot}`);\n  14→  log(\"ok\")";
        let found = code_lines(code);
        assert_eq!(texts(&found), ["throw new Error(`Slot not found: ${slot}`);"]);
        assert!(!speaks("// and weren't there at the start of it"));
        assert!(!speaks("continue // the folder doesn't exist in this place"));
        assert!(!speaks(
            r#"<div class="flex items-center px-2" style="color: #666; font-style: italic;">"#
        ));
    }

    #[test]
    fn a_definition_is_told_with_its_parameters_and_heads_what_is_in_it() {
        let code = "constructor(\n  private ui: Ui,\n  slots: number,\n) {\n  log('no slots are left here');\n";
        let found = code_lines(code);
        assert_eq!(texts(&found)[0], "constructor(private ui: Ui, slots: number,) {");
        assert_eq!(found[1].inside, "constructor(");
    }

    fn texts<'t>(lines: &'t [TellingLine]) -> Vec<&'t str> {
        lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn an_edit_is_told_by_what_is_new() {
        let found = new_lines(
            &trimmed_lines("a = 1\nslots = old_value"),
            "a = 1\nslots = new_value + spare\n}\nend",
        );
        assert_eq!(texts(&found), ["slots = new_value + spare"]);
    }

    #[test]
    fn parts_of_statements_and_looks_are_not_told() {
        let told = |line: &str| !new_lines(&FxHashSet::default(), line).is_empty();
        for line in [
            ".map(|slot| slot.deadline + grace)",
            "RESPONSE=\"$(curl -s \\",
            "let found = wheel.find_slot_of(",
            "<div class=\"flex items-center\" style=\"color: red\">",
            "#!/usr/bin/env bash",
        ] {
            assert!(!told(line), "{line}");
        }
        for line in [
            "| `slots` | how many there are |",
            "|> Query.sort(inserted_at: :desc)",
            ".slot-late { color: dark_red }",
            "<h1>No slots are left here</h1>",
            "deadline = now + grace_period",
            "fn turn_the_wheel(",
        ] {
            assert!(told(line), "{line}");
        }
    }

    #[test]
    fn a_short_output_is_told_whole() {
        assert_eq!(texts(&output_lines("one\n\ntwo\n")), ["one", "two"]);
        let long = format!("{}fn turn() {{\nfine", "fine, all fine\n".repeat(50));
        assert_eq!(texts(&output_lines(&long)), ["fn turn() {"]);
    }
}
