//! Facts worth carrying, found without a model.

use rustc_hash::FxHashMap;

/// What kind of fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AnchorKind {
    /// A goal, session, ticket or commit id, a UUID.
    Id,
    /// A file or folder.
    Path,
    /// An address on the web.
    Url,
    /// An error code.
    Code,
}

/// A fact that must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anchor<'t> {
    /// Its kind.
    pub kind: AnchorKind,
    /// The words, as they stand in the text.
    pub text: &'t str,
}

/// The longest word that can be an anchor; beyond it lies encoded data.
const WORD_BYTES_MAX: usize = 200;

/// Finds the anchors of a text, in the order they stand in it, repeats included.
pub fn mine(text: &str) -> impl Iterator<Item = Anchor<'_>> {
    Words { text, at: 0 }.filter_map(|word| Some(Anchor { kind: classify(word)?, text: word }))
}

/// Gives the distinct anchors of some texts, the most used first, then the most recent.
pub fn ranked<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<Anchor<'t>> {
    let mut uses: FxHashMap<Anchor<'t>, (usize, usize)> = FxHashMap::default();
    let mut order = 0;
    for anchor in texts.into_iter().flat_map(mine) {
        order += 1;
        let entry = uses.entry(anchor).or_default();
        *entry = (entry.0 + 1, order);
    }
    let mut ranked: Vec<_> = uses.into_iter().collect();
    ranked.sort_by_key(|(_, rank)| std::cmp::Reverse(*rank));
    ranked.into_iter().map(|(anchor, _)| anchor).collect()
}

/// Gives the first line that reports a failure, or else states a decision or a blocker.
pub fn telling_line(text: &str) -> Option<&str> {
    const FAILURES: &[&str] = &["error", "fatal", "panic", "failed", "failure", "exception"];
    const STATEMENTS: &[&str] =
        &["decision", "decided", "blocked", "blocker", "unblocked", "open question"];
    let panics = memchr::memmem::find(text.as_bytes(), b"panicked at").is_some();
    let mut stated = None;
    for line in text.lines() {
        if panics && line.contains("panicked at") {
            return Some(line.trim());
        }
        let start = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        // Few lines begin with a letter that any of the words begins with.
        match start.as_bytes().first().map(u8::to_ascii_lowercase) {
            Some(b'e' | b'f' | b'p') if opens_with(start, FAILURES) => return Some(line.trim()),
            Some(b'd' | b'b' | b'u' | b'o')
                if stated.is_none() && opens_with(start, STATEMENTS) =>
            {
                stated = Some(line.trim());
            }
            _ => {}
        }
    }
    stated
}

/// Whether a line begins with one of the words as a heading: `error: …`, `Decision: …`, `error[E1]…`.
fn opens_with(line: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        let heading = line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        heading && line[word.len()..].starts_with([':', '[', '(', ' '])
    })
}

/// The words of a text that may be anchors: split at what cannot be part of one, and neither too short
/// nor too long nor all letters, which most words are.
struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let start = self.at;
            let mut marks = 0;
            while let Some(class) = bytes
                .get(self.at)
                .map(|byte| CLASSES[*byte as usize])
                .filter(|class| *class != BREAK)
            {
                marks |= class;
                self.at += 1;
            }
            let end = self.at;
            self.at += 1;
            if marks & TELLING == 0
                || marks & FOREIGN != 0
                || !(3..=WORD_BYTES_MAX).contains(&(end - start))
            {
                continue;
            }
            let word = value_of(&self.text[start..end]);
            let word = word.trim_end_matches(['.', ':', '!', '?', '-', '*', '#', '/']);
            if word.len() >= 3 {
                return Some(word);
            }
        }
        None
    }
}

const BREAK: u8 = 0;
const LETTER: u8 = 1;
const TELLING: u8 = 2;
const FOREIGN: u8 = 4;

/// What each byte is to a word.
const CLASSES: [u8; 256] = {
    let mut classes = [TELLING; 256];
    let mut byte = 0;
    while byte < 256 {
        let own = byte as u8;
        if own <= b' ' || own == 0x7f {
            classes[byte] = BREAK;
        } else if own.is_ascii_alphabetic() {
            classes[byte] = LETTER;
        } else if own >= 0x80 {
            classes[byte] = FOREIGN;
        }
        byte += 1;
    }
    let breaks = b"\"'`()[]{}<>,;|\\";
    let mut at = 0;
    while at < breaks.len() {
        classes[breaks[at] as usize] = BREAK;
        at += 1;
    }
    classes
};

/// Takes `src/a.rs` from `path=src/a.rs`; an address keeps its query.
fn value_of(word: &str) -> &str {
    if word.contains("://") { word } else { word.rsplit('=').next().unwrap_or(word) }
}

fn classify(word: &str) -> Option<AnchorKind> {
    let bytes = word.as_bytes();
    if word.contains("://") {
        return Some(AnchorKind::Url);
    }
    if is_path(word) {
        return Some(AnchorKind::Path);
    }
    if is_id(bytes) {
        return Some(AnchorKind::Id);
    }
    is_code(bytes).then_some(AnchorKind::Code)
}

/// `src/main.rs`, `/etc/hosts`, `lib.rs:40`, `Cargo.toml`.
fn is_path(word: &str) -> bool {
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    if letters < 2 || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+@~:#%".contains(&b))
    {
        return false;
    }
    if word.contains('/') {
        let pieces = word.split('/').filter(|piece| !piece.is_empty()).count();
        let rooted = word.starts_with(['/', '.', '~']);
        let named = word.rsplit('/').next().is_some_and(|last| last.contains('.'));
        // "and/or" is no path.
        return !word.contains("//") && (pieces >= 3 || (pieces == 2 && (rooted || named)));
    }
    let name = word.split(':').next().unwrap_or(word);
    name.rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && is_extension(extension))
}

fn is_extension(extension: &str) -> bool {
    const KNOWN: &[&str] = &[
        "c", "cc", "cfg", "conf", "cpp", "cs", "css", "csv", "db", "go", "h", "hpp", "html", "ini",
        "java", "js", "json", "jsonl", "jsx", "kt", "lock", "log", "lua", "md", "mjs", "php",
        "proto", "py", "rb", "rs", "scss", "sh", "sql", "svelte", "swift", "toml", "ts", "tsx",
        "txt", "vue", "xml", "yaml", "yml", "zig",
    ];
    KNOWN.contains(&extension)
}

/// `g-12ab`, `s-9`, `ABC-123`, `#4512`, a commit hash, a UUID.
fn is_id(word: &[u8]) -> bool {
    let digits = word.iter().filter(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return false;
    }
    if let Some(number) = word.strip_prefix(b"#") {
        // Six digits, or three alike, are a colour.
        let colour = digits == 6 || (digits == 3 && number.iter().all(|digit| *digit == number[0]));
        return digits == number.len() && digits <= 7 && !colour;
    }
    if let Some(dash) = word.iter().position(|b| *b == b'-') {
        let (head, tail) = (&word[..dash], &word[dash + 1..]);
        let one_letter = head.len() == 1 && head[0].is_ascii_lowercase();
        let ticket = (2..=10).contains(&head.len()) && head.iter().all(u8::is_ascii_uppercase);
        let uuid = word.len() == 36
            && word.iter().enumerate().all(|(at, b)| {
                if matches!(at, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() }
            });
        let plain = |tail: &[u8]| {
            !tail.is_empty()
                && tail.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_')
        };
        // "a-zA-Z0-9" is a pattern.
        let range = word.ends_with(b"0-9") || word.ends_with(b"-Z");
        return uuid
            || (one_letter && plain(tail) && !range && tail.iter().any(u8::is_ascii_digit))
            || (ticket && !tail.is_empty() && tail.iter().all(u8::is_ascii_digit));
    }
    let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    (7..=40).contains(&word.len()) && digits < word.len() && word.iter().all(hex)
}

/// `E0308`, `TS2345`, `ERR1002`.
fn is_code(word: &[u8]) -> bool {
    let letters = word.iter().take_while(|b| b.is_ascii_uppercase()).count();
    let digits = &word[letters..];
    (1..=4).contains(&letters)
        && (3..=6).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use AnchorKind::{Code, Id, Path, Url};

    #[test]
    fn anchors_are_told_from_words() {
        let text = "see src/wheel/slot.rs:40, `Cargo.toml`; g-7f3 and s-01: JIRA-88 (#4512) at \
                    https://example.org/a?b=1 commit 9fceb02d0a — error[E0308]. either/or and/or \
                    3.5 1,000 don't v1.2.3 path=./a/b 550e8400-e29b-41d4-a716-446655440000 deadbeef";
        let found: Vec<_> = mine(text).map(|anchor| (anchor.kind, anchor.text)).collect();
        assert_eq!(
            found,
            [
                (Path, "src/wheel/slot.rs:40"),
                (Path, "Cargo.toml"),
                (Id, "g-7f3"),
                (Id, "s-01"),
                (Id, "JIRA-88"),
                (Id, "#4512"),
                (Url, "https://example.org/a?b=1"),
                (Id, "9fceb02d0a"),
                (Code, "E0308"),
                (Path, "./a/b"),
                (Id, "550e8400-e29b-41d4-a716-446655440000"),
            ]
        );
    }

    #[test]
    fn the_most_used_and_then_the_newest_come_first() {
        let ranked: Vec<_> = ranked(["a.rs b.rs", "b.rs c.rs"]).iter().map(|a| a.text).collect();
        assert_eq!(ranked, ["b.rs", "c.rs", "a.rs"]);
    }

    #[test]
    fn a_failure_tells_more_than_a_decision() {
        assert_eq!(telling_line("ok\nDecision: 512 slots\nerror: boom\n"), Some("error: boom"));
        assert_eq!(telling_line("ok\n- Blocked: no key\n"), Some("- Blocked: no key"));
        assert_eq!(telling_line("all fine"), None);
    }
}
