//! Picked sentences as a text that a person can read.

use longhand_core::anchor::Form;
use longhand_core::{Scale, Tokens};

use super::candidate::Candidate;
use crate::prose::{Label, round_title};
use crate::quote;

/// The most characters of a sentence.
const SENTENCE_CHARS_MAX: usize = 400;

/// The most characters of a tool's name.
const NAME_CHARS_MAX: usize = 40;

/// Writes candidates in the order they were said, each line with its speaker, under the titles of rounds.
pub(super) fn write(candidates: &[Candidate], picked: &[usize]) -> String {
    let mut picked: Vec<&Candidate> = picked.iter().map(|at| &candidates[*at]).collect();
    picked.sort_by_key(|candidate| candidate.place);
    let mut text = String::new();
    let mut round = None;
    let mut before: Option<&Candidate> = None;
    for candidate in picked {
        let words = words(candidate);
        match before {
            Some(last) if runs_on(last, candidate) => {
                text.push_str(if last.place + 1 == candidate.place { " " } else { " … " });
            }
            _ => {
                if let Some(number) = candidate.round
                    && round != candidate.round
                {
                    push_line(&mut text, &round_title(number));
                    round = candidate.round;
                }
                push_line(&mut text, &label(candidate.label));
            }
        }
        text.push_str(&words);
        before = Some(candidate);
    }
    text
}

/// Writes one candidate, cut to at most `limit` tokens; nothing if not even a word fits.
pub(super) fn write_within(candidate: &Candidate, limit: Tokens, scale: &Scale) -> String {
    let words = words(candidate);
    let label = label(candidate.label);
    let mut end = words.len();
    while end > 0 {
        let text = format!("{label}{}…", words[..end].trim_end());
        let tokens = scale.text(&text);
        if tokens <= limit {
            return text;
        }
        // In proportion, but always at least a character.
        let share = (end as u64).saturating_mul(limit.0) / tokens.0.max(1);
        end = words.floor_char_boundary((share as usize).min(end - 1));
        end = words[..end].rfind(' ').filter(|space| *space > end / 2).unwrap_or(end);
    }
    String::new()
}

/// The words of a candidate as a line has them.
pub(super) fn words(candidate: &Candidate) -> String {
    quote::line_within(candidate.text, SENTENCE_CHARS_MAX)
}

/// What stands before the words of a speaker.
pub(super) fn label(label: Label) -> String {
    match label {
        Label::Writer => "- ".to_owned(),
        Label::Assistant => "[assistant] ".to_owned(),
        Label::Tool(name) => {
            let name = quote::line_within(name, NAME_CHARS_MAX).replace(['[', ']'], "_");
            format!("[tool {name}] ")
        }
    }
}

/// Whether one sentence can stand on the line of the one before it.
fn runs_on(last: &Candidate, next: &Candidate) -> bool {
    // Without a stop between them nobody could tell two sentences from one.
    let stops = last.text.ends_with(['.', '!', '?', '…', '。', '！', '？']);
    stops && last.source == next.source && last.form == Form::Prose && next.form == Form::Prose
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}
