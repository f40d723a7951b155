//! What a model writes of folded rounds, in the background.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use longhand_summary::Summariser;

use crate::digest::{State, Summarised};
use crate::fold::Folding;
use crate::said::Said;

/// Has models tell of folded rounds, one job at a time, and knows what they have told.
#[derive(Default)]
pub struct Storyteller {
    /// What was told last.
    told: Option<State>,
    /// The rounds that were folded since, and are in no job yet.
    since: Vec<Said>,
    job: Option<Job>,
    /// What the next job starts from, and who is asked.
    next: Option<(Folding, Vec<Arc<dyn Summariser>>)>,
}

/// A summary that is being written; dropped, it lets the summariser finish and forgets what it says.
struct Job {
    told: Receiver<Option<State>>,
    rounds: Vec<Said>,
}

/// What a model told of the oldest folded rounds, and the rounds that were folded since.
#[derive(Clone)]
pub(crate) struct Story {
    pub(crate) state: State,
    pub(crate) since: Vec<Said>,
}

impl Story {
    /// Whether it tells of just so many rounds.
    pub(crate) fn covers(&self, rounds: u64) -> bool {
        self.state.rounds + self.since.len() as u64 == rounds
    }
}

impl Storyteller {
    /// The key under which an archive keeps the newest story of a session.
    pub const KEY: &str = "story";

    /// Goes on from what an earlier run was told, as the archive has it.
    pub fn new(told: Option<&str>) -> Self {
        Self { told: told.map(State::parse), ..Self::default() }
    }

    /// Has models tell of what a digest was just made of.
    pub fn tell(&mut self, digest: &Summarised, summarisers: Vec<Arc<dyn Summariser>>) {
        if let Some((folding, rounds)) = digest.folding() {
            self.folded(folding, rounds, summarisers);
        }
    }

    /// Returns what was told meanwhile, as the archive is to keep it.
    pub fn heard(&mut self) -> Option<String> {
        self.hear(Duration::ZERO).map(|told| told.write())
    }

    /// The story so far.
    pub(crate) fn story(&self) -> Option<Story> {
        let in_job = self.job.iter().flat_map(|job| job.rounds.iter().cloned());
        let since = in_job.chain(self.since.iter().cloned()).collect();
        self.told.clone().map(|state| Story { state, since })
    }

    /// Has rounds told of that were just folded, after the ones that are being told of.
    fn folded(&mut self, folding: Folding, rounds: u64, summarisers: Vec<Arc<dyn Summariser>>) {
        if summarisers.is_empty() {
            return;
        }
        self.since.extend(folding.rounds.iter().cloned());
        let first = rounds.saturating_sub(self.since.len() as u64);
        let goes_on = self.told.as_ref().is_some_and(|told| told.rounds == first);
        if self.job.is_none() && !goes_on {
            // Rounds that nobody has told of lie between: the block that stands tells of them.
            self.told = None;
            self.since.clone_from(&folding.rounds);
        }
        self.next = Some((folding, summarisers));
        if self.job.is_none() {
            self.start(rounds);
        }
    }

    /// Asks summarisers in turn, on a thread.
    fn start(&mut self, rounds: u64) {
        let Some((folding, summarisers)) = self.next.take() else { return };
        let in_job = std::mem::take(&mut self.since);
        let earlier = match &self.told {
            Some(told) => Some(told.text.clone()),
            None => folding.earlier.clone(),
        };
        let folding = Folding { earlier, is_told: false, rounds: in_job.clone(), ..folding };
        let (tell, told) = mpsc::channel();
        let run = move || {
            let (mut refused, mut state) = (Vec::new(), None);
            for summariser in &summarisers {
                match folding.run(&**summariser) {
                    Ok(mut block) => {
                        block.account["refused"] = refused.into();
                        let account = Some(block.account);
                        state = Some(State { rounds, text: block.kept, account });
                        break;
                    }
                    Err(why) => refused.push(why.to_string()),
                }
            }
            // Nobody may be listening any more.
            let _ = tell.send(state);
        };
        // Where no thread can be had the channel is closed at once, which counts as a failure.
        let _ = thread::Builder::new().name("longhand-story".to_owned()).spawn(run);
        self.job = Some(Job { told, rounds: in_job });
    }

    /// Waits at most so long for the job that is under way, and returns what it told.
    pub(crate) fn hear(&mut self, wait: Duration) -> Option<State> {
        let job = self.job.take()?;
        let state = match job.told.recv_timeout(wait) {
            Ok(state) => state,
            Err(RecvTimeoutError::Timeout) => {
                self.job = Some(job);
                return None;
            }
            Err(RecvTimeoutError::Disconnected) => None,
        };
        if let Some(state) = &state {
            self.told = Some(state.clone());
            if !self.since.is_empty() {
                self.start(state.rounds + self.since.len() as u64);
            }
        } else {
            // What it could not tell of is told of with the rounds that are folded next.
            let since = std::mem::take(&mut self.since);
            self.since = job.rounds.into_iter().chain(since).collect();
        }
        state
    }

    /// Whether a job is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Forgets everything, also what is being written.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
