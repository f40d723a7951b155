//! A conversation with its bytes.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use longhand_core::json::{JsonKind, JsonNode, JsonValue};
use longhand_core::{
    HandleOpener, History, Message, Path, Role, Seq, Size, Text, Tokens, Wire, says_json,
};
use memchr::memmem;

use crate::binding::{Binding, Bound};
use crate::loaded::LoadedSession;
use crate::source::{RequestShape, RequestSource};
use crate::view::View;
use crate::{DialectError, Finding, RECALL_TOOL};

/// A wire format or session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `OpenAI` Chat Completions.
    Chat,
    /// `OpenAI` Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A session file of Codex.
    Codex,
    /// A session file of pi.
    Pi,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Chat, Self::Responses, Self::Anthropic, Self::ClaudeCode, Self::Codex, Self::Pi];

    /// The name that commands and reports use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Pi => "pi",
        }
    }

    /// Whether it is a log of a session instead of a request.
    pub fn is_session_file(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Codex | Self::Pi)
    }

    /// How the format limits edits.
    pub fn wire(self) -> Wire {
        Wire {
            binds_thinking: matches!(self, Self::Anthropic | Self::ClaudeCode),
            alternates: self == Self::Anthropic,
            needs_json_word: false,
            opener: HandleOpener::Unknown,
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|dialect| dialect.as_str()).collect();
            format!("unknown dialect `{name}`; known are auto, {}", names.join(", "))
        })
    }
}

/// A conversation as it was read, ready to be edited and written back.
pub struct Conversation {
    /// The format it came in.
    pub dialect: Dialect,
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// What else of the request the model is sent, such as tool schemas.
    pub attributes: Vec<Text>,
    /// The model it is for, if it says so.
    pub model: Option<String>,
    pub(crate) source: Arc<String>,
    pub(crate) shape: RequestShape,
    pub(crate) elements: Vec<Range<usize>>,
    pub(crate) lines: Vec<u32>,
    /// Where each message stands; requests that share messages share this.
    pub(crate) layout: Vec<Arc<MessageLayout>>,
    pub(crate) findings: Vec<Finding>,
    /// The message from which on results may answer calls that the provider holds.
    pub(crate) continues: Option<usize>,
    pub(crate) bound: Bound,
    pub(crate) fields: JsonNode,
    /// How many system messages lead: they belong to the preamble.
    pub(crate) lead: usize,
    /// The entry of each message after those.
    pub(crate) seqs: Vec<Seq>,
    /// How its reader can open a handle.
    pub(crate) opener: HandleOpener,
    /// What its agent loads of it, if it is a session file that was read so.
    pub(crate) loaded: Option<Box<LoadedSession>>,
    unread: Vec<u32>,
}

/// Where a message stands in the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageLayout {
    /// The elements it is made of; none if it is a field of the request.
    pub(crate) elements: Vec<usize>,
    /// Where each part can be edited.
    pub(crate) slots: Vec<PartSlot>,
    /// The value that holds its blocks or text, where blocks can be added to it.
    pub(crate) content: Option<ContentSpans>,
    /// The item that it is, if its element is a line that holds several.
    pub(crate) item: Option<Range<usize>>,
    /// Whether it uses the deprecated functions of Chat, which have no ids and need no answer.
    pub(crate) is_function: bool,
    /// Whether it may have a cache mark, once that was asked for.
    pub(crate) may_be_marked: OnceLock<bool>,
}

/// The content of a message that is a string or a list of blocks.
#[derive(Clone, Debug)]
pub(crate) struct ContentSpans {
    pub(crate) span: Range<usize>,
    /// The blocks of a list.
    pub(crate) blocks: Option<Vec<Range<usize>>>,
}

/// How a part is written.
#[derive(Clone, Debug)]
pub(crate) enum PartSlot {
    /// Not to be edited.
    Fixed,
    /// A JSON string.
    Text(Range<usize>),
    /// A content value that may become a string.
    Content(Range<usize>),
    /// A content value that may become a list of one text block.
    Blocks(Range<usize>),
    /// A JSON object inside a JSON string.
    Quoted(Range<usize>),
    /// A JSON object.
    Object(Range<usize>),
    /// The block of that index can be taken out; the element with it, if it is the only one.
    Block { element: usize, blocks: Vec<Range<usize>>, index: usize },
}

impl Conversation {
    /// The conversation as a policy sees it; `fixed` is what its attributes count for.
    ///
    /// It has no live batches and no pins: those who have some put them in.
    pub fn history(&self, fixed: Tokens) -> History<'_> {
        let messages: usize = self.messages.iter().map(|message| message.raw.raw_len()).sum();
        let bytes = self.source.len().saturating_sub(messages) as u64;
        let fixed = Size { tokens: fixed, bytes, images: 0 };
        History { path: self.path(), live: &[], pins: &[], fixed, wire: self.wire() }
    }

    /// The messages with the entries that they are.
    pub fn path(&self) -> Path<'_> {
        Path { messages: &self.messages, lead: self.lead, seqs: &self.seqs }
    }

    /// Names the entries that the messages are: as many numbers as there are messages after the leading
    /// system messages, in growing order. Until then they are numbered from 0.
    pub fn number(&mut self, seqs: Vec<Seq>) {
        debug_assert_eq!(seqs.len() + self.lead, self.messages.len());
        self.seqs = seqs;
    }

    /// How its format limits edits.
    pub fn wire(&self) -> Wire {
        Wire {
            binds_thinking: self.bound.removes(),
            needs_json_word: self.needs_json_word(),
            opener: self.opener,
            ..self.dialect.wire()
        }
    }

    /// Says how its reader can open a handle, if it offers no tool for that.
    pub fn opened_by(&mut self, opener: HandleOpener) {
        if self.opener == HandleOpener::Unknown {
            self.opener = opener;
        }
    }

    /// Whether it asks for JSON, and no leading message has the word. Instructions beside the messages do not count.
    fn needs_json_word(&self) -> bool {
        let format = match self.dialect {
            Dialect::Chat => self.field("response_format"),
            Dialect::Responses => self.field("text"),
            _ => None,
        };
        let Some(view) = format.and_then(View::parse) else { return false };
        let format = if self.dialect == Dialect::Chat { Some(view) } else { view.get("format") };
        let in_lead =
            |at: usize| !self.layout[at].elements.is_empty() && says_json(&self.messages[at]);
        format.is_some_and(|format| format.is("type", "json_object"))
            && !(0..self.lead).any(in_lead)
    }

    /// Whether a result in a message may answer a call that the provider holds.
    pub(crate) fn continues_at(&self, message: usize) -> bool {
        self.continues.is_some_and(|from| from <= message)
    }

    /// Whether a message of Chat uses the deprecated functions.
    pub(crate) fn is_function(&self, message: usize) -> bool {
        self.layout[message].is_function
    }

    /// The elements that lie within the first `common` bytes, if a request that shares these may take
    /// them over.
    pub(crate) fn elements_within(&self, common: usize) -> Vec<JsonValue> {
        if !self.findings.is_empty() || self.dialect.is_session_file() {
            return Vec::new();
        }
        let shared = self
            .elements
            .iter()
            .take_while(|span| span.end < common && self.source.as_bytes()[span.start] == b'{');
        shared.map(|span| JsonValue::object(span.clone())).collect()
    }

    /// Whether a message has the same bytes in another request. The first `common` bytes of both are known to be
    /// equal; see [`common`](crate::common).
    pub fn has_same(&self, message: usize, other: &Self, in_other: usize, common: usize) -> bool {
        let (one, another) = (&self.messages[message].raw, &other.messages[in_other].raw);
        let span = one.span_in(&self.source).filter(|span| span.end <= common);
        (span.is_some() && span == another.span_in(&other.source)) || one.is_same(another)
    }

    /// The conversation as it was when it had only its first messages; what stands around them stays.
    pub fn beginning(&self, messages: usize) -> Result<Self, DialectError> {
        let last = self.layout[..messages].iter().flat_map(|layout| &layout.elements).max();
        let start = self.elements.first().map_or(0, |first| first.start);
        let cut = last.map_or(start, |last| self.elements[*last].end);
        let rest = self.elements.last().map_or(0, |last| last.end);
        let text = [&self.source[..cut], &self.source[rest..]].concat();
        crate::read_after(Arc::new(text), self)
    }

    /// Takes the text it was read from, with all that was read; `None` if others hold it, too.
    pub fn take_source(&mut self) -> Option<String> {
        self.messages.clear();
        self.attributes.clear();
        self.elements.clear();
        self.layout.clear();
        self.seqs.clear();
        self.lead = 0;
        self.fields = JsonNode::default();
        Arc::into_inner(std::mem::take(&mut self.source))
    }

    /// A field of the request as it stands there, quotes included.
    pub fn field(&self, key: &str) -> Option<&str> {
        self.fields.get(&self.source, key).map(|value| &self.source[value.span()])
    }

    /// What its agent loads of it, if it is a session file that was read as its agent loads it.
    pub fn loaded(&self) -> Option<&LoadedSession> {
        self.loaded.as_deref()
    }

    /// The lines of a session file that could not be read, from 1.
    pub fn unread(&self) -> &[u32] {
        &self.unread
    }

    /// The bytes it was read from.
    pub fn bytes(&self) -> &str {
        &self.source
    }

    /// How a message is called in its format, such as `messages[3]`.
    pub fn name_of(&self, message: usize) -> String {
        match self.layout[message].elements.first() {
            Some(&element) => self.shape.element(element, &self.lines),
            None if self.dialect == Dialect::Anthropic => "system".to_owned(),
            None if self.messages[message].role == Role::System => "instructions".to_owned(),
            None => "input".to_owned(),
        }
    }
}

/// Collects messages while a dialect is read.
pub(crate) struct Builder {
    pub(crate) source: RequestSource,
    pub(crate) messages: Vec<Message>,
    pub(crate) layout: Vec<Arc<MessageLayout>>,
    pub(crate) attributes: Vec<Text>,
    pub(crate) model: Option<String>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) continues: Option<usize>,
    pub(crate) loaded: Option<Box<LoadedSession>>,
}

impl Builder {
    pub(crate) fn new(source: RequestSource) -> Self {
        let room = source.elements.len();
        Self {
            source,
            messages: Vec::with_capacity(room),
            layout: Vec::with_capacity(room),
            attributes: Vec::new(),
            model: None,
            findings: Vec::new(),
            continues: None,
            loaded: None,
        }
    }

    /// Notes something that the provider would refuse.
    pub(crate) fn wrong(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.find(at, what, true, false);
    }

    /// Notes something that the provider would refuse for its size alone.
    pub(crate) fn too_much(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.find(at, what, true, true);
    }

    /// Notes something that some would refuse.
    pub(crate) fn odd(&mut self, at: impl Into<String>, what: impl Into<String>) {
        self.find(at, what, false, false);
    }

    fn find(&mut self, at: impl Into<String>, what: impl Into<String>, grave: bool, size: bool) {
        self.findings.push(Finding { at: at.into(), what: what.into(), grave, size });
    }

    /// Takes over the messages of the elements that were passed over.
    pub(crate) fn take_known(&mut self, before: Option<&Conversation>) {
        let Some(before) = before else { return };
        let (known, text) = (self.source.known, Arc::clone(&self.source.text));
        for (message, layout) in before.messages.iter().zip(&before.layout) {
            if layout.elements.first().is_some_and(|element| *element < known) {
                self.add(message.moved(&before.source, &text), Arc::clone(layout));
            }
        }
    }

    pub(crate) fn push(&mut self, message: Message, layout: MessageLayout) {
        self.add(message, Arc::new(layout));
    }

    fn add(&mut self, message: Message, layout: Arc<MessageLayout>) {
        debug_assert_eq!(message.parts.len(), layout.slots.len());
        // It may stand for a call.
        if message.is_reference() {
            self.continues.get_or_insert(self.messages.len());
        }
        self.messages.push(message);
        self.layout.push(layout);
    }

    /// Takes request fields that cost tokens but are no messages: lists of tools, and settings.
    pub(crate) fn attributes(&mut self, lists: &[&str], settings: &[&str]) {
        let lists = lists.iter().map(|key| (*key, JsonKind::Array));
        for (key, kind) in lists.chain(settings.iter().map(|key| (*key, JsonKind::Object))) {
            let Some(value) = self.source.field(key) else { continue };
            self.attributes.push(self.source.raw(value));
            if value.kind == kind {
                for (index, node) in self.source.nodes(value).iter().enumerate() {
                    let found = node.value.kind;
                    if found != JsonKind::Object {
                        let what = format!("expected an object, found {}", found.describe());
                        self.wrong(format!("{key}[{index}]"), what);
                    }
                }
            } else if value.kind != JsonKind::Null {
                let (kind, found) = (kind.describe(), value.kind.describe());
                self.wrong(key, format!("expected {kind}, found {found}"));
            }
        }
        self.model = self
            .source
            .field("model")
            .and_then(|value| Some(value.str(&self.source.text)?.into_owned()));
    }

    /// Counts every line that is no message to the message before it, so that a fold that takes such
    /// lines out has them in what it stands for.
    fn assign_lines(&mut self) {
        let mut owner = vec![None; self.source.elements.len()];
        for (at, layout) in self.layout.iter().enumerate() {
            layout.elements.iter().for_each(|element| owner[*element] = Some(at));
        }
        let mut lines: Vec<Vec<usize>> =
            self.layout.iter().map(|layout| layout.elements.clone()).collect();
        let mut last = None;
        for (element, owner) in owner.into_iter().enumerate() {
            last = owner.or(last);
            if self.loaded.as_ref().is_some_and(|loaded| loaded.is_off(element)) {
                continue;
            }
            if let (Some(message), None) = (last, owner) {
                lines[message].push(element);
            }
        }
        for (at, mut lines) in lines.into_iter().enumerate() {
            if lines.len() > self.layout[at].elements.len() {
                lines.sort_unstable();
                let text =
                    |line: &usize| &self.source.text[self.source.elements[*line].value.span()];
                self.messages[at].raw =
                    Text::from(lines.iter().map(text).collect::<Vec<_>>().join("\n"));
            }
        }
    }

    pub(crate) fn finish(mut self, dialect: Dialect) -> Conversation {
        if dialect.is_session_file() {
            self.assign_lines();
        }
        let bound = match dialect {
            Dialect::Anthropic => {
                let thinking = self.source.field("thinking");
                Bound::of(&self.source.text, self.model.as_deref(), thinking)
            }
            _ if dialect.wire().binds_thinking => Bound::new(Binding::Removed),
            _ => Bound::new(Binding::Free),
        };
        let is_system = |message: &Message| message.role == Role::System;
        let lead = self.messages.iter().take_while(|message| is_system(message)).count();
        let seqs = (0..(self.messages.len() - lead) as u64).map(Seq).collect();
        Conversation {
            dialect,
            lead,
            seqs,
            opener: opener(&self.attributes),
            messages: self.messages,
            attributes: self.attributes,
            model: self.model,
            elements: self.source.elements.iter().map(|node| node.value.span()).collect(),
            lines: self.source.lines,
            shape: self.source.shape,
            source: self.source.text,
            layout: self.layout,
            findings: self.findings,
            continues: self.continues,
            bound,
            fields: self.source.fields,
            loaded: self.loaded,
            unread: self.source.unread,
        }
    }
}

/// The tool that opens handles, if it is offered.
fn opener(attributes: &[Text]) -> HandleOpener {
    let tool = memmem::Finder::new(RECALL_TOOL);
    let offers = |text: &Text| tool.find(text.raw().as_bytes()).is_some();
    if attributes.iter().any(offers) {
        HandleOpener::Tool(RECALL_TOOL)
    } else {
        HandleOpener::Unknown
    }
}

#[cfg(test)]
mod tests;
