//! Text of a known size.

use crate::rng::Rng;

/// Each is one token of o200k, alone and after a space.
const WORDS: &[&str] = &[
    "alpha", "and", "back", "base", "block", "body", "build", "call", "case", "change", "check",
    "class", "code", "count", "data", "day", "done", "end", "error", "event", "file", "first",
    "for", "form", "group", "hand", "head", "home", "input", "item", "key", "last", "left",
    "level", "line", "list", "main", "map", "name", "new", "next", "node", "note", "open", "order",
    "page", "part", "path", "point", "query", "read", "result", "right", "role", "root", "run",
    "set", "side", "size", "space", "start", "state", "step", "table", "task", "test", "text",
    "time", "token", "tree", "type", "unit", "user", "value", "view", "word", "work", "year",
];

/// Returns exactly `count` words, with a space between them.
pub fn words(count: usize, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::with_capacity(count * 6);
    for number in 0..count {
        if number > 0 {
            text.push(' ');
        }
        let word = *rng.choose(WORDS);
        text.push_str(word);
    }
    text
}

/// Returns exactly `count` characters of words, neither beginning nor ending with a space.
pub fn characters(count: usize, seed: u64) -> String {
    let mut text = words(count / 3 + 1, seed);
    text.truncate(count);
    if text.ends_with(' ') {
        text.pop();
        text.push('s');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_exactly() {
        for count in [0, 1, 2, 900] {
            assert_eq!(words(count, 4).split_whitespace().count(), count);
        }
    }

    #[test]
    fn characters_are_counted_exactly() {
        for count in 0..400 {
            let text = characters(count, 4);
            assert_eq!(text.len(), count);
            assert_eq!(text.trim(), text);
        }
    }

    #[test]
    fn another_seed_gives_another_text() {
        assert_ne!(words(20, 1), words(20, 2));
    }
}
