//! Words that name one thing: ids, paths, addresses, codes.

use super::word::{COLON, DIGIT, DOT, SLASH, Word};
use super::{Anchor, AnchorKind};

/// Finds what a word names, if it names anything.
pub(super) fn name(word: Word) -> Option<Anchor> {
    // What a word has not, it need not be searched for.
    let addressed = word.has(COLON | SLASH);
    let filed = word.has(SLASH) || word.has(DOT);
    let counted = word.has(DIGIT);
    if !(filed || counted) {
        return None;
    }
    let text = word.bare()?;
    let kind = if addressed && text.contains("://") {
        AnchorKind::Url
    } else if filed && is_path(text) {
        AnchorKind::Path
    } else if counted && is_id(text.as_bytes()) {
        AnchorKind::Id
    } else if counted && is_code(text.as_bytes()) {
        AnchorKind::Code
    } else {
        return None;
    };
    Some(Anchor { kind, text })
}

/// `src/main.rs`, `/etc/hosts`, `lib.rs:40`, `Cargo.toml`.
fn is_path(word: &str) -> bool {
    let mut letters = 0;
    for byte in word.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' => letters += 1,
            b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'+' | b'@' | b'~' | b':' | b'#' | b'%' => {}
            _ => return false,
        }
    }
    if letters < 2 {
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
