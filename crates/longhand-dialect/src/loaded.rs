//! What an agent loads of its session file, and what the file tells of it.

use longhand_core::json::{JsonCursor, JsonNode};
use longhand_core::{Message, Part, Role};

use crate::Dialect;
use crate::conversation::Conversation;
use crate::session::node;

/// What the model sees in the place of a result that its agent has cleared.
pub(crate) const CLEARED: &str = "[Old tool result content cleared]";

/// What an agent loads of its session file.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadedSession {
    /// How many lines of the file could be read.
    pub lines: usize,
    /// How many of them hold messages that are not loaded: branches that were left, what the agent compacted,
    /// sub-agents.
    pub lines_off: usize,
    /// The bytes of these lines.
    pub bytes_off: usize,
    /// The lines that cannot be read, from 1.
    pub unread: Vec<u32>,
    /// How many lines name a parent that is not in the file.
    pub dangling: usize,
    /// How many compactions of the agent the file has.
    pub compactions: usize,
    /// How many tool results the agent has cleared.
    pub cleared: usize,
    /// What the provider counted for the first answer since the agent last compacted, cleared results or changed its
    /// model, with the messages before it; of the file's first answer if there is none since.
    pub opening: Option<Opening>,
    /// What the provider counted for each answer that is loaded, oldest first.
    pub usage: Vec<UsageReading>,
    /// The lines that an edit leaves alone.
    pub(crate) off: Vec<bool>,
    /// Whether the messages stand in another order than the agent's, or within one line: then a window is written
    /// behind all other lines.
    pub(crate) has_own_order: bool,
}

/// An answer of which the provider's count is known.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The messages before it.
    pub messages: Vec<Message>,
    /// The tokens of its request: system prompt, tools and messages.
    pub input_tokens: u64,
}

/// What a provider counted for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReading {
    /// The index of the answer among the messages.
    pub message: usize,
    /// The tokens of its request.
    pub input_tokens: u64,
    /// The tokens of the answer.
    pub output_tokens: u64,
}

impl LoadedSession {
    /// Whether an edit leaves a line alone.
    pub(crate) fn is_off(&self, element: usize) -> bool {
        self.off.get(element).copied().unwrap_or(false)
    }

    /// Notes which lines of messages are not loaded.
    pub(crate) fn set_off(&mut self, elements: &[JsonNode], off: Vec<bool>) {
        let lines = || elements.iter().zip(&off).filter(|(_, off)| **off).map(|(line, _)| line);
        self.lines = elements.len();
        self.lines_off = lines().count();
        self.bytes_off = lines().map(|line| line.value.span().len()).sum();
        self.off = off;
    }

    /// Notes what the provider counted for an answer, if it counted something.
    pub(crate) fn note_usage(&mut self, reading: UsageReading) {
        if reading.input_tokens == 0 {
            return;
        }
        match self.usage.last_mut() {
            Some(last) if last.message == reading.message => *last = reading,
            _ => self.usage.push(reading),
        }
    }
}

/// An answer with the model that gave it.
pub(crate) struct ModelAnswer {
    pub(crate) model: Option<String>,
    pub(crate) usage: UsageReading,
}

impl Opening {
    /// The first answer of the newest model: another one has another system prompt, and other tokens.
    pub(crate) fn since_change_of_model(
        messages: &[Message],
        answers: &[ModelAnswer],
    ) -> Option<Self> {
        let counted = || answers.iter().rev().filter(|answer| answer.usage.input_tokens > 0);
        let newest = &counted().next()?.model;
        let first = counted().take_while(|answer| answer.model == *newest).last()?.usage;
        let messages = messages.get(..first.message)?.to_vec();
        Some(Self { messages, input_tokens: first.input_tokens })
    }
}

/// The index of the first message of the newest answer: providers send it in several items.
pub(crate) fn first_of_answer(messages: &[Message]) -> usize {
    let is_other = |message: &Message| message.role != Role::Assistant;
    messages.iter().rposition(is_other).map_or(0, |last| last + 1)
}

impl Conversation {
    /// The folder that a session file says it belongs to.
    pub fn folder(&self) -> Option<String> {
        let text = self.bytes();
        let folder_of = |at: usize| {
            let line = node(self, at);
            let payload = || {
                let payload = line.get(text, "payload")?;
                JsonCursor::at(text, payload.span().start).node().ok()?.get(text, "cwd")
            };
            let folder = line.get(text, "cwd").or_else(payload)?.str(text)?.into_owned();
            Some(folder).filter(|folder| !folder.is_empty())
        };
        (0..self.elements.len()).find_map(folder_of)
    }

    /// Takes what is not in the file from another conversation, so that both are counted alike.
    pub fn opens_like(&mut self, other: &Self) {
        if let (Some(loaded), Some(like)) = (&mut self.loaded, &other.loaded) {
            loaded.opening.clone_from(&like.opening);
        }
    }
}

/// What an agent wrote down of a conversation when it compacted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSummary {
    /// The message that it stands before, by its index.
    pub before: usize,
    /// What it says.
    pub text: String,
    /// The line, as it stands in the file.
    pub line: String,
}

impl Conversation {
    /// What the agent wrote down when it compacted the conversation of a session file, oldest first.
    pub fn agent_summaries(&self) -> Vec<AgentSummary> {
        let mut found = Vec::new();
        for at in 0..self.elements.len() {
            let line = node(self, at);
            let Some(text) = self.summary_of(&line).filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            let is_later = |message: &usize| {
                self.layout[*message].elements.iter().min().is_some_and(|first| *first > at)
            };
            let before = (0..self.layout.len()).find(is_later).unwrap_or(self.layout.len());
            let line = self.bytes()[line.value.span()].to_owned();
            found.push(AgentSummary { before, text, line });
        }
        found
    }

    fn summary_of(&self, line: &JsonNode) -> Option<String> {
        let text = self.bytes();
        let object =
            |key: &str| JsonCursor::at(text, line.get(text, key)?.span().start).node().ok();
        let is = |kind: &str| line.get(text, "type").is_some_and(|value| value.is(text, kind));
        let value = match self.dialect {
            Dialect::ClaudeCode => {
                let is_summary = line.get(text, "isCompactSummary")?;
                (&text[is_summary.span()] == "true").then_some(())?;
                object("message")?.get(text, "content")?
            }
            Dialect::Codex if is("compacted") => object("payload")?.get(text, "message")?,
            Dialect::Pi if is("compaction") => line.get(text, "summary")?,
            _ => return None,
        };
        if let Some(words) = value.str(text) {
            return Some(words.into_owned());
        }
        let node = JsonNode { fields: vec![(value, value)], ..JsonNode::default() };
        let strings = node.strings(text).into_iter().filter_map(|value| value.str(text));
        let words = strings.filter(|words| words != "text");
        Some(words.collect::<Vec<_>>().join("\n"))
    }
}

/// Adds numeric fields of an object.
pub(crate) fn sum_of(text: &str, node: &JsonNode, keys: &[&str]) -> u64 {
    let number = |key: &&str| text[node.get(text, key)?.span()].parse::<u64>().ok();
    keys.iter().filter_map(number).fold(0, u64::saturating_add)
}

/// Whether a part is a result that its agent has cleared.
pub(crate) fn is_cleared(part: &Part) -> bool {
    let Part::Result(result) = part else { return false };
    let text = result.content.first().and_then(Part::text);
    result.fixed && text.is_some_and(|text| text.decode() == CLEARED)
}
