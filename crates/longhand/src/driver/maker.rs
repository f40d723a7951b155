//! Making windows: reads what a session shows, has it planned, and has new edits written down.

use std::sync::Arc;

use longhand_archive::ArchiveError;
use longhand_core::{Batch, Message, Plan, Scale, Tokens, folded_messages};
use longhand_dialect::DialectError;
use thiserror::Error;

use super::admit::BatchCommit;
use super::digests::Digests;
use super::live_batch::LiveBatch;
use super::lock;
use super::plan::{LiveEdits, Planner, Review, WindowLimits};
use super::regret::first_new;
use super::remember::{NewWords, RecallRoom};
use super::sink::Sink;
use super::source::{CountedRequest, Purpose, WindowSource};
use super::window::{MadeWindow, PlannedEdits};
use crate::embeddings::Embeddings;
use crate::recall;
use crate::receipt::{Receipt, ReceiptCause};

/// Why no window could be made.
#[derive(Debug, Error)]
pub enum WindowError {
    /// A window could not be read again.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Another process has written to the session: the request has another place there now.
    #[error("the session was renumbered meanwhile")]
    Renumbered,
}

/// Where windows are computed.
pub trait Computing: Send + Sync {
    /// Computes something that may take its time.
    fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + Send;
}

/// Computes on the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Computing for Here {
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        work()
    }
}

/// What comes of looking at the live edits.
enum Reviewed {
    Done(Box<Review>),
    /// Something that they leave out is referred to: it is shown again first.
    Referenced(Box<(LiveEdits, BatchCommit)>),
}

/// A fold for a client that goes on with it alone.
#[derive(Clone, Debug)]
pub struct HandedOver {
    /// What it says.
    pub text: String,
    /// The tokens of the request.
    pub before: Tokens,
    /// The tokens of the text.
    pub tokens: Tokens,
    /// The number of its batch.
    pub batch: u64,
}

/// Makes windows.
pub struct WindowMaker {
    /// Decides what they show.
    pub planner: Arc<Planner>,
    /// Writes what folds say.
    pub digests: Digests,
    /// Knows what messages mean, where there is a model for it.
    pub embeddings: Option<Arc<Embeddings>>,
}

impl WindowMaker {
    /// The window within a limit: with the live edits as long as that fits, then with a new batch. Earlier messages
    /// that it leaves out and that matter for what the user says now come back, where there is room.
    ///
    /// If the request `fits` for certain, it is not counted unless there are live edits.
    pub async fn window(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limits: WindowLimits,
        fits: bool,
    ) -> Result<MadeWindow, WindowError> {
        let window = self.fitted(sink, workers, source, limits, fits).await?;
        match self.remembered(sink, source, limits, &window).await? {
            Some(batch) => self.with_remembered(sink, workers, source, limits, window, batch).await,
            None => Ok(window),
        }
    }

    /// The same, and nothing comes back.
    pub async fn fitted(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limits: WindowLimits,
        fits: bool,
    ) -> Result<MadeWindow, WindowError> {
        // Where several nodes serve a session, another one may have made its first edits.
        let may_be_edited = sink.archive().is_shared() || !source.placed.session.is_unedited();
        if may_be_edited && !source.is_checked {
            refresh(sink, source).await?;
        }
        let edits = live_edits(sink, source).await?;
        if edits.is_empty() && fits {
            return Ok(MadeWindow::untouched());
        }
        let (planner, request) = (Arc::clone(&self.planner), Arc::clone(source));
        let at_ms = sink.now_ms();
        let reviewed = workers.compute(move || {
            let first = first_new(&request.conversation().path(), request.known);
            let regrets = edits.regrets(&*request, first, at_ms);
            let reviewed = match edits.referenced(&*request, limits.tokens) {
                Some(referenced) => Ok(Reviewed::Referenced(Box::new((edits, referenced)))),
                None => planner
                    .review(&*request, &edits, &limits)
                    .map(|review| Reviewed::Done(Box::new(review))),
            };
            (reviewed, regrets)
        });
        let (reviewed, regrets) = reviewed.await;
        source.placed.session.note(sink, &source.placed, regrets);
        let review = match reviewed? {
            Reviewed::Done(review) => *review,
            Reviewed::Referenced(referenced) => {
                let (mut edits, referenced) = *referenced;
                edits.push(commit(sink, source, referenced));
                let (planner, request) = (Arc::clone(&self.planner), Arc::clone(source));
                workers.compute(move || planner.review(&*request, &edits, &limits)).await?
            }
        };
        if review.is_settled() {
            return Ok(review.window);
        }
        self.compacted(sink, workers, source, limits).await
    }

    /// The window with a new batch, as the session is now: another process may have pinned, edited or undone
    /// something.
    async fn compacted(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limits: WindowLimits,
    ) -> Result<MadeWindow, WindowError> {
        let session = &source.placed.session;
        refresh(sink, source).await?;
        let pins = session.pins();
        let edits = live_edits(sink, source).await?;
        let digest = self.digests.digest(sink, session, &source.meter).await;
        let (planner, request) = (Arc::clone(&self.planner), Arc::clone(source));
        let reviewed = workers.compute(move || {
            let mut review = planner.review(&*request, &edits, &limits)?;
            let plan = if review.is_settled() {
                None
            } else {
                planner.plan(&*request, &edits, &mut review, &pins, &digest)
            };
            let fold = plan.as_ref().and_then(|_| digest.account());
            let why = Some(review.cause());
            let receipt = Receipt { why, fold, ..Receipt::default() };
            Ok::<_, DialectError>((review.window, plan, receipt, edits, digest))
        });
        let (shown, plan, receipt, edits, digest) = reviewed.await?;
        let Some(plan) = plan else { return Ok(shown) };
        let done = PlannedEdits::new(&plan, receipt.fold.as_ref());
        let live = self.write(sink, source, &plan, &shown, limits.tokens, receipt).await;
        self.digests.tell(sink, session, &digest);
        let request = Arc::clone(source);
        let window = workers.compute(move || edits.with_plan(&*request, plan, limits.tokens)).await;
        let batch = live.map_or(shown.batch, |live| live.number);
        Ok(MadeWindow { batch, planned: Some(done), ..window })
    }

    /// Has the batch of a plan written with its receipt, unless the request is not recorded: then it is for that
    /// request alone. `shown` is the window before it; `receipt` has why it is made, and who wrote its fold.
    async fn write(
        &self,
        sink: &dyn Sink,
        source: &WindowSource,
        plan: &Plan,
        shown: &MadeWindow,
        limit: Tokens,
        receipt: Receipt,
    ) -> Option<Arc<LiveBatch>> {
        if !source.is_recorded() {
            return None;
        }
        let batch = with_variants(sink, source, &plan.batch).await;
        let receipt = Receipt {
            policy: Some(self.planner.settings.policy.name().to_owned()),
            tokens_before: shown.before.map(|tokens| tokens.0),
            why: receipt.why,
            fold: receipt.fold,
            ..Receipt::of_plan(&source.conversation().path(), plan, limit)
        };
        let aside = source.purpose == Purpose::Aside;
        let live = commit(sink, source, BatchCommit { after: shown.batch, batch, receipt, aside });
        live.count(source.model(), plan.tokens().saturating_sub(source.beyond(&live)));
        Some(live)
    }

    /// What brings earlier messages back into a window that was made for a request; `None` if there are none, or no room.
    ///
    /// It only reads, and may be given up.
    pub async fn remembered(
        &self,
        sink: &dyn Sink,
        source: &Arc<WindowSource>,
        limits: WindowLimits,
        window: &MadeWindow,
    ) -> Result<Option<Batch>, WindowError> {
        let session = &source.placed.session;
        let is_asked = limits.recall > Tokens::ZERO && window.edits > 0;
        let fits = window.shortfall == Tokens::ZERO;
        let may_grow = fits && source.purpose == Purpose::Turn && source.has_handles;
        let Some(text) = window.text.as_deref().filter(|_| is_asked) else { return Ok(None) };
        let words = NewWords::of(&source.conversation().path());
        let Some(words) = words.filter(|_| may_grow && !session.is_undone()) else {
            return Ok(None);
        };
        sink.settled(session).await?;
        // The size that is known may be one that was planned; after a restart it is counted.
        let tokens = source.weigh(text)?;
        let edits = live_edits(sink, source).await?;
        if edits.newest_number() != window.batch {
            return Ok(None);
        }
        let room = RecallRoom { share: limits.recall, free: limits.tokens.saturating_sub(tokens) };
        let (live, meter) = (edits.batches(), &*source.meter);
        let (archive, id, embeddings) = (sink.archive(), session.id, self.embeddings.as_deref());
        match words.remembered(archive, id, live, meter, room, embeddings).await {
            Err(error) => Ok(sink.go_on_without(error).map(|()| None)?),
            remembered => Ok(remembered?),
        }
    }

    /// The window with what was remembered, if that fits; the batch is written like any other.
    pub async fn with_remembered(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limits: WindowLimits,
        window: MadeWindow,
        batch: Batch,
    ) -> Result<MadeWindow, WindowError> {
        let edits = live_edits(sink, source).await?;
        let after = edits.newest_number();
        if after != window.batch {
            return Ok(window);
        }
        let (shown, request) = (batch.clone(), Arc::clone(source));
        let made =
            workers.compute(move || edits.window_with(&*request, shown, limits.tokens)).await?;
        if made.shortfall > Tokens::ZERO {
            return Ok(window);
        }
        let receipt = Receipt {
            tokens_before: window.after.map(|tokens| tokens.0),
            ..Receipt::of(ReceiptCause::Recall, Some(limits.tokens))
        };
        let live = commit(sink, source, BatchCommit { after, batch, receipt, aside: false });
        Ok(MadeWindow {
            batch: live.number,
            before: window.before,
            planned: window.planned,
            ..made
        })
    }

    /// A fold of all that a request says, in at most `limit` tokens, for a client that goes on with it alone; `None` if
    /// there is nothing to fold.
    ///
    /// Its handles open like those of any batch, but no window shows it: the client may go on as before.
    pub async fn handed_over(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limit: Tokens,
    ) -> Result<Option<HandedOver>, WindowError> {
        refresh(sink, source).await?;
        let edits = live_edits(sink, source).await?;
        let digest = self.digests.digest(sink, &source.placed.session, &source.meter).await;
        let request = Arc::clone(source);
        let folded = workers.compute(move || {
            let total = request.total();
            let batch = request.fitting(edits.batches(), &[]).handed_over(limit, &digest);
            let text = batch.as_ref().and_then(|batch| Some(batch.fold()?.text.clone()));
            let tokens = Scale::new(&*request.meter).text(text.as_deref().unwrap_or_default());
            (batch, text, total, tokens, edits.newest_number(), digest.account())
        });
        let (batch, text, total, tokens, after, fold) = folded.await;
        let Some((batch, text)) = batch.zip(text).filter(|_| tokens < total) else {
            return Ok(None);
        };
        let receipt = Receipt {
            tokens_before: Some(total.0),
            tokens_after: Some(tokens.0),
            folded: folded_messages(&batch),
            fold,
            ..Receipt::of(ReceiptCause::Compaction, Some(limit))
        };
        let live = commit(sink, source, BatchCommit { after, batch, receipt, aside: true });
        Ok(Some(HandedOver { text, before: total, tokens, batch: live.number }))
    }

    /// Has a text follow the request, in this window and in those that come; `already` is said instead if it stands there.
    pub async fn insert(
        &self,
        sink: &dyn Sink,
        workers: &impl Computing,
        source: &Arc<WindowSource>,
        limit: Tokens,
        (text, already): (String, &str),
    ) -> Result<MadeWindow, WindowError> {
        let newest = source.placed.trail.head().unwrap_or_default();
        refresh(sink, source).await?;
        let mut edits = live_edits(sink, source).await?;
        let text = if edits.has_insert(&text) { already.to_owned() } else { text };
        let batch = Batch::inserting(newest, text);
        let receipt = Receipt::of(ReceiptCause::Recall, Some(limit));
        let after = edits.newest_number();
        edits.push(commit(sink, source, BatchCommit { after, batch, receipt, aside: false }));
        let (shown, at_ms) = (Arc::clone(source), sink.now_ms());
        let made = workers.compute(move || {
            let first = shown.conversation().path().from(newest);
            (edits.window(&*shown, limit), edits.regrets(&*shown, first, at_ms))
        });
        let (window, regrets) = made.await;
        source.placed.session.note(sink, &source.placed, regrets);
        Ok(window?)
    }
}

/// Has a batch written; the window that shows it waits until it is durable.
fn commit(sink: &dyn Sink, source: &WindowSource, commit: BatchCommit) -> Arc<LiveBatch> {
    let (live, ticket) = source.placed.session.commit(sink, Some(&source.placed), commit);
    sink.hurry();
    *lock(&source.batch_ticket) = ticket;
    live
}

/// Adds the originals that a batch hides and that the archive has in another form, or not at all.
async fn with_variants(sink: &dyn Sink, source: &WindowSource, batch: &Batch) -> Batch {
    let session = &source.placed.session;
    let fitting = source.fitting(&[], &[]);
    let unsure =
        fitting.unsure(batch, |seq, message: &Message| session.lock().calls.is_form(seq, message));
    let archived = recall::read_messages(sink.archive(), session.id, &unsure).await;
    source.fitting(&[], &[]).with_variants(batch, &unsure, &archived.unwrap_or_default())
}

/// Takes in what other processes have written.
async fn refresh(sink: &dyn Sink, source: &WindowSource) -> Result<(), ArchiveError> {
    match source.placed.session.refresh(sink.archive()).await {
        Err(error) => sink.go_on_without(error),
        read => read,
    }
}

/// The edits that hold for the path of a request, as they are known.
///
/// Fails if its messages have other numbers by now: edits name entries by number.
async fn live_edits(sink: &dyn Sink, source: &WindowSource) -> Result<LiveEdits, WindowError> {
    let placed = &source.placed;
    let live = match placed.session.live(sink.archive(), placed.trail.head()).await {
        Ok(live) => live,
        Err(error) => sink.go_on_without(error).map(|()| Vec::new())?,
    };
    let is_in_place = placed.session.lock().has_in_place(placed);
    is_in_place.then(|| LiveEdits::new(live)).ok_or(WindowError::Renumbered)
}
