//! The lines of programs and outputs that tell most by themselves.

use longhand_core::anchor::{failure_line, verdict_line};

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
    /// How a command ended.
    Verdict,
    /// What a sub-agent found.
    Finding,
}

impl LineKind {
    pub(super) const ALL: [LineKind; 9] = [
        LineKind::Rule,
        LineKind::Text,
        LineKind::Definition,
        LineKind::Literal,
        LineKind::New,
        LineKind::NewDefinition,
        LineKind::Output,
        LineKind::Verdict,
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
            LineKind::Verdict => "v",
            LineKind::Finding => "f",
        }
    }

    /// What a line of this kind is worth, beside the names that only it has.
    pub(super) fn worth(self) -> f64 {
        match self {
            LineKind::Rule => 5.0,
            LineKind::Finding => 4.0,
            LineKind::NewDefinition | LineKind::Verdict => 3.0,
            LineKind::Literal | LineKind::New | LineKind::Definition => 2.0,
            LineKind::Text | LineKind::Output => 1.5,
        }
    }

    /// Whether an edit put it there.
    pub(super) fn is_new(self) -> bool {
        matches!(self, LineKind::New | LineKind::NewDefinition)
    }
}

/// The lines of a program that define names or say something to people.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = (LineKind, &str)> {
    text.lines().map(unnumbered).filter_map(|line| Some((code_kind(line)?, line)))
}

/// The lines that an edit put in the place of others.
pub(super) fn new_lines<'t>(old: &str, new: &'t str) -> Vec<(LineKind, &'t str)> {
    let before: rustc_hash::FxHashSet<&str> = old.lines().map(str::trim).collect();
    let lines = new.lines().map(str::trim).filter(|line| !before.contains(line));
    let lines = lines.filter(|line| says_something(line)).map(|line| match code_kind(line) {
        Some(_) => (LineKind::NewDefinition, line),
        None => (LineKind::New, line),
    });
    lines.collect()
}

/// The lines of an output: all of a short one, or else its verdict, its failure and its last line.
pub(super) fn output_lines(text: &str) -> Vec<(LineKind, &str)> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if text.len() <= WHOLE_BYTES_MAX && lines().count() <= WHOLE_LINES_MAX {
        return lines().map(|line| (LineKind::Output, line)).collect();
    }
    let mut found: Vec<(LineKind, &str)> = Vec::new();
    let telling = [failure_line(text).map(|(line, _)| line), verdict_line(text)];
    for line in telling.into_iter().flatten().map(str::trim) {
        if !found.iter().any(|(_, known)| *known == line) {
            found.push((LineKind::Verdict, line));
        }
    }
    found
}

/// What a line of a program tells; `None` if it tells nothing by itself.
fn code_kind(line: &str) -> Option<LineKind> {
    if is_definition(line) {
        return Some(LineKind::Definition);
    }
    speaks(line).then_some(LineKind::Literal)
}

/// A line without the number that a tool wrote before it.
pub(super) fn unnumbered(line: &str) -> &str {
    let bare = line.trim();
    let rest = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == bare.len() {
        return bare;
    }
    let after = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'));
    after.or_else(|| rest.strip_prefix('|')).map_or(bare, str::trim)
}

/// Whether a line defines a function, a type, a constant or a module.
pub(super) fn is_definition(line: &str) -> bool {
    #[rustfmt::skip]
    const BEFORE: &[&str] = &[
        "pub", "export", "default", "async", "static", "private", "public", "protected", "final", "abstract",
        "override", "unsafe", "extern", "declare", "readonly", "inline", "virtual", "local", "internal",
    ];
    #[rustfmt::skip]
    const KEYWORDS: &[&str] = &[
        "fn", "def", "defp", "defmodule", "defmacro", "defmacrop", "defstruct", "class", "struct", "enum", "trait", "impl",
        "interface", "type", "func", "function", "function*", "module", "namespace", "macro_rules!", "union", "record",
        "protocol", "object", "constructor", "sub", "proc", "const", "val", "CREATE", "create", "table", "resource",
    ];
    if line.len() > 400 {
        return false;
    }
    let mut words = line.split_whitespace().skip_while(|word| {
        BEFORE.contains(word) || word.starts_with("pub(") || word.starts_with("extern")
    });
    let Some(first) = words.next() else { return false };
    let bare = first.split('(').next().unwrap_or_default();
    let names = words.next().is_some_and(|word| word.starts_with(is_of_name));
    if KEYWORDS.contains(&bare) && (names || first.contains('(')) {
        return true;
    }
    first.starts_with("#define") || is_attribute(line) || is_constant(line) || is_method(line)
}

/// Whether a line gives a module attribute a value: `@limit 5`.
fn is_attribute(line: &str) -> bool {
    let Some((name, value)) = line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) else {
        return false;
    };
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        && !matches!(name, "doc" | "moduledoc" | "impl" | "spec" | "param" | "return" | "returns")
        && !value.is_empty()
}

/// Whether a line gives a name in capitals a value: `LIMIT = 5`.
fn is_constant(line: &str) -> bool {
    let end = line.find(|c: char| !c.is_ascii_uppercase() && c != '_' && !c.is_ascii_digit());
    let Some(end) = end.filter(|end| *end >= 3) else { return false };
    let rest = line[end..].trim_start();
    (rest.starts_with('=') && !rest.starts_with("==")) || rest.starts_with(": ")
}

/// Whether a line opens a method without a keyword: `render(width: number): string[] {`.
fn is_method(line: &str) -> bool {
    const CONTROL: &[&str] = &[
        "if", "for", "while", "switch", "catch", "return", "match", "else", "do", "with", "unless",
        "it", "test", "describe",
    ];
    let Some((name, rest)) = line.split_once('(') else { return false };
    let name = name.rsplit(' ').next().unwrap_or_default();
    line.ends_with('{')
        && !rest.contains("=>")
        && !name.is_empty()
        && name.chars().all(is_of_name)
        && !CONTROL.contains(&name)
        && !CONTROL.contains(&line.split([' ', '(']).next().unwrap_or_default())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '"' | '\'' | '<' | '&' | '*' | '(')
}

/// Whether a line has a text for people in quotes: at least three words.
fn speaks(line: &str) -> bool {
    const WORDS_MIN: usize = 3;
    for mark in ['"', '\'', '`'] {
        let mut parts = line.split(mark).skip(1);
        while let Some(inside) = parts.next() {
            let words = inside.split(' ').filter(|word| {
                word.len() > 1
                    && word.bytes().filter(u8::is_ascii_alphabetic).count() * 4 >= word.len() * 3
            });
            if words.count() >= WORDS_MIN && inside.len() < 300 {
                return true;
            }
            parts.next();
        }
    }
    false
}

/// Whether a line of an edit says something by itself.
fn says_something(line: &str) -> bool {
    const BYTES_MIN: usize = 10;
    const TERMS_MIN: usize = 3;
    const IMPORTS: &[&str] =
        &["import ", "use ", "using ", "from ", "#include", "require ", "alias "];
    line.len() >= BYTES_MIN
        && (crate::terms::terms(line).len() >= TERMS_MIN || is_definition(line))
        && line.bytes().filter(u8::is_ascii_alphanumeric).count() * 2 >= line.len().min(80)
        && !IMPORTS.iter().any(|import| line.starts_with(import))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_known_in_many_languages() {
        for line in [
            "pub(crate) fn drain(&mut self) -> usize {",
            "defp classify(line, _state) do",
            "export interface Wheel {",
            "export const slots = 512;",
            "@max_slots 512",
            "MAX_SLOTS = 512",
            "func (w *Wheel) Turn(n int) error {",
            "async turn(count: number): Promise<void> {",
            "constructor(ui: Ui, private slots: number) {",
            "class Wheel:",
        ] {
            assert!(is_definition(line), "{line}");
        }
        for line in [
            "if (slots > 512) {",
            "let slots = wheel.len();",
            "it('turns', () => {",
            "} else if (a) {",
            "return turn(3)",
            "LIMIT == 3",
            "@doc \"turns\"",
        ] {
            assert!(!is_definition(line), "{line}");
        }
    }

    #[test]
    fn what_is_said_to_people_is_found() {
        let code = "  12→  let a = 1;\n  13→  throw new Error(`Slot not found: ${slot}`);\n  14→  log(\"ok\")";
        let found: Vec<_> = code_lines(code).collect();
        assert_eq!(found, [(LineKind::Literal, "throw new Error(`Slot not found: ${slot}`);")]);
    }

    #[test]
    fn an_edit_is_told_by_what_is_new() {
        let found =
            new_lines("a = 1\nlong_name = old_value", "a = 1\nlong_name = new_value\n}\nend");
        assert_eq!(found, [(LineKind::New, "long_name = new_value")]);
    }

    #[test]
    fn a_short_output_is_told_whole_and_a_long_one_by_its_verdict() {
        assert_eq!(output_lines("one\n\ntwo\n").len(), 2);
        let long = format!("{}error: no wheel\n3 passed; 1 failed", "fine, all fine\n".repeat(50));
        let found: Vec<_> = output_lines(&long).into_iter().map(|(_, line)| line).collect();
        assert_eq!(found, ["error: no wheel", "3 passed; 1 failed"]);
    }
}
