//! What requests took, added up as they are logged, so that nobody has to read them all.

use std::collections::BTreeMap;

use longhand_core::Batch;

use crate::number::{push_number, take_number};
use crate::{Note, NoteContent, RequestRecord, SessionId};

const DAY_MS: i64 = 86_400_000;

/// What requests took, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestSums {
    /// How many there are.
    pub requests: u64,
    /// How many were passed on as they were because our side failed. The sums below are without them.
    pub bypassed: u64,
    /// Tokens that they would have had without edits, by our own count.
    pub before: u64,
    /// Tokens of their windows by the same count.
    pub window: u64,
    /// Tokens that were left out of their windows.
    pub saved: u64,
    /// Tokens that were sent, as the provider counts them.
    pub sent: u64,
    /// Tokens that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the answers.
    pub output: u64,
    /// How many edits their windows had.
    pub edits: u64,
    /// What they cost, in millionths of a dollar, as far as that is known.
    pub cost_micros: u64,
    /// How many have no known price.
    pub unpriced: u64,
    /// Those of the requests that had edits and have a price.
    pub edited: EditedSums,
}

/// What tells the price that requests with edits would have had without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditedSums {
    /// What they cost.
    pub cost_micros: u64,
    /// Tokens that they would have had without edits, as the provider counts them.
    pub unedited: u64,
    /// How many of these the request before would have had, too, and the provider in its cache.
    pub repeated: u64,
    /// Tokens of their answers.
    pub output: u64,
}

/// How many edits were made, and how many of them were regretted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditSums {
    /// Edits that took something out of sight.
    pub made: u64,
    /// Those of them whose text was fetched back.
    pub regretted: u64,
    /// How often something was fetched back.
    pub regrets: u64,
    /// The tokens that this cost.
    pub tokens: u64,
}

/// What a session was used for, from its request log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// What all its requests took.
    pub sums: RequestSums,
    /// The model of the newest request that was no side call.
    pub model: String,
    /// The program that made it.
    pub agent: String,
    /// The tokens that it would have had without edits, by our own count.
    pub before: u64,
    /// The tokens of its window.
    pub window: u64,
    /// The tokens that the newest request would have had without edits, as the provider counts them.
    pub unedited: u64,
}

/// What the requests of a session to one model on one day took. What became of edits is in the lines without a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageLine {
    /// The session.
    pub session: SessionId,
    /// The day by universal time, in days since 1970.
    pub day: i64,
    /// The model.
    pub model: String,
    /// What they took.
    pub sums: RequestSums,
    /// What became of the edits of that day, in a line without a model.
    pub edits: EditSums,
}

/// Sums by day and model.
pub(crate) type DailySums = BTreeMap<(i64, String), (RequestSums, EditSums)>;

/// The model of the lines in which edits are added up: no model made them alone.
pub(crate) const NO_MODEL: &str = "";

/// The day of a time, in days since 1970.
pub(crate) fn day_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

impl RequestSums {
    /// Adds what other requests took.
    pub fn add(&mut self, other: &Self) {
        let others = other.numbers();
        for (number, other) in self.numbers_mut().into_iter().zip(others) {
            *number = number.saturating_add(other);
        }
    }

    /// Adds a request; `before` is what the request before it would have had without edits.
    fn count(&mut self, request: &RequestRecord, before: u64) {
        let counted = if request.is_bypassed {
            Self { requests: 1, bypassed: 1, ..Self::default() }
        } else {
            let cost = request.cost_micros;
            let unedited = unedited(request);
            let has_edits = request.edits > 0;
            let edited = cost.filter(|_| has_edits).map(|cost_micros| EditedSums {
                cost_micros,
                unedited,
                repeated: unedited.min(before),
                output: request.output,
            });
            Self {
                requests: 1,
                bypassed: 0,
                before: request.before,
                window: request.window,
                saved: request.before.saturating_sub(request.window),
                sent: request.sent,
                cached: request.cached,
                output: request.output,
                edits: request.edits,
                cost_micros: cost.unwrap_or(0),
                unpriced: u64::from(cost.is_none()),
                edited: edited.unwrap_or_default(),
            }
        };
        self.add(&counted);
    }

    fn numbers(&self) -> [u64; 15] {
        let mut copy = *self;
        copy.numbers_mut().map(|number| *number)
    }

    /// All of them, in the order in which they are stored.
    fn numbers_mut(&mut self) -> [&mut u64; 15] {
        let EditedSums { cost_micros, unedited, repeated, output } = &mut self.edited;
        [
            &mut self.requests,
            &mut self.bypassed,
            &mut self.before,
            &mut self.window,
            &mut self.saved,
            &mut self.sent,
            &mut self.cached,
            &mut self.output,
            &mut self.edits,
            &mut self.cost_micros,
            &mut self.unpriced,
            cost_micros,
            unedited,
            repeated,
            output,
        ]
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.numbers().into_iter().for_each(|number| push_number(&mut bytes, number));
        bytes
    }

    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut sums = Self::default();
        for number in sums.numbers_mut() {
            *number = take_number(bytes)?;
        }
        Some(sums)
    }
}

impl EditSums {
    /// Adds those of other edits.
    pub fn add(&mut self, other: &Self) {
        let Self { made, regretted, regrets, tokens } = other;
        self.made = self.made.saturating_add(*made);
        self.regretted = self.regretted.saturating_add(*regretted);
        self.regrets = self.regrets.saturating_add(*regrets);
        self.tokens = self.tokens.saturating_add(*tokens);
    }

    /// What some batches and notes come to.
    pub fn total(batches: &[&Batch], notes: &[Note]) -> Self {
        let batches = batches.iter().map(|batch| (0, *batch));
        let mut sums = Self::default();
        for day in Self::of(batches, notes).values() {
            sums.add(day);
        }
        sums
    }

    /// What some batches and notes add to it, by the day of each.
    pub(crate) fn of<'r>(
        batches: impl IntoIterator<Item = (i64, &'r Batch)>,
        notes: impl IntoIterator<Item = &'r Note>,
    ) -> BTreeMap<i64, Self> {
        let mut days: BTreeMap<i64, Self> = BTreeMap::new();
        for (at_ms, batch) in batches {
            let made = batch.edits.iter().filter(|edit| edit.handle().is_some()).count() as u64;
            if made > 0 {
                days.entry(day_of(at_ms)).or_default().add(&Self { made, ..Self::default() });
            }
        }
        for note in notes {
            let NoteContent::Regret(regret) = &note.content else { continue };
            let regretted = u64::from(!regret.again);
            let (made, regrets, tokens) = (0, 1, regret.tokens);
            let sums = Self { made, regretted, regrets, tokens };
            days.entry(day_of(note.at_ms)).or_default().add(&sums);
        }
        days
    }
}

/// Encodes the sums of a day and a model. Those of edits are left out where there are none.
pub(crate) fn encode_line(requests: &RequestSums, edits: &EditSums) -> Vec<u8> {
    let mut bytes = requests.encode();
    if *edits != EditSums::default() {
        let EditSums { made, regretted, regrets, tokens } = *edits;
        for number in [made, regretted, regrets, tokens] {
            push_number(&mut bytes, number);
        }
    }
    bytes
}

/// Reads the sums of a day and a model; `None` if the bytes are none.
pub(crate) fn decode_line(mut bytes: &[u8]) -> Option<(RequestSums, EditSums)> {
    let requests = RequestSums::take(&mut bytes)?;
    if bytes.is_empty() {
        return Some((requests, EditSums::default()));
    }
    let mut number = || take_number(&mut bytes);
    let (made, regretted, regrets, tokens) = (number()?, number()?, number()?, number()?);
    bytes.is_empty().then_some((requests, EditSums { made, regretted, regrets, tokens }))
}

/// The tokens that a request would have had without edits, as the provider counts.
fn unedited(request: &RequestRecord) -> u64 {
    match request.window {
        0 => request.sent,
        window => {
            let scaled = u128::from(request.before) * u128::from(request.sent) / u128::from(window);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        }
    }
}

impl SessionUsage {
    /// Adds the next request of the session, and adds it to the sums of its model and day.
    pub(crate) fn count(&mut self, request: &RequestRecord, line: &mut RequestSums) {
        self.sums.count(request, self.unedited);
        line.count(request, self.unedited);
        if !request.is_bypassed {
            self.unedited = unedited(request);
        }
        // Sub-agents and titles are no measure of a session.
        if !request.is_aside {
            self.model.clone_from(&request.model);
            self.agent.clone_from(&request.agent);
            self.before = request.before;
            self.window = request.window;
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        let mut bytes = self.sums.encode();
        for number in [self.before, self.window, self.unedited, self.model.len() as u64] {
            push_number(&mut bytes, number);
        }
        bytes.extend_from_slice(self.model.as_bytes());
        bytes.extend_from_slice(self.agent.as_bytes());
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let sums = RequestSums::take(&mut bytes)?;
        let mut number = || take_number(&mut bytes);
        let (before, window, unedited, length) = (number()?, number()?, number()?, number()?);
        let (model, agent) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        let text = |bytes: &[u8]| Some(str::from_utf8(bytes).ok()?.to_owned());
        Some(Self { sums, model: text(model)?, agent: text(agent)?, before, window, unedited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(before: u64, window: u64, edits: u64) -> RequestRecord {
        // This provider counts half as much as we do.
        let (sent, cost_micros) = (window / 2, Some(window));
        RequestRecord {
            before,
            window,
            sent,
            edits,
            cost_micros,
            output: 10,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn requests_are_added_up() {
        let mut usage = SessionUsage::default();
        let mut line = RequestSums::default();
        let aside = RequestRecord { is_aside: true, model: "small".to_owned(), ..request(6, 6, 0) };
        let failed = RequestRecord { is_bypassed: true, is_aside: true, ..request(9, 9, 0) };
        let named = RequestRecord {
            model: "large".to_owned(),
            agent: "a".to_owned(),
            ..request(2_000, 600, 1)
        };
        let unpriced =
            RequestRecord { cost_micros: None, is_aside: true, ..request(2_200, 800, 1) };
        for request in [request(1_000, 1_000, 0), named, failed, unpriced, aside] {
            usage.count(&request, &mut line);
        }
        assert_eq!(line, usage.sums);
        let edited = EditedSums { cost_micros: 600, unedited: 1_000, repeated: 500, output: 10 };
        let expected = RequestSums {
            requests: 5,
            bypassed: 1,
            before: 5_206,
            window: 2_406,
            saved: 2_800,
            sent: 1_203,
            cached: 0,
            output: 40,
            edits: 2,
            cost_micros: 1_606,
            unpriced: 1,
            edited,
        };
        assert_eq!(usage.sums, expected);
        assert_eq!((usage.model.as_str(), usage.agent.as_str()), ("large", "a"));
        assert_eq!((usage.before, usage.window, usage.unedited), (2_000, 600, 3));
        assert_eq!(SessionUsage::decode(&usage.encode()), Some(usage.clone()));
        let none = EditSums::default();
        let edits = EditSums { made: 212, regretted: 4, regrets: 5, tokens: 9_000 };
        for edits in [none, edits] {
            assert_eq!(decode_line(&encode_line(&line, &edits)), Some((line, edits)));
        }
        assert_eq!(encode_line(&line, &none), line.encode(), "as before there were any");
        let bytes = encode_line(&line, &edits);
        for length in line.encode().len() + 1..bytes.len() {
            assert_eq!(decode_line(&bytes[..length]), None);
        }
        assert_eq!(SessionUsage::decode(&[]), Some(SessionUsage::default()));
        assert_eq!(SessionUsage::default().encode(), Vec::<u8>::new());
        for length in 1..15 {
            assert_eq!(SessionUsage::decode(&usage.encode()[..length]), None);
        }
        let most =
            RequestRecord { sent: u64::MAX, before: u64::MAX, window: 1, ..request(0, 1, 0) };
        usage.count(&most, &mut line);
        usage.count(&most, &mut line);
        assert_eq!(usage.sums.sent, u64::MAX, "it never overflows");
        assert_eq!((day_of(-1), day_of(0), day_of(DAY_MS)), (-1, 0, 1));
    }
}
