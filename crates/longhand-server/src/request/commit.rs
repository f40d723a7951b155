//! Waiting until what a request brings is durable.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::Settings;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::request::source::RequestSource;

/// How long a window waits until its new batch is durable.
const BATCH_TIME_MAX: Duration = Duration::from_millis(50);

/// Waits for new batches.
pub(crate) struct BatchWaiter {
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

/// Waits until all that a request brought is archived. Returns whether it is.
pub(crate) async fn archived(source: &RequestSource) -> bool {
    let tickets = std::mem::take(&mut *lock(&source.tickets));
    for ticket in tickets {
        let Some(ticket) = ticket else { return false };
        if ticket.await != Ok(true) {
            return false;
        }
    }
    true
}

impl BatchWaiter {
    pub(crate) fn new(settings: &Settings, metrics: &Arc<Metrics>) -> Self {
        Self { requires_archive: settings.require_archive, metrics: Arc::clone(metrics) }
    }

    /// Waits a while until a new batch is durable, so that its handles open.
    pub(crate) async fn durability(&self, source: &RequestSource) -> BatchDurability {
        let Some(mut ticket) = lock(&source.window.batch_ticket).take() else {
            return BatchDurability::Durable;
        };
        match timeout(BATCH_TIME_MAX, &mut ticket).await {
            Ok(Ok(true)) => BatchDurability::Durable,
            Ok(_) => BatchDurability::Refused,
            Err(_) if self.requires_archive => {
                // It is waited for once more before the window is sent.
                *lock(&source.window.batch_ticket) = Some(ticket);
                BatchDurability::Late
            }
            Err(_) => {
                self.metrics.late.inc();
                BatchDurability::Late
            }
        }
    }

    /// Waits until a new batch is durable: without end if it must be, else a while. Returns whether the window may be
    /// sent.
    pub(crate) async fn may_send(&self, source: &RequestSource) -> bool {
        let must_wait =
            || lock(&source.window.batch_ticket).take().filter(|_| self.requires_archive);
        let is_refused = match must_wait() {
            Some(ticket) => ticket.await != Ok(true),
            None => self.durability(source).await == BatchDurability::Refused,
        };
        if is_refused {
            self.metrics.late.inc();
        }
        !(is_refused && self.requires_archive)
    }
}
