//! Making windows: reads what a session shows, has it planned, and has new edits written down.

use std::sync::Arc;

use longhand::receipt::{Receipt, ReceiptCause};
use longhand::{Tokens, TooLong};
use longhand_core::Batch;
use longhand_dialect::Overflow;

use crate::Settings;
use crate::digest::Digests;
use crate::knowledge::{ModelKnowledge, keep_learned};
use crate::metrics::Metrics;
use crate::recall;
use crate::redaction::Redaction;
use crate::request::PrepareError;
use crate::request::admit::AdmittedRequest;
use crate::request::commit::{self, BatchWriter};
use crate::request::plan::{LiveEdits, Planner};
use crate::request::source::WindowSource;
use crate::request::window::RequestWindow;
use crate::store::{BatchCommit, now_ms};

/// Makes windows.
pub(crate) struct WindowMaker {
    pub(crate) planner: Arc<Planner>,
    pub(crate) writer: BatchWriter,
    digests: Digests,
    knowledge: Arc<ModelKnowledge>,
    redaction: Redaction,
}

impl WindowMaker {
    pub(crate) fn new(
        settings: &Settings,
        knowledge: &Arc<ModelKnowledge>,
        metrics: &Arc<Metrics>,
        redaction: &Redaction,
    ) -> Self {
        Self {
            planner: Arc::new(Planner::new(settings, Arc::clone(knowledge))),
            writer: BatchWriter::new(settings, metrics),
            digests: Digests::new(settings),
            knowledge: Arc::clone(knowledge),
            redaction: redaction.clone(),
        }
    }

    /// The window within a limit: with the live edits as long as that fits, then with a new batch.
    ///
    /// If the request `fits` for certain, it is not counted unless there are live edits.
    pub(crate) async fn window(
        &self,
        source: &Arc<WindowSource>,
        limit: Tokens,
        fits: bool,
    ) -> Result<RequestWindow, PrepareError> {
        let _turn = source.admitted.session.turn().await;
        let mut edits = live_edits(source).await?;
        if edits.is_empty() && fits {
            return Ok(RequestWindow::untouched(source));
        }
        let (planner, request) = (Arc::clone(&self.planner), Arc::clone(source));
        let review = source.workers.compute(move || {
            if let Some(referenced) = edits.referenced(&request, limit) {
                edits.push(commit::enter(&request, referenced));
            }
            planner.review(&request, &edits, limit)
        });
        let review = review.await?;
        if review.is_settled() {
            return Ok(review.window);
        }
        self.compacted(source, limit).await
    }

    /// The window with a new batch, as the session is now: another process may have pinned, edited or undone
    /// something.
    async fn compacted(
        &self,
        source: &Arc<WindowSource>,
        limit: Tokens,
    ) -> Result<RequestWindow, PrepareError> {
        let (session, store) = (&source.admitted.session, &source.admitted.store);
        let pins = session.pins(&**store.archive()).await;
        let edits = live_edits(source).await?;
        let digest = self.digests.digest(store, session, &source.meter).await;
        let (planner, request) = (Arc::clone(&self.planner), Arc::clone(source));
        let reviewed = source.workers.compute(move || {
            let mut review = planner.review(&request, &edits, limit)?;
            let plan = if review.is_settled() {
                None
            } else {
                planner.plan(&request, &edits, &mut review, &pins, &digest)
            };
            let fold = plan.as_ref().and_then(|_| digest.account());
            Ok::<_, PrepareError>((review.window, plan, fold, edits, digest))
        });
        let (shown, plan, fold, edits, digest) = reviewed.await?;
        let Some(plan) = plan else { return Ok(shown) };
        let live = self.writer.write(source, &plan, &shown, limit, fold).await;
        self.digests.tell(session, &digest);
        let request = Arc::clone(source);
        let window = source.workers.compute(move || edits.with_plan(&request, plan, limit));
        let mut window = window.await;
        window.batch = live.map_or(shown.batch, |live| live.number);
        Ok(window)
    }

    /// A smaller window after an upstream has found one too long; `None` if there is none.
    ///
    /// What the upstream says of its limit and its count is remembered for the model.
    pub(crate) async fn smaller(
        &self,
        source: &Arc<WindowSource>,
        sent: &RequestWindow,
        overflow: Overflow,
    ) -> Option<RequestWindow> {
        let tokens = match sent.after {
            Some(tokens) => tokens,
            None => total(source).await,
        };
        let too_long = TooLong { tokens, reply: source.fields.reply_max.unwrap_or(0) };
        let (owner, model) = (source.admitted.caller.owner(), source.model());
        let calibration = &self.knowledge.calibration;
        let (limit, learned) = calibration.overflowed(owner, model, too_long, overflow)?;
        keep_learned(source, learned);
        self.below(source, limit, tokens).await
    }

    /// The window within a limit, if it has less than so many tokens.
    pub(crate) async fn below(
        &self,
        source: &Arc<WindowSource>,
        limit: Tokens,
        tokens: Tokens,
    ) -> Option<RequestWindow> {
        let window = self.window(source, limit, false).await.ok()?;
        let is_smaller = window.body.is_some() && window.after.is_some_and(|after| after < tokens);
        is_smaller.then_some(window)
    }

    /// Has a text follow the request that was brought back, in this window and in those that come.
    pub(crate) async fn insert(
        &self,
        source: &Arc<WindowSource>,
        text: String,
    ) -> Result<RequestWindow, PrepareError> {
        let limit = self.knowledge.limit_of(source).unwrap_or(Tokens::MAX);
        let newest = source.admitted.trail.path.last().copied().ok_or(PrepareError::Empty)?;
        let _turn = source.admitted.session.turn().await;
        let mut edits = live_edits(source).await?;
        let text = if edits.has_insert(&text) { recall::ALREADY.to_owned() } else { text };
        // It may quote what the model asked for.
        let batch = Batch::inserting(newest, self.redaction.owned(text));
        let receipt =
            Receipt { budget: Some(limit.0), ..Receipt::of(ReceiptCause::Recall, now_ms()) };
        let after = edits.newest_number();
        edits.push(commit::enter(
            source,
            BatchCommit { after, batch, receipt: receipt.write(), aside: false },
        ));
        let shown = Arc::clone(source);
        source.workers.compute(move || edits.window(&shown, limit)).await
    }
}

/// The size of a request by our count.
pub(crate) async fn total(source: &Arc<WindowSource>) -> Tokens {
    let counted = Arc::clone(source);
    source.workers.compute(move || counted.total()).await
}

/// The edits that hold for the path of a request, as the archive has them by now.
///
/// Fails if its messages have other numbers by now: edits name entries by number.
async fn live_edits(source: &WindowSource) -> Result<LiveEdits, PrepareError> {
    let AdmittedRequest { store, session, trail, .. } = &*source.admitted;
    let live = session.live(&**store.archive(), &trail.path).await;
    let is_in_place = session.has_in_place(&source.admitted);
    is_in_place.then(|| LiveEdits::new(live)).ok_or(PrepareError::Renumbered)
}
