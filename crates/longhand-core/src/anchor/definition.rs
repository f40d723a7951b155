//! Lines of programs that define something.

/// Whether a line defines a function, a type, a constant or a module.
pub fn is_definition(line: &str) -> bool {
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
    // Most lines of a program are told apart by their first and last character.
    let begins = line.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte >= 0x80);
    let is_other = line.starts_with(['@', '#', '_', '$']) || line.ends_with('{');
    if line.len() > 400 || !(begins || is_other) {
        return false;
    }
    let has = |known: &[&str], word: &str| {
        let first = word.as_bytes().first();
        known.iter().any(|other| other.as_bytes().first() == first && *other == word)
    };
    let mut words = line.split(' ').filter(|word| !word.is_empty()).skip_while(|word| {
        has(BEFORE, word) || word.starts_with("pub(") || word.starts_with("extern")
    });
    let Some(first) = words.next() else { return false };
    let bare = first.split('(').next().unwrap_or_default();
    if has(KEYWORDS, bare) {
        let names = words.next().is_some_and(|word| word.starts_with(is_of_name));
        if names || first.contains('(') {
            return true;
        }
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

/// A line without the number that a tool wrote before it.
pub fn unnumbered(line: &str) -> &str {
    let bare = line.trim();
    let rest = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == bare.len() {
        return bare;
    }
    let after = rest.strip_prefix('→').or_else(|| rest.strip_prefix('\t'));
    after.or_else(|| rest.strip_prefix('|')).map_or(bare, str::trim)
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
}
