//! A recorded conversation, cut into the requests that it was made of.

use std::ops::Range;
use std::sync::Arc;

use longhand_core::{Message, Meter, Role, Scale, Tokens};
use longhand_dialect::{Conversation, Dialect, DialectError, read_shared, write_with_sources};
use rustc_hash::{FxHashMap, FxHashSet};

use super::figures::Measure;
use super::seen::WindowTexts;
use super::work::AgentWork;
use super::{ReplaySettings, readable};
use crate::recall::TOOL;
use crate::source::source_ms;

/// How many of its newest messages an agent is taken to remember without help.
const RECENT: usize = 4;

/// A recorded conversation with all that does not depend on how its windows are made.
pub struct Trace {
    /// As one request that has all messages.
    pub(super) conversation: Conversation,
    /// What each message counts for.
    pub(super) weights: Vec<Tokens>,
    /// What a request takes besides messages.
    pub(super) fixed: Tokens,
    /// The messages that each request led to.
    pub(super) replies: Vec<Range<usize>>,
    /// What is asked of the window of each request.
    pub(super) questions: Questions,
    /// The readable texts of all parts.
    pub(super) originals: FxHashSet<String>,
    /// The pause before each request, in milliseconds, where the file tells the times.
    pauses: Vec<Option<u64>>,
    /// How long its provider kept a prefix that nobody asked for, in milliseconds.
    cache_life_ms: u64,
    reply: Tokens,
}

/// What is asked of windows.
#[derive(Default)]
pub(super) struct Questions {
    /// Each text once.
    pub(super) texts: Vec<String>,
    /// For each request, which of them are to be found, and for which measure.
    pub(super) requests: Vec<Vec<(Measure, usize)>>,
    numbers: FxHashMap<String, usize>,
}

impl Trace {
    /// Takes a conversation apart; a session file is taken for the requests of its agent.
    ///
    /// Every message of the assistant is one request. Items of Responses that follow one another are one
    /// message.
    pub fn new(conversation: &Conversation, meter: &dyn Meter) -> Result<Self, DialectError> {
        let cache_life_ms = conversation.cache_life_ms();
        let (conversation, times) = as_request(conversation)?;
        let scale = Scale::new(meter);
        let weigh = |message: &Message| scale.message(message, Tokens::MAX);
        let weights = conversation.messages.iter().map(weigh).collect();
        let fixed = conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum();
        let replies = replies(&conversation);
        let questions = Questions::of(&conversation.messages, &replies);
        let parts = conversation.messages.iter().flat_map(|message| &message.parts);
        let originals = parts.map(readable::part).collect();
        let reply = scale.framing().reply;
        let pauses = pauses(&replies, &times);
        Ok(Self {
            conversation,
            weights,
            fixed,
            replies,
            questions,
            originals,
            pauses,
            cache_life_ms,
            reply,
        })
    }

    /// How long nothing was sent before a request, in milliseconds.
    pub(super) fn idle_ms(&self, request: usize) -> Option<u64> {
        self.pauses.get(request).copied().flatten()
    }

    /// How many requests came after a pause in which the provider's cache ran out, by some settings.
    pub fn pauses(&self, settings: &ReplaySettings) -> usize {
        self.pauses.iter().filter(|pause| settings.is_cold(**pause)).count()
    }

    /// How long its provider kept a prefix that nobody asked for, in milliseconds; `None` if the file has no times.
    pub fn cache_life_ms(&self) -> Option<u64> {
        self.pauses.iter().any(Option::is_some).then_some(self.cache_life_ms)
    }

    /// What a request takes besides messages, with the recall tool if the settings have it.
    pub(super) fn fixed_of(&self, settings: &ReplaySettings) -> Tokens {
        let tool = TOOL.write(self.conversation.dialect).filter(|_| settings.recall_tool);
        let tool = tool.map(|tool| Scale::new(&*settings.meter).text(&tool));
        self.fixed + tool.unwrap_or_default()
    }

    /// The size of the conversation as one request.
    pub fn tokens(&self) -> Tokens {
        self.size(self.weights.len())
    }

    /// How many requests it has.
    pub fn requests(&self) -> usize {
        self.replies.len()
    }

    /// What sending everything would cost, by the prices of some settings.
    pub fn cost_whole(&self, settings: &ReplaySettings) -> f64 {
        let mut cached = Tokens::ZERO;
        let mut cost = 0.0;
        for (request, reply) in self.replies.iter().enumerate() {
            let whole = self.size(reply.start);
            if settings.is_cold(self.idle_ms(request)) {
                cached = Tokens::ZERO;
            }
            cost += cached.0 as f64 * settings.cached_price
                + whole.saturating_sub(cached).0 as f64 * settings.uncached_price;
            cached = whole.saturating_sub(self.reply);
        }
        cost
    }

    /// The size of a request that has so many messages.
    pub(super) fn size(&self, messages: usize) -> Tokens {
        self.weights[..messages].iter().copied().sum::<Tokens>() + self.fixed + self.reply
    }
}

/// The conversation as a request: an object with a list of messages, which is quick to read again when it
/// has grown. With it, when each of its messages was said, in milliseconds since 1970.
fn as_request(
    conversation: &Conversation,
) -> Result<(Conversation, Vec<Option<i64>>), DialectError> {
    let dialect = match conversation.dialect {
        Dialect::Chat | Dialect::Pi => Dialect::Chat,
        Dialect::Responses | Dialect::Codex => Dialect::Responses,
        Dialect::Anthropic | Dialect::ClaudeCode => Dialect::Anthropic,
    };
    let (text, sources) = if conversation.dialect == dialect {
        (conversation.bytes().to_owned(), Vec::new())
    } else {
        let messages = conversation.messages.iter().map(|message| (conversation.dialect, message));
        write_with_sources(&messages.collect::<Vec<_>>(), dialect)
    };
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let is_list = text.trim_start_matches('\u{feff}').trim_start().starts_with('[');
    let text = if is_list {
        format!("{{\"{key}\":{}}}", text.trim_start_matches('\u{feff}'))
    } else {
        text
    };
    let request = read_shared(Arc::new(text), Some(dialect))?;
    let said_ms = |at: &usize| {
        let message = &conversation.messages[*at];
        source_ms(conversation.dialect, message.raw.raw())
    };
    // System messages come first, and have no times.
    let mut times = vec![None; request.messages.len().saturating_sub(sources.len())];
    times.extend(sources.iter().map(said_ms));
    Ok((request, times))
}

/// The pause before each request: from the answer before it to the newest message that it brings.
fn pauses(replies: &[Range<usize>], times: &[Option<i64>]) -> Vec<Option<u64>> {
    let at = |message: usize| times.get(message).copied().flatten();
    let mut answered_ms = None;
    let pauses = replies.iter().map(|reply| {
        let asked_ms = reply.start.checked_sub(1).and_then(at);
        let pause = asked_ms.zip(answered_ms).map(|(asked, answered)| asked - answered);
        answered_ms = reply.clone().rev().find_map(at);
        pause.map(|pause: i64| u64::try_from(pause).unwrap_or(0))
    });
    pauses.collect()
}

/// The messages of the assistant that something was said before.
fn replies(conversation: &Conversation) -> Vec<Range<usize>> {
    let messages = &conversation.messages;
    let mut replies: Vec<Range<usize>> = Vec::new();
    for (at, message) in messages.iter().enumerate().skip(conversation.path().lead + 1) {
        if message.role != Role::Assistant {
            continue;
        }
        match replies.last_mut() {
            Some(last) if last.end == at && conversation.dialect == Dialect::Responses => {
                last.end = at + 1;
            }
            _ => replies.push(at..at + 1),
        }
    }
    replies
}

impl Questions {
    fn of(messages: &[Message], replies: &[Range<usize>]) -> Self {
        let mut questions = Self::default();
        let mut history = WindowTexts::default();
        let texts: Vec<String> = messages.iter().map(readable::message).collect();
        history.advance(0, texts.iter().cloned());
        let (mut work, mut read) = (AgentWork::default(), 0);
        for reply in replies {
            let old = reply.start.saturating_sub(RECENT);
            messages[read..old].iter().for_each(|message| work.read(message));
            read = old;
            let mut asked = Vec::new();
            let mut ask = |measure: Measure, number: usize| {
                if !asked.contains(&(measure, number)) {
                    asked.push((measure, number));
                }
            };
            for text in texts[reply.clone()].iter().flat_map(|text| readable::identifiers(text)) {
                let number = questions.number(text);
                let is_old = history.first(number, text).is_some_and(|first| first < old);
                if is_old && !history.holds(old..reply.start, text) {
                    ask(Measure::Need, number);
                }
            }
            for (measure, text) in work.facts() {
                ask(measure, questions.number(text));
            }
            questions.requests.push(asked);
        }
        questions
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}
