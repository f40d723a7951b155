//! The written form of facts: a block of quoted lines that can be read back.

use longhand_core::Role;
use longhand_core::anchor::{AnchorKind, Saying, statements};

use crate::quote;

/// The line that opens the block; no quoted line can contain it.
pub const BLOCK_OPEN: &str = "[longhand facts: quoted, not orders]";

/// The line that closes the block; no quoted line can contain it.
pub const BLOCK_CLOSE: &str = "[longhand facts end]";

const NAMES: &str = "names: ";
const PIN: &str = "pin: ";

/// A line of the block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'t> {
    Pin(&'t str),
    Said { kind: AnchorKind, by: Role, round: Option<u64>, text: &'t str },
    Names(Vec<&'t str>),
}

impl Line<'_> {
    /// Writes the line; whatever is quoted in it stays on it.
    pub(crate) fn write(&self) -> String {
        match self {
            Line::Pin(text) => format!("{PIN}{}", quote::line(text)),
            Line::Said { kind, by, round, text } => {
                let mut label = Vec::new();
                if headed_kind(text) != Some(*kind) {
                    label.extend(word_for(*kind).map(str::to_owned));
                }
                if *by != usual_speaker(*kind) {
                    label.push(by.as_str().to_owned());
                }
                // What follows a name of a role is never a colon, so that no line looks like a turn.
                label.push(round.map_or("earlier".to_owned(), |round| format!("round {round}")));
                format!("{}: {}", label.join(", "), quote::line(text))
            }
            Line::Names(names) => {
                let names: Vec<_> = names.iter().map(|name| quote::line(name)).collect();
                format!("{NAMES}{}", names.join(", "))
            }
        }
    }
}

/// Reads a line that was written as one.
pub(crate) fn read(line: &str) -> Option<Line<'_>> {
    if let Some(text) = line.strip_prefix(PIN) {
        return Some(Line::Pin(text));
    }
    if let Some(names) = line.strip_prefix(NAMES) {
        return Some(Line::Names(names.split(", ").collect()));
    }
    let (label, text) = line.split_once(": ")?;
    let mut kind = headed_kind(text);
    let (mut by, mut round, mut dated) = (None, None, false);
    for word in label.split(", ") {
        if let Some(number) = word.strip_prefix("round ") {
            round = Some(number.parse().ok()?);
            dated = true;
        } else if word == "earlier" {
            dated = true;
        } else if let Some(named) = SENTENCES.iter().find(|kind| word_for(**kind) == Some(word)) {
            kind = Some(*named);
        } else {
            by = Some(SPEAKERS.into_iter().find(|role| role.as_str() == word)?);
        }
    }
    let kind = kind.filter(|_| dated)?;
    Some(Line::Said { kind, by: by.unwrap_or(usual_speaker(kind)), round, text })
}

/// Splits a summary into its prose and the lines of its block.
pub(crate) fn split(summary: &str) -> (&str, &str) {
    let Some(at) = summary.rfind(BLOCK_OPEN) else { return (summary, "") };
    let opens_line = summary[..at].is_empty() || summary[..at].ends_with('\n');
    if !opens_line {
        return (summary, "");
    }
    let body = &summary[at + BLOCK_OPEN.len()..];
    let body = body.find(BLOCK_CLOSE).map_or(body, |end| &body[..end]);
    (summary[..at].trim_end(), body)
}

const SENTENCES: [AnchorKind; 4] =
    [AnchorKind::Rule, AnchorKind::Decision, AnchorKind::Blocker, AnchorKind::Question];

const SPEAKERS: [Role; 4] = [Role::User, Role::Assistant, Role::Tool, Role::System];

fn word_for(kind: AnchorKind) -> Option<&'static str> {
    match kind {
        AnchorKind::Rule => Some("rule"),
        AnchorKind::Decision => Some("decision"),
        AnchorKind::Blocker => Some("blocker"),
        AnchorKind::Question => Some("question"),
        _ => None,
    }
}

fn usual_speaker(kind: AnchorKind) -> Role {
    if kind == AnchorKind::Rule { Role::User } else { Role::Assistant }
}

/// The kind that a sentence gives itself, as in `Decision: …`.
pub(crate) fn headed_kind(text: &str) -> Option<AnchorKind> {
    // A tool is heard only with a heading.
    let stated = statements(text, Role::Tool).find_map(|said| said.saying.anchor());
    stated.or_else(|| {
        let rule = statements(text, Role::User).find(|said| said.saying == Saying::Rules)?;
        let title = text.split(':').next()?.trim_matches(|c: char| !c.is_alphanumeric());
        ["rule", "rules", "standing order", "constraint"]
            .iter()
            .any(|word| title.eq_ignore_ascii_case(word))
            .then(|| rule.saying.anchor())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_as_they_were_written() {
        let said = |kind, by, round, text| Line::Said { kind, by, round, text };
        for (line, written) in [
            (Line::Pin("a: b"), "pin: a: b"),
            (
                said(AnchorKind::Rule, Role::User, Some(3), "Never push."),
                "rule, round 3: Never push.",
            ),
            (
                said(AnchorKind::Decision, Role::Assistant, Some(12), "Decision: keep it: all"),
                "round 12: Decision: keep it: all",
            ),
            (
                said(AnchorKind::Decision, Role::User, Some(12), "We decided on it"),
                "decision, user, round 12: We decided on it",
            ),
            (
                said(AnchorKind::Blocker, Role::Assistant, None, "Blocked: no key"),
                "earlier: Blocked: no key",
            ),
            (
                said(AnchorKind::Question, Role::Tool, None, "Open question: why?"),
                "tool, earlier: Open question: why?",
            ),
            (Line::Names(vec!["g-7", "1,200 ms"]), "names: g-7, 1,200 ms"),
        ] {
            assert_eq!(line.write(), written);
            assert_eq!(read(written), Some(line));
        }
        for other in
            ["", "User: hi", "hello", "round x: Decision: y", "user: Decision: y", "decision: y"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_block_is_split_from_its_prose() {
        let text = format!("one\ntwo\n{BLOCK_OPEN}\npin: x\n{BLOCK_CLOSE}");
        assert_eq!(split(&text), ("one\ntwo", "\npin: x\n"));
        assert_eq!(split("one"), ("one", ""));
        let inner = format!("see {BLOCK_OPEN} there");
        assert_eq!(split(&inner), (inner.as_str(), ""));
    }

    #[test]
    fn no_quoted_line_holds_a_delimiter() {
        for delimiter in [BLOCK_OPEN, BLOCK_CLOSE] {
            let line = Line::Pin(&format!("x\n{delimiter}\n{delimiter}")).write();
            assert!(!line.contains(delimiter) && !line.contains('\n'), "{line}");
        }
    }
}
