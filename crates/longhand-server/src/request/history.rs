//! History that a provider holds, by the id of its last answer.
//!
//! A request that goes on from such an answer brings only what is new. What it goes on from is in our
//! archive, so that it can be counted, and sent whole and shortened once it no longer fits.

use longhand::driver::{Computing, Sink, Twin};
use longhand::{Archive, Owner, SessionId};
use longhand_archive::{Entry, Ledger, Page, RequestFilter};
use longhand_core::Seq;
use longhand_dialect::{items_of, read, with_history};

use crate::load::Working;
use crate::request::parse::{ParsedRequest, RequestDetails, unplaced};
use crate::request::{PrepareError, RequestContext};
use crate::store::Store;
use crate::turns::Workers;

/// Where the history of an answer ends, and how the provider has it.
#[derive(Clone, Debug)]
pub(crate) struct ProviderHistory {
    pub(crate) session: SessionId,
    head: Seq,
    /// The newest batch with which the provider has it; 0 if it has it as it is.
    pub(crate) batch: u64,
}

impl ProviderHistory {
    /// Finds an answer of an owner.
    async fn find(archive: &dyn Archive, owner: Owner, id: &str) -> Option<Self> {
        let filter = RequestFilter::Answer(owner, id.to_owned());
        let found = archive.list_requests(filter, Page::first(1)).await.ok()?;
        let (session, request) = found.items.into_iter().next()?;
        Some(Self { session, head: request.head?, batch: request.batch })
    }

    /// The history as items of a request, oldest first.
    async fn items(&self, archive: &dyn Archive) -> Option<Vec<String>> {
        let ledger = Ledger::open(archive, self.session).await.ok()??;
        ledger.require(self.head).ok()?;
        let seqs = ledger.state.tree().path(self.head, 0..self.head.0 + 1);
        let records = archive.bodies(self.session, seqs).await.ok()?;
        let items = |entry: &Entry| items_of(entry.form.parse().ok()?, &entry.raw);
        Some(records.iter().filter_map(|record| items(&record.entry)).collect())
    }
}

impl ParsedRequest {
    /// Puts the history before a request that its provider holds; nothing changes where the archive has none.
    pub(crate) async fn with_history(
        self,
        context: &RequestContext,
        store: &Store,
        workers: &Workers,
    ) -> Result<Self, PrepareError> {
        let Some(id) = &self.details.fields.previous else { return Ok(self) };
        let (archive, owner) = (store.archive(), context.caller.owner());
        let mut found = ProviderHistory::find(archive, owner, id).await;
        if found.is_none() {
            // The answer may still be on its way into the archive.
            store.settle().await;
            found = ProviderHistory::find(archive, owner, id).await;
        }
        let Some(history) = found else { return Ok(self) };
        let Some(items) = history.items(archive).await else { return Ok(self) };
        let context = context.clone();
        workers.compute(move || self.after(&context, history, &items)).await
    }

    /// Puts these items before the request.
    fn after(
        self,
        context: &RequestContext,
        history: ProviderHistory,
        items: &[String],
    ) -> Result<Self, PrepareError> {
        let texts = self
            .unplaced
            .twin
            .as_ref()
            .try_map(|request| with_history(request.bytes(), items).ok_or(PrepareError::Empty));
        match texts {
            Ok(texts) => self.reread(context, history, texts),
            Err(_) => Ok(self),
        }
    }

    /// Reads the request again, with its history.
    ///
    /// Of the history only the redacted form is known, so both forms of the request have that.
    fn reread(
        self,
        context: &RequestContext,
        history: ProviderHistory,
        texts: Twin<String>,
    ) -> Result<Self, PrepareError> {
        let share = &self.details.share;
        let working = Working::of(texts.stored(), None, share).ok_or(PrepareError::TooCostly)?;
        if !share.grow(texts.stored().len() as u64 + working.bytes) {
            return Err(PrepareError::TooCostly);
        }
        let mut twin = texts.try_map(|text| read(text.into_bytes(), Some(context.dialect)))?;
        twin.change(|conversation| {
            conversation.keep_thinking();
        });
        // It belongs to the session that has the history, and goes on from no request in memory.
        let (caller, earlier) = (context.caller.clone(), None);
        let unplaced = unplaced(twin, caller.owner(), None, share);
        let (history, working) = (Some(history), Working::default());
        let details = RequestDetails { earlier, history, caller, working, ..self.details };
        Ok(Self { unplaced, details })
    }
}
