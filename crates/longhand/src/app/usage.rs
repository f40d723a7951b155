//! What was sent, cached and saved, and what it cost.

use std::collections::BTreeMap;

use longhand_archive::{Page, RequestRecord, SessionInfo};
use longhand_dialect::Usage;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, short_id};
use crate::Receipt;
use crate::receipt::FoldReceipt;

/// The most characters of a session's task in its key.
const TASK_CHARS: usize = 30;

/// The most characters of a name in a key; of a longer one, the id is.
const NAME_CHARS_MAX: usize = 64;

/// What a row of usage stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageBy {
    /// A day in UTC.
    #[default]
    Day,
    /// A model.
    Model,
    /// A session.
    Session,
}

/// What was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsageReport {
    /// What a row stands for.
    pub by: UsageBy,
    /// The rows, in the order of their keys.
    pub rows: Vec<UsageRow>,
    /// Their sum.
    pub total: UsageRow,
    /// What the costs are.
    pub costs: String,
}

/// What requests took, and would have taken without edits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsageRow {
    /// How many requests there were.
    pub requests: u64,
    /// The tokens that were sent, as the provider counts them.
    pub sent: u64,
    /// Those among them that the provider had in its cache.
    pub cached: u64,
    /// The tokens of the answers.
    pub output: u64,
    /// The tokens that were not sent.
    pub saved: u64,
    /// What it cost, in dollars.
    pub cost: f64,
    /// What it would have cost without edits, in dollars.
    pub cost_without: f64,
    /// How many requests had no known price.
    pub unpriced: u64,
    /// How many requests were passed on unchanged because something failed on our side.
    pub fail_opens: u64,
    /// The day, the model or the session; a total has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id of the session, in a row of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user's first words in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// What a conversation with a model has cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationCost {
    /// How many answers there were.
    pub calls: u64,
    /// The tokens that were sent.
    pub sent: u64,
    /// Those among them that the provider had in its cache.
    pub cached: u64,
    /// The tokens of the answers.
    pub output: u64,
    /// What the answers cost.
    pub answers: Cost,
    /// What the summaries cost that models wrote.
    pub summaries: Cost,
}

/// A sum of prices, some of which may not be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// Their sum, in millionths of a dollar.
    pub micros: u64,
    /// How many prices are known.
    pub known: u64,
    /// How many are not.
    pub unknown: u64,
}

impl FromIterator<Option<u64>> for Cost {
    fn from_iter<I: IntoIterator<Item = Option<u64>>>(prices: I) -> Self {
        let mut cost = Self::default();
        for price in prices {
            cost.micros = cost.micros.saturating_add(price.unwrap_or(0));
            cost.known += u64::from(price.is_some());
            cost.unknown += u64::from(price.is_none());
        }
        cost
    }
}

/// What a row adds up; costs are in millionths of a dollar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    requests: u64,
    sent: u64,
    cached: u64,
    output: u64,
    saved: u64,
    fail_opens: u64,
    cost: u64,
    cost_without: u64,
    unpriced: u64,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.cached += other.cached;
        self.output += other.output;
        self.saved += other.saved;
        self.fail_opens += other.fail_opens;
        self.cost += other.cost;
        self.cost_without += other.cost_without;
        self.unpriced += other.unpriced;
    }

    fn row(&self, key: Option<&UsageKey>) -> UsageRow {
        let dollars = |micros: u64| micros as f64 / 1e6;
        UsageRow {
            requests: self.requests,
            sent: self.sent,
            cached: self.cached,
            output: self.output,
            saved: self.saved,
            cost: dollars(self.cost),
            cost_without: dollars(self.cost_without),
            unpriced: self.unpriced,
            fail_opens: self.fail_opens,
            key: key.map(|key| key.text.clone()),
            id: key.and_then(|key| key.id.clone()),
            name: key.and_then(|key| key.name.clone()),
            task: key.and_then(|key| key.task.clone()),
        }
    }
}

/// What a row is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct UsageKey {
    text: String,
    id: Option<String>,
    name: Option<String>,
    task: Option<String>,
}

/// Prices an answer of a model in millionths of a dollar, if the price is known.
pub(super) type Pricing<'p> = &'p dyn Fn(&str, &Usage) -> Option<u64>;

impl App {
    /// Adds up what was used. `price` gives what an answer of a model costs in millionths of a dollar.
    ///
    /// The cost without edits assumes that the provider's cache would have held all that was sent before.
    pub fn usage(
        &self,
        by: UsageBy,
        price: &dyn Fn(&str, &Usage) -> Option<u64>,
    ) -> Result<UsageReport, AppError> {
        let mut rows: BTreeMap<UsageKey, Sum> = BTreeMap::new();
        for info in self.all_sessions()? {
            let sums = sums(&self.requests_of(info.id)?, price);
            if sums.is_empty() {
                continue;
            }
            let session = (by == UsageBy::Session).then(|| self.session_key(&info));
            for (request, sum) in sums {
                let text = |text| UsageKey { text, ..UsageKey::default() };
                let key = match (&session, by) {
                    (Some(session), _) => session.clone(),
                    (None, UsageBy::Model) => text(request.model),
                    (None, _) => text(request.day),
                };
                rows.entry(key).or_default().add(&sum);
            }
        }
        let mut total = Sum::default();
        for sum in rows.values() {
            total.add(sum);
        }
        Ok(UsageReport {
            by,
            rows: rows.iter().map(|(key, sum)| sum.row(Some(key))).collect(),
            total: total.row(None),
            costs: "estimates, in dollars".to_owned(),
        })
    }

    /// What a session has cost: the answers, and the summaries that models wrote.
    pub fn cost(&self, name: &str) -> Result<ConversationCost, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let calls = self.requests_of(info.id)?;
        let sum = |of: fn(&RequestRecord) -> u64| calls.iter().map(of).sum::<u64>();
        let batches = self.archive.batches(info.id, Page::ALL)?.items;
        let summaries = batches.iter().filter_map(|batch| {
            let fold = Receipt::read(&batch.receipt).fold;
            fold.as_ref().and_then(FoldReceipt::by_model).map(|summary| summary.cost_micros)
        });
        Ok(ConversationCost {
            calls: calls.len() as u64,
            sent: sum(|call| call.sent),
            cached: sum(|call| call.cached),
            output: sum(|call| call.output),
            answers: calls.iter().map(|call| call.cost_micros).collect(),
            summaries: summaries.collect(),
        })
    }

    fn session_key(&self, info: &SessionInfo) -> UsageKey {
        let (id, name, task) = (info.id.to_string(), info.name.clone(), self.task(info));
        let is_short = !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX;
        let called = if is_short { name.as_str() } else { short_id(&id) };
        let words: String = task.chars().take(TASK_CHARS).collect();
        let text = format!("{called} {words}").trim_end().to_owned();
        UsageKey { text, id: Some(id), name: Some(name), task: Some(task) }
    }
}

/// The groups that a request belongs to.
struct RequestKey {
    day: String,
    model: String,
}

/// What each request of a session took, and would have taken without edits; oldest first.
fn sums(requests: &[RequestRecord], price: Pricing) -> Vec<(RequestKey, Sum)> {
    let has_cache = requests.iter().any(|request| request.cached > 0);
    let mut before = 0;
    let sums = requests.iter().map(|request| {
        let day = crate::time::format(request.at_ms).chars().take(10).collect();
        let model = if request.model.is_empty() { "(unknown)" } else { &request.model };
        let key = RequestKey { day, model: model.to_owned() };
        if request.is_bypassed {
            return (key, Sum { requests: 1, fail_opens: 1, ..Sum::default() });
        }
        let all = without_edits(request);
        let mut sum = Sum {
            requests: 1,
            sent: request.sent,
            cached: request.cached,
            output: request.output,
            saved: saved(request),
            ..Sum::default()
        };
        // All that was sent before would still be in the provider's cache.
        let cached_input = if has_cache { all.min(before) } else { 0 };
        let usage = Usage { input: all, cached_input, output: request.output, ..Usage::default() };
        match (request.cost_micros, price(&request.model, &usage)) {
            (Some(cost), Some(without)) if request.edits > 0 => {
                (sum.cost, sum.cost_without) = (cost, without);
            }
            (Some(cost), _) => (sum.cost, sum.cost_without) = (cost, cost),
            (None, _) => sum.unpriced = 1,
        }
        before = all;
        (key, sum)
    });
    sums.collect()
}

/// The tokens that a request would have had without edits, as the provider counts.
fn without_edits(request: &RequestRecord) -> u64 {
    match request.window {
        0 => request.sent,
        window => {
            let scaled = u128::from(request.before) * u128::from(request.sent) / u128::from(window);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
    }
}

/// Tokens that a request did not send.
pub(super) fn saved(request: &RequestRecord) -> u64 {
    request.before.saturating_sub(request.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(before: u64, window: u64, cached: u64) -> RequestRecord {
        let edits = u64::from(before > window);
        RequestRecord {
            model: "m".to_owned(),
            before,
            window,
            // This provider counts half as much as we do.
            sent: window / 2,
            cached,
            output: 10,
            edits,
            cost_micros: Some(window),
            ..RequestRecord::default()
        }
    }

    #[test]
    fn what_it_would_have_cost_is_reckoned_with_the_cache_that_would_have_held() {
        // A millionth of a dollar for a token, a tenth of it for one that is cached.
        let price = |_: &str, usage: &Usage| {
            Some(usage.input - usage.cached_input + usage.cached_input / 10)
        };
        let log = [request(1_000, 1_000, 400), request(2_000, 600, 0), request(2_200, 800, 300)];
        let sums: Vec<Sum> = sums(&log, &price).into_iter().map(|(_, sum)| sum).collect();
        // Nothing was edited: it would have cost the same.
        assert_eq!((sums[0].saved, sums[0].cost, sums[0].cost_without), (0, 1_000, 1_000));
        // 1,000 provider tokens, of which the first request had 500.
        assert_eq!((sums[1].saved, sums[1].cost_without), (1_400, 500 + 50));
        assert_eq!((sums[2].saved, sums[2].cost_without), (1_400, 100 + 100));
    }

    #[test]
    fn a_request_that_failed_open_is_one() {
        let log = [RequestRecord { is_bypassed: true, ..RequestRecord::default() }];
        let (key, sum) = sums(&log, &|_, _| None).remove(0);
        assert_eq!(key.model, "(unknown)");
        assert_eq!(sum, Sum { requests: 1, fail_opens: 1, ..Sum::default() });
    }
}
