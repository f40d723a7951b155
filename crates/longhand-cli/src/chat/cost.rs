//! What a conversation has cost.

use longhand::Receipt;
use longhand::receipt::FoldReceipt;
use longhand_archive::{LoggedBatch, RequestRecord};
use longhand_core::grouped;

use crate::output::counted;

/// Writes the cost of answers and of summaries.
pub(super) fn written(calls: &[RequestRecord], batches: &[LoggedBatch]) -> String {
    let sum = |of: fn(&RequestRecord) -> u64| grouped(calls.iter().map(of).sum::<u64>() as usize);
    let answers = calls.iter().map(|call| call.cost_micros);
    format!(
        "answers   {} for {}: {} tokens read, {} of them from a cache, {} written\nsummaries {}",
        price(answers),
        counted(calls.len(), "call"),
        sum(|call| call.sent),
        sum(|call| call.cached),
        sum(|call| call.output),
        price(batches.iter().flat_map(summary_cost))
    )
}

/// What the summary of a batch cost, if a model wrote it; `None` for a price that is not known.
fn summary_cost(batch: &LoggedBatch) -> Option<Option<u64>> {
    let fold = Receipt::read(&batch.receipt).fold;
    fold.as_ref().and_then(FoldReceipt::by_model).map(|summary| summary.cost_micros)
}

/// A sum in dollars, which says how many prices are unknown.
fn price(costs: impl Iterator<Item = Option<u64>>) -> String {
    let (mut micros, mut known, mut unknown) = (0, 0, 0);
    for cost in costs {
        micros += cost.unwrap_or(0);
        known += usize::from(cost.is_some());
        unknown += usize::from(cost.is_none());
    }
    let usd = format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100);
    match (known, unknown) {
        (_, 0) => usd,
        (0, _) => "unknown (set [prices] in longhand.toml)".to_owned(),
        (_, unknown) => {
            format!(
                "{usd} and an unknown price for {} (set [prices] in longhand.toml)",
                counted(unknown, "call")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_called_free() {
        assert_eq!(price([].into_iter()), "$0.0000");
        assert_eq!(price([Some(12_345), Some(0)].into_iter()), "$0.0123");
        assert!(price([None].into_iter()).starts_with("unknown"));
        let some = price([Some(1_000_000), None].into_iter());
        assert!(some.starts_with("$1.0000 and an unknown price for 1 call "), "{some}");
    }
}
