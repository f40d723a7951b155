//! Writing a new batch down, and waiting until it is durable.

use std::sync::Arc;
use std::time::Duration;

use longhand::receipt::FoldReceipt;
use longhand::{Receipt, Tokens, recall};
use longhand_core::{Message, Plan, Policy, Tally, folded_messages};
use tokio::time::timeout;

use crate::Settings;
use crate::lock::lock;
use crate::metrics::{Metrics, Rung};
use crate::request::source::{Purpose, WindowSource};
use crate::request::window::RequestWindow;
use crate::store::{BatchCommit, LiveBatch, now_ms};

/// How long a window waits until its new batch is durable.
const BATCH_TIME_MAX: Duration = Duration::from_millis(50);

/// Writes new batches down.
pub(crate) struct BatchWriter {
    policy: Policy,
    /// Whether nothing is sent before it is durable.
    requires_archive: bool,
    metrics: Arc<Metrics>,
}

/// Whether a new batch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchDurability {
    /// It is durable, or there is none.
    Durable,
    /// It takes long.
    Late,
    /// The archive did not take it: another process was first, or it fails.
    Refused,
}

/// Has a batch written; the window that shows it waits until it is durable.
pub(crate) fn enter(source: &WindowSource, commit: BatchCommit) -> Arc<LiveBatch> {
    let store = &source.admitted.store;
    let (live, ticket) = store.enter(&source.admitted, commit);
    store.hurry();
    *lock(&source.batch_ticket) = ticket;
    live
}

/// Waits until all that a request brought is archived. Returns whether it is.
pub(crate) async fn archived(source: &WindowSource) -> bool {
    let tickets = std::mem::take(&mut *lock(&source.tickets));
    for ticket in tickets {
        let Some(ticket) = ticket else { return false };
        if ticket.await != Ok(true) {
            return false;
        }
    }
    true
}

impl BatchWriter {
    pub(crate) fn new(settings: &Settings, metrics: &Arc<Metrics>) -> Self {
        let (policy, requires_archive) = (settings.policy, settings.require_archive);
        Self { policy, requires_archive, metrics: Arc::clone(metrics) }
    }

    /// Has the batch of a plan written with its receipt, unless the request is not recorded: then it is for that
    /// request alone. `shown` is the window before it, `fold` tells how its fold was written.
    pub(crate) async fn write(
        &self,
        source: &WindowSource,
        plan: &Plan,
        shown: &RequestWindow,
        limit: Tokens,
        fold: Option<FoldReceipt>,
    ) -> Option<Arc<LiveBatch>> {
        self.count(plan, fold.as_ref());
        if !source.is_recorded() {
            return None;
        }
        let (session, store) = (&source.admitted.session, &source.admitted.store);
        let is_form = |seq, message: &Message| session.is_form(seq, message);
        let unsure = source.fitting(&[], &[]).unsure(&plan.batch, is_form);
        let archived = recall::read_messages(&**store.archive(), session.id, &unsure).await;
        let archived = archived.unwrap_or_default();
        let batch = source.fitting(&[], &[]).with_variants(&plan.batch, &unsure, &archived);
        let receipt = self.receipt(source, plan, shown, limit, fold);
        let aside = source.purpose == Purpose::Aside;
        let live = enter(source, BatchCommit { after: shown.batch, batch, receipt, aside });
        live.count(source.model(), plan.tokens().saturating_sub(source.beyond(&live)));
        Some(live)
    }

    fn count(&self, plan: &Plan, fold: Option<&FoldReceipt>) {
        let Tally { stubs, clips, .. } = Tally::of(&plan.batch.edits);
        self.metrics.batches.inc();
        self.metrics.fold(Rung::Stub, stubs as u64);
        self.metrics.fold(Rung::Clip, clips as u64);
        let by_model =
            fold.is_some_and(|fold| fold.story.as_ref().is_some_and(|story| story.model.is_some()));
        let rung = if by_model { Rung::ModelFold } else { Rung::Fold };
        self.metrics.fold(rung, u64::from(folded_messages(&plan.batch) > 0));
    }

    fn receipt(
        &self,
        source: &WindowSource,
        plan: &Plan,
        shown: &RequestWindow,
        limit: Tokens,
        fold: Option<FoldReceipt>,
    ) -> String {
        let receipt = Receipt {
            policy: Some(self.policy.name().to_owned()),
            budget: Some(limit.0),
            tokens_before: shown.before.map(|tokens| tokens.0),
            fold,
            ..Receipt::of_plan(&source.conversation().path(), plan, now_ms())
        };
        receipt.write()
    }

    /// Waits until a new batch is durable, so that its handles open: without end if it must be, else a while.
    pub(crate) async fn durability(&self, source: &WindowSource) -> BatchDurability {
        let Some(ticket) = lock(&source.batch_ticket).take() else {
            return BatchDurability::Durable;
        };
        let written = if self.requires_archive {
            Ok(ticket.await)
        } else {
            timeout(BATCH_TIME_MAX, ticket).await
        };
        match written {
            Ok(Ok(true)) => BatchDurability::Durable,
            Ok(_) => BatchDurability::Refused,
            Err(_) => {
                self.metrics.late.inc();
                BatchDurability::Late
            }
        }
    }

    /// Waits until a new batch is durable. Returns whether the window may be sent.
    pub(crate) async fn may_send(&self, source: &WindowSource) -> bool {
        let is_refused = self.durability(source).await == BatchDurability::Refused;
        if is_refused {
            self.metrics.late.inc();
        }
        !(is_refused && self.requires_archive)
    }
}
