//! Whether a provider would take a conversation.

use std::fmt;

use longhand_core::{Message, Part, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Dialect;
use crate::conversation::Conversation;

/// Something that a provider would refuse, or that some would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The message and field.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// Whether the provider refuses it; otherwise it is only odd.
    pub grave: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// What one request may hold at Anthropic.
const ANTHROPIC_MESSAGES_MAX: usize = 100_000;
const ANTHROPIC_BYTES_MAX: usize = 32 * 1024 * 1024;
const ANTHROPIC_IMAGES_MAX: usize = 100;
const ANTHROPIC_CACHE_MARKS_MAX: usize = 4;

impl Conversation {
    /// Lists all that is wrong with the conversation in its dialect.
    pub fn check(&self) -> Vec<Finding> {
        let mut check = Check { conversation: self, findings: self.findings.clone() };
        check.ids();
        match self.dialect {
            Dialect::Chat => check.results_follow_at_once(),
            Dialect::Anthropic => check.anthropic(),
            Dialect::Responses => {
                check.results_follow();
                check.reasoning_leads_on();
            }
            Dialect::ClaudeCode | Dialect::Codex | Dialect::Pi => check.results_follow(),
        }
        check.findings
    }
}

struct Check<'c> {
    conversation: &'c Conversation,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn note(&mut self, message: usize, what: String, grave: bool) {
        self.findings.push(Finding { at: self.conversation.name_of(message), what, grave });
    }

    fn wrong(&mut self, message: usize, what: impl Into<String>) {
        self.note(message, what.into(), true);
    }

    fn odd(&mut self, message: usize, what: impl Into<String>) {
        self.note(message, what.into(), false);
    }

    /// No two calls share an id.
    fn ids(&mut self) {
        let conversation = self.conversation;
        let mut seen: FxHashMap<String, usize> = FxHashMap::default();
        for (at, message) in conversation.messages.iter().enumerate() {
            for call in message.calls() {
                let id = call.id.decode().into_owned();
                if let Some(first) = seen.get(&id) {
                    let first = conversation.name_of(*first);
                    let grave = !conversation.dialect.is_session_file();
                    self.note(at, format!("the call id {id:?} is used in {first} already"), grave);
                } else {
                    seen.insert(id, at);
                }
            }
        }
    }

    /// Chat: the messages after one with calls are its results, one for each call.
    fn results_follow_at_once(&mut self) {
        let messages = &self.conversation.messages;
        let mut open: Vec<String> = Vec::new();
        let mut asker = 0;
        for (at, message) in messages.iter().enumerate() {
            if message.role != Role::Tool {
                self.unanswered(asker, &mut open);
                asker = at;
                open = message.calls().map(|call| call.id.decode().into_owned()).collect();
                continue;
            }
            for result in message.results() {
                let id = result.call.decode();
                match open.iter().position(|asked| *asked == id) {
                    Some(found) => drop(open.swap_remove(found)),
                    None => {
                        self.wrong(at, format!("the result of {id:?} does not follow its call"));
                    }
                }
            }
        }
        self.unanswered(asker, &mut open);
    }

    fn unanswered(&mut self, asker: usize, open: &mut Vec<String>) {
        for id in open.drain(..) {
            self.wrong(asker, format!("the call {id:?} has no result right after it"));
        }
    }

    /// Responses and session files: every result has its call somewhere before it, and one only.
    fn results_follow(&mut self) {
        let conversation = self.conversation;
        let session = conversation.dialect.is_session_file();
        let mut open: FxHashMap<String, usize> = FxHashMap::default();
        let mut done: FxHashSet<String> = FxHashSet::default();
        for (at, message) in conversation.messages.iter().enumerate() {
            for call in message.calls() {
                open.insert(call.id.decode().into_owned(), at);
            }
            for result in message.results() {
                let id = result.call.decode().into_owned();
                if open.remove(&id).is_some() {
                    done.insert(id);
                } else if done.contains(&id) {
                    self.note(at, format!("the call {id:?} has more than one result"), !session);
                } else if !conversation.continues {
                    self.note(at, format!("the result of {id:?} has no call before it"), !session);
                }
            }
        }
        let mut open: Vec<_> = open.into_iter().collect();
        open.sort_by_key(|(_, at)| *at);
        for (id, at) in open {
            // A log may end, or be interrupted, in the middle of a call.
            self.note(at, format!("the call {id:?} has no result"), !session);
        }
    }

    /// Responses: reasoning is followed by what it led to.
    fn reasoning_leads_on(&mut self) {
        let messages = &self.conversation.messages;
        let is_reasoning = |message: &Message| {
            matches!(message.parts.as_slice(), [Part::Thinking(_)])
                && message.role == Role::Assistant
        };
        for (at, message) in
            messages.iter().enumerate().filter(|(_, message)| is_reasoning(message))
        {
            let next = messages.get(at + 1);
            if message.role == Role::Assistant
                && next.is_none_or(|next| next.role != Role::Assistant)
            {
                self.wrong(at, "reasoning must be followed by the item it led to");
            }
        }
    }

    fn anthropic(&mut self) {
        let conversation = self.conversation;
        let turns: Vec<usize> = (0..conversation.messages.len())
            .filter(|at| !conversation.layout[*at].elements.is_empty())
            .collect();
        let role = |at: usize| conversation.messages[at].role;
        if let Some(&first) = turns.first().filter(|first| role(**first) != Role::User) {
            self.wrong(first, "the first message must be the user's");
        }
        for pair in turns.windows(2) {
            if role(pair[0]) == role(pair[1]) && role(pair[0]) != Role::System {
                self.odd(
                    pair[1],
                    format!("two messages of the {} in a row", role(pair[0]).as_str()),
                );
            }
        }
        for (index, &at) in turns.iter().enumerate() {
            let next = turns.get(index + 1).copied();
            self.placed(at, index.checked_sub(1).map(|before| turns[before]), next);
            self.answered(at, index.checked_sub(1).map(|before| turns[before]), next);
            self.blocks(at);
        }
        if let Some(&last) = turns.last().filter(|last| role(**last) == Role::Assistant)
            && let Some(Part::Text(text)) = conversation.messages[last].parts.last()
            && text.decode().ends_with(char::is_whitespace)
        {
            self.odd(last, "a last message of the assistant must not end in white space");
        }
        self.limits(&turns);
    }

    /// A system message in the middle stands between a user and an assistant turn.
    fn placed(&mut self, at: usize, before: Option<usize>, next: Option<usize>) {
        let role = |at: Option<usize>| at.map(|at| self.conversation.messages[at].role);
        if role(Some(at)) != Some(Role::System) {
            return;
        }
        let after_user = role(before) == Some(Role::User);
        let before_reply = matches!(role(next), None | Some(Role::Assistant));
        if !after_user || !before_reply {
            self.wrong(at, "a system message stands after a user's and before an assistant's");
        }
    }

    /// Every call is answered at the start of the next message, and nothing else is answered there.
    fn answered(&mut self, at: usize, before: Option<usize>, next: Option<usize>) {
        let messages = &self.conversation.messages;
        let calls: Vec<String> =
            messages[at].calls().map(|call| call.id.decode().into_owned()).collect();
        let results: Vec<String> = next.map_or_else(Vec::new, |next| {
            messages[next].results().map(|result| result.call.decode().into_owned()).collect()
        });
        for id in calls.iter().filter(|id| !results.contains(id)) {
            self.wrong(at, format!("the call {id:?} has no result in the next message"));
        }
        let asked: Vec<String> = before.map_or_else(Vec::new, |before| {
            messages[before].calls().map(|call| call.id.decode().into_owned()).collect()
        });
        let mut seen = FxHashSet::default();
        for result in messages[at].results() {
            let id = result.call.decode().into_owned();
            if !asked.contains(&id) {
                self.wrong(at, format!("the result of {id:?} has no call in the message before"));
            } else if !seen.insert(id.clone()) {
                self.wrong(at, format!("the call {id:?} has more than one result"));
            }
        }
    }

    fn blocks(&mut self, at: usize) {
        let message = &self.conversation.messages[at];
        let mut other = false;
        for (index, part) in message.parts.iter().enumerate() {
            match part {
                Part::Result(_) if message.role != Role::User => {
                    self.wrong(
                        at,
                        format!("content[{index}]: only a user message carries results"),
                    );
                }
                Part::Result(_) if other => {
                    self.wrong(
                        at,
                        format!("content[{index}]: results come before everything else"),
                    );
                }
                Part::Call(_) | Part::Thinking(_) if message.role != Role::Assistant => {
                    self.wrong(
                        at,
                        format!("content[{index}]: only the assistant calls tools and thinks"),
                    );
                }
                Part::Result(_) => {}
                _ => other = true,
            }
        }
        self.server_tools(at);
    }

    /// A server tool's result is in the message of its call.
    fn server_tools(&mut self, at: usize) {
        let message = &self.conversation.messages[at];
        let mut open = Vec::new();
        for part in &message.parts {
            let Part::Other(raw) = part else { continue };
            let source = raw.raw();
            let Ok(node) = longhand_core::json::Cursor::new(source).node() else { continue };
            let get = |key: &str| node.get(source, key).and_then(|value| value.str(source));
            match (get("type").as_deref(), get("id"), get("tool_use_id")) {
                (Some("server_tool_use" | "mcp_tool_use"), Some(id), _) => {
                    open.push(id.into_owned());
                }
                (Some(kind), _, Some(id)) if kind.ends_with("_result") => {
                    let asked = open.len();
                    open.retain(|open| *open != id);
                    if asked == open.len() {
                        self.wrong(at, format!("the result of {id:?} has no call in its message"));
                    }
                }
                _ => {}
            }
        }
    }

    fn limits(&mut self, turns: &[usize]) {
        let conversation = self.conversation;
        let mut whole = |at: &str, count: usize, max: usize, what: &str, grave: bool| {
            if count > max {
                let what = format!("{count} {what}; at most {max} are taken");
                self.findings.push(Finding { at: at.to_owned(), what, grave });
            }
        };
        whole("messages", turns.len(), ANTHROPIC_MESSAGES_MAX, "messages", true);
        whole("request", conversation.source.len(), ANTHROPIC_BYTES_MAX, "bytes", true);
        let images =
            |parts: &[Part]| parts.iter().filter(|part| matches!(part, Part::Image(_))).count();
        let in_message = |message: &Message| {
            images(&message.parts)
                + message.results().map(|result| images(&result.content)).sum::<usize>()
        };
        let pictures = conversation.messages.iter().map(in_message).sum();
        whole("messages", pictures, ANTHROPIC_IMAGES_MAX, "images", false);
        let marks =
            memchr::memmem::find_iter(conversation.source.as_bytes(), b"\"cache_control\"").count();
        if marks > ANTHROPIC_CACHE_MARKS_MAX {
            whole(
                "request",
                self::cache_marks(conversation),
                ANTHROPIC_CACHE_MARKS_MAX,
                "cache_control marks",
                true,
            );
        }
    }
}

/// Counts the blocks that are marked for the cache; text that only mentions it does not count.
fn cache_marks(conversation: &Conversation) -> usize {
    let source = conversation.bytes();
    let marked = |span: std::ops::Range<usize>| {
        let node = longhand_core::json::Cursor::at(source, span.start).node().unwrap_or_default();
        usize::from(
            node.get(source, "cache_control").is_some_and(|value| &source[value.span()] != "null"),
        )
    };
    let blocks = conversation
        .layout
        .iter()
        .filter_map(|layout| layout.content.as_ref()?.blocks.as_ref())
        .flatten();
    blocks.map(|span| marked(span.clone())).sum()
}
