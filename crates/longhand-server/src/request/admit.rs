//! Giving a request its place in a session.

use std::sync::{Arc, Mutex};

use longhand::driver::hidden_tokens;
use longhand::driver::{
    Computing, LiveSession, PlacedRequest, Purpose, RequestPlace, UnplacedRequest, WindowSource,
};
use longhand::{SharedMeter, Tokens};
use longhand_archive::Origin;

use crate::client::ClientProgram;
use crate::load::Working;
use crate::request::parse::{ParsedRequest, RequestDetails};
use crate::request::source::RequestSource;
use crate::request::{PrepareError, Recording};
use crate::route::Caller;
use crate::store::Store;
use crate::turns::Workers;

/// A request that has its place in a session.
///
/// The cache of memos holds it for longer than the request takes.
pub(crate) struct AdmittedRequest {
    pub(crate) placed: Arc<PlacedRequest>,
    pub(crate) caller: Caller,
    pub(crate) client: ClientProgram,
    /// How its memory was counted.
    pub(crate) working: Working,
    /// Where it was admitted.
    pub(crate) store: Arc<Store>,
}

impl AdmittedRequest {
    pub(crate) fn session(&self) -> &Arc<LiveSession> {
        &self.placed.session
    }
}

/// Finds the session of a request, and appends the messages that are new there.
pub(crate) async fn admit(
    store: &Arc<Store>,
    parsed: ParsedRequest,
    recording: Recording,
    meter: SharedMeter,
    workers: Workers,
) -> Result<RequestSource, PrepareError> {
    if parsed.unplaced.chained.chain.said().next().is_none() {
        return Err(PrepareError::Empty);
    }
    let owner = parsed.details.caller.owner();
    let session = match &parsed.details.history {
        Some(history) => store.by_id(history.session, owner).await,
        None => store.session(&parsed).await,
    };
    let session = session.ok_or(PrepareError::NotTheOwner)?;
    let ParsedRequest { unplaced, details } = parsed;
    let (project, agent) = (store.project.clone(), details.client.agent.clone());
    let _ = session.origin.set(Origin { project, agent, ..Origin::default() });
    let changes = &details.changes;
    if changes.may_recall {
        let offers_recall = store.offers_recall(&session).await;
        if offers_recall != changes.offers_recall {
            return Err(PrepareError::Tools { offers_recall });
        }
    }
    let place = store.admit(&session, unplaced, details.earlier.is_some(), recording).await?;
    let hidden = if place.twin.is_redacted() {
        let (twin, meter) = (place.twin.clone(), Arc::clone(&meter));
        workers.compute(move || hidden_tokens(twin.sent(), twin.stored(), &*meter)).await
    } else {
        Tokens::ZERO
    };
    Ok(details.source(store, place, recording, (meter, workers), hidden))
}

/// The same without asking the archive; gives the request back if that is not possible.
pub(crate) fn admit_at_once(
    store: &Arc<Store>,
    session: &Arc<LiveSession>,
    parsed: ParsedRequest,
    recording: Recording,
    (meter, workers): (SharedMeter, Workers),
) -> Result<RequestSource, Option<Box<ParsedRequest>>> {
    let ParsedRequest { unplaced, details } = parsed;
    match store.admit_at_once(session, unplaced, details.earlier.is_some(), recording) {
        Ok(place) => {
            let twin = &place.twin;
            let hidden = if twin.is_redacted() {
                hidden_tokens(twin.sent(), twin.stored(), &*meter)
            } else {
                Tokens::ZERO
            };
            Ok(details.source(store, place, recording, (meter, workers), hidden))
        }
        Err(unplaced) => {
            let again =
                |unplaced: Box<UnplacedRequest>| ParsedRequest { unplaced: *unplaced, details };
            Err(unplaced.map(|unplaced| Box::new(again(unplaced))))
        }
    }
}

impl RequestDetails {
    fn source(
        self,
        store: &Arc<Store>,
        mut place: RequestPlace,
        recording: Recording,
        (meter, workers): (SharedMeter, Workers),
        hidden: Tokens,
    ) -> RequestSource {
        let ticket = place.ticket.take();
        let tickets = if recording == Recording::Archived { vec![ticket] } else { Vec::new() };
        let purpose = recording.purpose(place.is_aside);
        let admitted = AdmittedRequest {
            placed: Arc::clone(&place.placed),
            caller: self.caller,
            client: self.client,
            working: self.working,
            store: Arc::clone(store),
        };
        if place.is_first && purpose == Purpose::Turn {
            // The first request decides; of a session that goes on, the archive tells.
            let _ = place.placed.session.offers_recall.set(self.changes.offers_recall);
        }
        let mut window = WindowSource::new(place, purpose, meter, hidden);
        window.clear.clone_from(&self.changes.options.clear);
        window.has_handles = !store.forgets;
        window.is_checked = store.checks_sessions();
        RequestSource {
            window: Arc::new(window),
            admitted: Arc::new(admitted),
            workers,
            fields: self.fields,
            changes: self.changes,
            history: self.history,
            tickets: Mutex::new(tickets),
        }
    }
}
