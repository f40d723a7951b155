//! Giving a request its place in a session.

use std::sync::{Arc, Mutex};

use longhand::{Chain, Tokens, Trail, hidden_tokens};
use longhand_archive::PreambleId;
use longhand_core::{Link, Message};
use longhand_dialect::{Conversation, Dialect, Reply, read};

use crate::archivist::Ticket;
use crate::client::ClientProgram;
use crate::load::{MemoryShare, Working};
use crate::request::chain::ChainedRequest;
use crate::request::history::ProviderHistory;
use crate::request::parse::{ParsedRequest, ProviderChanges};
use crate::request::source::{Purpose, SharedMeter, TokenCounts, WindowSource};
use crate::request::twin::Twin;
use crate::request::{PrepareError, Recording};
use crate::route::{Caller, RequestFields};
use crate::store::{LiveSession, NewAnswer, Store};
use crate::turns::Workers;

/// A request that has its place in a session.
///
/// The archive's queue and the cache of memos hold it for longer than the request takes.
pub(crate) struct AdmittedRequest {
    /// The conversation as it is stored.
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) chain: Chain,
    pub(crate) caller: Caller,
    pub(crate) client: ClientProgram,
    /// A hash of the leading system messages.
    pub(crate) system: Link,
    pub(crate) preamble: PreambleId,
    /// The size of its messages, as far as they were counted.
    pub(crate) counts: Mutex<Option<TokenCounts>>,
    /// The memory that it takes.
    pub(crate) share: Arc<MemoryShare>,
    /// How that was counted.
    pub(crate) working: Working,
    /// Where it was admitted.
    pub(crate) store: Arc<Store>,
    pub(crate) session: Arc<LiveSession>,
    /// The entries of its messages, and all entries on its path.
    pub(crate) trail: Trail,
    /// The edition of the ledger that has these numbers.
    pub(crate) edition: u64,
}

/// The place of a request in its session.
pub(crate) struct SessionPlace {
    pub(crate) admitted: Arc<AdmittedRequest>,
    /// Both forms of the request, with the numbers of its entries.
    pub(crate) twin: Twin<Arc<Conversation>>,
    /// Whether it is a side call: it says nothing new, under another system prompt.
    pub(crate) is_aside: bool,
    /// Tells when it is archived; `None` if the archive cannot take it.
    pub(crate) ticket: Option<Ticket>,
}

/// Finds the session of a request, and appends the messages that are new there.
pub(crate) async fn admit(
    store: &Arc<Store>,
    mut parsed: ParsedRequest,
    recording: Recording,
    meter: SharedMeter,
    workers: Workers,
) -> Result<WindowSource, PrepareError> {
    if parsed.chained.chain.said().next().is_none() {
        return Err(PrepareError::Empty);
    }
    let session = match &parsed.history {
        Some(history) => store.by_id(history.session, parsed.caller.owner()).await,
        None => store.session(&parsed).await,
    };
    let session = session.ok_or(PrepareError::NotTheOwner)?;
    let rest = RequestRest::take(&mut parsed);
    let place = store.admit(&session, parsed, recording).await?;
    let hidden = if place.twin.is_redacted() {
        let (twin, meter) = (place.twin.clone(), Arc::clone(&meter));
        workers.compute(move || hidden_tokens(twin.sent(), twin.stored(), &*meter)).await
    } else {
        Tokens::ZERO
    };
    Ok(rest.source(place, recording, (meter, workers), hidden))
}

/// The same without asking the archive; gives the request back if that is not possible.
pub(crate) fn admit_at_once(
    store: &Arc<Store>,
    session: &Arc<LiveSession>,
    mut parsed: ParsedRequest,
    recording: Recording,
    (meter, workers): (SharedMeter, Workers),
) -> Result<WindowSource, Option<Box<ParsedRequest>>> {
    let rest = RequestRest::take(&mut parsed);
    match store.admit_at_once(session, parsed, recording) {
        Ok(place) => {
            let twin = &place.twin;
            let hidden = if twin.is_redacted() {
                hidden_tokens(twin.sent(), twin.stored(), &*meter)
            } else {
                Tokens::ZERO
            };
            Ok(rest.source(place, recording, (meter, workers), hidden))
        }
        Err(parsed) => Err(parsed.map(|parsed| Box::new(rest.give_back(*parsed)))),
    }
}

/// What of a request is needed after it was admitted.
struct RequestRest {
    fields: RequestFields,
    changes: ProviderChanges,
    history: Option<ProviderHistory>,
}

impl RequestRest {
    fn take(parsed: &mut ParsedRequest) -> Self {
        Self {
            fields: std::mem::take(&mut parsed.fields),
            changes: std::mem::take(&mut parsed.changes),
            history: parsed.history.take(),
        }
    }

    fn give_back(self, parsed: ParsedRequest) -> ParsedRequest {
        let Self { fields, changes, history } = self;
        ParsedRequest { fields, changes, history, ..parsed }
    }

    fn source(
        self,
        place: SessionPlace,
        recording: Recording,
        (meter, workers): (SharedMeter, Workers),
        hidden: Tokens,
    ) -> WindowSource {
        let SessionPlace { admitted, twin, is_aside, ticket } = place;
        let tickets = if recording == Recording::Archived { vec![ticket] } else { Vec::new() };
        WindowSource {
            twin,
            admitted,
            purpose: Purpose::of(recording, is_aside),
            meter,
            workers,
            fields: self.fields,
            hidden,
            changes: self.changes,
            history: self.history,
            tickets: Mutex::new(tickets),
            batch_ticket: Mutex::default(),
        }
    }
}

impl AdmittedRequest {
    /// A parsed request in a session of a store, and both forms of it.
    pub(crate) fn new(
        parsed: ParsedRequest,
        (store, session): (Arc<Store>, Arc<LiveSession>),
        trail: Trail,
        edition: u64,
    ) -> (Arc<Self>, Twin<Arc<Conversation>>) {
        let twin = parsed.twin.map(Arc::new);
        let ChainedRequest { chain, system, preamble, counts } = parsed.chained;
        let admitted = Self {
            conversation: Arc::clone(twin.stored()),
            chain,
            caller: parsed.caller,
            client: parsed.client,
            system,
            preamble,
            counts: Mutex::new(counts),
            share: parsed.share,
            working: parsed.working,
            store,
            session,
            trail,
            edition,
        };
        (Arc::new(admitted), twin)
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.conversation.dialect
    }

    pub(crate) fn model(&self) -> &str {
        self.conversation.model.as_deref().unwrap_or_default()
    }

    /// The messages after the preamble, and more after them.
    pub(crate) fn with<'h>(
        &'h self,
        more: &'h [Message],
    ) -> impl DoubleEndedIterator<Item = &'h Message> {
        let path = self.conversation.path();
        path.messages[path.lead..].iter().chain(more)
    }

    /// Reads a reply as the messages that come after the request; `None` if it is no message.
    pub(crate) fn answer(&self, reply: Reply) -> Option<NewAnswer> {
        let is_list = reply.message.trim_start().starts_with('[');
        let list = if is_list { reply.message } else { format!("[{}]", reply.message) };
        let messages = read(list.into_bytes(), Some(self.dialect())).ok()?.messages;
        let mut chain = self.chain.clone();
        chain.extend(&messages);
        Some(NewAnswer { messages, chain, text: reply.text, unread: None })
    }

    /// An answer without any message.
    pub(crate) fn no_answer(&self) -> NewAnswer {
        let chain = self.chain.clone();
        NewAnswer { messages: Vec::new(), chain, text: String::new(), unread: None }
    }
}

impl Drop for AdmittedRequest {
    /// Gives the buffer of the text back, unless somebody still reads it.
    fn drop(&mut self) {
        let conversation = Arc::get_mut(&mut self.conversation);
        if let Some(text) = conversation.and_then(Conversation::take_source) {
            self.share.give_back(text);
        }
    }
}
