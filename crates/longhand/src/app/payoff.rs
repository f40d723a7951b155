//! What a batch of edits cost, and when it paid off.
//!
//! A batch changes the prefix, so the provider reads the window after it anew. From then on each request is smaller by
//! what the batch left out. Both are added up in tokens at full price: a token that comes from a cache costs a tenth.

use longhand_archive::{LoggedBatch, Page, RequestRecord, SessionInfo};
use serde::{Deserialize, Serialize};

use super::requests::below;
use super::{Access, App, AppError, Timestamp};
use crate::Receipt;

/// What a token from a provider's cache costs, where a new one costs one.
const CACHED_PRICE: f64 = 0.1;

/// So many requests are looked through; older ones were sent with batches that paid off long ago, or never will.
const REQUESTS_MAX: usize = 20_000;

/// What a batch cost and saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BatchPayoff {
    /// Its number.
    pub batch: u64,
    /// When it was made.
    pub at: Timestamp,
    /// Whether it was undone since.
    pub undone: bool,
    /// The first request that was sent with it.
    pub request: Option<u64>,
    /// How many requests were sent with it, alone or below newer batches.
    pub requests: u64,
    /// Tokens that the first of them sent anew: those that the provider did not have in its cache.
    pub resent: u64,
    /// Tokens that these requests did not send because of it.
    pub saved: u64,
    /// What the tokens sent anew cost more than cached ones, in tokens at full price.
    pub cost: f64,
    /// What the tokens that were not sent would have cost, in tokens at full price.
    pub gain: f64,
    /// The request at which the gain reached the cost; `None` if it has not.
    pub paid_off_at: Option<u64>,
}

/// What batches cost and saved, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PayoffPage {
    /// The batches.
    pub items: Vec<BatchPayoff>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

impl App {
    /// What the batches of a session cost, and when they paid off; `after` is [`PayoffPage::next`] of the page before.
    pub fn payoff(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<PayoffPage, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let cursor = |text: &str| text.parse().map_err(|_| AppError::BadPage(text.to_owned()));
        let page = Page { after: after.map(cursor).transpose()?, limit };
        let found = self.archive.batches(info.id, page)?;
        let oldest = found.items.last().map_or(0, |logged| logged.at_ms);
        let requests = self.requests_since(&info, oldest)?;
        let reports = info.usage.sums.cached > 0;
        let items = found.items.iter().map(|logged| payoff_of(logged, &requests, reports));
        let next = found.next.map(|next| next.to_string());
        Ok(PayoffPage { items: items.collect(), next })
    }

    /// The newest requests with their numbers, oldest first, as far back as a time.
    fn requests_since(
        &self,
        info: &SessionInfo,
        since_ms: i64,
    ) -> Result<Vec<(u64, RequestRecord)>, AppError> {
        let total = self.request_count(info)?;
        let page = Page::below(below(None, total)?, REQUESTS_MAX);
        let records = self.archive.requests(info.id, page)?.items;
        let numbered = (1..=total).rev().zip(records);
        let mut requests: Vec<(u64, RequestRecord)> =
            numbered.take_while(|(_, request)| request.at_ms >= since_ms).collect();
        requests.reverse();
        Ok(requests)
    }
}

/// What a batch cost and saved among the requests of its session, oldest first.
fn payoff_of(
    logged: &LoggedBatch,
    requests: &[(u64, RequestRecord)],
    reports: bool,
) -> BatchPayoff {
    let receipt = Receipt::read(&logged.receipt);
    let tokens = match (receipt.tokens_before, receipt.tokens_after) {
        (Some(before), Some(after)) => before.saturating_sub(after),
        _ => 0,
    };
    let price = if reports { CACHED_PRICE } else { 1.0 };
    let mut payoff = BatchPayoff {
        batch: logged.number,
        at: Timestamp(logged.at_ms),
        undone: !logged.is_live,
        request: None,
        requests: 0,
        resent: 0,
        saved: 0,
        cost: 0.0,
        gain: 0.0,
        paid_off_at: None,
    };
    // A later batch builds on it, and goes on leaving out what it left out.
    let with_it = requests.iter().filter(|(_, request)| {
        request.batch >= logged.number && !request.is_aside && !request.is_bypassed
    });
    for (number, request) in with_it {
        let saved = tokens.min(request.before.saturating_sub(request.window));
        if payoff.requests == 0 {
            payoff.request = Some(*number);
            if reports {
                payoff.resent = request.sent.saturating_sub(request.cached);
                payoff.cost = payoff.resent as f64 * (1.0 - CACHED_PRICE);
            }
        }
        payoff.requests += 1;
        payoff.saved += saved;
        payoff.gain += saved as f64 * price;
        if payoff.paid_off_at.is_none() && payoff.gain >= payoff.cost && payoff.gain > 0.0 {
            payoff.paid_off_at = Some(*number);
        }
    }
    payoff
}

#[cfg(test)]
mod tests {
    use longhand_core::Batch;

    use super::*;

    fn batch(number: u64) -> LoggedBatch {
        let receipt = r#"{"tokens_before":10000,"tokens_after":4000}"#.to_owned();
        LoggedBatch { number, after: 0, at_ms: 5, batch: Batch::default(), receipt, is_live: true }
    }

    fn request(batch: u64, window: u64, cached: u64) -> RequestRecord {
        let (before, sent) = (10_000, window);
        RequestRecord { batch, before, window, sent, cached, ..RequestRecord::default() }
    }

    #[test]
    fn a_batch_pays_off_when_what_it_saves_reached_what_it_cost() {
        let mut requests = vec![(1, request(0, 10_000, 9_000)), (2, request(1, 4_000, 1_000))];
        requests.extend((3..9).map(|number| (number, request(1, 4_000, 4_000))));
        let payoff = payoff_of(&batch(1), &requests, true);
        // 3,000 tokens at nine tenths of the price; each request saves 6,000 at a tenth of it.
        assert_eq!((payoff.request, payoff.resent, payoff.requests), (Some(2), 3_000, 7));
        assert!((payoff.cost - 2_700.0).abs() < 1e-6, "{payoff:?}");
        assert_eq!((payoff.saved, payoff.paid_off_at), (42_000, Some(6)));
        // Without a cache it costs nothing.
        let payoff = payoff_of(&batch(1), &requests, false);
        assert_eq!((payoff.resent, payoff.paid_off_at), (0, Some(2)));
        // It was never sent.
        let payoff = payoff_of(&batch(2), &requests, true);
        assert_eq!((payoff.request, payoff.saved, payoff.paid_off_at), (None, 0, None));
    }
}
