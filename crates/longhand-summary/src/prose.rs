//! The prose of a summary, taken apart into who said what.

use longhand_core::Role;

/// Lines of a summary that come from one speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speech<'t> {
    pub(crate) label: Label<'t>,
    pub(crate) round: Option<u64>,
    pub(crate) text: &'t str,
}

/// Who a line of a summary is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label<'t> {
    /// Whoever wrote the summary.
    Writer,
    Assistant,
    Tool(&'t str),
}

impl Label<'_> {
    pub(crate) fn role(self) -> Role {
        match self {
            Label::Tool(_) => Role::Tool,
            Label::Writer | Label::Assistant => Role::Assistant,
        }
    }
}

/// Takes a summary apart: lines that we labelled one by one, others as they stand together.
pub(crate) fn speeches(prose: &str) -> Vec<Speech<'_>> {
    let mut speeches: Vec<Speech> = Vec::new();
    let mut round = None;
    // Where the lines without a label began that have not been taken yet.
    let mut unlabelled = None;
    let mut at = 0;
    for line in prose.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.trim();
        let header = round_of(line);
        let labelled = labelled(line);
        if header.is_none() && labelled.is_none() {
            unlabelled.get_or_insert(start);
            continue;
        }
        if let Some(from) = unlabelled.take() {
            speeches.push(Speech { label: Label::Writer, round, text: &prose[from..start] });
        }
        round = header.or(round);
        if let Some((label, text)) = labelled {
            speeches.push(Speech { label, round, text });
        }
    }
    if let Some(from) = unlabelled {
        speeches.push(Speech { label: Label::Writer, round, text: &prose[from..] });
    }
    speeches.retain(|speech| !speech.text.trim().is_empty());
    speeches
}

/// Writes the title of a round.
pub(crate) fn round_title(round: u64) -> String {
    format!("Round {round}:")
}

/// The number in the title of a round.
fn round_of(line: &str) -> Option<u64> {
    line.strip_prefix("Round ")?.strip_suffix(':')?.parse().ok()
}

fn labelled(line: &str) -> Option<(Label<'_>, &str)> {
    let (label, text) = line.strip_prefix('[')?.split_once("] ")?;
    match label.strip_prefix("tool ") {
        Some(name) => Some((Label::Tool(name), text)),
        None => (label == "assistant").then_some((Label::Assistant, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_rounds_are_read_back() {
        let prose = "Old words.\nMore.\n\nRound 3:\n[tool read_file] 40 lines\n[assistant] Done. [x] y\n- loose\n";
        let speech = |label, round, text| Speech { label, round, text };
        assert_eq!(
            speeches(prose),
            [
                speech(Label::Writer, None, "Old words.\nMore.\n\n"),
                speech(Label::Tool("read_file"), Some(3), "40 lines"),
                speech(Label::Assistant, Some(3), "Done. [x] y"),
                speech(Label::Writer, Some(3), "- loose\n"),
            ]
        );
        assert_eq!(speeches(" \n\n"), []);
    }
}
