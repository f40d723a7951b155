//! Lines of programs that define something.

use crate::cut;

/// The longest word that is known, in bytes.
const WORD_BYTES_MAX: usize = "macro_rules!".len();

/// The longest line that may define something, in bytes.
const LINE_BYTES_MAX: usize = 400;

/// Whether a line defines a function, a type, a constant or a module.
pub fn is_definition(line: &str) -> bool {
    let Some(begin) = line.bytes().next().filter(|_| line.len() <= LINE_BYTES_MAX) else {
        return false;
    };
    // Most lines of a program are told apart by their first and last character.
    let is_open = line.ends_with('{');
    let begins = begin.is_ascii_alphabetic() || begin >= 0x80;
    if !(begins || is_open || matches!(begin, b'@' | b'#' | b'_' | b'$')) {
        return false;
    }
    has_keyword(line)
        || line.starts_with("#define")
        || is_attribute(line)
        || is_constant(line)
        || (is_open && is_method(line))
}

/// Whether a line begins with the keyword of a definition, and names something.
fn has_keyword(line: &str) -> bool {
    let mut rest = line;
    loop {
        // A word that is longer is none of those that are known.
        let ends = |byte: u8| byte == b' ' || byte == b'(';
        let Some(end) = rest.bytes().take(WORD_BYTES_MAX + 1).position(ends) else { return false };
        let (word, after) = rest.split_at(end);
        if is_keyword(word) {
            return after.trim_start_matches(' ').starts_with(is_of_name);
        }
        let is_visible = word == "pub" || after.starts_with(' ');
        if !(is_visible && is_before_keyword(word)) {
            return false;
        }
        let Some(end) = after.bytes().position(|byte| byte == b' ') else { return false };
        rest = after[end..].trim_start_matches(' ');
    }
}

/// Whether a word may stand before the keyword of a definition.
fn is_before_keyword(word: &str) -> bool {
    #[rustfmt::skip]
    let is_known = matches!(
        word,
        "pub" | "export" | "default" | "async" | "static" | "private" | "public" | "protected" | "final" | "abstract"
            | "override" | "unsafe" | "declare" | "readonly" | "inline" | "virtual" | "local" | "internal"
    );
    is_known || word.starts_with("extern")
}

/// Whether a definition begins with a word.
#[rustfmt::skip]
fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "fn" | "def" | "defp" | "defmodule" | "defmacro" | "defmacrop" | "defstruct" | "class" | "struct" | "enum" | "trait"
            | "impl" | "interface" | "type" | "func" | "function" | "function*" | "module" | "namespace" | "macro_rules!"
            | "union" | "record" | "protocol" | "object" | "constructor" | "sub" | "proc" | "const" | "val" | "CREATE"
            | "create" | "table" | "resource"
    )
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
    let Some(rest) = line.strip_suffix('{') else { return false };
    let Some((name, rest)) = rest.split_once('(') else { return false };
    let name = name.rsplit(' ').next().unwrap_or_default();
    !rest.contains("=>")
        && !name.is_empty()
        && name.chars().all(is_of_name)
        && !CONTROL.contains(&name)
        && !CONTROL.contains(&line.split([' ', '(']).next().unwrap_or_default())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#' | '"' | '\'' | '<' | '&' | '*' | '(')
}

/// A line without the number that a tool wrote before it, and without the blanks around it.
pub fn unnumbered(line: &str) -> &str {
    cut::trim(after_number(line))
}

/// What follows the number that a tool wrote before a line, with its blanks.
pub fn after_number(line: &str) -> &str {
    let number = line.trim_ascii_start();
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return line;
    }
    let rest = &number[digits..];
    rest.strip_prefix('→').or_else(|| rest.strip_prefix(['\t', '|'])).unwrap_or(line)
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
            "pub(crate)  async   fn turn()",
            "sub turn {",
            "func() {",
            "#define SLOTS 512",
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
            "pub",
            "function",
            "type = 3",
            "export(slots)",
            "macro_rules_of_the_wheel fn",
        ] {
            assert!(!is_definition(line), "{line}");
        }
    }
}
