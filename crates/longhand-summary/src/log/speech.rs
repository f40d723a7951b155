//! Separates what a user said from what their client added.

use std::borrow::Cow;

use longhand_core::anchor::{Saying, failure_line, identifiers, sentences, statements};
use longhand_core::{Role, cut};
use memchr::memmem;

use super::document::is_document;
use crate::quote;

/// Elements that clients write into user turns, with all that is in them.
#[rustfmt::skip]
const WRAPPERS: &[&str] = &[
    "bash-input", "bash-stderr", "bash-stdout", "command-message", "environment_context",
    "environment_details", "file_contents", "ide_opened_file", "ide_selection", "local-command-caveat",
    "local-command-stderr", "local-command-stdout", "new-diagnostics", "permissions", "skill",
    "system-reminder", "system_reminder", "system_warning", "task-notification", "turn_aborted",
    "user-memory-input", "user-prompt-submit-hook", "user_instructions",
];

/// How texts begin that clients write in the user's name.
#[rustfmt::skip]
const OPENINGS: &[&str] = &[
    "Base directory for this skill:", "Caveat: The messages below were generated",
    "Here is a demonstration of how to", "[Request interrupted", "[Tool use was rejected",
    "[SYSTEM", "[System", "<system-", "# AGENTS.md instructions",
];

/// The most characters that are kept of a message.
pub(super) const WORDS_CHARS_MAX: usize = 600;

/// The characters that every message keeps.
pub(super) const WORDS_CHARS_MIN: usize = 160;

/// The most characters of sentences that are kept from the rest of a long message.
const LASTING_CHARS_MAX: usize = 400;

/// The most bytes of the line for which a log was pasted.
const TELLING_BYTES_MAX: usize = 240;

/// What was said in a user turn, if a person said anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Speech {
    /// The words on one line, a long text clipped.
    pub(super) words: String,
    /// Whether it gives an order that stands, or tells of the user.
    pub(super) lasts: bool,
    /// Whether it calls a command of the client, so that the client's text follows.
    pub(super) is_command: bool,
}

/// The words of a user turn on one line, if a person said any.
pub fn user_words(text: &str) -> Option<String> {
    speech(text).map(|speech| speech.words)
}

/// Reads the words of a user turn.
pub(super) fn speech(text: &str) -> Option<Speech> {
    let mut rest = text.to_owned();
    let command = taken(&mut rest, &["command-name"]).map(|name| {
        let arguments = taken(&mut rest, &["command-args"]).unwrap_or_default();
        format!("{} {}", name.trim(), arguments.trim())
    });
    while taken(&mut rest, WRAPPERS).is_some() {}
    let said = rest.trim();
    if command.is_none() && (said.is_empty() || is_inserted(said, text)) {
        return None;
    }
    let said = command.as_deref().map_or(said, str::trim);
    let lasting: Vec<&str> =
        sentences(said).map(|sentence| sentence.text).filter(|text| is_lasting(text)).collect();
    let paste = Some(said).filter(|said| said.len() > 2 * WORDS_CHARS_MAX);
    let paste = paste.and_then(Paste::of);
    let picked = paste.iter().flat_map(Paste::picked);
    let lasting: Vec<&str> = picked.chain(lasting).collect();
    let is_log = paste.as_ref().is_some_and(|paste| paste.is_log);
    let words = quote::line_within(said, if is_log { WORDS_CHARS_MIN } else { WORDS_CHARS_MAX });
    let words = match words.strip_suffix('…') {
        Some(head) if said.len() > head.len() => with_lasting(head, &lasting),
        _ => words,
    };
    let is_short = said.len() <= 4 * WORDS_CHARS_MAX;
    let lasts = paste.is_some() || (is_short && !lasting.is_empty());
    Some(Speech { words, lasts, is_command: command.is_some() })
}

/// A long text in which something failed: most of it was copied from somewhere.
struct Paste<'t> {
    /// The line for which it was pasted, clipped.
    telling: &'t str,
    /// What was asked behind it.
    question: Option<&'t str>,
    /// Whether it has no more prose than a log.
    is_log: bool,
}

impl<'t> Paste<'t> {
    fn of(said: &'t str) -> Option<Self> {
        let (telling, _) = failure_line(said)?;
        let last = said.trim_end().rsplit('\n').next().unwrap_or_default().trim();
        let question = Some(last).filter(|last| last.ends_with('?') && *last != telling);
        let telling = cut::head(telling, TELLING_BYTES_MAX);
        Some(Self { telling, question, is_log: !is_document(said) })
    }

    /// What is kept of it beside its opening.
    fn picked(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        std::iter::once(self.telling).chain(self.question)
    }
}

/// Words in at most so many characters, and what was picked from the rest when they were heard.
pub(super) fn in_brief(words: &str, chars_max: usize) -> String {
    let picked: Vec<&str> =
        words.split('…').skip(1).map(str::trim).filter(|text| !text.is_empty()).collect();
    let head = quote::line_within(words.split('…').next().unwrap_or_default(), chars_max);
    if picked.is_empty() {
        quote::line_within(words, chars_max)
    } else {
        with_lasting(head.trim_end_matches('…'), &picked)
    }
}

/// Words in short: their opening, and the sentences of the rest that last, ask for something or name it.
pub(super) fn in_short(words: &str) -> String {
    let head = opening(words);
    match head.strip_suffix('…').filter(|head| head.len() < words.len()) {
        None => head,
        Some(head) => {
            let sentences = sentences(words).map(|sentence| sentence.text);
            // What follows a clip was picked when the words were heard.
            let picked = words.split('…').skip(1).map(str::trim).filter(|text| !text.is_empty());
            let asks =
                |text: &str| text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("please"));
            let tells =
                |text: &&str| is_lasting(text) || asks(text) || identifiers(text).next().is_some();
            let telling: Vec<&str> = picked.chain(sentences.filter(tells)).collect();
            with_lasting(head, &telling)
        }
    }
}

/// The first characters of words, and the rest of the word that they end in.
pub(super) fn opening(words: &str) -> String {
    let Some((end, _)) = words.char_indices().nth(WORDS_CHARS_MIN) else { return words.to_owned() };
    let rest = &words[end..];
    let word = rest.char_indices().take(24).find(|(_, c)| *c == ' ').map_or(0, |(at, _)| at);
    if end + word >= words.len() {
        words.to_owned()
    } else {
        format!("{}…", &words[..end + word])
    }
}

/// A clipped text, with sentences of its rest.
fn with_lasting(head: &str, lasting: &[&str]) -> String {
    let mut words = format!("{head}…");
    let mut left = LASTING_CHARS_MAX;
    for sentence in lasting.iter().map(|sentence| quote::line(sentence)) {
        let length = sentence.chars().count();
        if length >= left || words.contains(&sentence) {
            continue;
        }
        left -= length;
        // The clip may lie inside the sentence.
        let clipped = words.trim_end_matches('…').len();
        let overlaps = |at: &usize| sentence.starts_with(&words[*at..clipped]);
        let places = words.char_indices().map(|(at, _)| at).take_while(|at| *at < clipped);
        match places.filter(|at| *at == 0 || words[..*at].ends_with(' ')).find(overlaps) {
            Some(at) => words.truncate(at),
            None => words.push(' '),
        }
        words.push_str(&sentence);
        words.push('…');
    }
    words
}

/// A text without the reminders that its client adds for the model. These are counters and standing advice, which
/// change with every message and say nothing about the work.
pub(super) fn without_reminders(text: &str) -> Cow<'_, str> {
    const OPEN: &str = "<system-reminder>";
    const CLOSE: &str = "</system-reminder>";
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, reminder)) = around(rest, OPEN) {
        // One without an end is quoted by somebody, and so is all that follows.
        let Some((_, after)) = around(reminder, CLOSE) else { break };
        kept.push_str(before);
        rest = after;
    }
    if rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// What a user did with a call, as the client reports it in the place of the tool's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'t> {
    /// The call was refused, perhaps with words.
    Refused(&'t str),
    /// The user answered the questions of the call.
    Answered(&'t str),
}

/// Reads the reply of a user to a call. Only the client's own words at the start of an answer count.
pub(super) fn reply(answer: &str) -> Option<Reply<'_>> {
    const REFUSALS: &[&str] = &["The user doesn't want to", "The user rejected", "User rejected"];
    const ANSWERS: &[&str] = &["User has answered your questions:", "User answered:"];
    const SAID: &str = "the user said:";
    const BYTES_MAX: usize = 4_000;
    let answer = Some(answer.trim()).filter(|answer| answer.len() <= BYTES_MAX)?;
    if let Some(words) = ANSWERS.iter().find_map(|opening| answer.strip_prefix(opening)) {
        let words = words.split(". You can now").next().unwrap_or(words);
        return Some(Reply::Answered(words.trim()));
    }
    REFUSALS.iter().any(|opening| answer.starts_with(opening)).then(|| {
        Reply::Refused(around(answer, SAID).map(|(_, said)| said.trim()).unwrap_or_default())
    })
}

/// The text before a mark and after it: `split_once`, several times as fast in long texts.
pub(super) fn around<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let at = memmem::find(text.as_bytes(), mark.as_bytes())?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// Removes the first of these elements from a text, and returns its content.
fn taken(text: &mut String, tags: &[&str]) -> Option<String> {
    let opening = |open: usize| {
        let rest = &text[open + 1..];
        let opens =
            |tag: &&&str| rest.strip_prefix(**tag).is_some_and(|rest| rest.starts_with(['>', ' ']));
        let tag = tags.iter().find(opens)?;
        Some((open, open + rest.find('>')? + 2, *tag))
    };
    let (open, inside, tag) = memchr::memchr_iter(b'<', text.as_bytes()).find_map(opening)?;
    let close = format!("</{tag}>");
    let end = around(&text[inside..], &close).map_or(text.len(), |before| inside + before.0.len());
    let content = text[inside..end].to_owned();
    text.replace_range(open..(end + close.len()).min(text.len()), " ");
    Some(content)
}

/// Whether no person said this: a client wrote it, or the whole text is one element.
fn is_inserted(said: &str, text: &str) -> bool {
    let is_element = said.starts_with('<')
        && said.find('>').is_some_and(|end| {
            let tag = said[1..end].split(' ').next().unwrap_or_default();
            tag.contains(['-', '_']) && said.ends_with(&format!("</{tag}>"))
        });
    // The text after a notice is the client's instruction for it.
    let is_notice = text.trim_start().starts_with("<task-notification");
    is_element || is_notice || OPENINGS.iter().any(|opening| said.starts_with(opening))
}

/// Words with which users describe themselves or give a standing order.
#[rustfmt::skip]
const LASTING: &[&str] = &[
    "i am ", "i'm ", "i’m ", "my name", "call me", "i prefer", "i like", "i love", "i hate", "i live",
    "i work", "i have a ", "i have two", "my wife", "my husband", "my partner", "my daughter", "my son",
    "my birthday", "allergic", "we use ", "we are ",
    "do not", "don't", "don’t", "not a ", "no new", "must", "never", "always", "only ", "keep the",
    "stays", "whatever", "make sure", "without asking", "remember", "from now on", "instead of",
    "should not", "shouldn't", "no need",
];

/// Whether a sentence holds for longer than its turn: a standing order, or something that users say about
/// themselves.
fn is_lasting(sentence: &str) -> bool {
    if sentence.len() > 600 || sentence.trim_end().ends_with('?') {
        return false;
    }
    let low = sentence.to_lowercase();
    let bytes = low.as_bytes();
    let begins_a_word = |at: &usize| *at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
    let is_phrase = |at: usize| {
        let is_here = |phrase: &&str| {
            phrase.as_bytes()[0] == bytes[at] && bytes[at..].starts_with(phrase.as_bytes())
        };
        bytes[at].is_ascii_lowercase() && LASTING.iter().any(is_here)
    };
    (0..bytes.len()).filter(begins_a_word).any(is_phrase)
        || statements(sentence, Role::User).any(|said| said.saying == Saying::Rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, words: Option<&str>, lasts: bool) {
        let found = speech(text);
        assert_eq!(found.as_ref().map(|speech| speech.words.as_str()), words, "{text}");
        assert_eq!(found.is_some_and(|speech| speech.lasts), lasts, "{text}");
    }

    #[test]
    fn what_a_client_inserts_is_no_users_word() {
        for inserted in [
            "<local-command-caveat>Caveat: x. DO NOT respond.</local-command-caveat>",
            "<local-command-stdout>\u{1b}[2mCompacted\u{1b}[22m</local-command-stdout>",
            "[Request interrupted by user for tool use]",
            "<task-notification>\n<task-id>b0</task-id>\n</task-notification>\nRead the output file.",
            "<system-reminder>Never mention this.</system-reminder>",
            "<some_context>\nx\n</some_context>",
            "Base directory for this skill: /x\n\n# Search",
            "<system-reminder>not closed",
            " ",
        ] {
            check(inserted, None, false);
        }
        check("<system-reminder>x</system-reminder>\nFix it.", Some("Fix it."), false);
        check("a <b> c", Some("a <b> c"), false);
        check(
            "<command-name>/compact</command-name>\n <command-message>compact</command-message>\n\
             <command-args>and go on</command-args>",
            Some("/compact and go on"),
            false,
        );
    }

    #[test]
    fn a_pasted_log_is_told_by_its_telling_line() {
        let info = "2026-03-01T10:00:00Z INFO web-1 GET /health 200 in 3 ms\n".repeat(40);
        let fatal = "2026-03-01T10:07:00Z FATAL web-1 disk is full";
        let said = speech(&format!("Why is it down?\n{info}{fatal}\n{info}")).unwrap();
        assert!(said.words.starts_with("Why is it down?") && said.lasts, "{said:?}");
        assert!(said.words.ends_with(&format!("{fatal}…")), "{said:?}");
        assert!(in_short(&said.words).ends_with(&format!("{fatal}…")), "{said:?}");
    }

    #[test]
    fn many_pasted_logs_keep_their_telling_lines_in_little_room() {
        let mut log = super::super::Log::default();
        let pastes: Vec<String> =
            (0..45).map(|number| format!("FATAL web-{number} disk is full")).collect();
        for (number, fatal) in pastes.iter().enumerate() {
            let info = format!("2026-03-01 INFO web-{number} GET /health 200\n").repeat(60);
            log.hear_user(&format!("What is this?\n{info}2026-03-01 {fatal}\n{info}And now?"));
        }
        let meter = longhand_meter::Chars::new("4".parse().unwrap());
        let told = log
            .page(&[], &[], longhand_core::Tokens(2_000), &longhand_core::Scale::new(&meter))
            .text;
        let lost: Vec<&String> = pastes.iter().filter(|fatal| !told.contains(*fatal)).collect();
        assert!(lost.is_empty() && told.contains("And now?"), "{lost:?}: {told}");
    }

    #[test]
    fn replies_to_calls_are_known_by_the_words_of_clients() {
        let refused = "The user doesn't want to proceed with this tool use. It was rejected.";
        assert_eq!(reply(refused), Some(Reply::Refused("")));
        let said = format!("{refused} To tell you how to proceed, the user said:\nnot on main");
        assert_eq!(reply(&said), Some(Reply::Refused("not on main")));
        let answered =
            "User has answered your questions: \"Port?\"=\"8080\". You can now continue.";
        assert_eq!(reply(answered), Some(Reply::Answered("\"Port?\"=\"8080\"")));
        assert_eq!(reply("log: The user doesn't want to pay"), None);
    }

    #[test]
    fn what_lasts_is_told_from_what_passes() {
        check(
            "I am allergic to nuts. Write a poem.",
            Some("I am allergic to nuts. Write a poem."),
            true,
        );
        check("No, not a second timer.", Some("No, not a second timer."), true);
        check("Fix the build.", Some("Fix the build."), false);
        check("Why must it fail?", Some("Why must it fail?"), false);
    }

    #[test]
    fn a_long_text_keeps_its_head_and_its_rules() {
        let text = format!("Please look. {}Never push to main. Bye.", "One word. ".repeat(100));
        let words = speech(&text).unwrap().words;
        assert!(words.starts_with("Please look. One word. "), "{words}");
        assert!(words.ends_with("… Never push to main.…"), "{words}");
        let text = format!("{}You must not push. {}", "x".repeat(150) + ". ", "Yes. ".repeat(40));
        assert_eq!(in_short(&text), format!("{}. You must not push.…", "x".repeat(150)));
        let text = format!(
            "{}. {}. Please write the rule down first. It is TW-209.",
            "x".repeat(170),
            "All of it is old".repeat(9)
        );
        let short = in_short(&text);
        assert!(short.ends_with("… Please write the rule down first.… It is TW-209.…"), "{short}");
    }
}
