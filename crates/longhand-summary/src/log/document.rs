//! Documents: texts for people that say what is to be done, and how.

use std::sync::LazyLock;

use longhand_core::anchor::{SentenceForm, sentences};

use super::finding::Phrases;
use super::lines::LineKind;

/// A text with fewer words is no document.
const WORDS_MIN: usize = 40;

/// So many words have more bytes, with the blanks between them.
pub(super) const DOCUMENT_BYTES_MIN: usize = 2 * WORDS_MIN - 1;

/// The most lines that are kept of a document.
const LINES_MAX: usize = 48;

/// How many sentences of a text are looked at to tell what it is.
const SENTENCES_MAX: usize = 300;

/// The most bytes of a heading.
const HEADING_BYTES_MAX: usize = 60;

/// A line of a document, and the heading that it stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DocumentLine<'t> {
    pub(super) heading: &'t str,
    pub(super) kind: LineKind,
    pub(super) text: &'t str,
}

/// Words of a sentence that orders, forbids or limits.
#[rustfmt::skip]
static ORDERS: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[(1, &[
    "must", "mustn't", "never", "only", "without", "default", "defaults", "do not", "don't", "no", "not", "avoid", "shall",
    "should", "always", "exactly", "at least", "at most", "unless", "instead", "required", "requires", "keep",
    "unchanged", "preserve", "ensure", "forbidden", "allowed", "limit", "until", "before", "backward", "then",
])]));

/// Words of a heading under which every line orders or forbids.
#[rustfmt::skip]
static ORDERING: LazyLock<Phrases> = LazyLock::new(|| Phrases::of(&[(1, &[
    "no-go", "no-gos", "no gos", "non-goal", "non-goals", "out of scope", "constraint", "constraints", "requirement",
    "requirements", "acceptance", "criteria", "definition of done", "done", "rule", "rules", "limits", "scope", "decision",
    "decisions", "edge cases", "rabbit holes", "must", "never", "do not", "don't", "open", "todo", "success",
])]));

/// Whether a text is written for people: sentences, lists and headings, other than a log, a listing or a program.
pub(super) fn is_document(text: &str) -> bool {
    if text.len() < DOCUMENT_BYTES_MIN {
        return false;
    }
    let (mut prose, mut all, mut headings, mut words, mut ends) = (0, 0, 0, 0, 0);
    for sentence in sentences(text).take(SENTENCES_MAX) {
        let count = sentence.text.split_whitespace().count();
        all += 1;
        words += count;
        match sentence.form {
            SentenceForm::Heading => headings += 1,
            SentenceForm::Item => prose += 1,
            SentenceForm::Prose if count >= 5 => prose += 1,
            _ => {}
        }
        ends += usize::from(count >= 5 && is_ended(sentence.text));
    }
    words >= WORDS_MIN && prose * 2 >= all && (headings >= 2 || ends * 3 >= all)
}

/// Whether a sentence ends as people end one: a sign behind a word, other than the name of a folder.
fn is_ended(sentence: &str) -> bool {
    let bare = sentence.trim_end_matches(['.', '!', '?', ':']);
    bare.len() < sentence.len()
        && bare
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, ')' | '"' | '\'' | '`' | '*'))
}

/// Whether a text has headings, as documents that a command prints have.
pub(super) fn has_headings(text: &str) -> bool {
    let all = sentences(text).take(SENTENCES_MAX);
    all.filter(|sentence| sentence.form == SentenceForm::Heading).nth(1).is_some()
}

/// Whether the name of a file is that of a text for people.
pub(super) fn names_a_document(path: &str) -> bool {
    const ENDINGS: &[&str] = &["md", "mdx", "txt", "rst", "adoc", "org", "markdown"];
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, ending)) => ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)),
        None => true,
    }
}

/// The lines of a document that tell most: those that order or forbid first, then the others in order.
pub(super) fn document_lines(text: &str) -> Vec<DocumentLine<'_>> {
    let mut heading = "";
    let mut found: Vec<DocumentLine> = Vec::new();
    for sentence in sentences(text) {
        let line = sentence.text;
        if sentence.form == SentenceForm::Heading || is_heading(line) {
            heading = line.trim_matches(['*', ':', '#', ' ']);
            continue;
        }
        let words = line.split_whitespace().count();
        if words < 2 || (sentence.form == SentenceForm::Line && words < 3) {
            continue;
        }
        let orders = ORDERS.are_in(&line.to_lowercase());
        let is_rule = orders || ORDERING.are_in(&heading.to_lowercase());
        let kind = if is_rule { LineKind::Rule } else { LineKind::Text };
        found.push(DocumentLine { heading, kind, text: line });
    }
    if found.len() > LINES_MAX {
        let rules = found.iter().filter(|line| line.kind == LineKind::Rule).count();
        let mut others = LINES_MAX.saturating_sub(rules);
        let mut left = LINES_MAX;
        found.retain(|line| {
            let is_rule = line.kind == LineKind::Rule;
            let room = if is_rule { &mut left } else { &mut others };
            let stays = *room > 0;
            *room = room.saturating_sub(1);
            stays
        });
    }
    found
}

/// Whether a line without a mark is a heading: in capitals, or short with a colon at its end.
fn is_heading(line: &str) -> bool {
    let bare = line.trim_matches(['*', ' ']);
    let is_short = bare.len() <= HEADING_BYTES_MAX;
    let is_loud = bare.len() >= 4
        && bare.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ' || byte == b'-');
    is_short && (is_loud || (bare.ends_with(':') && bare.split(' ').count() <= 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "# Wheel\nThe wheel shall be moved to another crate, so that others can use it as well.\n\n\
        ## No-gos\n- a second timer\n- new routes\n\n## Steps\n1. Move the code of the wheel to its crate\n\
        2. Change the callers of the old one\n\nKEEP IN MIND\nThe order of cascade and drain must stay as it is today.\n";

    #[test]
    fn prose_is_told_from_logs_and_code() {
        assert!(is_document(PLAN));
        let log = "2026-03-01T10:00:00Z INFO web-1 GET /health 200 in 3 ms\n".repeat(40);
        assert!(!is_document(&log));
        let code = "fn turn(&mut self) -> usize {\n    self.slots[self.at].drain(..).count()\n}\n"
            .repeat(20);
        assert!(!is_document(&code));
        assert!(!is_document("All is well."));
        let listing = "total 8\ndrwxr-xr-x 8 me staff 256 Jan 21 10:42 .\n\
            drwxr-xr-x 14 me staff 448 Jan 20 14:09 ..\nSwitched to branch 'wheel'\n";
        assert!(!is_document(&listing.repeat(4)));
    }

    #[test]
    fn what_orders_or_forbids_is_known_by_its_words_and_its_heading() {
        let found = document_lines(PLAN);
        let rule = |text: &str| {
            found.iter().find(|line| line.text.contains(text)).map(|line| (line.heading, line.kind))
        };
        assert_eq!(rule("second timer"), Some(("No-gos", LineKind::Rule)));
        assert_eq!(rule("must stay"), Some(("KEEP IN MIND", LineKind::Rule)));
        assert_eq!(rule("Move the code"), Some(("Steps", LineKind::Text)));
    }
}
