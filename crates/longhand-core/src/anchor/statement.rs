//! Sentences that state a decision, a blocker, a question, a rule, or the end of one.

use super::cue::Cues;
use super::saying::{Saying, is_mark, lowered, sayings};
use super::sentence::{Sentence, SentenceForm, fence_of, sentences, wraps};
use crate::{Role, cut};

/// A sentence that says how the work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'t> {
    /// What it does.
    pub saying: Saying,
    /// The sentence, cut at 300 characters; one that was wrapped has line breaks in it.
    pub text: &'t str,
}

/// The most characters of a statement.
const STATEMENT_CHARS_MAX: usize = 300;

/// How far a statement may reach to either side of its cue.
const REACH_BYTES: usize = 600;

/// Finds the sentences that say how the work stands, in order; code blocks are passed over.
///
/// Only a user gives rules. A tool states only what it marks as a statement (`Decision: …`): it quotes
/// whatever it reads.
///
/// ```
/// use longhand_core::Role;
/// use longhand_core::anchor::{Saying, statements};
///
/// let mut found = statements("Thanks! Never touch vendor/. What comes next?", Role::User);
/// let rule = found.next().unwrap();
/// assert_eq!((rule.saying, rule.text), (Saying::Rules, "Never touch vendor/."));
/// assert_eq!(found.next().unwrap().saying, Saying::Asks);
/// ```
pub fn statements(text: &str, role: Role) -> impl Iterator<Item = Statement<'_>> {
    let mut cues = Cues::new(text, role == Role::Tool);
    let mut fences = Fences { text, at: 0, inside: false };
    let mut paragraph = Paragraph::default();
    let mut second = None;
    std::iter::from_fn(move || {
        loop {
            if let Some(statement) = second.take() {
                return Some(statement);
            }
            let cue = cues.next()?;
            if cue >= paragraph.end {
                paragraph = Paragraph::at(text, cue, paragraph.end);
            }
            let Some(found) = paragraph.sentence_at(text, cue) else { continue };
            cues.skip_to(found.start + found.text.len());
            if fences.is_inside(found.start) {
                continue;
            }
            let said = sayings(found.text, found.form, found.heads, role);
            let cut = clipped(found.text);
            second = said[1].map(|saying| Statement { saying, text: cut });
            if let Some(saying) = said[0] {
                return Some(Statement { saying, text: cut });
            }
        }
    })
}

/// A sentence and where it stands.
#[derive(Clone, Copy)]
struct LocatedSentence<'t> {
    text: &'t str,
    start: usize,
    form: SentenceForm,
    /// Whether it opens its line, but for marks.
    heads: bool,
}

/// The lines around a cue that may be one sentence, split into sentences.
#[derive(Default)]
struct Paragraph {
    start: usize,
    end: usize,
    /// The spans of the sentences, the last one first.
    sentences: Vec<(usize, usize, SentenceForm)>,
}

impl Paragraph {
    /// Reads the paragraph around a place, as far as a statement reaches, and not before `low`.
    fn at(text: &str, cue: usize, low: usize) -> Self {
        let bytes = text.as_bytes();
        let (before, after) = text.split_at(cue);
        let low = low.max(cue - cut::tail(before, REACH_BYTES).len());
        let high = cue + cut::head(after, REACH_BYTES).len();
        let line_start =
            |at: usize| memchr::memrchr(b'\n', &bytes[low..at]).map_or(low, |at| low + at + 1);
        let line_end =
            |at: usize| memchr::memchr(b'\n', &bytes[at..high]).map_or(high, |end| at + end);
        let (mut start, mut end) = (line_start(cue), line_end(cue));
        while start > low
            && wraps(&text[line_start(start - 1)..start - 1], &text[start..line_end(start)])
        {
            start = line_start(start - 1);
        }
        while end < high && wraps(&text[line_start(end)..end], &text[end + 1..line_end(end + 1)]) {
            end = line_end(end + 1);
        }
        let span = |sentence: Sentence| {
            let from = sentence.text.as_ptr().addr() - text.as_ptr().addr();
            (from, from + sentence.text.len(), sentence.form)
        };
        let mut sentences: Vec<_> = sentences(&text[start..end]).map(span).collect();
        sentences.reverse();
        Self { start, end, sentences }
    }

    /// The sentence around a place, with the reason that follows it; places are asked for in order.
    fn sentence_at<'t>(&mut self, text: &'t str, cue: usize) -> Option<LocatedSentence<'t>> {
        while self.sentences.pop_if(|(_, to, _)| *to <= cue).is_some() {}
        let (from, mut to, form) = self.sentences.pop()?;
        if let Some((next, end, _)) = self.sentences.last() {
            let opening = lowered(cut::head(&text[*next..*end], 12));
            if ["because", "since ", "reason:"].iter().any(|reason| opening.starts_with(reason)) {
                to = *end;
                self.sentences.pop();
            }
        }
        let line = memchr::memrchr(b'\n', &text.as_bytes()[self.start..from])
            .map_or(self.start, |at| self.start + at);
        let heads = text[line..from].chars().all(|c| is_mark(c) || c.is_ascii_digit() || c == '.');
        Some(LocatedSentence { text: &text[from..to], start: from, form, heads })
    }
}

/// Whether places, asked for in order, lie inside a code block.
struct Fences<'t> {
    text: &'t str,
    at: usize,
    inside: bool,
}

impl Fences<'_> {
    fn is_inside(&mut self, place: usize) -> bool {
        while self.at < place {
            let rest = &self.text.as_bytes()[self.at..place];
            let backticks = memchr::memmem::find(rest, b"```");
            let Some(found) = backticks else {
                // Half a mark may lie before the place.
                self.at = place.saturating_sub(2).max(self.at);
                break;
            };
            let mark = self.at + found;
            let line = memchr::memrchr(b'\n', &self.text.as_bytes()[..mark]).map_or(0, |at| at + 1);
            let end = memchr::memchr(b'\n', &self.text.as_bytes()[mark..])
                .map_or(self.text.len(), |at| mark + at);
            let opens = self.text[line..mark].trim().is_empty();
            if opens && (self.inside || fence_of(&self.text[mark..end]).is_some()) {
                self.inside = !self.inside;
            }
            self.at = end.max(mark + 3);
        }
        self.inside
    }
}

/// The first characters of a sentence, cut between words.
fn clipped(sentence: &str) -> &str {
    if sentence.len() <= STATEMENT_CHARS_MAX {
        return sentence;
    }
    let Some((end, _)) = sentence.char_indices().nth(STATEMENT_CHARS_MAX) else { return sentence };
    let cut = &sentence[..end];
    let space = cut.rfind(char::is_whitespace).filter(|at| *at > end / 2).unwrap_or(end);
    cut[..space].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Saying::{Answers, Asks, Blocks, Decides, LeavesOpen, Rules, Unblocks};

    #[track_caller]
    fn check(role: Role, text: &str, expected: &[(Saying, &str)]) {
        let found: Vec<_> = statements(text, role).map(|said| (said.saying, said.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn headed_lines_are_statements_whoever_says_them() {
        let text = "Done.\n- **Decision:** keep 512 slots. Because it is enough. More.\n\
                    Blocked: no key\nUnblocked: the key came.\nOpen question: which port\nAnswer: 8080.\n";
        for role in [Role::Assistant, Role::Tool, Role::User] {
            check(
                role,
                text,
                &[
                    (Decides, "**Decision:** keep 512 slots. Because it is enough."),
                    (Blocks, "Blocked: no key"),
                    (Unblocks, "Unblocked: the key came."),
                    (LeavesOpen, "Open question: which port"),
                    (Answers, "Answer: 8080."),
                ],
            );
        }
    }

    #[test]
    fn a_decision_answers_nothing_by_the_way() {
        let decision = "Decision: old cursors are answered with 410.";
        check(Role::Assistant, decision, &[(Decides, decision)]);
    }

    #[test]
    fn prose_states_too_unless_it_comes_from_a_tool() {
        let text = "We looked. We decided to drop v1. It is blocked by ops! Shall we wait? The blocker \
                    with ops is resolved. We have not decided on a name. That question was answered.";
        check(
            Role::Assistant,
            text,
            &[
                (Decides, "We decided to drop v1."),
                (Blocks, "It is blocked by ops!"),
                (Asks, "Shall we wait?"),
                (Unblocks, "The blocker with ops is resolved."),
                (Answers, "That question was answered."),
            ],
        );
        check(Role::Tool, text, &[]);
    }

    #[test]
    fn only_a_users_order_is_a_rule() {
        for rule in [
            "Never edit files under vendor/.",
            "Please always run the tests first.",
            "You must not push to main.",
            "Don't ever log tokens!",
            "From now on, answer in French.",
            "All dates must be in UTC.",
            "Could you please never use tabs?",
            "Rule: two reviewers.",
        ] {
            check(Role::User, rule, &[(Rules, rule)]);
            assert!(statements(rule, Role::Assistant).all(|said| said.saying != Rules), "{rule}");
        }
        for remark in [
            "It always fails.",
            "I never saw that.",
            "That must be the cache.",
            "Never mind.",
            "> Never quote me.",
            "You must have seen it.",
        ] {
            check(Role::User, remark, &[]);
        }
        check(Role::User, "Why does it always fail?", &[(Asks, "Why does it always fail?")]);
    }

    #[test]
    fn code_is_passed_over_and_wrapped_lines_are_joined() {
        check(
            Role::User,
            "```\n// must never\n```\nYou must not change the order in which the records are\n  \
             written to the journal. Ok\n~ let x = foo()?;\n",
            &[(
                Rules,
                "You must not change the order in which the records are\n  written to the journal.",
            )],
        );
    }

    #[test]
    fn a_statement_is_bounded() {
        let text = format!("Decision: {}", "word ".repeat(5_000));
        let found: Vec<_> = statements(&text, Role::Assistant).collect();
        assert_eq!(found.len(), 1);
        assert!(found[0].text.chars().count() <= STATEMENT_CHARS_MAX);
        assert!(found[0].text.ends_with("word"));
        let hostile = "must ".repeat(20_000);
        assert!(statements(&hostile, Role::User).count() < 1_000);
    }
}
