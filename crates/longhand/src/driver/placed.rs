//! Requests and their places in sessions.

use std::sync::{Arc, Mutex};

use longhand_archive::{Note, PreambleId};
use longhand_core::session::{Chain, Trail};
use longhand_core::{Link, Message};
use longhand_dialect::{Conversation, Dialect, Reply, read};

use super::chained::ChainedRequest;
use super::live_session::LiveSession;
use super::sink::Ticket;
use super::source::TokenCounts;
use super::twin::Twin;

/// The memory of a request, which whoever reads requests may want back.
pub trait Keeper: Send + Sync {
    /// How many bytes the request takes.
    fn bytes(&self) -> u64;

    /// Takes back the buffer of a text that nobody reads any more.
    fn take_back(&self, text: String);
}

/// A request that has no place in a session yet.
pub struct UnplacedRequest {
    /// Both forms of the conversation.
    pub twin: Twin<Conversation>,
    /// By what it is found again.
    pub chained: ChainedRequest,
    /// How many of its messages are known to be, byte for byte, those of an earlier request of its session.
    pub compared: usize,
    /// Has its memory.
    pub keeper: Option<Arc<dyn Keeper>>,
}

/// A request that has its place in a session.
///
/// The writes that wait for the archive hold it for longer than the request takes.
pub struct PlacedRequest {
    /// The conversation as it is stored.
    pub conversation: Arc<Conversation>,
    /// The chain of its messages.
    pub chain: Chain,
    /// A hash of the leading system messages.
    pub system: Link,
    /// The system prompt, the tools and the model.
    pub preamble: PreambleId,
    /// The size of its messages, as far as they were counted.
    pub(super) counts: Mutex<Option<TokenCounts>>,
    /// Its session.
    pub session: Arc<LiveSession>,
    /// The entries of its messages, and all entries on its path.
    pub trail: Trail,
    /// The edition of the session that has these numbers.
    pub edition: u64,
    keeper: Option<Arc<dyn Keeper>>,
}

/// The place that a request got.
pub struct RequestPlace {
    /// The request.
    pub placed: Arc<PlacedRequest>,
    /// Both forms of it, with the numbers of its entries.
    pub twin: Twin<Arc<Conversation>>,
    /// How many of its messages the session had.
    pub known: usize,
    /// Whether the archive had nothing of the session yet.
    pub is_first: bool,
    /// Whether it is a side call: it says nothing new, under another system prompt.
    pub is_aside: bool,
    /// How long nothing was sent of the session before it, in milliseconds; `None` if that is not known.
    pub idle_ms: Option<u64>,
    /// Tells when it is archived; `None` if it is not to be, or cannot be.
    pub ticket: Option<Ticket>,
}

/// An answer that is to be appended after its request.
pub struct NewAnswer {
    /// Its messages.
    pub messages: Vec<Message>,
    /// The chain of the request and the answer.
    pub chain: Chain,
    /// Its text, by which a later summary is recognised.
    pub text: String,
    /// What could not be read.
    pub unread: Option<Note>,
}

impl PlacedRequest {
    pub(super) fn new(
        unplaced: UnplacedRequest,
        session: &Arc<LiveSession>,
        trail: Trail,
        edition: u64,
    ) -> (Arc<Self>, Twin<Arc<Conversation>>) {
        let UnplacedRequest { twin, chained, keeper, .. } = unplaced;
        let twin = twin.map(Arc::new);
        let ChainedRequest { chain, system, preamble, counts } = chained;
        let placed = Self {
            conversation: Arc::clone(twin.stored()),
            chain,
            system,
            preamble,
            counts: Mutex::new(counts),
            session: Arc::clone(session),
            trail,
            edition,
            keeper,
        };
        (Arc::new(placed), twin)
    }

    /// The format of the conversation.
    pub fn dialect(&self) -> Dialect {
        self.conversation.dialect
    }

    /// The model that it names.
    pub fn model(&self) -> &str {
        self.conversation.model.as_deref().unwrap_or_default()
    }

    /// How many bytes it takes in memory.
    pub fn bytes(&self) -> u64 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.bytes())
    }

    /// The messages after the preamble, and more after them.
    pub fn with<'h>(&'h self, more: &'h [Message]) -> impl DoubleEndedIterator<Item = &'h Message> {
        let path = self.conversation.path();
        path.messages[path.lead..].iter().chain(more)
    }

    /// Reads a reply as the messages that come after the request; `None` if it is no message.
    pub fn answer(&self, reply: Reply) -> Option<NewAnswer> {
        let is_list = reply.message.trim_start().starts_with('[');
        let list = if is_list { reply.message } else { format!("[{}]", reply.message) };
        let messages = read(list.into_bytes(), Some(self.dialect())).ok()?.messages;
        let mut chain = self.chain.clone();
        chain.extend(&messages);
        Some(NewAnswer { messages, chain, text: reply.text, unread: None })
    }

    /// An answer without any message.
    pub fn no_answer(&self) -> NewAnswer {
        let chain = self.chain.clone();
        NewAnswer { messages: Vec::new(), chain, text: String::new(), unread: None }
    }
}

impl Drop for PlacedRequest {
    /// Gives the buffer of the text back, unless somebody still reads it.
    fn drop(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let conversation = Arc::get_mut(&mut self.conversation);
        if let Some(text) = conversation.and_then(Conversation::take_source) {
            keeper.take_back(text);
        }
    }
}
