//! The input of a summary in pieces that fit.

use std::collections::VecDeque;

use longhand_core::{Scale, Tokens, cut};
use longhand_summary::SummaryRound;

use crate::prompt::quote;

/// What somebody said, to be quoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source: String,
    pub(crate) text: String,
}

/// Takes rounds apart into what was said, in order.
pub(crate) fn segments(rounds: &[SummaryRound]) -> VecDeque<Segment> {
    let mut segments = VecDeque::new();
    for round in rounds {
        let mut add = |who: &str, text: &str| {
            if !text.trim().is_empty() {
                let source = format!("round {}, {who}", round.number);
                segments.push_back(Segment { source, text: text.trim().to_owned() });
            }
        };
        add("user", round.user);
        for trace in &round.tools {
            add(&format!("tool {}", trace.name), trace.summary);
        }
        add("assistant", round.assistant);
    }
    segments
}

/// Takes as many quotes as fit into `room` off the front; without a limit, all.
///
/// It always takes something: a segment that does not fit by itself is cut, and the rest stays.
pub(crate) fn take(
    segments: &mut VecDeque<Segment>,
    room: Option<Tokens>,
    scale: &Scale,
) -> String {
    let mut piece = String::new();
    let mut spent = Tokens::ZERO;
    while let Some(segment) = segments.pop_front() {
        let quoted = quote(&segment.source, &segment.text);
        let cost = scale.text(&quoted);
        let Some(room) = room.filter(|room| spent + cost > *room) else {
            piece.push_str(&quoted);
            spent += cost;
            continue;
        };
        if piece.is_empty() {
            let frame = cost.saturating_sub(scale.text(&segment.text));
            let (head, tail) = split(segment, room.saturating_sub(frame), scale);
            piece = quote(&head.source, &head.text);
            if let Some(tail) = tail {
                segments.push_front(tail);
            }
        } else {
            segments.push_front(segment);
        }
        break;
    }
    piece
}

/// Cuts a segment so that its head has at most about `room` tokens.
fn split(segment: Segment, room: Tokens, scale: &Scale) -> (Segment, Option<Segment>) {
    let Segment { source, text } = segment;
    let share = u128::from(room.0) * 9 / 10;
    let cost = u128::from(scale.text(&text).0.max(1));
    let bytes = usize::try_from(text.len() as u128 * share / cost).unwrap_or(text.len());
    let head = cut::head(&text, bytes.max(4));
    // A cut between words is better, unless it is far away.
    let end = head.rfind(char::is_whitespace).filter(|at| *at > head.len() / 2);
    let end = end.unwrap_or(head.len());
    let (head, tail) = text.split_at(end);
    let tail = tail.trim_start();
    let label = source.strip_suffix(CONTINUED).unwrap_or(&source);
    let rest = (!tail.is_empty())
        .then(|| Segment { source: format!("{label}{CONTINUED}"), text: tail.to_owned() });
    (Segment { text: head.to_owned(), source }, rest)
}

const CONTINUED: &str = ", continued";

#[cfg(test)]
mod tests {
    use longhand_meter::{Chars, CharsPerToken};
    use longhand_summary::ToolTrace;

    use super::*;

    #[test]
    fn everything_is_told_in_order_and_every_piece_fits() {
        let meter = Chars::new("1".parse::<CharsPerToken>().unwrap());
        let scale = Scale::new(&meter);
        let long: String = (0..400).map(|n| format!("word{n} ")).collect();
        let rounds = [
            SummaryRound {
                number: 1,
                user: "Do it.",
                assistant: "Done.",
                tools: vec![ToolTrace { name: "read", summary: &long }],
            },
            SummaryRound { number: 2, user: "Thanks.", assistant: " ", tools: vec![] },
        ];
        let mut queue = segments(&rounds);
        let whole = take(&mut queue.clone(), None, &scale);
        assert!(whole.contains("<quote from=\"round 1, tool read\">\nword0 word1 "));
        assert_eq!(whole.matches("<quote").count(), 4, "what is blank is left out");
        for room in [80, 200, 1_000] {
            let mut queue = queue.clone();
            let mut told = String::new();
            let mut pieces = 0;
            while !queue.is_empty() {
                let piece = take(&mut queue, Some(Tokens(room)), &scale);
                assert!(scale.text(&piece) <= Tokens(room), "{piece}");
                told.push_str(&piece);
                pieces += 1;
                assert!(pieces < 400);
            }
            let words: Vec<&str> =
                told.split_whitespace().filter(|word| word.starts_with("word")).collect();
            assert_eq!(words.len(), 400, "{room}");
            assert_eq!(words, long.split_whitespace().collect::<Vec<_>>());
            assert!(pieces > 1 && told.contains("tool read, continued\">"));
        }
        take(&mut queue, Some(Tokens(0)), &scale);
        assert_eq!(queue.len(), 4, "even without room it goes on");
    }
}
