//! The block that stands for messages that are no longer shown.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::anchor::{ranked, telling_line};
use crate::plan::History;
use crate::stub::{clean, grouped};
use crate::{Handle, Message, Part, Role, Scale, Text, Tokens};

/// How much of the folded text is read for its index, newest first.
const READ_BYTES_MAX: usize = 128 * 1024;

/// Whether a message is the block of an earlier fold and nothing else.
pub fn is_fold(message: &Message) -> bool {
    message.role == Role::User
        && matches!(message.parts.as_slice(), [Part::Text(text)] if text.raw().starts_with(FOLD))
}

/// Whether a message has the block of a fold in it, alone or beside its own words.
pub(crate) fn has_fold(message: &Message) -> bool {
    message
        .parts
        .iter()
        .any(|part| matches!(part, Part::Text(text) if text.raw().starts_with(FOLD)))
}

const FOLD: &str = "[longhand fold ";
const IN_THEM: &str = "in them: ";
const BEFORE: &str = "before that: ";

/// Names the folded messages by all that was said in them.
pub(crate) fn handle_of(messages: &[Message], folded: &[Range<usize>]) -> Handle {
    let raws =
        folded.iter().flat_map(|range| &messages[range.clone()]).map(|message| message.raw.raw());
    Handle::of(raws.enumerate().flat_map(|(at, raw)| [if at == 0 { "" } else { "\n" }, raw]))
}

/// The least that a fold block says.
pub(crate) fn headline(handle: Handle, folded: &[Range<usize>]) -> String {
    let count: usize = folded.iter().map(ExactSizeIterator::len).sum();
    let (noun, verb) = if count == 1 { ("message", "is") } else { ("messages", "are") };
    format!("{FOLD}{handle}: {} earlier {noun} {verb} not shown here]", grouped(count))
}

/// The most that the headline can cost, whatever the handle: no letter of it has more than a token.
pub(crate) fn headline_tokens(folded: &[Range<usize>], scale: &Scale) -> Tokens {
    let handle = Handle::of([""]).to_string();
    let line = headline(Handle::of([""]), folded);
    let around = line.split(&handle).map(|piece| scale.text(piece)).sum::<Tokens>();
    around + Tokens(handle.len() as u64)
}

/// What folding nothing but earlier folds must free: less would only lose their index.
pub(crate) const NOTE_GAIN_MIN: Tokens = Tokens(8);

/// What a fold costs or frees besides its text.
///
/// Where roles must alternate, its block joins the user turns beside it, and they one another.
pub(crate) struct Frame {
    pub(crate) costs: Tokens,
    pub(crate) frees: Tokens,
}

impl Frame {
    pub(crate) fn of(history: &History, folded: &[Range<usize>], scale: &Scale) -> Self {
        let message = scale.framing().message;
        let Some(first) = folded.first().map(|range| range.start) else {
            return Self { costs: Tokens::ZERO, frees: Tokens::ZERO };
        };
        let messages = history.messages;
        // A turn without content takes no others in.
        let is_user = |at: usize| messages[at].role == Role::User && !messages[at].parts.is_empty();
        let gone = |at: usize| folded.iter().any(|range| range.contains(&at));
        let joined = if history.wire.alternates {
            let before = usize::from(first.checked_sub(1).is_some_and(is_user));
            before
                + (first..messages.len())
                    .filter(|at| !gone(*at))
                    .take_while(|at| is_user(*at))
                    .count()
        } else {
            0
        };
        match joined {
            0 => Self { costs: message, frees: Tokens::ZERO },
            turns => Self { costs: Tokens::ZERO, frees: Tokens(message.0 * (turns as u64 - 1)) },
        }
    }

    /// The size of a window with a fold in it.
    pub(crate) fn add(&self, tokens: Tokens) -> Tokens {
        (tokens + self.costs).saturating_sub(self.frees)
    }
}

/// Tells what messages were about that a fold takes out of sight.
pub trait Digest {
    /// Lines of quoted text in at most `limit` tokens; nothing that was said may end or begin a block in
    /// them.
    fn digest(&self, gone: &[&Message], limit: Tokens, scale: &Scale) -> String;
}

/// Writes the block in at most `limit` tokens: what went, and what it was about.
pub(crate) fn block(
    messages: &[Message],
    folded: &[Range<usize>],
    scale: &Scale,
    limit: Tokens,
    digest: &dyn Digest,
) -> (Handle, String) {
    let handle = handle_of(messages, folded);
    let gone: Vec<&Message> = folded.iter().flat_map(|range| &messages[range.clone()]).collect();
    let mut lines = vec![headline(handle, folded), tally(&gone)];
    let parts = gone.iter().flat_map(|message| &message.parts);
    lines.extend(parts.filter_map(cited).map(|handle| format!("{BEFORE}{handle}")));
    while lines.len() > 1 && scale.text(&lines.join("\n")) > limit {
        lines.pop();
    }
    let head = lines.join("\n");
    let mut left = limit.saturating_sub(scale.text(&head) + Tokens(1));
    while left > Tokens::ZERO {
        let told = digest.digest(&gone, left, scale);
        let text = format!("{head}\n{told}");
        let tokens = scale.text(&text);
        if told.is_empty() {
            break;
        }
        if tokens <= limit {
            return (handle, text);
        }
        // Joined, texts may count for more than they did one by one.
        left = left.saturating_sub(tokens - limit);
    }
    (handle, head)
}

/// What the block of an earlier fold tells of what it folded; `None` if the part is no such block.
pub fn earlier(part: &Part) -> Option<String> {
    let block = match part {
        Part::Text(text) if text.raw().starts_with(FOLD) => text.decode(),
        _ => return None,
    };
    let told = block.lines().skip(1).filter(|line| !line.starts_with(IN_THEM));
    let told = told.filter(|line| !line.starts_with(BEFORE));
    Some(told.collect::<Vec<_>>().join("\n"))
}

/// Lists the users' words, what was noted, and names: no model, and hardly any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Index;

impl Digest for Index {
    fn digest(&self, gone: &[&Message], limit: Tokens, scale: &Scale) -> String {
        let mut lines: Vec<String> = Vec::new();
        let mut spent = Tokens::ZERO;
        let mut add = |line: String, share: u64| {
            let tokens = scale.text(&line) + Tokens(1);
            let fits = spent + tokens <= Tokens(limit.0 * share / 100);
            if fits {
                spent += tokens;
                lines.push(line);
            }
            fits
        };
        let speaks = |message: &&&Message| message.is_user_turn() || message.role == Role::System;
        for message in gone.iter().rev().filter(speaks).filter(|message| !is_fold(message)) {
            let Some(said) = message.parts.iter().find_map(text_of) else { continue };
            if !add(format!("{} said: {}", message.role.as_str(), json_quoted(&said, 300)), 45) {
                break;
            }
        }
        let texts = recent_texts(gone);
        for told in texts.iter().rev().filter_map(|text| telling_line(text)) {
            if !add(format!("noted: {}", json_quoted(told, 200)), 70) {
                break;
            }
        }
        let anchors = ranked(texts.iter().map(AsRef::as_ref));
        for group in anchors.chunks(8) {
            let names: Vec<_> = group.iter().map(|anchor| clean(anchor.text, 120)).collect();
            if !add(format!("names: {}", names.join(", ")), 95) {
                break;
            }
        }
        let mut text = lines.join("\n");
        while !lines.is_empty() && scale.text(&text) > limit {
            lines.pop();
            text = lines.join("\n");
        }
        text
    }
}

/// Counts what went by role and tool.
fn tally(gone: &[&Message]) -> String {
    let mut tools: FxHashMap<&str, usize> = FxHashMap::default();
    let (mut users, mut replies) = (0, 0);
    for message in gone {
        users += usize::from(message.is_user_turn());
        replies += usize::from(message.role == Role::Assistant);
        for call in message.calls() {
            *tools.entry(call.name.raw()).or_default() += 1;
        }
    }
    let mut tools: Vec<_> = tools.into_iter().collect();
    tools.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    let mut line = format!(
        "{IN_THEM}{} from the user, {} from the assistant",
        grouped(users),
        grouped(replies)
    );
    for (at, (name, count)) in tools.iter().take(6).enumerate() {
        line.push_str(if at == 0 { "; tools " } else { ", " });
        line.push_str(&format!("{} ×{}", clean(name, 40), grouped(*count)));
    }
    line
}

/// The newest texts of the folded messages, oldest first, as many as are read.
fn recent_texts(gone: &[&Message]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut bytes = 0;
    for part in gone.iter().rev().flat_map(|message| message.parts.iter().rev()) {
        let mut read = |text: &Text| {
            bytes += text.raw_len();
            texts.push(text.decode().into_owned());
        };
        match part {
            Part::Text(text) | Part::FixedText(text) => read(text),
            Part::Call(call) => read(&call.arguments),
            Part::Result(result) => result.content.iter().for_each(|part| {
                if let Some(text) = part.text() {
                    read(text);
                }
            }),
            _ => {}
        }
        if bytes > READ_BYTES_MAX {
            break;
        }
    }
    texts.reverse();
    texts
}

fn text_of(part: &Part) -> Option<String> {
    part.text().filter(|text| !text.is_blank()).map(|text| text.decode().into_owned())
}

/// The handle that a fold block cites.
fn cited(part: &Part) -> Option<Handle> {
    let Part::Text(text) = part else { return None };
    let rest = text.raw().strip_prefix(FOLD)?;
    Handle::parse(rest.get(..rest.find(": ")?)?)
}

fn json_quoted(text: &str, chars_max: usize) -> String {
    crate::json::quote(&clean(text, chars_max))
}
