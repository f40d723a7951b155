//! Models that summarise, a few at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longhand::{Summariser, Tokens};
use longhand_core::Scale;
use longhand_summary::{Input, Summary, SummaryError};

/// How many models are asked at the same time.
const AT_ONCE_MAX: usize = 4;

/// The same summarisers; of the slow ones, few run at the same time.
pub(crate) fn limited(summarisers: &[Arc<dyn Summariser>]) -> Vec<Arc<dyn Summariser>> {
    let under_way = Arc::new(AtomicUsize::new(0));
    let limited = summarisers.iter().cloned().map(|summariser| {
        if summariser.is_instant() {
            return summariser;
        }
        let limited: Arc<dyn Summariser> =
            Arc::new(LimitedSummariser { summariser, under_way: Arc::clone(&under_way) });
        limited
    });
    limited.collect()
}

/// A slow summariser, of which few may run at the same time.
struct LimitedSummariser {
    summariser: Arc<dyn Summariser>,
    under_way: Arc<AtomicUsize>,
}

/// Counts a summariser as running until it is dropped.
struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Summariser for LimitedSummariser {
    fn name(&self) -> &str {
        self.summariser.name()
    }

    fn summarise(
        &self,
        input: &Input,
        limit: Tokens,
        scale: &Scale,
    ) -> Result<Summary, SummaryError> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _asking = Asking(&self.under_way);
        if before >= AT_ONCE_MAX {
            let (name, reason) = (self.name().to_owned(), "too many are asked already".to_owned());
            return Err(SummaryError::Unavailable { name, reason });
        }
        self.summariser.summarise(input, limit, scale)
    }
}
