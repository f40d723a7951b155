//! The text of a fold block: a page of the work log, with a summary by a model if there is one.

use std::sync::{Arc, Mutex, PoisonError};

use longhand_core::anchor::Miner;
use longhand_core::{Digest, Digested, Folded, IndexDigest, Meter, Scale, Seq, Tokens};
use longhand_summary::{Log, LogPage, Summariser};

use crate::receipt::{AnchorReceipt, FoldReceipt, SummaryReceipt};
use crate::said::Said;
use crate::story::{Chapter, Storyteller, WrittenStory};

/// How many of the names and statements without room a receipt lists.
const DROPPED_NAMED_MAX: usize = 50;

/// The most tokens of an index of names that only another one goes on from.
const INDEX_TOKENS: Tokens = Tokens(2_000);

/// Summarises folded messages in a work log: the user's words, decisions and open questions, the state of the work, how
/// it went, and names.
///
/// Models write how the work went; they are tried in order. Without any summariser, not even the built-in one, the block is
/// an index of names.
pub struct Summarised {
    summarisers: Vec<Arc<dyn Summariser>>,
    meter: Arc<dyn Meter>,
    miner: Miner,
    /// Summaries of tool calls that were recorded without messages, by their entries.
    traces: Vec<(Seq, (String, String))>,
    /// The summary that a model wrote in the background.
    told: Option<WrittenStory>,
    /// Whether a model is to summarise what is folded.
    is_told: bool,
    keeps_state: bool,
    newest: Mutex<NewestDigest>,
}

/// The newest digest and its account.
#[derive(Default)]
struct NewestDigest {
    /// Its input, the room that it had, and its text.
    told: Option<(DigestKey, Tokens, Digested)>,
    /// Its input as it was read, and how many rounds were folded before. With more room the same log says more.
    read: Option<(DigestKey, Arc<Log>, u64)>,
    account: Option<FoldReceipt>,
    is_lossy: bool,
    refused: Vec<String>,
    chapter: Option<Chapter>,
}

/// The input of a digest. A plan may ask for the same digest again, with a little less room, or for one of more messages.
#[derive(Clone, PartialEq, Eq)]
struct DigestKey {
    messages: Vec<(usize, usize)>,
    state: String,
    blocks: usize,
    hands_over: bool,
}

impl DigestKey {
    fn of(folded: &Folded) -> Self {
        let raws = folded.messages.iter().map(|message| message.raw.raw());
        let messages = raws.map(|raw| (raw.as_ptr().addr(), raw.len())).collect();
        let (state, blocks) = (folded.state.to_owned(), folded.blocks.len());
        Self { messages, state, blocks, hands_over: folded.hands_over }
    }

    /// Whether it has all the messages of another, and perhaps more after them.
    fn goes_on_from(&self, other: &Self) -> bool {
        self.messages.starts_with(&other.messages)
            && self.state == other.state
            && self.blocks == other.blocks
            && self.hands_over == other.hands_over
    }
}

impl Summarised {
    /// Counts with `meter`, which must be the plan's own.
    pub fn new(summarisers: Vec<Arc<dyn Summariser>>, meter: Arc<dyn Meter>, miner: Miner) -> Self {
        let is_told = summarisers.iter().any(|summariser| summariser.writes());
        let (traces, told, keeps_state, newest) = (Vec::new(), None, false, Mutex::default());
        Self { summarisers, meter, miner, traces, told, is_told, keeps_state, newest }
    }

    /// Keeps the whole work log for the next block, not only the part that this one shows.
    #[must_use]
    pub fn keeping_state(mut self) -> Self {
        self.keeps_state = true;
        self
    }

    pub(crate) fn with_traces(mut self, traces: Vec<(Seq, (String, String))>) -> Self {
        self.traces = traces;
        self
    }

    /// Uses what a model has written about the rounds that are folded already, and keeps the rounds that are folded now
    /// for it to summarise.
    #[must_use]
    pub fn with_story(mut self, teller: &Storyteller) -> Self {
        self.told = teller.told();
        self.is_told = true;
        self
    }

    /// The account of the newest digest: summariser, model, tokens, cost, anchors.
    pub fn account(&self) -> Option<FoldReceipt> {
        self.newest().account.clone()
    }

    /// Whether the newest digest had no room for something that matters.
    pub(crate) fn is_lossy(&self) -> bool {
        self.newest().is_lossy
    }

    /// Why summaries were refused, the first reason of each summariser.
    pub fn refused(&self) -> Vec<String> {
        self.newest().refused.clone()
    }

    /// The rounds of the newest digest, for a model to summarise.
    pub(crate) fn chapter(&self) -> Option<Chapter> {
        self.newest().chapter.clone()
    }

    fn newest(&self) -> std::sync::MutexGuard<'_, NewestDigest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the folded messages to the log of the fold before.
    fn read(&self, folded: &Folded) -> (Log, u64) {
        let mut log = Log::parse(folded.state).with_miner(self.miner.clone());
        log.hands_over(folded.hands_over);
        folded.blocks.iter().for_each(|block| log.carry(block));
        log.begin_after(&folded.before);
        let before = log.rounds();
        if let Some(told) = self.told.as_ref().filter(|told| told.goes_on_at(before)) {
            log.tell(told.rounds, &told.text);
        }
        log.read(&folded.messages);
        if let (Some(first), Some(last)) = (folded.entries.first(), folded.entries.last()) {
            let is_here = |seq: Seq| (*first..=*last).contains(&seq);
            for (_, (name, summary)) in self.traces.iter().filter(|(seq, _)| is_here(*seq)) {
                log.read_trace(name, summary);
            }
        }
        (log, before)
    }

    /// What the digest of a later fold needs to know of messages that it does not tell of.
    pub(crate) fn state(&self, folded: &Folded, scale: &Scale) -> String {
        if self.summarisers.is_empty() {
            return IndexDigest.digest(folded, INDEX_TOKENS, scale).state;
        }
        self.read(folded).0.write()
    }

    /// The rounds for a model to summarise.
    fn chapter_of(&self, folded: &Folded, before: u64, log: &Log, limit: Tokens) -> Chapter {
        let starts = folded.messages.chunk_by(|_, next| !next.is_user_turn());
        let mut rounds: Vec<Said> =
            starts.zip(before + 1..).map(|(messages, number)| Said::of(number, messages)).collect();
        if let Some(last) = rounds.last_mut() {
            last.tools.extend(self.traces.iter().map(|(_, trace)| trace.clone()));
        }
        let earlier = Log::parse(folded.state).story();
        let meter = Arc::clone(&self.meter);
        Chapter { before, until: log.rounds(), earlier, rounds, limit: story_room(limit), meter }
    }
}

/// The tokens of a block that a model's summary may take.
fn story_room(limit: Tokens) -> Tokens {
    Tokens(limit.0 / 3)
}

impl Digest for Summarised {
    fn digest(&self, folded: &Folded, limit: Tokens, scale: &Scale) -> Digested {
        let key = DigestKey::of(folded);
        if let Some((known, room, told)) = &self.newest().told
            && *known == key
            // With more room it would say more.
            && limit <= *room
            && scale.text(&told.text) <= limit
        {
            return told.clone();
        }
        if self.summarisers.is_empty() {
            *self.newest() = NewestDigest::default();
            return IndexDigest.digest(folded, limit, scale);
        }
        let known = self.newest().read.take().filter(|(known, ..)| {
            // Traces come after all messages.
            *known == key || (self.traces.is_empty() && key.goes_on_from(known))
        });
        let (mut log, before) = if let Some((known, mut log, before)) = known {
            let more = &folded.messages[known.messages.len()..];
            if !more.is_empty() {
                Arc::make_mut(&mut log).read(more);
            }
            (log, before)
        } else {
            let (log, before) = self.read(folded);
            (Arc::new(log), before)
        };
        let read = Some((key.clone(), Arc::clone(&log), before));
        let chapter = self.is_told.then(|| self.chapter_of(folded, before, &log, limit));
        // A plan may ask for several digests; the first reason that a model gave is the cause of the others.
        let (mut refused, mut story) = (self.newest().refused.clone(), None);
        let models = self.summarisers.iter().filter(|summariser| summariser.writes());
        for summariser in models {
            match chapter.as_ref().map(|chapter| chapter.told_by(&**summariser)) {
                Some(Ok(told)) => {
                    Arc::make_mut(&mut log).tell(told.rounds, &told.text);
                    story = told.account.map(|account| with_earlier(account, self.account()));
                    break;
                }
                Some(Err(why)) => {
                    let is_known = |known: &String| known.contains(summariser.name());
                    if !refused.iter().any(is_known) {
                        refused.push(why);
                    }
                }
                None => {}
            }
        }
        // Only models were asked for, and none wrote a summary.
        if story.is_none() && self.summarisers.iter().all(|summariser| summariser.writes()) {
            *self.newest() = NewestDigest { refused, ..NewestDigest::default() };
            return IndexDigest.digest(folded, limit, scale);
        }
        let page = log.page(&folded.after, &folded.hidden, limit, scale);
        let state = if self.keeps_state { log.write() } else { String::new() };
        let background = self.told.as_ref().filter(|told| told.goes_on_at(before));
        let background = background.and_then(|told| told.account.clone());
        let account = receipt(&page, story, background);
        let told = Digested { text: page.text, state, wanted: page.wanted };
        *self.newest() = NewestDigest {
            told: Some((key, limit, told.clone())),
            read,
            account: Some(account),
            is_lossy: page.is_lossy,
            refused,
            chapter,
        };
        told
    }
}

/// Adds the tokens and the cost of the summaries that were written for earlier digests of the same plan, which are not used.
fn with_earlier(mut summary: SummaryReceipt, earlier: Option<FoldReceipt>) -> SummaryReceipt {
    let earlier = earlier.map(|fold| fold.summary).filter(|earlier| earlier.model.is_some());
    let count = earlier.as_ref().map_or(0, |earlier| earlier.written.unwrap_or(1));
    summary.written = Some(count + 1);
    if let Some(earlier) = earlier {
        // One unknown price makes the sum unknown.
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        summary.input_tokens = sum(summary.input_tokens, earlier.input_tokens);
        summary.output_tokens = sum(summary.output_tokens, earlier.output_tokens);
        summary.cost_micros = sum(summary.cost_micros, earlier.cost_micros);
    }
    summary
}

/// The receipt of a page: who wrote the summary, its tokens and cost, and what was left out for lack of room.
fn receipt(
    page: &LogPage,
    summary: Option<SummaryReceipt>,
    story: Option<SummaryReceipt>,
) -> FoldReceipt {
    let built_in = || SummaryReceipt {
        summariser: "extractive".to_owned(),
        cost_micros: Some(0),
        ..SummaryReceipt::default()
    };
    let anchors = AnchorReceipt {
        kept: page.told as u64,
        restored: 0,
        dropped: page.left_out.len() as u64,
        dropped_names: page.left_out.iter().take(DROPPED_NAMED_MAX).cloned().collect(),
    };
    FoldReceipt { summary: summary.unwrap_or_else(built_in), anchors, story }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_that_were_written_in_vain_are_counted() {
        let summary = SummaryReceipt {
            model: Some("m".to_owned()),
            input_tokens: Some(10),
            output_tokens: Some(2),
            cost_micros: Some(5),
            ..SummaryReceipt::default()
        };
        let fold =
            |summary: SummaryReceipt| Some(FoldReceipt { summary, ..FoldReceipt::default() });
        let one = with_earlier(summary.clone(), None);
        assert_eq!((one.written, one.input_tokens), (Some(1), Some(10)));
        let two = with_earlier(summary.clone(), fold(one));
        assert_eq!((two.written, two.input_tokens), (Some(2), Some(20)));
        assert_eq!(two.cost_micros, Some(10));
        let unpriced = SummaryReceipt { cost_micros: None, ..summary.clone() };
        let three = with_earlier(unpriced, fold(two));
        assert_eq!((three.written, three.cost_micros), (Some(3), None));
        let built_in = SummaryReceipt { cost_micros: Some(0), ..SummaryReceipt::default() };
        assert_eq!(with_earlier(summary, fold(built_in)).written, Some(1));
    }
}
