//! Summaries of folded rounds, which models write in the background.

mod claim;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use longhand_core::{Meter, Scale, Tokens};
use longhand_summary::{Input, Refusal, Summariser, SummaryError, SummaryRound, ToolTrace, accept};
use serde_json::{Value, json};

use self::claim::Claimed;
pub(crate) use self::claim::StoryClaim;
use crate::digest::Summarised;
use crate::receipt::SummaryReceipt;
use crate::said::Said;

/// Rounds to summarise. It owns its data, so that any thread can do the work.
#[derive(Clone)]
pub(crate) struct Chapter {
    /// How many rounds were folded before, and how many are with these.
    pub(crate) before: u64,
    pub(crate) until: u64,
    /// The summary before.
    pub(crate) earlier: String,
    pub(crate) rounds: Vec<Said>,
    pub(crate) limit: Tokens,
    pub(crate) meter: Arc<dyn Meter>,
}

impl Chapter {
    /// Lets a summariser summarise the rounds within the limit, or returns why it did not.
    pub(crate) fn told_by(&self, summariser: &dyn Summariser) -> Result<WrittenStory, String> {
        let scale = &Scale::new(&*self.meter);
        let rounds: Vec<SummaryRound> = self.rounds.iter().map(round).collect();
        let earlier = Some(self.earlier.as_str()).filter(|earlier| !earlier.is_empty());
        let ask = |input: &Input| {
            summariser.summarise(input, self.limit, scale).map_err(|error| chain(&error))
        };
        let judge = |text: &str| accept(text, Tokens::MAX, self.limit, scale);
        let mut summary = ask(&Input { earlier, rounds: &rounds })?;
        if let Err(Refusal::OverCap { .. }) = judge(&summary.text) {
            // One more pass shortens it under the same rules.
            let shorter = ask(&Input { earlier: Some(&summary.text), rounds: &[] })?;
            summary = shorter.after(&summary);
        }
        judge(&summary.text).map_err(|refusal| format!("{}: {refusal}", summariser.name()))?;
        let account = SummaryReceipt {
            summariser: summariser.name().to_owned(),
            model: summary.model,
            input_tokens: Some(summary.input_tokens.0),
            output_tokens: Some(summary.output_tokens.0),
            cost_micros: summary.cost_micros,
            ..SummaryReceipt::default()
        };
        Ok(WrittenStory {
            rounds: self.until,
            until: self.until,
            text: summary.text,
            account: Some(account),
        })
    }
}

impl Chapter {
    /// What the first summariser writes that can; by another node, if that has asked one.
    fn told_once(
        &self,
        summarisers: &[Arc<dyn Summariser>],
        claim: Option<&StoryClaim>,
    ) -> Option<WrittenStory> {
        match claim.map_or(Claimed::Ours, |claim| claim.claim(self.before..self.until)) {
            Claimed::Ours => {}
            Claimed::Theirs => return None,
            Claimed::Told(story) => return Some(story),
        }
        let mut refused = Vec::new();
        let told = summarisers.iter().find_map(|summariser| {
            let told = self.told_by(&**summariser);
            told.map_err(|why| refused.push(why)).ok()
        });
        let told = told.map(|mut told| {
            if let Some(account) = &mut told.account {
                account.refused = refused;
            }
            told
        });
        claim.into_iter().for_each(|claim| claim.end(told.as_ref()));
        told
    }
}

/// An error with its causes, on one line.
fn chain(error: &SummaryError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

fn round(said: &Said) -> SummaryRound<'_> {
    SummaryRound {
        number: said.number,
        user: &said.user,
        assistant: &said.assistant,
        tools: said.tools.iter().map(|(name, summary)| ToolTrace { name, summary }).collect(),
    }
}

/// What a model wrote about the first rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WrittenStory {
    /// How many rounds it covers.
    pub(crate) rounds: u64,
    /// How many rounds were folded when it was handed out.
    until: u64,
    pub(crate) text: String,
    /// The tokens and the cost of writing it.
    pub(crate) account: Option<SummaryReceipt>,
}

impl WrittenStory {
    /// Whether it belongs to a conversation of which `rounds` rounds are folded.
    pub(crate) fn goes_on_at(&self, rounds: u64) -> bool {
        self.until == rounds
    }

    fn parse(state: &str) -> Self {
        let mut value: Value = serde_json::from_str(state).unwrap_or_default();
        let text = value["text"].as_str().unwrap_or_default().to_owned();
        let account = serde_json::from_value(value["account"].take()).ok();
        let rounds = value["rounds"].as_u64().unwrap_or(0);
        Self { rounds, until: rounds, text, account }
    }

    /// As an archive keeps it.
    pub(crate) fn write(&self) -> String {
        let mut state = json!({"rounds": self.rounds, "text": self.text});
        if let Some(account) = &self.account {
            state["account"] = json!(account);
        }
        state.to_string()
    }
}

/// Lets models summarise folded rounds, one job at a time, and keeps their newest summary.
#[derive(Default)]
pub struct Storyteller {
    /// The newest summary.
    told: Option<WrittenStory>,
    /// The rounds that were folded since, and are in no job yet.
    since: Option<Chapter>,
    job: Option<SummaryJob>,
    summarisers: Vec<Arc<dyn Summariser>>,
    /// What must be claimed before a model is asked.
    claim: Option<StoryClaim>,
}

/// A summary that is being written. If this is dropped, the summariser finishes and its summary is discarded.
struct SummaryJob {
    told: Receiver<Option<WrittenStory>>,
    chapter: Chapter,
}

impl Storyteller {
    /// The key under which an archive keeps the newest story of a session.
    pub const KEY: &str = "story";

    /// Continues from the summary of an earlier run, as the archive has it.
    pub fn new(told: Option<&str>) -> Self {
        Self { told: told.map(WrittenStory::parse), ..Self::default() }
    }

    /// Takes over a summary that another node has kept since, if it tells of more rounds.
    pub(crate) fn learn(&mut self, told: &str) {
        let told = WrittenStory::parse(told);
        if told.rounds > self.told.as_ref().map_or(0, |known| known.rounds) {
            self.told = Some(told);
        }
    }

    /// Lets models summarise the rounds of the newest digest; one node at a time, if there is something to claim.
    pub(crate) fn tell(
        &mut self,
        digest: &Summarised,
        summarisers: Vec<Arc<dyn Summariser>>,
        claim: Option<StoryClaim>,
    ) {
        if let Some(chapter) = digest.chapter().filter(|_| !summarisers.is_empty()) {
            (self.summarisers, self.claim) = (summarisers, claim);
            self.folded(chapter);
        }
    }

    /// Returns a summary that has arrived since, in the form in which the archive keeps it.
    pub fn heard(&mut self) -> Option<String> {
        self.hear(Duration::ZERO).map(|told| told.write())
    }

    /// The newest summary, for a conversation that has grown since.
    pub(crate) fn told(&self) -> Option<WrittenStory> {
        self.told.clone().map(|told| WrittenStory { until: self.until(), ..told })
    }

    /// How many rounds have a summary or will have one.
    fn until(&self) -> u64 {
        let waiting = self.since.as_ref().or(self.job.as_ref().map(|job| &job.chapter));
        let told = self.told.as_ref().map_or(0, |told| told.rounds);
        waiting.map_or(told, |chapter| chapter.until)
    }

    /// Has rounds summarised that were just folded, after those that are being summarised.
    fn folded(&mut self, chapter: Chapter) {
        if chapter.before != self.until() {
            // Rounds in between have no summary: the log itself covers them.
            (self.told, self.since, self.job) = (None, None, None);
        }
        self.since = Some(joined(self.since.take(), chapter));
        if self.job.is_none() {
            self.start();
        }
    }

    /// Asks summarisers in turn, on a thread.
    fn start(&mut self) {
        let Some(mut chapter) = self.since.take() else { return };
        if let Some(told) = &self.told {
            chapter.earlier.clone_from(&told.text);
        }
        let (tell, told) = mpsc::channel();
        let (summarisers, work) = (self.summarisers.clone(), chapter.clone());
        let claim = self.claim.clone();
        let run = move || {
            // The receiver may be gone.
            let _ = tell.send(work.told_once(&summarisers, claim.as_ref()));
        };
        // Where no thread can be had the channel is closed at once, which counts as a failure.
        let _ = thread::Builder::new().name("longhand-story".to_owned()).spawn(run);
        self.job = Some(SummaryJob { told, chapter });
    }

    /// Waits at most so long for the running job, and returns its summary.
    pub(crate) fn hear(&mut self, wait: Duration) -> Option<WrittenStory> {
        let job = self.job.take()?;
        let told = match job.told.recv_timeout(wait) {
            Ok(told) => told,
            Err(RecvTimeoutError::Timeout) => {
                self.job = Some(job);
                return None;
            }
            Err(RecvTimeoutError::Disconnected) => None,
        };
        if let Some(told) = &told {
            self.told = Some(told.clone());
            self.start();
        } else {
            // These rounds are summarised along with those that are folded next.
            self.since = Some(match self.since.take() {
                Some(since) => joined(Some(job.chapter), since),
                None => job.chapter,
            });
        }
        told
    }

    /// Whether a job is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Forgets everything, including a summary that is being written.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// A chapter that continues another.
fn joined(before: Option<Chapter>, chapter: Chapter) -> Chapter {
    let Some(mut before) = before else { return chapter };
    before.rounds.extend(chapter.rounds);
    Chapter { before: before.before, earlier: before.earlier, rounds: before.rounds, ..chapter }
}
