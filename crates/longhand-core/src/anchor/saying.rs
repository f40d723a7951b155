//! What a sentence says about the state of the work, by its words.

use super::sentence::SentenceForm;
use crate::Role;

/// What a sentence does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saying {
    /// It says what was decided.
    Decides,
    /// It says what is in the way.
    Blocks,
    /// It says that something is no longer in the way.
    Unblocks,
    /// It calls a question open.
    LeavesOpen,
    /// It asks.
    Asks,
    /// It answers a question, or says that one was answered.
    Answers,
    /// It is a user's standing order.
    Rules,
}

/// What a sentence says; at most two things: it may settle one matter and state another.
///
/// A tool is taken at its word only where a sentence `heads` its line.
pub(super) fn sayings(
    text: &str,
    form: SentenceForm,
    heads: bool,
    role: Role,
) -> [Option<Saying>; 2] {
    let low = lowered(text);
    let head = if heads || role != Role::Tool { head_of(&low) } else { "" };
    let talks = role != Role::Tool && form != SentenceForm::Line;
    // "Decision: old cursors are answered with 410" answers no question.
    let is_headed = states_by_head(head, role).is_some();
    let settles =
        settles_by_head(head).or_else(|| settles_by_words(&low).filter(|_| talks && !is_headed));
    let rules = role == Role::User && !text.starts_with('>');
    let states = states_by_head(head, role)
        .or_else(|| states_by_words(&low, rules).filter(|_| talks))
        // "The blocker is resolved" blocks nothing, and "that question is answered" asks nothing.
        .filter(|states| match settles {
            Some(Saying::Unblocks) => *states != Saying::Blocks,
            Some(_) => !matches!(states, Saying::LeavesOpen | Saying::Asks),
            None => true,
        });
    [settles, states]
}

/// Puts a sentence in lower case, without marks at its start and with single spaces.
pub(super) fn lowered(text: &str) -> String {
    let text = text.trim_start_matches(is_mark).trim_end();
    if is_single_spaced(text.as_bytes()) {
        return text.to_ascii_lowercase();
    }
    let mut low = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !low.is_empty() {
            low.push(' ');
        }
        low.extend(word.chars().map(|c| if c == '’' { '\'' } else { c.to_ascii_lowercase() }));
    }
    low
}

/// Whether a text is ASCII with no white space but single spaces, as most sentences are.
fn is_single_spaced(bytes: &[u8]) -> bool {
    // Without an early end, the compiler looks at many bytes at once.
    let is_odd = |byte: u8| u8::from(!(b' '..0x80).contains(&byte));
    let is_double = |one: u8, two: u8| u8::from(one == b' ' && two == b' ');
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    pairs.fold(0, |found, (one, two)| found | is_double(*one, *two)) == 0
        && bytes.iter().fold(0, |found, byte| found | is_odd(*byte)) == 0
}

/// The word or two that a sentence has as its title: `decision` of `**Decision** (round 3): …`.
fn head_of(low: &str) -> &str {
    let Some(colon) = low.find(':').filter(|colon| *colon <= 40) else { return "" };
    let title = low[..colon].trim_matches(is_mark);
    title.split(['(', '#', '[']).next().unwrap_or_default().trim_end_matches(is_mark)
}

fn settles_by_head(head: &str) -> Option<Saying> {
    match head {
        "unblocked" | "blocker resolved" | "blocker lifted" => Some(Saying::Unblocks),
        "answer" | "answered" | "resolved" | "closed" => Some(Saying::Answers),
        _ => None,
    }
}

fn states_by_head(head: &str, role: Role) -> Option<Saying> {
    match head {
        "decision" | "decided" => Some(Saying::Decides),
        "blocked" | "blocker" | "blocking" => Some(Saying::Blocks),
        "open question" | "open questions" | "unresolved" | "question" => Some(Saying::LeavesOpen),
        "rule" | "rules" | "standing order" | "constraint" if role == Role::User => {
            Some(Saying::Rules)
        }
        _ => None,
    }
}

fn settles_by_words(low: &str) -> Option<Saying> {
    const OVER: &[&str] = &["resolved", "lifted", "cleared", "gone", "fixed", "removed", "closed"];
    const NOT_OVER: &[&str] =
        &["not resolved", "n't resolved", "not fixed", "n't fixed", "until", "unresolved"];
    let is_over = || has_any(low, OVER) && !has_any(low, NOT_OVER);
    if low.contains("block") {
        let free =
            &["unblocked", "no longer blocked", "not blocked any more", "n't blocked any more"];
        if has_any(low, free) || (low.contains("blocker") && is_over()) {
            return Some(Saying::Unblocks);
        }
    }
    if low.ends_with('?') {
        return None;
    }
    let answered = low.contains("answer")
        && has_any(low, &["answered", "the answer is", "the answer to"])
        && !has_any(low, &["unanswered", "not answered", "n't answered", "be answered"]);
    (answered || (low.contains("question") && is_over())).then_some(Saying::Answers)
}

fn states_by_words(low: &str, may_rule: bool) -> Option<Saying> {
    let asks = low.trim_end_matches(['"', '\'', '`', '*', '_', ')', '!']).ends_with('?');
    let polite =
        ["can you", "could you", "would you", "please"].iter().any(|ask| low.starts_with(ask));
    if may_rule && (!asks || polite) && is_rule(low) {
        Some(Saying::Rules)
    } else if asks {
        (low.split(' ').count() >= 3).then_some(Saying::Asks)
    } else if decides(low) {
        Some(Saying::Decides)
    } else {
        blocks(low).then_some(Saying::Blocks)
    }
}

fn blocks(low: &str) -> bool {
    const FREE: &[&str] =
        &["not blocked", "n't blocked", "no longer", "was blocked", "were blocked"];
    const BLOCKED: &[&str] = &[
        "blocked on",
        "blocked by",
        "blocked until",
        "is blocked",
        "are blocked",
        "am blocked",
        "i'm blocked",
        "we're blocked",
        "blocker is",
        "blocking issue",
    ];
    (low.contains("block") && has_any(low, BLOCKED) && !has_any(low, FREE))
        || (low.contains("proceed") && has_any(low, &["cannot proceed", "can't proceed"]))
        || (low.contains("stuck") && has_any(low, &["stuck on"]))
}

fn decides(low: &str) -> bool {
    let phrases = [
        "decided to",
        "decided that",
        "decided on",
        "decided against",
        "we decided",
        "i decided",
        "i've decided",
        "we've decided",
        "decision is",
        "decision was",
        "we agreed",
        "agreed to",
        "agreed on",
        "we chose",
        "i chose",
        "settled on",
        "opted for",
        "we'll go with",
        "i'll go with",
        "let's go with",
        "going with",
    ];
    let open = [
        "not decided",
        "n't decided",
        "undecided",
        "be decided",
        "yet decided",
        "once decided",
        "if we decided",
        "not agreed",
        "n't agreed",
        "not settled",
        "n't settled",
    ];
    // One of these is in every phrase, and none of them in most sentences.
    let stems = ["deci", "agree", "chose", "settled", "opted", "go with", "going with"];
    stems.iter().any(|stem| low.contains(stem)) && has_any(low, &phrases) && !has_any(low, &open)
}

/// Whether a user's sentence is a standing order, and not a remark on what always or never happens.
fn is_rule(low: &str) -> bool {
    const STRONG: &[&str] = &[
        "from now on",
        "don't ever",
        "do not ever",
        "under no circumstances",
        "going forward",
        "at all times",
    ];
    const REMARK: &[&str] = &[
        "it", "this", "that", "there", "he", "she", "they", "i", "i've", "has", "have", "had",
        "was", "were", "is", "are", "it's", "which", "almost", "nearly", "not",
    ];
    if has_any(low, STRONG) {
        return true;
    }
    let words: Vec<&str> = low.split(' ').map(|word| word.trim_matches(is_edge)).collect();
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let after = words.get(at + 1).copied().unwrap_or_default();
        match *word {
            "always" | "never" => !REMARK.contains(&before) && after != "mind",
            "must" | "mustn't" => {
                after != "have"
                    && !(matches!(before, "it" | "this" | "that" | "there") && after == "be")
            }
            _ => false,
        }
    })
}

fn is_edge(c: char) -> bool {
    !c.is_alphanumeric() && c != '\''
}

/// Whether a lowered text has one of the phrases, each beginning and ending with a word.
fn has_any(low: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| {
        memchr::memmem::find_iter(low.as_bytes(), phrase).any(|at| {
            let before = low[..at].chars().next_back();
            let after = low[at + phrase.len()..].chars().next();
            (phrase.starts_with("n't") || before.is_none_or(is_edge))
                && after.is_none_or(|c| is_edge(c) || c == '\'')
        })
    })
}

/// Whether a character only marks a line or a word.
pub(super) fn is_mark(c: char) -> bool {
    c.is_whitespace() || "-*+>#•_".contains(c)
}
