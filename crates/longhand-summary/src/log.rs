//! A work log: what a reader needs to take over a conversation, derived from its messages.
//!
//! Each message is read once. What is known is kept as a state from one fold to the next; a page shows
//! as much of it as has room, in the order of its worth.

mod action;
mod answer;
mod call;
mod choice;
mod contents;
mod document;
mod excerpts;
mod files;
mod finding;
mod heading;
mod lines;
mod name_index;
mod name_text;
mod names;
mod page;
mod record;
mod sheet;
mod shell;
mod speech;
mod standing;
mod state;
mod story;
mod work;

use std::borrow::Cow;

use longhand_core::anchor::{Miner, printed};
use longhand_core::json::{JsonCursor, JsonKind, JsonNode};
use longhand_core::{
    Message, Part, Role, Text, ToolCall, ToolResult, acts_in_text, cut, earlier, reads_like_output,
};
use rustc_hash::FxHashMap;

use self::action::{Action, FileChange, in_short};
use self::answer::Answer;
use self::call::{Pointers, ReadCall};
use self::excerpts::Excerpts;
use self::names::{COMMAND_MARK, NameSource, Names};
pub use self::page::LogPage;
pub use self::speech::user_words;
use self::speech::{WORDS_CHARS_MIN, in_brief, reply, speech, without_reminders};
use self::standing::Standing;
use self::story::Story;
use self::work::WorkState;
use crate::quote;

/// The most bytes of users' words that are kept.
const WORDS_BYTES_MAX: usize = 24_000;

/// How much of a tool's answer is read for names, at its two ends.
const NAMES_BYTES_MAX: usize = 64 * 1024;

/// By how much a mention in the talk counts for more than one in an answer of a tool.
const TALK_WEIGHT: u32 = 3;

/// The label of names that users and models spoke of.
const TALK: &str = "`talk`";

/// By how much the path of a file that is looked at does.
const FILE_WEIGHT: u32 = 6;

/// By how much a mention by the user does.
const USER_WEIGHT: u32 = 12;

/// The most characters of a path that names are listed under.
const SOURCE_CHARS_MAX: usize = 160;

/// Arguments of more bytes hold a file or a patch.
const BULKY_BYTES: usize = 600;

/// What is known of the messages that were folded.
///
/// ```
/// use longhand_core::{Message, Part, Role, Scale, Tokens};
/// use longhand_meter::{ImageRule, Vocabulary};
/// use longhand_summary::Log;
///
/// let say = |role, text: &str| Message::new(role, None, vec![Part::Text(text.into())], text.into());
/// let mut log = Log::default();
/// log.read(&[
///     &say(Role::User, "I am allergic to nuts. Which cake do you like?"),
///     &say(Role::Assistant, "Lemon cake. Decision: no nuts, because you are allergic."),
/// ]);
/// let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
/// let page = log.page(&[], &[], Tokens(200), &Scale::new(&meter));
/// assert_eq!(
///     page.text,
///     "The user said:\n\
///      - 1: \"I am allergic to nuts. Which cake do you like?\"\n\
///      Decided:\n\
///      - (1) no nuts, because you are allergic.\n\
///      How it went:\n\
///      - 1: Lemon cake."
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// How many rounds began.
    rounds: u64,
    /// How many messages were read.
    messages: u64,
    words: Vec<Words>,
    standing: Standing,
    work: WorkState,
    story: Story,
    names: Names,
    excerpts: Excerpts,
    pointers: Pointers,
    /// Whether the model calls tools the way that providers offer.
    calls_tools: bool,
    /// The command that the newest message ended with, where the model acts in text.
    acting: Option<String>,
    /// Whether the next user message is the client's expansion of a slash command.
    expands: bool,
    /// Knows the ids of this project.
    miner: Miner,
    hands_over: bool,
}

/// What a user said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Words {
    round: u64,
    /// Whether it gives an order that stands, or tells of the user.
    lasts: bool,
    text: String,
}

impl Log {
    /// The same with a miner that knows the ids of the project.
    #[must_use]
    pub fn with_miner(self, miner: Miner) -> Self {
        Self { miner, ..self }
    }

    /// Says whether a page is for somebody who takes over. Otherwise it is for the model that goes on, which needs
    /// more names.
    pub fn hands_over(&mut self, hands_over: bool) {
        self.hands_over = hands_over;
    }

    /// How many rounds began so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Counts the rounds of messages that stay in sight before the first that is read.
    pub fn begin_after(&mut self, messages: &[&Message]) {
        if self.messages == 0 {
            self.rounds = messages.iter().filter(|message| message.is_user_turn()).count() as u64;
            for message in messages.iter().filter(|message| message.is_user_turn()) {
                for text in message.parts.iter().filter_map(Part::text) {
                    self.pointers.read(&without_reminders(&text.decode()));
                }
            }
        }
    }

    /// Reads messages, oldest first.
    pub fn read(&mut self, messages: &[&Message]) {
        let mut calls = OpenCalls::default();
        for message in messages {
            self.messages += 1;
            self.read_message(message, &mut calls);
        }
    }

    /// Reads the account of a tool that is no message.
    pub fn read_trace(&mut self, name: &str, summary: &str) {
        self.names.read(summary, self.messages, 1, NameSource::default());
        let action = Action::Look(quote::line_within(name, 60));
        self.work.take(&action, &Answer::of(&action, summary, false), self.messages);
    }

    /// Replaces the story's lines about the first `rounds` rounds by a text that a model wrote.
    pub fn tell(&mut self, rounds: u64, text: &str) {
        self.story.tell(rounds, text);
    }

    /// The story so far, for a model that continues it.
    pub fn story(&self) -> String {
        let told = self.story.told.iter().flat_map(|told| told.1.iter().cloned());
        let newer = self.story.lines.iter().filter(|line| line.round >= self.story.first_own());
        let newer = newer.map(|line| format!("{}: {}", line.round, line.text));
        told.chain(newer).collect::<Vec<_>>().join("\n")
    }

    fn read_message<'m>(&mut self, message: &'m Message, calls: &mut OpenCalls<'m>) {
        let acting = self.acting.take();
        for part in &message.parts {
            match part {
                // The block of an earlier fold is taken over whole.
                part if message.role == Role::User && earlier(part).is_some() => {}
                Part::Text(text) | Part::FixedText(text) => {
                    let works_on = message.calls().next().is_some();
                    self.read_text(message.role, text, acting.as_deref(), works_on);
                }
                Part::Call(call) => {
                    calls.insert(call.id.decode(), self.read_call(call));
                }
                Part::Result(result) => {
                    let call = calls.remove(&result.call.decode());
                    self.read_result(call, result);
                }
                part => {
                    if let Some(text) = part.text() {
                        let text = text.decode();
                        self.names.read(
                            bounded(&text),
                            self.messages,
                            TALK_WEIGHT,
                            NameSource::default(),
                        );
                    }
                }
            }
        }
        if message.role == Role::Assistant && !self.calls_tools && acts_in_text(message) {
            let last = message.parts.iter().rev().find_map(Part::text);
            self.acting = last.map(|text| command_in(&text.decode()));
        }
    }

    fn read_call<'m>(&mut self, call: &'m ToolCall) -> OpenCall<'m> {
        self.calls_tools = true;
        let arguments = call.arguments.decode();
        let weight = if arguments.len() < BULKY_BYTES { TALK_WEIGHT } else { 1 };
        let mut cursor = JsonCursor::new(&arguments);
        let node = cursor.node().ok();
        let is_object = |node: &JsonNode| node.value.kind == JsonKind::Object;
        let is_object = node.as_ref().is_some_and(is_object) && cursor.end().is_ok();
        let read = ReadCall::of(call, arguments, node.as_ref());
        let arguments = &*read.arguments;
        let path = source_of(&read.action);
        let source = self.names.source(&path);
        // The names of files come before the names in them.
        self.names.read(&path, self.messages, FILE_WEIGHT, source);
        match node.as_ref().filter(|_| is_object) {
            Some(node) => {
                for value in node.strings(arguments).iter().filter_map(|value| value.str(arguments))
                {
                    self.names.read(bounded(&value), self.messages, weight, source);
                }
            }
            None => self.names.read(bounded(arguments), self.messages, weight, source),
        }
        OpenCall { call, read, source }
    }

    fn read_text(&mut self, role: Role, text: &Text, acting: Option<&str>, works_on: bool) {
        let text = text.decode();
        match role {
            Role::User => {
                if let Some((command, output)) = ran_by_user(&text) {
                    self.names.read(bounded(&text), self.messages, 1, NameSource::default());
                    let action = text_action(command);
                    let answer = Answer::of(&action, output, false);
                    self.work.take(&action, &answer, self.messages);
                    return;
                }
                if let Some(command) = acting.filter(|_| reads_like_output(&text)) {
                    let action = text_action(command);
                    let source = self.names.source(&source_of(&action));
                    self.names.read(bounded(&text), self.messages, 1, source);
                    self.work.opens(&text);
                    self.work.take(&action, &Answer::of(&action, &text, false), self.messages);
                    let call = ReadCall::of_text(command, action, &self.work.open_file);
                    let text = observed(&text);
                    let answer = Answer::of(&call.action, &text, false);
                    self.excerpts.take(&call, &self.pointers, &answer, self.messages);
                    return;
                }
                self.hear_user(&text);
                self.work.hear_of_tasks(&text, self.messages);
                self.read_talk(bounded(&without_reminders(&text)), USER_WEIGHT);
            }
            Role::Assistant => {
                self.expands = false;
                self.read_talk(bounded(&text), TALK_WEIGHT);
                let (round, message) = (self.rounds, self.messages);
                self.standing.hear(Role::Assistant, round, message, bounded(&text), works_on);
                self.story.say(self.rounds, self.messages, bounded(&text));
                for path in edited_in_text(&text) {
                    self.work.change(FileChange::Changed, path, self.messages);
                }
            }
            Role::Tool | Role::System => {
                self.names.read(bounded(&text), self.messages, 1, NameSource::default());
            }
        }
    }

    fn read_talk(&mut self, text: &str, weight: u32) {
        let source = self.names.source(TALK);
        self.names.read(text, self.messages, weight, source);
        self.miner.ids(text).for_each(|id| self.names.add_own(id, self.messages));
    }

    fn hear_user(&mut self, text: &str) {
        let Some(said) = speech(text) else { return };
        // The client's expansion of a command is not what the user typed.
        if std::mem::take(&mut self.expands) && text.len() > 4 * WORDS_CHARS_MIN {
            return;
        }
        self.expands = said.is_command;
        self.rounds += 1;
        self.pointers.read(&said.words);
        self.standing.hear(Role::User, self.rounds, self.messages, bounded(text), false);
        self.words.retain(|words| words.text != said.words);
        self.words.push(Words { round: self.rounds, lasts: said.lasts, text: said.words });
        self.shorten_words();
    }

    /// Keeps the users' words within bounds: old ones are shortened, then dropped, rules last.
    fn shorten_words(&mut self) {
        let bytes =
            |words: &[Words]| words.iter().map(|entry| entry.text.len() + 16).sum::<usize>();
        if bytes(&self.words) <= WORDS_BYTES_MAX {
            return;
        }
        let half = self.words.len() / 2;
        for words in &mut self.words[..half] {
            words.text = in_brief(&words.text, WORDS_CHARS_MIN);
        }
        while bytes(&self.words) > WORDS_BYTES_MAX * 7 / 8 {
            let oldest = self.words.iter().position(|words| !words.lasts);
            self.words.remove(oldest.unwrap_or(0));
        }
    }

    fn read_result(&mut self, call: Option<OpenCall>, result: &ToolResult) {
        let answer = answer_of(result);
        let answer = if is_cleared(&answer) { Cow::Borrowed("") } else { answer };
        self.work.hear_of_tasks(&answer, self.messages);
        let answer = without_reminders(&answer);
        let answer = printed(answer.trim_end());
        let source = call.as_ref().map(|call| call.source).unwrap_or_default();
        if answer.len() > NAMES_BYTES_MAX {
            let head = cut::head(&answer, NAMES_BYTES_MAX * 3 / 4);
            let tail = cut::tail(&answer, NAMES_BYTES_MAX / 4);
            self.names.read(head, self.messages, 1, source);
            self.names.read(tail, self.messages, 1, source);
        } else {
            self.names.read(&answer, self.messages, 1, source);
        }
        if let Some(OpenCall { call, read, .. }) = call {
            if let Some(reply) = reply(&answer) {
                let name = in_short(call, &read.arguments);
                return self.work.hear_reply(&name, &reply, self.messages);
            }
            if read.is_background
                && let Action::Run(command) = &read.action
            {
                return self.work.start_in_background(command, &answer, self.messages);
            }
            let answer = Answer::of(&read.action, &answer, result.error);
            self.work.take(&read.action, &answer, self.messages);
            self.excerpts.take(&read, &self.pointers, &answer, self.messages);
        }
    }
}

/// The calls that have no answer yet, by their ids.
type OpenCalls<'m> = FxHashMap<Cow<'m, str>, OpenCall<'m>>;

/// A call that has no answer yet.
struct OpenCall<'m> {
    call: &'m ToolCall,
    read: ReadCall<'m>,
    /// What the names in its answer are from.
    source: NameSource,
}

/// Whether a client has put a note in the place of an answer: `[Old tool result content cleared]`.
fn is_cleared(answer: &str) -> bool {
    const BYTES_MAX: usize = 80;
    answer.len() <= BYTES_MAX && answer.starts_with('[') && answer.ends_with(" cleared]")
}

/// What a tool answered, as one text.
fn answer_of(result: &ToolResult) -> Cow<'_, str> {
    let mut answer = Cow::Borrowed("");
    for text in result.content.iter().filter_map(Part::text).map(Text::decode) {
        if answer.is_empty() {
            answer = text;
        } else {
            let joined = answer.to_mut();
            joined.push('\n');
            joined.push_str(&text);
        }
    }
    answer
}

/// The file or the command that names are from; empty if it is not a single one.
fn source_of(action: &Action) -> Cow<'_, str> {
    match action {
        Action::Run(command) => Cow::Owned(command_label(command)),
        Action::Look(what) | Action::Change(what) => {
            let tool = what.split(' ').next().unwrap_or_default();
            Cow::Owned(format!("{COMMAND_MARK}{tool}{COMMAND_MARK}"))
        }
        Action::Open(path) => Cow::Owned(quote::line_within(path, SOURCE_CHARS_MAX)),
        Action::Edit(files) => match files.as_slice() {
            [(_, path)] => Cow::Owned(quote::line_within(path, SOURCE_CHARS_MAX)),
            _ => Cow::Borrowed(""),
        },
        _ => Cow::Borrowed(""),
    }
}

/// The program of a command line and what it is told to do: `git log`.
fn command_label(command: &str) -> String {
    let line = work::command_line(command);
    let words = line.split_whitespace().take(2).filter(|word| {
        word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ':'))
            && !word.starts_with('-')
    });
    let words: Vec<&str> = words.collect();
    if words.is_empty() {
        return String::new();
    }
    format!("{COMMAND_MARK}{}{COMMAND_MARK}", words.join(" "))
}

/// The head of a text that may be very long.
fn bounded(text: &str) -> &str {
    cut::head(text, NAMES_BYTES_MAX)
}

/// The command that a text ends with: the last block of code, or the last line.
fn command_in(text: &str) -> String {
    let text = text.trim_end();
    let inside = text.strip_suffix("```").and_then(|body| {
        let start = body.rfind("```")?;
        let code = &body[start + 3..];
        // The first line may name a language.
        Some(
            code.split_once('\n')
                .filter(|(first, _)| !first.contains(' '))
                .map_or(code, |(_, rest)| rest),
        )
    });
    inside.unwrap_or_else(|| text.lines().next_back().unwrap_or_default()).trim().to_owned()
}

/// A command that a user ran in the client, and what it printed, as aider writes it.
fn ran_by_user(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start().strip_prefix("I ran this command:")?;
    let (command, output) = rest.split_once("And got this output:")?;
    Some((command.trim(), output.trim()))
}

/// The action of a command that is written as text, including the commands of editors.
fn text_action(command: &str) -> Action {
    let mut words = command.lines().next().unwrap_or_default().split_whitespace();
    match (words.next(), words.next()) {
        (Some("create"), Some(path)) => Action::Edit(vec![(FileChange::Created, path.to_owned())]),
        (Some("open"), Some(path)) => Action::Open(path.trim_matches('"').to_owned()),
        (Some("edit" | "insert"), _) => Action::EditOpen,
        (Some(tool @ ("scroll_down" | "scroll_up" | "goto" | "submit")), _) => {
            Action::Look(tool.to_owned())
        }
        _ => Action::Run(command.to_owned()),
    }
}

/// What an agent that acts in text is shown, without the state of its shell and the numbers of an open file.
fn observed(text: &str) -> String {
    #[rustfmt::skip]
    const STATE: &[&str] = &["[File:", "(Open file:", "(Current directory:", "bash-$", "Observation:", "OBSERVATION:"];
    let is_file = text.contains("[File:");
    let lines = text.lines().filter(|line| !STATE.iter().any(|mark| line.starts_with(mark)));
    let lines = lines.map(|line| match line.split_once(':').filter(|_| is_file) {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The files of search-and-replace blocks, which are named on the line before.
fn edited_in_text(text: &str) -> Vec<&str> {
    if !text.contains("<<<<<<< SEARCH") {
        return Vec::new();
    }
    let mut paths: Vec<&str> = Vec::new();
    let mut before = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with("<<<<<<< SEARCH")
            && before.contains(['.', '/'])
            && !paths.contains(&before)
        {
            paths.push(before);
        }
        if !line.is_empty() && !line.starts_with("```") && !line.starts_with("<<<<<<<") {
            before = line.trim_matches(['`', '*']);
        }
    }
    paths
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
