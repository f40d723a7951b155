//! The requests of a session, as its log has them.

use longhand_archive::{Page, RequestRecord, SessionInfo};
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, Timestamp};

/// Prefixes of fewer tokens are not cached by every provider.
const CACHED_TOKENS_MIN: u64 = 2_048;

/// After so long without a request, providers forget what they had in their cache.
const CACHE_TIME_MS: i64 = 5 * 60 * 1_000;

/// So much of the request before, in percent, comes from the cache if nothing broke it.
const CACHED_PERCENT_MIN: u64 = 50;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestLine {
    /// Its number in the session's log, from 1.
    pub number: u64,
    /// When it was sent.
    pub at: Timestamp,
    /// The model that was asked.
    pub model: String,
    /// The program that asked.
    pub agent: String,
    /// The most tokens that it could have; 0 if there was no limit.
    pub budget: u64,
    /// Its tokens without edits, by our own count.
    pub before: u64,
    /// The tokens of its window by the same count.
    pub window: u64,
    /// The tokens that were sent, as the provider counts them.
    pub sent: u64,
    /// Those that the provider read from its cache; `None` if it never said that it has one.
    pub cached: Option<u64>,
    /// The tokens of the answer.
    pub output: u64,
    /// What it cost, in dollars, if the price is known.
    pub cost: Option<f64>,
    /// How many edits its window had.
    pub edits: u64,
    /// The newest batch that its window was made with; 0 for none.
    pub batch: u64,
    /// The last entry of its path.
    pub head: Option<u64>,
    /// Why the provider could not use its cache, where it could not.
    pub cache_break: Option<CacheBreak>,
    /// Whether the answer broke off.
    pub cut: bool,
    /// Whether it was a side call.
    pub aside: bool,
    /// Whether it was passed on unchanged because something failed on our side.
    pub bypassed: bool,
}

/// Why a provider could not use its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheBreak {
    /// There is a new batch of edits, or one was undone.
    Batch,
    /// The client changed what it had sent before.
    Client,
    /// The request before was too long ago.
    Expired,
}

/// Requests, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestPage {
    /// The requests.
    pub items: Vec<RequestLine>,
    /// How many there are.
    pub total: u64,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

impl App {
    /// The requests of a session, newest first; `after` is [`RequestPage::next`] of the page before.
    pub fn request_page(
        &self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<RequestPage, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let total = self.request_count(&info)?;
        let below = below(after, total)?;
        let items = self.request_lines(&info, below, limit)?;
        let next = items.last().map(|line| line.number).filter(|number| *number > 1);
        Ok(RequestPage { items, total, next: next.map(|number| number.to_string()) })
    }

    /// The lines of the request log below a number, newest first.
    pub(super) fn request_lines(
        &self,
        info: &SessionInfo,
        below: u64,
        limit: usize,
    ) -> Result<Vec<RequestLine>, AppError> {
        // A provider that never reported cached tokens may not report them at all.
        let reports = info.usage.sums.cached > 0;
        // One more, with which the oldest is compared.
        let page = Page::below(below, limit.saturating_add(1));
        let records = self.archive.requests(info.id, page)?.items;
        let numbers = (1..below).rev();
        let lines = records.iter().enumerate().zip(numbers).take(limit);
        Ok(lines
            .map(|((at, record), number)| {
                let before =
                    records[at + 1..].iter().find(|before| is_of_conversation(before, record));
                RequestLine::of(number, record, before, reports)
            })
            .collect())
    }
}

/// The number below which a page begins.
pub(super) fn below(after: Option<&str>, total: u64) -> Result<u64, AppError> {
    match after {
        None => Ok(total.saturating_add(1)),
        Some(text) => {
            let number: u64 = text.parse().map_err(|_| AppError::BadPage(text.to_owned()))?;
            Ok(number.min(total.saturating_add(1)))
        }
    }
}

/// Whether a request is what the provider may have in its cache for another.
fn is_of_conversation(before: &RequestRecord, request: &RequestRecord) -> bool {
    before.model == request.model && before.is_aside == request.is_aside && before.sent > 0
}

impl RequestLine {
    fn of(
        number: u64,
        record: &RequestRecord,
        before: Option<&RequestRecord>,
        reports: bool,
    ) -> Self {
        Self {
            number,
            at: Timestamp(record.at_ms),
            model: record.model.clone(),
            agent: record.agent.clone(),
            budget: record.limit,
            before: record.before,
            window: record.window,
            sent: record.sent,
            cached: reports.then_some(record.cached),
            output: record.output,
            cost: record.cost_micros.map(|micros| micros as f64 / 1e6),
            edits: record.edits,
            batch: record.batch,
            head: record.head.map(|head| head.0),
            cache_break: before.and_then(|before| cache_break(before, record, reports)),
            cut: record.is_cut,
            aside: record.is_aside,
            bypassed: record.is_bypassed,
        }
    }
}

/// Why the provider could not use what it had in its cache of the request before; `None` if it could.
fn cache_break(
    before: &RequestRecord,
    request: &RequestRecord,
    reports: bool,
) -> Option<CacheBreak> {
    if request.is_bypassed || request.sent == 0 {
        return None;
    }
    let is_new_batch = before.batch != request.batch;
    if !reports {
        return is_new_batch.then_some(CacheBreak::Batch);
    }
    let expected = before.sent.min(request.sent);
    let is_used = request.cached.saturating_mul(100) >= expected.saturating_mul(CACHED_PERCENT_MIN);
    if expected < CACHED_TOKENS_MIN || is_used {
        return None;
    }
    Some(match request.at_ms.saturating_sub(before.at_ms) {
        _ if is_new_batch => CacheBreak::Batch,
        passed if passed > CACHE_TIME_MS => CacheBreak::Expired,
        _ => CacheBreak::Client,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at_s: i64, batch: u64, sent: u64, cached: u64) -> RequestRecord {
        RequestRecord { at_ms: at_s * 1_000, batch, sent, cached, ..RequestRecord::default() }
    }

    #[test]
    fn a_cache_that_is_not_used_has_a_reason() {
        let before = request(0, 1, 10_000, 9_000);
        for (request, expected) in [
            (request(10, 1, 11_000, 10_000), None),
            (request(10, 2, 5_000, 1_000), Some(CacheBreak::Batch)),
            (request(10, 2, 5_000, 4_000), None),
            (request(10, 1, 11_000, 0), Some(CacheBreak::Client)),
            (request(400, 1, 11_000, 0), Some(CacheBreak::Expired)),
            // So little is cached by nobody.
            (request(10, 1, 1_000, 0), None),
            (RequestRecord { is_bypassed: true, ..request(10, 1, 11_000, 0) }, None),
        ] {
            assert_eq!(cache_break(&before, &request, true), expected, "{request:?}");
        }
        // Of a provider that says nothing of its cache, only our own edits are known.
        assert_eq!(cache_break(&before, &request(10, 1, 11_000, 0), false), None);
        let edited = request(10, 2, 5_000, 0);
        assert_eq!(cache_break(&before, &edited, false), Some(CacheBreak::Batch));
    }

    #[test]
    fn pages_begin_where_the_one_before_ended() {
        assert_eq!(below(None, 41).unwrap(), 42);
        assert_eq!(below(Some("7"), 41).unwrap(), 7);
        assert_eq!(below(Some("99"), 41).unwrap(), 42);
        assert!(matches!(below(Some("x"), 41), Err(AppError::BadPage(_))));
    }
}
