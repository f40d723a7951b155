//! What was sent, cached and saved, and what it cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use longhand_archive::{
    EditSums, Page, RequestRecord, RequestSums, SessionId, SessionInfo, UsageLine,
};
use longhand_dialect::Usage;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, RegretSums, short_id};
use crate::Receipt;
use crate::receipt::FoldReceipt;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

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
    /// The program that asked.
    Agent,
    /// A session.
    Session,
}

/// What is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageRequest {
    /// What a row stands for.
    pub by: UsageBy,
    /// The most rows; `None` for all. Of days, the newest are listed.
    pub limit: Option<usize>,
}

/// What was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UsageReport {
    /// What a row stands for.
    pub by: UsageBy,
    /// The rows: days and models in order, of sessions those first that would have sent most.
    pub rows: Vec<UsageRow>,
    /// How many rows there are beyond the limit.
    #[serde(default)]
    pub more: u64,
    /// The sum of all, those beyond the limit included.
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
    /// Whether it ever said so in the sessions of this row: if not, 0 means that nothing is known.
    #[serde(default)]
    pub cached_reported: bool,
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
    /// How many edits were made, and how many of them were regretted; a row of a model has none.
    #[serde(default)]
    pub edits: RegretSums,
    /// The day, the model, the agent or the session; a total has none.
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
    reports_cache: bool,
    output: u64,
    saved: u64,
    fail_opens: u64,
    cost: u64,
    cost_without: u64,
    unpriced: u64,
    edits: EditSums,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.requests += other.requests;
        self.sent += other.sent;
        self.cached += other.cached;
        self.reports_cache |= other.reports_cache;
        self.output += other.output;
        self.saved += other.saved;
        self.fail_opens += other.fail_opens;
        self.cost += other.cost;
        self.cost_without += other.cost_without;
        self.unpriced += other.unpriced;
        self.edits.add(&other.edits);
    }

    fn row(&self, key: UsageKey) -> UsageRow {
        let dollars = |micros: u64| micros as f64 / 1e6;
        UsageRow {
            requests: self.requests,
            sent: self.sent,
            cached: self.cached,
            cached_reported: self.reports_cache,
            output: self.output,
            saved: self.saved,
            cost: dollars(self.cost),
            cost_without: dollars(self.cost_without),
            unpriced: self.unpriced,
            fail_opens: self.fail_opens,
            edits: self.edits.into(),
            key: key.text,
            id: key.id,
            name: key.name,
            task: key.task,
        }
    }
}

/// What is added up in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SumKey<'l> {
    Session(SessionId),
    Model(&'l str),
    Agent(&'l str),
    Day(i64),
}

/// What a row is about; a total is about nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UsageKey {
    text: Option<String>,
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
        request: &UsageRequest,
        price: &dyn Fn(&str, &Usage) -> Option<u64>,
    ) -> Result<UsageReport, AppError> {
        let lines = self.usage_lines()?;
        let cached = lines.iter().filter(|line| line.sums.cached > 0).map(|line| line.session);
        let with_cache: HashSet<SessionId> = cached.collect();
        let agents = self.agents_if(request.by == UsageBy::Agent)?;
        let agent_of = |session| agents.get(&session).map_or("", String::as_str);
        let mut sums: BTreeMap<SumKey, Sum> = BTreeMap::new();
        let mut total = Sum::default();
        for line in &lines {
            total.edits.add(&line.edits);
            if line.sums.requests == 0 {
                continue;
            }
            let key = match request.by {
                UsageBy::Session => SumKey::Session(line.session),
                UsageBy::Model => SumKey::Model(&line.model),
                UsageBy::Agent => SumKey::Agent(agent_of(line.session)),
                UsageBy::Day => SumKey::Day(line.day),
            };
            let sum = sum(line, with_cache.contains(&line.session), price);
            total.add(&sum);
            sums.entry(key).or_default().add(&sum);
        }
        for line in &lines {
            let key = match request.by {
                UsageBy::Session => SumKey::Session(line.session),
                UsageBy::Model => break,
                UsageBy::Agent => SumKey::Agent(agent_of(line.session)),
                UsageBy::Day => SumKey::Day(line.day),
            };
            if let Some(sum) = sums.get_mut(&key) {
                sum.edits.add(&line.edits);
            }
        }
        let mut rows: Vec<(SumKey, Sum)> = sums.into_iter().collect();
        if request.by == UsageBy::Session {
            rows.sort_by_key(|(_, sum)| Reverse(sum.sent.saturating_add(sum.saved)));
        }
        let more = rows.len().saturating_sub(request.limit.unwrap_or(usize::MAX));
        match request.by {
            UsageBy::Day => drop(rows.drain(..more)),
            UsageBy::Session | UsageBy::Model | UsageBy::Agent => rows.truncate(rows.len() - more),
        }
        let one = |(key, sum): &(SumKey, Sum)| Ok(sum.row(self.usage_key(*key)?));
        Ok(UsageReport {
            by: request.by,
            rows: rows.iter().map(one).collect::<Result<_, AppError>>()?,
            more: more as u64,
            total: total.row(UsageKey::default()),
            costs: "estimates, in dollars".to_owned(),
        })
    }

    /// The program that speaks in each session, if that is wanted.
    fn agents_if(&self, is_wanted: bool) -> Result<HashMap<SessionId, String>, AppError> {
        if !is_wanted {
            return Ok(HashMap::new());
        }
        let agent = |info: SessionInfo| {
            let named = Some(info.usage.agent).filter(|agent| !agent.is_empty());
            (info.id, named.unwrap_or(info.origin.agent))
        };
        Ok(self.all_sessions()?.into_iter().map(agent).collect())
    }

    fn usage_key(&self, key: SumKey) -> Result<UsageKey, AppError> {
        let text = match key {
            SumKey::Session(id) => {
                return Ok(match self.session_of(id)? {
                    Some(info) => self.session_key(&info),
                    None => UsageKey { id: Some(id.to_string()), ..UsageKey::default() },
                });
            }
            SumKey::Model("") | SumKey::Agent("") => "(unknown)".to_owned(),
            SumKey::Model(name) | SumKey::Agent(name) => name.to_owned(),
            SumKey::Day(day) => {
                crate::time::format(day.saturating_mul(DAY_MS)).chars().take(10).collect()
            }
        };
        Ok(UsageKey { text: Some(text), ..UsageKey::default() })
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
        UsageKey { text: Some(text), id: Some(id), name: Some(name), task: Some(task) }
    }
}

/// What requests of a session to one model took, and would have taken without edits.
fn sum(line: &UsageLine, has_cache: bool, price: Pricing) -> Sum {
    let RequestSums { edited, .. } = &line.sums;
    // All that was sent before would still be in the provider's cache.
    let cached_input = if has_cache { edited.repeated } else { 0 };
    let usage =
        Usage { input: edited.unedited, cached_input, output: edited.output, ..Usage::default() };
    let without = price(&line.model, &usage).filter(|_| edited.unedited > 0);
    let plain = line.sums.cost_micros.saturating_sub(edited.cost_micros);
    Sum {
        requests: line.sums.requests,
        sent: line.sums.sent,
        cached: line.sums.cached,
        reports_cache: has_cache,
        output: line.sums.output,
        saved: line.sums.saved,
        fail_opens: line.sums.bypassed,
        cost: line.sums.cost_micros,
        cost_without: plain.saturating_add(without.unwrap_or(edited.cost_micros)),
        unpriced: line.sums.unpriced,
        edits: EditSums::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_archive::EditedSums;

    #[test]
    fn what_it_would_have_cost_is_reckoned_with_the_cache_that_would_have_held() {
        // A millionth of a dollar for a token, a tenth of it for one that is cached.
        let price = |_: &str, usage: &Usage| {
            Some(usage.input - usage.cached_input + usage.cached_input / 10)
        };
        let edited =
            EditedSums { cost_micros: 1_400, unedited: 2_100, repeated: 1_500, output: 20 };
        let sums =
            RequestSums { requests: 3, cost_micros: 2_400, edited, ..RequestSums::default() };
        let line = UsageLine { model: "m".to_owned(), sums, ..UsageLine::default() };
        assert_eq!((sum(&line, true, &price).cost, 2_400), (2_400, 2_400));
        // What had no edits would have cost the same.
        assert_eq!(sum(&line, true, &price).cost_without, 1_000 + 600 + 150);
        assert_eq!(sum(&line, false, &price).cost_without, 1_000 + 2_100);
        assert_eq!(sum(&line, true, &|_, _| None).cost_without, 2_400);
    }
}
