//! Strings that name something: what a model must spell right to use it again.

/// The fewest and the most bytes of an identifier.
const BYTES_MIN: usize = 3;
const BYTES_MAX: usize = 120;

/// The identifiers of a text, repeats included: runs of letters, digits and `_./:@#-` with a digit or a mark inside.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at;
            let mut marks = 0;
            while let Some(class) = bytes.get(at).map(|byte| CLASSES[*byte as usize])
                && class != BREAK
            {
                marks |= class;
                at += 1;
            }
            let end = at;
            // A key of JSON names no thing.
            let is_key = bytes[end..].starts_with(b"\":") || bytes[end..].starts_with(b"\\\":");
            // What is written as an escape is not the first letter of a word.
            at += if bytes.get(end) == Some(&b'\\') { 2 } else { 1 };
            // Nor does the tag of an element.
            let is_tag = start > 0
                && bytes[start - 1] == b'<'
                && matches!(bytes.get(end), Some(b'>' | b' '));
            if is_key || is_tag {
                continue;
            }
            let is_long = end - start >= BYTES_MIN;
            if is_long && marks & (DIGIT | MARK) != 0 && end - start <= BYTES_MAX {
                let run =
                    without_prefix(&text[start..end], start.checked_sub(1).map(|at| bytes[at]));
                let name = trimmed(run);
                if is_name(name) {
                    return Some(name);
                }
            }
        }
        None
    })
}

/// A run without what a terminal or a search put before it: `2mCompacted` after `[`, `24:import`.
fn without_prefix(run: &str, before: Option<u8>) -> &str {
    let rest = run.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < run.len();
    let colour = rest.strip_prefix('m').filter(|_| matches!(before, Some(b'[' | b';')));
    let searched = rest.strip_prefix(':').filter(|rest| rest.starts_with(char::is_alphabetic));
    colour.or(searched).filter(|_| is_number).unwrap_or(run)
}

/// A run without the marks around it that belong to the sentence.
///
/// What a path, an id, a selector or an atom begins with is part of its name (`/etc`, `#12`, `.badge`,
/// `:ok`), and so is the slash at the end of a folder.
fn trimmed(run: &str) -> &str {
    let rest = run.trim_end_matches(['.', ':', '-', '#', '@', '/']);
    let end = rest.len() + usize::from(run[rest.len()..].starts_with('/'));
    let name = rest.trim_start_matches(['.', ':', '-', '#', '/', '@']);
    let start = rest.len() - name.len();
    let keeps_mark = start > 0 && run[start - 1..].starts_with(['/', '#', '@', '.', ':']);
    // `::` and `..` lead from one name to another.
    let is_single =
        keeps_mark && (start < 2 || run.as_bytes()[start - 1] != run.as_bytes()[start - 2]);
    if name.is_empty() { name } else { &run[start - usize::from(is_single)..end] }
}

/// Whether a run names something, and is no number or duration.
fn is_name(run: &str) -> bool {
    // A mark in front makes no name of a word: `.collect`, `:ok`.
    let run = run.strip_prefix(['.', ':']).unwrap_or(run);
    if run.len() < 5 {
        // Short ids: `g-7`, `#12`.
        let (head, number) = run.split_at(run.find(['-', '#']).unwrap_or(run.len()));
        return number.len() > 1
            && number[1..].bytes().any(|byte| byte.is_ascii_digit())
            && number[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
            && head.bytes().all(|byte| byte.is_ascii_alphabetic())
            && (!head.is_empty() || number.starts_with('#'));
    }
    // What may be done with a file: `drwxr-xr-x`.
    if run.bytes().all(|byte| b"drwx-".contains(&byte)) {
        return false;
    }
    let letters = run.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = run.bytes().filter(u8::is_ascii_digit).count();
    if letters == 0 && is_date(run) {
        return true;
    }
    if letters == 0 {
        // A long number may be an id.
        return digits == run.len() && digits >= 6;
    }
    let marks = run.len() - letters - digits;
    if digits == 0 {
        // `and/or` and `e.g.` name nothing; a dash alone joins words.
        return marks > 0 && run.bytes().any(|byte| b"_./:@#-".contains(&byte));
    }
    // The hash of a commit.
    if marks == 0 && run.len() >= 7 {
        return run.bytes().all(|byte| byte.is_ascii_hexdigit()) || letters > 2;
    }
    // `1.8s`, `75ms`, `0.75rem`, `2026-01-02T10:00:00Z`, `v0.9.1`.
    let unit = run.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_figure = unit.len() < run.len() && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_figure {
        return false;
    }
    letters > 2 || (run.starts_with(|c: char| c.is_ascii_alphabetic()) && !run.starts_with('v'))
}

/// `2026-05-12`: bookings and appointments are told apart by such.
fn is_date(run: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| {
        if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
    };
    run.len() == 10 && run.bytes().enumerate().all(fits)
}

const BREAK: u8 = 0;
const LETTER: u8 = 1;
const DIGIT: u8 = 2;
const MARK: u8 = 4;
const JOIN: u8 = 8;

/// What each byte is to a name.
const CLASSES: [u8; 256] = {
    let mut classes = [BREAK; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' | b'a'..=b'z' => LETTER,
            b'0'..=b'9' => DIGIT,
            b'_' | b'.' | b'/' | b'-' => MARK,
            b':' | b'@' | b'#' => JOIN,
            _ => BREAK,
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_numbers() {
        let text = "see src/wheel.rs:40, TW-659 (commit 3785c574) in 1.8s, 75ms, 0.75rem, v0.9.1 at \
                    2026-01-02; max_retries, 128 bits, /etc/hosts. 1234567 and 12345, g-7, #12, a-b, 3-4 {\"in_json\":1} \\tin_tab <a-tag></a-tag>";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(
            found,
            [
                "src/wheel.rs:40",
                "TW-659",
                "3785c574",
                "2026-01-02",
                "max_retries",
                "/etc/hosts",
                "1234567",
                "g-7",
                "#12",
                "in_tab"
            ]
        );
    }

    #[test]
    fn what_terminals_and_searches_add_is_left_out() {
        let text = "\u{1b}[2mCompacted\u{1b}[38;5;68mbatch_processor 24:import 57:read_all drwxr-xr-x -rw-r--r-- 2mmm_x";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(found, ["batch_processor", "read_all", "2mmm_x"]);
    }
}
