//! By what a request is found again: the chain of its messages, and what stands around them.

use std::sync::Arc;

use longhand_archive::{Owner, PreambleId};
use longhand_core::session::Chain;
use longhand_core::{Link, Meaning, Path, Text};
use longhand_dialect::Conversation;

use super::lock;
use super::placed::PlacedRequest;
use super::source::TokenCounts;

/// The chain of a request, and the hashes of what it has besides messages.
pub struct ChainedRequest {
    /// The chain of its messages.
    pub chain: Chain,
    /// A hash of the leading system messages, by which side calls are told apart.
    pub system: Link,
    /// The system prompt, the tools and the model.
    pub preamble: PreambleId,
    /// The token counts that an earlier request has for the messages that both share.
    pub counts: Option<TokenCounts>,
}

impl ChainedRequest {
    /// Chains a conversation. The first messages that it shares with an earlier request, so many after the system prompt,
    /// are not hashed again.
    pub fn new(
        conversation: &Conversation,
        owner: Owner,
        earlier: Option<(&PlacedRequest, usize)>,
    ) -> Self {
        let path = conversation.path();
        let shared = earlier.map_or(0, |(_, shared)| shared);
        let mut chain = match earlier {
            Some((earlier, shared)) => earlier.chain.beginning(shared),
            None => Chain::new(owner.root()),
        };
        chain.extend(&path.messages[path.lead + shared..]);
        let same = earlier.map(|(earlier, _)| earlier).filter(|earlier| {
            earlier.conversation.model == conversation.model
                && pieces(&earlier.conversation).eq(pieces(conversation))
        });
        let (system, preamble) = match same {
            Some(same) => (same.system, same.preamble),
            None => (system_link(&path), PreambleId::of(&preamble(conversation))),
        };
        let counts = same.and_then(|earlier| counts_of(earlier, path.lead + shared));
        Self { chain, system, preamble, counts }
    }
}

/// How many messages after the system prompt two requests share. Their first `common` bytes are known to be the same.
pub fn shared_messages(one: &Conversation, other: &Conversation, common: usize) -> usize {
    let messages =
        (one.path().lead..one.messages.len()).zip(other.path().lead..other.messages.len());
    messages.take_while(|(at, in_other)| one.has_same(*at, other, *in_other, common)).count()
}

fn system_link(path: &Path) -> Link {
    let lead = path.messages[..path.lead].iter();
    lead.fold(Link::root(b""), |link, message| link.next(Meaning::of(message)))
}

/// What is known of the size of the first messages of a request.
fn counts_of(request: &PlacedRequest, messages_max: usize) -> Option<TokenCounts> {
    let known = lock(&request.counts);
    let TokenCounts { meter, messages, fixed } = known.as_ref()?;
    let count = messages_max.min(messages.len());
    let messages = messages[..count].to_vec();
    Some(TokenCounts { meter: Arc::clone(meter), messages, fixed: *fixed })
}

/// What a request has besides its messages, as it is archived.
pub(super) fn preamble(conversation: &Conversation) -> String {
    let model = conversation.model.as_deref().unwrap_or_default();
    crate::preamble::write(model, pieces(conversation))
}

/// What a request has besides its messages, piece by piece.
fn pieces(conversation: &Conversation) -> impl Iterator<Item = &str> {
    let path = conversation.path();
    let system = path.messages[..path.lead].iter().map(|message| message.raw.raw());
    system.chain(conversation.attributes.iter().map(Text::raw))
}
