//! What is known of a request before its window is made.

use std::sync::Arc;

use longhand::{Chain, Tokens};
use longhand_archive::PreambleId;
use longhand_core::{Budget, Link, Meaning, Part};
use longhand_dialect::Conversation;

use crate::asked::Weights;
use crate::client::Client;
use crate::load::{Share, Working};
use crate::lock::lock;
use crate::route::Caller;
use crate::store::{AdmittedRequest, Told, pieces, preamble};

/// Chains a request; what it shares with an earlier one was chained before.
pub(super) fn told(
    conversation: Conversation,
    caller: Caller,
    client: Client,
    (share, working): (Arc<Share>, Working),
    before: Option<(&AdmittedRequest, usize)>,
) -> Told {
    let path = conversation.path();
    let root = caller.owner().root();
    let shared = before.map_or(0, |(_, shared)| shared);
    let mut chain = match before {
        Some((before, shared)) => before.chain.beginning(shared),
        None => Chain::new(root),
    };
    chain.extend(&path.messages[path.lead + shared..]);
    let same = before.map(|(before, _)| before).filter(|before| {
        before.conversation.model == conversation.model
            && pieces(&before.conversation).eq(pieces(&conversation))
    });
    let system = || {
        let lead = path.messages[..path.lead].iter();
        lead.fold(Link::root(b""), |link, message| link.next(Meaning::of(message)))
    };
    let (system, preamble) = match same {
        Some(same) => (same.system, same.preamble),
        None => (system(), PreambleId::of(&preamble(&conversation))),
    };
    let weights = same.and_then(|before| weights(before, path.lead + shared));
    Told { conversation, chain, shared, caller, client, system, preamble, weights, share, working }
}

/// What is known of the weights of a request whose first messages an earlier one has, too.
fn weights(before: &AdmittedRequest, shared: usize) -> Option<Weights> {
    let known = lock(&before.weights);
    let Weights { meter, messages, fixed } = known.as_ref()?;
    let most = shared.min(messages.len());
    Some(Weights { meter: Arc::clone(meter), messages: messages[..most].to_vec(), fixed: *fixed })
}

/// About what a message takes besides its bytes, in tokens, and generously.
const MESSAGE_TOKENS_MAX: u64 = 16;

/// Whether a request fits by its bytes alone: no token has less than one, but pictures have many tokens.
pub(super) fn surely_fits(conversation: &Conversation, limit: Option<Tokens>) -> bool {
    let Some(limit) = limit else { return true };
    let messages = &conversation.messages;
    let bytes = conversation.bytes().len() as u64;
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let is_text = |part: &Part| match part {
        Part::Image(_) | Part::Media(_) | Part::File(_) | Part::Other(_) => false,
        Part::Result(result) => result.content.iter().all(|part| part.text().is_some()),
        _ => true,
    };
    bytes + MESSAGE_TOKENS_MAX * (messages.len() as u64 + 1) <= limit.0 && parts().all(is_text)
}

/// Whether no new result of a request is so large that it is clipped as it enters.
pub(super) fn stays_whole(
    conversation: &Conversation,
    limit: Option<Tokens>,
    planning: &longhand_core::Settings,
) -> bool {
    limit.is_none_or(|limit| !planning.may_clip_new(&conversation.messages, &Budget::of(limit)))
}
