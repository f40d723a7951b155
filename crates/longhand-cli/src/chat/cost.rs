//! What a conversation has cost.

use longhand::app::{ConversationCost, Cost};
use longhand_core::grouped;

use crate::output::counted;

/// Writes the cost of answers and of summaries.
pub(super) fn written(cost: &ConversationCost) -> String {
    let tokens = |tokens: u64| grouped(tokens as usize);
    format!(
        "answers   {} for {}: {} tokens read, {} of them from a cache, {} written\nsummaries {}",
        price(cost.answers),
        counted(cost.calls as usize, "call"),
        tokens(cost.sent),
        tokens(cost.cached),
        tokens(cost.output),
        price(cost.summaries)
    )
}

/// A sum in dollars, which says how many prices are unknown.
fn price(cost: Cost) -> String {
    let micros = cost.micros;
    let usd = format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100);
    match (cost.known, cost.unknown) {
        (_, 0) => usd,
        (0, _) => "unknown (set [prices] in longhand.toml)".to_owned(),
        (_, unknown) => {
            format!(
                "{usd} and an unknown price for {} (set [prices] in longhand.toml)",
                counted(unknown as usize, "call")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_called_free() {
        let price = |prices: &[Option<u64>]| price(prices.iter().copied().collect());
        assert_eq!(price(&[]), "$0.0000");
        assert_eq!(price(&[Some(12_345), Some(0)]), "$0.0123");
        assert!(price(&[None]).starts_with("unknown"));
        let some = price(&[Some(1_000_000), None]);
        assert!(some.starts_with("$1.0000 and an unknown price for 1 call "), "{some}");
    }
}
