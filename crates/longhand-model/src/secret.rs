//! Keys, which are used and never shown.

use std::fmt;

/// A key. It can be sent and cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a key; white space around it, such as the end of a file's line, is left out.
    ///
    /// An empty key is none.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The most of a provider's message that an error holds.
const MESSAGE_CHARS_MAX: usize = 400;

/// Makes a provider's message safe to show: one line, not too long, without the key that was sent and without text
/// that looks like a key.
pub(crate) fn presentable(message: &str, key: Option<&Secret>) -> String {
    let mut text = message.to_owned();
    if let Some(key) = key {
        text = text.replace(key.expose(), "[key]");
    }
    let mut out = String::new();
    let mut bearer = false;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        if bearer && word.len() >= 8 {
            out.push_str("[key]");
        } else {
            push_without_keys(word, &mut out);
        }
        bearer = word.to_ascii_lowercase().ends_with("bearer");
    }
    if let Some((end, _)) = out.char_indices().nth(MESSAGE_CHARS_MAX) {
        out.truncate(end);
        out.push('…');
    }
    out
}

/// How keys of the well-known providers begin.
const KEY_STARTS: &[&str] = &["sk-", "sk_", "xai-", "gsk_", "AIza", "hf_", "key-"];

fn push_without_keys(word: &str, out: &mut String) {
    let is_of_a_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
    let mut rest = word;
    while let Some(start) = rest.find(is_of_a_key) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_of_a_key(c)).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        out.push_str(before);
        let looks = run.len() >= 12 && KEY_STARTS.iter().any(|start| run.starts_with(start));
        out.push_str(if looks { "[key]" } else { run });
        rest = after;
    }
    out.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = Secret::new(" sk-very-secret\n").unwrap();
        assert_eq!(format!("{key:?} {key} {:?}", Some(&key)), "Secret(…) … Some(Secret(…))");
        assert_eq!(key.expose(), "sk-very-secret");
        assert_eq!(Secret::new(" \n"), None);
    }

    #[test]
    fn messages_are_shown_without_keys() {
        let key = Secret::new("plain/key+1");
        for (message, shown) in [
            ("no such key: plain/key+1!", "no such key: [key]!"),
            ("a\n\tb\u{1b}c", "a b c"),
            ("Incorrect API key: sk-proj-abcdef****1234.", "Incorrect API key: [key]"),
            ("header 'Authorization: Bearer abcdefgh123'", "header 'Authorization: Bearer [key]"),
            ("model sk-1 is new", "model sk-1 is new"),
            ("\"xai-0123456789abc\",", "\"[key]\","),
        ] {
            assert_eq!(presentable(message, key.as_ref()), shown);
        }
        let long = presentable(&"é".repeat(9_000), None);
        assert_eq!(long.chars().count(), MESSAGE_CHARS_MAX + 1);
    }
}
