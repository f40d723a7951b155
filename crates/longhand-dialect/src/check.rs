//! Whether a provider would take a conversation.

use std::fmt;

use longhand_core::json::JsonCursor;
use longhand_core::{Image, Message, Other, Part, PartLink, Role, grouped};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Dialect;
use crate::anthropic::claude_version;
use crate::conversation::Conversation;
use crate::mark::{CACHE_CONTROL, CACHE_MARKS_MAX, marks};

/// Something that a provider would refuse, or that some would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The message and field.
    pub at: String,
    /// What is wrong.
    pub what: String,
    /// Whether the provider refuses it; otherwise it is only odd.
    pub grave: bool,
    /// Whether there is only too much of something, which compacting may cure.
    pub size: bool,
}

impl Finding {
    /// Whether the provider refuses it at any size.
    pub fn is_fault(&self) -> bool {
        self.grave && !self.size
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// What one request may hold at Anthropic.
const ANTHROPIC_MESSAGES_MAX: usize = 100_000;
const ANTHROPIC_BYTES_MAX: usize = 32 * 1024 * 1024;
const ANTHROPIC_IMAGES_MAX: usize = 600;
/// Models with a small window take fewer images.
const ANTHROPIC_IMAGES_MAX_SMALL: usize = 100;
/// The sides of one image, and of one among many.
const ANTHROPIC_PIXELS_MAX: u32 = 8_000;
const ANTHROPIC_PIXELS_MAX_MANY: u32 = 2_000;
const ANTHROPIC_IMAGES_FEW: usize = 20;

impl Conversation {
    /// The most bytes and pictures that the provider takes in one request, where it has such limits.
    pub fn size_limits(&self) -> (Option<u64>, Option<u64>) {
        if self.dialect != Dialect::Anthropic {
            return (None, None);
        }
        let is_small = claude_version(self.model.as_deref().unwrap_or_default())
            .is_some_and(|version| version < (4, 6));
        let images = if is_small { ANTHROPIC_IMAGES_MAX_SMALL } else { ANTHROPIC_IMAGES_MAX };
        (Some(ANTHROPIC_BYTES_MAX as u64), Some(images as u64))
    }
}

/// The calls of Responses that must be answered, and the answers that must have a call.
const PAIRED: [&str; 6] = [
    "function_call",
    "custom_tool_call",
    "computer_call",
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
];

impl Conversation {
    /// Lists all that is wrong with the conversation in its dialect.
    pub fn check(&self) -> Vec<Finding> {
        let mut check = ConversationCheck { conversation: self, findings: self.findings.clone() };
        check.ids();
        match self.dialect {
            Dialect::Chat => check.results_follow_at_once(),
            Dialect::Anthropic => check.anthropic(),
            Dialect::Responses => {
                check.results_follow();
                check.approvals_follow();
                check.reasoning_leads_on();
            }
            Dialect::ClaudeCode | Dialect::Codex | Dialect::Pi => check.results_follow(),
        }
        check.findings
    }
}

struct ConversationCheck<'c> {
    conversation: &'c Conversation,
    findings: Vec<Finding>,
}

/// A message and a part of it.
pub(crate) type At = (usize, usize);

impl<'c> ConversationCheck<'c> {
    fn note(&mut self, at: String, what: impl Into<String>, grave: bool) {
        self.findings.push(Finding { at, what: what.into(), grave, size: false });
    }

    fn too_much(&mut self, at: String, what: impl Into<String>, grave: bool) {
        self.findings.push(Finding { at, what: what.into(), grave, size: true });
    }

    fn wrong(&mut self, at: String, what: impl Into<String>) {
        self.note(at, what, true);
    }

    fn odd(&mut self, at: String, what: impl Into<String>) {
        self.note(at, what, false);
    }

    /// A field of a message.
    fn of(&self, message: usize, field: &str) -> String {
        format!("{}.{field}", self.conversation.name_of(message))
    }

    /// The field that holds a part.
    fn field(&self, (message, part): At) -> String {
        let parts = &self.conversation.messages[message].parts;
        match (self.conversation.dialect, &parts[part]) {
            (Dialect::Anthropic, _) => self.of(message, &format!("content[{part}]")),
            (Dialect::Chat, Part::Call(_)) => {
                let first = parts.iter().position(|part| matches!(part, Part::Call(_)));
                self.of(message, &format!("tool_calls[{}]", part - first.unwrap_or(part)))
            }
            (Dialect::Chat, Part::Result(_)) => self.of(message, "tool_call_id"),
            (Dialect::Responses, _) => self.of(message, "call_id"),
            _ => self.conversation.name_of(message),
        }
    }

    /// The parts of a message that are calls, with their ids.
    fn calls(&self, at: usize) -> impl Iterator<Item = (At, String)> + use<'c> {
        let parts = self.conversation.messages[at].parts.iter().enumerate();
        parts.filter_map(move |(index, part)| match part {
            Part::Call(call) => Some(((at, index), call.id.decode().into_owned())),
            _ => None,
        })
    }

    /// The parts of a message that are results, with the ids of their calls.
    fn results(&self, at: usize) -> impl Iterator<Item = (At, String)> + use<'c> {
        let parts = self.conversation.messages[at].parts.iter().enumerate();
        parts.filter_map(move |(index, part)| match part {
            Part::Result(result) => Some(((at, index), result.call.decode().into_owned())),
            _ => None,
        })
    }

    /// No two calls share an id: not every provider minds, but whoever pairs calls and results does.
    fn ids(&mut self) {
        let conversation = self.conversation;
        let mut seen: FxHashMap<String, usize> = FxHashMap::default();
        for at in 0..conversation.messages.len() {
            if conversation.is_function(at) {
                continue;
            }
            for (place, id) in self.calls(at) {
                let Some(&first) = seen.get(&id) else {
                    seen.insert(id, at);
                    continue;
                };
                let grave = !conversation.dialect.is_session_file();
                let first = conversation.name_of(first);
                let what = format!("the call id {id:?} is used in {first} already");
                self.note(self.field(place), what, grave);
            }
        }
    }

    /// Chat: the messages after one with calls are its results, one for each call.
    fn results_follow_at_once(&mut self) {
        let mut open: FxHashMap<String, At> = FxHashMap::default();
        let mut done: FxHashSet<String> = FxHashSet::default();
        for (at, message) in self.conversation.messages.iter().enumerate() {
            let function = self.conversation.is_function(at);
            if message.role != Role::Tool || function {
                self.unanswered(&mut open, " right after it", |_| true);
                done.clear();
                open.extend(self.calls(at).filter(|_| !function).map(|(place, id)| (id, place)));
                continue;
            }
            for (place, id) in self.results(at) {
                if open.remove(&id).is_some() {
                    done.insert(id);
                } else if done.contains(&id) {
                    let what = format!("the call {id:?} has more than one result");
                    self.wrong(self.field(place), what);
                } else {
                    let what = format!("the result of {id:?} does not follow its call");
                    self.wrong(self.field(place), what);
                }
            }
        }
        self.unanswered(&mut open, " right after it", |_| true);
    }

    /// Notes the calls that are still open, and forgets them.
    fn unanswered(
        &mut self,
        open: &mut FxHashMap<String, At>,
        place: &str,
        grave: impl Fn(usize) -> bool,
    ) {
        let mut open: Vec<_> = open.drain().map(|(id, place)| (place, id)).collect();
        open.sort_unstable();
        for (call, id) in open {
            let what = format!("the call {id:?} has no result{place}");
            self.note(self.field(call), what, grave(call.0));
        }
    }

    /// Responses and session files: every result has its call somewhere before it, and one only.
    fn results_follow(&mut self) {
        let conversation = self.conversation;
        // A log may end, or be interrupted, in the middle of a call.
        let grave = |at: usize| {
            !conversation.dialect.is_session_file() && is_paired(&conversation.messages[at])
        };
        let mut open: FxHashMap<String, At> = FxHashMap::default();
        let mut done: FxHashSet<String> = FxHashSet::default();
        for at in 0..conversation.messages.len() {
            open.extend(self.calls(at).map(|(place, id)| (id, place)));
            for (place, id) in self.results(at) {
                if open.remove(&id).is_some() {
                    done.insert(id);
                } else if done.contains(&id) {
                    let what = format!("the call {id:?} has more than one result");
                    self.note(self.field(place), what, grave(at));
                } else if !conversation.continues_at(at) {
                    let what = format!("the result of {id:?} has no call before it");
                    self.note(self.field(place), what, grave(at));
                }
            }
        }
        self.unanswered(&mut open, "", grave);
    }

    /// Responses: every approval has its request somewhere before it.
    fn approvals_follow(&mut self) {
        for (at, id) in unasked_approvals(self.conversation) {
            let what = format!("the approval of {id:?} has no request before it");
            self.wrong(self.of(at, "approval_request_id"), what);
        }
    }

    /// Responses: reasoning is followed by what it led to.
    fn reasoning_leads_on(&mut self) {
        let messages = &self.conversation.messages;
        for at in (0..messages.len()).filter(|at| is_reasoning(&messages[*at])) {
            if !messages.get(at + 1).is_some_and(may_follow_reasoning) {
                let name = self.conversation.name_of(at);
                self.wrong(name, "reasoning must be followed by the item it led to");
            }
        }
    }

    fn anthropic(&mut self) {
        let conversation = self.conversation;
        let turns: Vec<usize> = (0..conversation.messages.len())
            .filter(|at| !conversation.layout[*at].elements.is_empty())
            .collect();
        let role = |at: usize| conversation.messages[at].role;
        if let Some(&first) = turns.first().filter(|first| role(**first) == Role::Assistant)
            && !is_compaction(conversation.messages[first].parts.first())
        {
            self.wrong(self.of(first, "role"), "the first message must be the user's");
        }
        for (index, &at) in turns.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| turns[before]);
            let next = turns.get(index + 1).copied();
            if role(at) == Role::System {
                self.system_message(at, before.map(role), next.map(role));
            } else if before.map(role) == Some(role(at)) {
                let what = format!("two messages of the {} in a row", role(at).as_str());
                self.odd(self.of(at, "role"), what);
            }
            self.answered(at, before, next);
            self.blocks(at);
        }
        if let Some(&last) = turns.last().filter(|last| role(**last) == Role::Assistant) {
            self.prefill(last);
        }
        for (place, what) in unpaired_server_tools(&conversation.messages, &turns) {
            self.wrong(self.field(place), what);
        }
        self.limits(&turns);
        self.images();
    }

    /// A system message in the middle stands between a user and an assistant turn.
    fn system_message(&mut self, at: usize, before: Option<Role>, next: Option<Role>) {
        let conversation = self.conversation;
        if before != Some(Role::User) || !matches!(next, None | Some(Role::Assistant)) {
            let what = "a system message stands after a user's and before an assistant's";
            self.wrong(self.of(at, "role"), what);
        }
        if conversation
            .model
            .as_deref()
            .and_then(claude_version)
            .is_some_and(|version| version < (4, 8))
        {
            let what = "models before claude-opus-4-8 take no system message here";
            self.odd(self.of(at, "role"), what);
        }
        for (index, part) in conversation.messages[at].parts.iter().enumerate() {
            if part.text().is_none() {
                self.wrong(self.field((at, index)), "a system message holds only text");
            }
        }
    }

    /// A last message of the assistant is the beginning of the reply.
    fn prefill(&mut self, at: usize) {
        let conversation = self.conversation;
        let parts = &conversation.messages[at].parts;
        if let Some(text) = parts.last().and_then(Part::text)
            && text.decode().ends_with(char::is_whitespace)
        {
            let what = "a last message of the assistant must not end in white space";
            self.odd(self.field((at, parts.len() - 1)), what);
        }
        // A turn that a server tool holds up is sent back as it is.
        let paused = parts.iter().any(|part| link_of(part).is_some());
        let version = conversation.model.as_deref().and_then(claude_version);
        if version >= Some((4, 6)) && !paused {
            let what = "Claude 4.6 and later take no last message of the assistant";
            self.odd(self.of(at, "role"), what);
        }
    }

    /// Every call is answered at the start of the next message, and nothing else is answered there.
    fn answered(&mut self, at: usize, before: Option<usize>, next: Option<usize>) {
        let results = next.into_iter().flat_map(|next| self.results(next));
        let results: FxHashSet<String> = results.map(|(_, id)| id).collect();
        for (place, id) in self.calls(at) {
            if !results.contains(&id) {
                let what = format!("the call {id:?} has no result in the next message");
                self.wrong(self.field(place), what);
            }
        }
        let asked = before.into_iter().flat_map(|before| self.calls(before));
        let mut asked: FxHashMap<String, bool> = asked.map(|(_, id)| (id, false)).collect();
        for (place, id) in self.results(at) {
            let what = match asked.get_mut(&id) {
                None => format!("the result of {id:?} has no call in the message before"),
                Some(true) => format!("the call {id:?} has more than one result"),
                Some(answered) => {
                    *answered = true;
                    continue;
                }
            };
            self.wrong(self.field(place), what);
        }
    }

    fn blocks(&mut self, at: usize) {
        let message = &self.conversation.messages[at];
        let mut other = false;
        for (index, part) in message.parts.iter().enumerate() {
            let what = match part {
                Part::Result(_) if message.role != Role::User => {
                    "only a user message carries results"
                }
                Part::Result(_) if other => "results come before everything else",
                Part::Call(_) | Part::Thinking(_) if message.role == Role::User => {
                    "only the assistant calls tools and thinks"
                }
                Part::Result(_) => continue,
                _ => {
                    other = true;
                    continue;
                }
            };
            self.wrong(self.field((at, index)), what);
        }
    }

    fn limits(&mut self, turns: &[usize]) {
        let source = self.conversation.bytes();
        let over = |count: usize, max: usize, what: &str| {
            let told = || format!("{} {what}; at most {} are taken", grouped(count), grouped(max));
            (count > max).then(told)
        };
        if let Some(what) = over(turns.len(), ANTHROPIC_MESSAGES_MAX, "messages") {
            self.too_much("messages".to_owned(), what, true);
        }
        if let Some(what) = over(source.len(), ANTHROPIC_BYTES_MAX, "bytes") {
            self.too_much("request".to_owned(), what, true);
        }
        let marks = marks(source);
        let marks: Vec<_> = marks.iter().filter(|mark| mark.key == CACHE_CONTROL).collect();
        if let Some(what) = over(marks.len(), CACHE_MARKS_MAX, "cache_control marks") {
            self.wrong("request".to_owned(), what);
        }
        let in_place = marks.iter().filter(|mark| !mark.whole);
        if !in_place.map(|mark| !mark.hour).is_sorted() {
            let what = "a cache_control mark for an hour stands after one for five minutes";
            self.wrong("request".to_owned(), what);
        }
    }

    fn images(&mut self) {
        let images = images(&self.conversation.messages);
        let count = images.len();
        if count > ANTHROPIC_IMAGES_MAX_SMALL {
            let grave = count > ANTHROPIC_IMAGES_MAX;
            let max = if grave { ANTHROPIC_IMAGES_MAX } else { ANTHROPIC_IMAGES_MAX_SMALL };
            let what = format!("{} images; at most {max} are taken", grouped(count));
            self.too_much("messages".to_owned(), what, grave);
        }
        let few = count <= ANTHROPIC_IMAGES_FEW;
        let max = if few { ANTHROPIC_PIXELS_MAX } else { ANTHROPIC_PIXELS_MAX_MANY };
        for (place, inner, image) in images {
            if image.pixels.is_some_and(|(width, height)| width.max(height) > max) {
                let inner = inner.map_or_else(String::new, |index| format!(".content[{index}]"));
                let what = if few { "" } else { " where there are more than 20" };
                let what =
                    format!("an image has at most {} pixels a side{what}", grouped(max as usize));
                self.too_much(self.field(place) + &inner, what, true);
            }
        }
    }
}

/// Finds approvals whose request is not in the conversation and cannot be held by the provider, with their ids.
pub(crate) fn unasked_approvals(conversation: &Conversation) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut asked: FxHashSet<String> = FxHashSet::default();
    for (at, message) in conversation.messages.iter().enumerate() {
        for link in message.parts.iter().filter_map(link_of) {
            match link {
                PartLink::Call(id) => _ = asked.insert(id.decode().into_owned()),
                PartLink::Result(id)
                    if is_approval(message)
                        && !conversation.continues_at(at)
                        && !asked.contains(id.decode().as_ref()) =>
                {
                    found.push((at, id.decode().into_owned()));
                }
                _ => {}
            }
        }
    }
    found
}

/// Finds calls and results of server tools that stand alone.
///
/// A result is in the message of its call. It may come later only where the turn is not over: at the
/// very end, or while tools of the client are at work.
pub(crate) fn unpaired_server_tools(messages: &[Message], turns: &[usize]) -> Vec<(At, String)> {
    let mut found = Vec::new();
    let mut asked: FxHashSet<String> = FxHashSet::default();
    for (index, &at) in turns.iter().enumerate() {
        let mut open: Vec<(At, String)> = Vec::new();
        for (part, link) in messages[at].parts.iter().map(link_of).enumerate() {
            match link {
                Some(PartLink::Call(id)) => {
                    let id = id.decode().into_owned();
                    asked.insert(id.clone());
                    open.push(((at, part), id));
                }
                Some(PartLink::Result(id)) => {
                    let id = id.decode();
                    if asked.remove(id.as_ref()) {
                        open.retain(|(_, open)| *open != id);
                    } else {
                        let what = format!("the result of {id:?} has no call in its message");
                        found.push(((at, part), what));
                    }
                }
                _ => {}
            }
        }
        if index + 1 < turns.len() && messages[at].calls().next().is_none() {
            let what = |id| format!("the call {id:?} has no result in its message");
            found.extend(open.into_iter().map(|(place, id)| (place, what(id))));
        }
    }
    found
}

/// How a part that we do not know belongs to others, if it does.
fn link_of(part: &Part) -> Option<&PartLink> {
    match part {
        Part::Other(Other { link: PartLink::None, .. }) => None,
        Part::Other(other) => Some(&other.link),
        _ => None,
    }
}

/// All images with their positions; an image in a result also has its index there.
fn images(messages: &[Message]) -> Vec<(At, Option<usize>, &Image)> {
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        for (index, part) in message.parts.iter().enumerate() {
            match part {
                Part::Image(image) => found.push(((at, index), None, image)),
                Part::Result(result) => {
                    for (inner, part) in result.content.iter().enumerate() {
                        if let Part::Image(image) = part {
                            found.push(((at, index), Some(inner), image));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether a message of Responses is nothing but reasoning.
pub(crate) fn is_reasoning(message: &Message) -> bool {
    message.role == Role::Assistant && matches!(message.parts.as_slice(), [Part::Thinking(_)])
}

/// Whether an item can be what reasoning led to, or a compaction, which replaces both.
pub(crate) fn may_follow_reasoning(message: &Message) -> bool {
    message.role == Role::Assistant || kind_of(message).as_deref() == Some("compaction")
}

/// Whether an item of Responses is refused without its other half.
pub(crate) fn is_paired(message: &Message) -> bool {
    let kind = kind_of(message).unwrap_or_default();
    PAIRED.contains(&kind.strip_suffix("_output").unwrap_or(&kind))
}

/// Whether an item of Responses says if a tool of an MCP server may be called.
fn is_approval(message: &Message) -> bool {
    kind_of(message).as_deref() == Some("mcp_approval_response")
}

fn kind_of(message: &Message) -> Option<String> {
    let raw = message.raw.raw();
    Some(JsonCursor::new(raw).node().ok()?.get(raw, "type")?.str(raw)?.into_owned())
}

/// Whether a block is the provider's own summary, which may lead a conversation.
pub(crate) fn is_compaction(part: Option<&Part>) -> bool {
    let Some(Part::Other(other)) = part else { return false };
    let raw = other.raw.raw();
    let node = JsonCursor::new(raw).node().unwrap_or_default();
    node.get(raw, "type").is_some_and(|kind| kind.is(raw, "compaction"))
}
