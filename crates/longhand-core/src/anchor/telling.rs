//! The line of an output that tells most.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::cut;

/// How many places are looked at for each sign.
const HITS_MAX: usize = 64;

/// The most bytes of a line in which a sign may stand.
const LINE_BYTES_MAX: usize = 2_000;

/// The rank of a panic and of what a log calls fatal.
const GRAVE: u8 = 3;

/// Whether a line with the sign at a place reports a failure.
type SignTest = fn(&str, usize) -> bool;

/// Signs of a failure, the gravest first; of two with the same rank, the position in the text decides.
///
/// Each has a part that it may share with others: a text without the part is not searched for the sign.
const SIGNS: &[(u8, &str, &str, SignTest)] = &[
    (GRAVE, "panicked at", "panic", |_, _| true),
    (GRAVE, "FATAL", "FA", is_level),
    (GRAVE, "fatal", "atal", is_heading),
    (GRAVE, "=fatal", "atal", is_level_value),
    (GRAVE, "\"fatal\"", "atal", is_level_value),
    (GRAVE, "CRITICAL", "CRITICAL", is_level),
    (GRAVE, "Fatal", "atal", is_heading),
    (2, "rror", "rror", is_error),
    (2, "ERROR", "ERR", is_level),
    (2, "ERR", "ERR", is_level),
    (2, "xception", "xception", is_error),
    (2, "panic", "panic", is_heading),
    (1, "FAIL", "FA", is_level),
    (1, "ailed", "ail", is_heading),
    (1, "ailure", "ail", is_heading),
    (1, " failed", "ail", is_outcome),
];

/// The line that reports the gravest failure, the first of its kind, and whether it is grave: a panic
/// or what a log calls fatal.
pub fn failure_line(text: &str) -> Option<(&str, bool)> {
    gravest_line(text, 0).map(|(line, rank)| (line, rank == GRAVE))
}

/// The first line that reports a panic or what a log calls fatal.
pub fn grave_line(text: &str) -> Option<&str> {
    gravest_line(text, GRAVE).map(|(line, _)| line)
}

/// The line with the gravest sign of at least some rank, and its rank.
fn gravest_line(text: &str, rank_min: u8) -> Option<(&str, u8)> {
    static SEARCHES: LazyLock<Vec<SignSearch>> =
        LazyLock::new(|| SIGNS.iter().map(search).collect());
    let mut best: Option<(u8, usize, &str)> = None;
    let mut has_part = [None; SIGNS.len()];
    for (&(rank, _, _, is_failure), search) in SIGNS.iter().zip(SEARCHES.iter()) {
        if rank < rank_min || best.is_some_and(|best| best.0 > rank) {
            break;
        }
        let has_part = &mut has_part[search.sharer];
        if !*has_part.get_or_insert_with(|| search.part.find(text.as_bytes()).is_some()) {
            continue;
        }
        let hits = search.sign.find_iter(text.as_bytes()).take(HITS_MAX);
        let found =
            hits.filter_map(|at| line_at(text, at)).find(|(line, at)| is_failure(line, *at));
        if let Some((line, _)) = found {
            let start = line.as_ptr().addr() - text.as_ptr().addr();
            if best.is_none_or(|(_, before, _)| start < before) {
                best = Some((rank, start, line));
            }
        }
    }
    best.map(|(rank, _, line)| (line.trim(), rank))
}

/// How a sign is looked for.
struct SignSearch {
    sign: Finder<'static>,
    part: Finder<'static>,
    /// The first sign that has the same part.
    sharer: usize,
}

fn search(&(_, sign, part, _): &(u8, &'static str, &'static str, SignTest)) -> SignSearch {
    let sharer = SIGNS.iter().position(|(_, _, other, _)| *other == part).unwrap_or_default();
    SignSearch { sign: Finder::new(sign), part: Finder::new(part), sharer }
}

/// Gives the line that reports the gravest failure, or else states a decision or a blocker.
pub fn telling_line(text: &str) -> Option<&str> {
    const STATEMENTS: &[&str] =
        &["decision", "decided", "blocked", "blocker", "unblocked", "open question"];
    if let Some((line, _)) = failure_line(text) {
        return Some(line);
    }
    text.lines().map(str::trim).find(|line| {
        let start = line.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        // Few lines begin with a letter that any of the words begins with.
        matches!(
            start.as_bytes().first(),
            Some(b'd' | b'b' | b'u' | b'o' | b'D' | b'B' | b'U' | b'O')
        ) && STATEMENTS.iter().any(|word| {
            start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
                && start[word.len()..].starts_with([':', '[', '(', ' '])
        })
    })
}

/// The line around a place, and where the place is in it.
fn line_at(text: &str, at: usize) -> Option<(&str, usize)> {
    let bytes = text.as_bytes();
    let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |before| before + 1);
    let end = memchr::memchr(b'\n', &bytes[at..]).map_or(text.len(), |end| at + end);
    (at - start <= LINE_BYTES_MAX)
        .then(|| (cut::head(&text[start..end], LINE_BYTES_MAX), at - start))
}

/// Whether a word in capitals stands where a log has its level: before any prose or code.
fn is_level(line: &str, at: usize) -> bool {
    let (before, rest) = line.split_at(at);
    let word = rest.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(rest.len());
    let known = matches!(&rest[..word], "FATAL" | "CRITICAL" | "ERROR" | "ERR" | "FAIL" | "FAILED");
    known
        && !rest[word..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !before.contains(['"', '\'', '(', '=', '`', '{', '$', ';'])
        // Words before a level are the names of hosts and parts.
        && before.split_whitespace().count() <= 5
}

/// Whether a word is the value of a level: `level=fatal`, `"severity":"fatal"`.
fn is_level_value(line: &str, at: usize) -> bool {
    let key = line[..at].trim_end_matches(['"', '\'', ' ', ':', '=']);
    ["level", "lvl", "severity"].iter().any(|name| key.ends_with(name))
}

/// Whether a word opens its line, in lower case or not, as a heading.
fn is_heading(line: &str, at: usize) -> bool {
    let start = line[..at].trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let end =
        line[at..].find(|c: char| !c.is_ascii_alphabetic()).map_or(line.len(), |end| at + end);
    let opens = line[..start].chars().all(|c| !c.is_alphanumeric());
    let word = &line[start..end];
    opens
        && ["fatal", "panic", "failed", "failure"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known))
        && line[end..].starts_with([':', '[', '(', ' '])
}

/// Whether a line says in few words that something failed: `pre-commit hook failed (code 2)`, `Automatic merge failed;`.
fn is_outcome(line: &str, at: usize) -> bool {
    const WORDS_MAX: usize = 5;
    const ENDS: &[&str] = &[":", ";", ",", " (", " with ", "!"];
    // A number is a count, and a program or a list only speaks of failures.
    let is_plain = |word: &str| {
        let is_number = word.bytes().any(|byte| byte.is_ascii_digit())
            && !word.bytes().any(|byte| byte.is_ascii_alphabetic());
        !is_number && !word.contains(['"', '(', '{', '$'])
    };
    let before = line[..at].trim();
    let rest = &line[at + " failed".len()..];
    let counts_none = rest.trim_start_matches(':').trim_start().starts_with('0');
    before.starts_with(|c: char| c.is_ascii_alphabetic() || c == '[')
        && before.split_whitespace().count() <= WORDS_MAX
        && before.split_whitespace().all(is_plain)
        && (rest.trim_end().is_empty() || ENDS.iter().any(|end| rest.starts_with(end)))
        && !counts_none
}

/// Whether an error is named as one: `error: …`, `TypeError: …`, `a.ts(3,1): error TS1: …`.
fn is_error(line: &str, at: usize) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let start = line[..at].trim_end_matches(is_of_name).len();
    let rest = &line[at..];
    let after = &rest[rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len())..];
    // `set_error(span)` is called in a program.
    if after.starts_with('(') && line[start..at].contains('_') {
        return false;
    }
    let before = line[..start].trim_end();
    let opens = before.chars().all(|c| !c.is_alphanumeric())
        // A place comes before it, or the mark of a test that failed.
        || before.ends_with(':')
        || matches!(before, "E" | "npm" | "**");
    opens
        && (after.starts_with([':', '[', '(']) || (before.ends_with(':') && after.starts_with(' ')))
        || (opens && start == 0 && after.starts_with(' ') && line.starts_with("error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(telling_line(text), expected);
    }

    #[test]
    fn a_failure_tells_more_than_a_decision() {
        check("ok\nDecision: 512 slots\nerror: boom\n", Some("error: boom"));
        check("ok\n- Blocked: no key\n", Some("- Blocked: no key"));
        check("all fine", None);
        check("- `set_error(span, reason)` to have one way\n", None);
        check("json.JSONDecodeError(line 1)\n", Some("json.JSONDecodeError(line 1)"));
    }

    #[test]
    fn one_line_is_found_among_thousands() {
        let info = "2026-03-01T10:00:00Z INFO  web-1 http: GET /errors/fatal 200, error_rate=0\n"
            .repeat(800);
        let fatal = "2026-03-01T10:00:07Z FATAL web-1 db: connection pool exhausted (17 of 17)";
        check(&format!("{info}{fatal}\n{info}2026 ERROR later\n"), Some(fatal));
        assert_eq!(failure_line(&format!("{info}{fatal}")), Some((fatal, true)));
        assert_eq!(grave_line(&format!("{info}2026 ERROR first\n{fatal}\n")), Some(fatal));
        assert_eq!(grave_line(&format!("{info}2026 ERROR first\n")), None);
        for fatal in ["ts=1 level=fatal msg=\"disk is full\"", r#"{"severity": "fatal", "id": 7}"#]
        {
            assert_eq!(grave_line(&format!("{info}{fatal}\n")), Some(fatal));
        }
        check(&info, None);
    }

    #[test]
    fn the_gravest_failure_is_told_and_the_first_of_its_kind() {
        check(
            "error: a\nerror: b\nthread 'x' panicked at src/a.rs:1:2:\n",
            Some("thread 'x' panicked at src/a.rs:1:2:"),
        );
        check(
            "src/a.ts(3,1): error TS2304: no x\nfound",
            Some("src/a.ts(3,1): error TS2304: no x"),
        );
        check(
            "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'",
            Some("KeyError: 'x'"),
        );
        check("E   AssertionError: 1 != 2", Some("E   AssertionError: 1 != 2"));
        check("FAILED tests/a.py::b - x", Some("FAILED tests/a.py::b - x"));
        check("error[E0308]: mismatched", Some("error[E0308]: mismatched"));
    }

    #[test]
    fn what_failed_may_be_named_before() {
        for line in [
            "Pre-commit validation failed:",
            "husky - pre-commit script failed (code 2)",
            "Automatic merge failed; fix conflicts and then commit the result.",
            "Build failed with 3 problems",
            "Assertion with == failed",
        ] {
            check(&format!("one\n{line}\ntwo"), Some(line));
        }
        for line in [
            "12 passed, 0 failed",
            "Tests failed: 0",
            "- Never stop because the hook failed.",
            "  log.warn(\"the hook failed: %s\", name)",
            "what was done when the last of all of them failed",
            "we retry the failed jobs",
        ] {
            check(&format!("one\n{line}\ntwo"), None);
        }
    }

    #[test]
    fn code_that_speaks_of_errors_reports_none() {
        check("    return Err(MyError::new(\"FATAL\"));\nfn error() {}\n// errors are fine", None);
        check("0 errors, 0 failed", None);
        check("let error = 3;", None);
    }
}
