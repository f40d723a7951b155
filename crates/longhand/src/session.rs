//! A conversation that is open.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use longhand_archive::{Archive, ArchiveError, Batch, NewBatch, fold_handle};
use longhand_core::anchor::Miner;
use longhand_core::{
    Budget, Effect, Engine, Event, FoldId, Message, Meter, Part, Role, Rolling, Scale, State, Text,
    Tokens, plan,
};
use longhand_dialect::{Dialect, DialectError, Finding, read, write};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_summary::{Extractive, Summariser};
use serde_json::json;
use thiserror::Error;

use crate::fold::{Block, Folding, NoBlock};
use crate::pending::Pending;
use crate::prompt::{Earlier, Prompt, Window, sections};
use crate::round::{Kept, Round, texts_of};
use crate::said::Said;

/// Why a session could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The archive failed: persistence.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A round could not be read.
    #[error("this is not a round: {0}")]
    Round(String),
    /// Messages could not be read.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// The meter could not be opened.
    #[error(transparent)]
    Meter(#[from] longhand_meter::MeterError),
}

/// How a session is kept.
#[derive(Clone)]
pub struct Settings {
    /// Sizes.
    pub rolling: Rolling,
    /// Summarisers in the order they are tried; with none, nothing is ever folded.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// How tokens are counted.
    pub meter: Arc<dyn Meter + Send + Sync>,
    /// Knows the ids of this project.
    pub miner: Miner,
}

impl Settings {
    /// The defaults: exact counts and the built-in summariser.
    pub fn new() -> Result<Self, SessionError> {
        let meter = MeterSpec::O200k.open(ImageRule::OpenAiDearer)?;
        Ok(Self {
            rolling: Rolling::default(),
            summarisers: vec![Arc::new(Extractive)],
            meter: Arc::from(meter),
            miner: Miner::default(),
        })
    }
}

/// What recording a round led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The round's number, from 0.
    pub round: u64,
    /// How many rounds were folded; 0 is the normal case.
    pub folded: u64,
    /// What summary and verbatim rounds count for now.
    pub tokens: Tokens,
    /// How far they are over budget, where nothing more could be done.
    pub over: Option<Tokens>,
}

/// What folding led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// How many rounds were folded.
    pub rounds: u64,
    /// How far summary and rounds are over budget, where nothing more could be done.
    pub over: Option<Tokens>,
}

/// A round as plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRound {
    /// What the user said.
    pub user: String,
    /// What the assistant said.
    pub assistant: String,
    /// Tools by name, with a short account of what they did.
    pub tools: Vec<(String, String)>,
    /// When it closed, in milliseconds since 1970.
    pub at_ms: i64,
}

/// One conversation, from its first message to its last.
///
/// A summariser that takes its time is asked in the background: neither recording nor the window waits
/// for it, and until it has answered the window is made to fit by stubs.
pub struct Session {
    archive: Arc<dyn Archive>,
    id: String,
    settings: Settings,
    engine: Engine,
    rounds: VecDeque<Kept>,
    batch: Option<Batch>,
    next_entry: u64,
    pending: Option<Pending>,
    ready: Option<Ready>,
    refusals: Vec<String>,
}

/// A block that is to be committed.
struct Ready {
    block: Block,
    rung: usize,
}

impl Session {
    /// Opens a conversation with the default settings; an absent one opens empty.
    pub fn open(archive: Arc<dyn Archive>, id: &str) -> Result<Self, SessionError> {
        Self::open_with(archive, id, Settings::new()?)
    }

    /// Opens a conversation.
    pub fn open_with(
        archive: Arc<dyn Archive>,
        id: &str,
        mut settings: Settings,
    ) -> Result<Self, SessionError> {
        settings.rolling.rungs = settings.summarisers.len();
        let engine = Engine::open(settings.rolling, State::default());
        let mut session = Self {
            archive,
            id: id.to_owned(),
            settings,
            engine,
            rounds: VecDeque::new(),
            batch: None,
            next_entry: 0,
            pending: None,
            ready: None,
            refusals: Vec::new(),
        };
        session.reload()?;
        Ok(session)
    }

    /// Reads the state from the archive: never an estimate that was stored.
    ///
    /// A summary that is still being written is of no use any more.
    pub fn reload(&mut self) -> Result<(), SessionError> {
        (self.pending, self.ready) = (None, None);
        let head = self.archive.head(&self.id)?.unwrap_or_default();
        self.batch = head.batch;
        self.next_entry = head.entries;
        let scale = Scale::new(&*self.settings.meter);
        let entries = self.archive.entries(&self.id, self.folded().end..self.next_entry)?;
        self.rounds = Kept::from_entries(&entries, &scale).into();
        let state = State {
            first: self.rounds.front().map_or(head.rounds, |round| round.number),
            summary: self.summary_tokens(),
            rounds: self.rounds.iter().map(|round| round.tokens).collect(),
            undone: head.undone,
        };
        self.engine = Engine::open(self.settings.rolling, state);
        Ok(())
    }

    /// Records a round: it is durable before anything else happens.
    pub fn record(&mut self, round: &Round) -> Result<Recorded, SessionError> {
        let entries = round.entries();
        let appended = self.archive.append(&self.id, &entries)?;
        let end = appended.first + entries.len() as u64;
        // Other writers may have come first; their rounds are part of the conversation.
        let new = self.archive.entries(&self.id, self.next_entry..end)?;
        self.next_entry = end;
        let scale = Scale::new(&*self.settings.meter);
        for round in Kept::from_entries(&new, &scale) {
            self.engine.handle(Event::Recorded { round: round.number, tokens: round.tokens });
            self.rounds.push_back(round);
        }
        let Folded { rounds, over } = self.fold(round.at_ms, Duration::ZERO)?;
        Ok(Recorded { round: appended.round, folded: rounds, tokens: self.engine.tokens(), over })
    }

    /// Folds what does not fit: does what the engine asks for until it asks no more.
    ///
    /// Waits at most `wait` for each summariser in the background, and takes in what one has written
    /// meanwhile.
    pub fn fold(&mut self, now_ms: i64, wait: Duration) -> Result<Folded, SessionError> {
        let mut folded = Folded::default();
        loop {
            while let Some(effect) = self.engine.next_effect() {
                match effect {
                    Effect::Summarise { fold, rounds, rung, limit } => {
                        self.summarise(fold, rounds.end - rounds.start, rung, limit)?;
                    }
                    Effect::Commit { fold, upto } => {
                        folded.rounds += self.commit(fold, upto, now_ms)?;
                    }
                    Effect::OverBudget { by } => folded.over = Some(by),
                }
            }
            let Some(pending) = self.pending.take() else { return Ok(folded) };
            match pending.answer(wait) {
                Ok((fold, rung, answer)) => self.answered(fold, rung, answer),
                Err(pending) => {
                    self.pending = Some(pending);
                    return Ok(folded);
                }
            }
        }
    }

    /// Folds all but the newest round, whatever there is room for; waits as [`Session::fold`] does.
    pub fn compact(&mut self, now_ms: i64, wait: Duration) -> Result<Folded, SessionError> {
        let before = self.fold(now_ms, wait)?;
        self.engine.handle(Event::Compact);
        let after = self.fold(now_ms, wait)?;
        Ok(Folded { rounds: before.rounds + after.rounds, over: after.over })
    }

    /// Has others summarise from now on.
    pub fn set_summarisers(
        &mut self,
        summarisers: Vec<Arc<dyn Summariser>>,
    ) -> Result<(), SessionError> {
        self.settings.rolling.rungs = summarisers.len();
        self.settings.summarisers = summarisers;
        self.reload()
    }

    /// Asks a summariser: at once, or in the background if it takes its time.
    fn summarise(
        &mut self,
        fold: FoldId,
        count: u64,
        rung: usize,
        limit: Tokens,
    ) -> Result<(), SessionError> {
        let Some(summariser) = self.settings.summarisers.get(rung).cloned() else {
            self.engine.handle(Event::Refused { fold });
            return Ok(());
        };
        let rounds = || self.rounds.iter().take(count as usize);
        let folding = Folding {
            earlier: self.summary().map(str::to_owned),
            rounds: rounds().map(Kept::said).collect(),
            pins: self.pins()?,
            replaced: self.summary_tokens() + rounds().map(|round| round.tokens).sum(),
            limit,
            miner: self.settings.miner.clone(),
            summariser,
            meter: Arc::clone(&self.settings.meter),
        };
        if folding.summariser.is_instant() {
            let answer = folding.run();
            self.answered(fold, rung, answer);
        } else {
            self.pending = Some(Pending::start(fold, rung, folding));
        }
        Ok(())
    }

    fn answered(&mut self, fold: FoldId, rung: usize, answer: Result<Block, NoBlock>) {
        match answer {
            Ok(block) => {
                let tokens = block.tokens;
                self.ready = Some(Ready { block, rung });
                self.engine.handle(Event::Summarised { fold, tokens });
            }
            Err(why) => {
                self.refusals.push(why.to_string());
                self.engine.handle(Event::Refused { fold });
            }
        }
    }

    /// Writes the accepted block down; says how many rounds it folds.
    fn commit(&mut self, fold: FoldId, upto: u64, now_ms: i64) -> Result<u64, SessionError> {
        let count = upto - self.engine.verbatim().start;
        let Some(ready) = self.ready.take() else {
            self.engine.handle(Event::NotCommitted { fold });
            return Ok(0);
        };
        let batch = self.batch_of(ready, count as usize, now_ms);
        match self.archive.commit(&self.id, &batch) {
            Ok(number) => {
                let NewBatch { after, at_ms, entries, text, receipt } = batch;
                let undone = false;
                self.batch = Some(Batch { number, after, at_ms, entries, text, receipt, undone });
                self.rounds.drain(..count as usize);
                self.engine.handle(Event::Committed { fold });
                Ok(count)
            }
            // Another writer folded first: take its state and go on from there.
            Err(ArchiveError::Conflict { .. }) => {
                self.reload()?;
                Ok(0)
            }
            Err(error) => {
                self.engine.handle(Event::NotCommitted { fold });
                Err(error.into())
            }
        }
    }

    fn batch_of(&mut self, ready: Ready, count: usize, now_ms: i64) -> NewBatch {
        let Ready { block, rung } = ready;
        let start = self.folded().end;
        let end = if count == 0 { start } else { self.rounds[count - 1].entries.end };
        let before: Tokens = self.rounds.iter().take(count).map(|round| round.tokens).sum();
        let receipt = json!({
            "at": crate::time::format(now_ms),
            "entries": [start, end],
            "rounds": count,
            "tokens_before": (self.summary_tokens() + before).0,
            "tokens_after": block.tokens.0,
            "rung": rung,
            "refused": std::mem::take(&mut self.refusals),
            "fold": block.account,
        });
        NewBatch {
            after: self.batch.as_ref().map_or(0, |batch| batch.number),
            at_ms: now_ms,
            entries: 0..end,
            text: block.text,
            receipt: receipt.to_string(),
        }
    }

    /// The texts of pinned entries that are folded, or are about to be.
    fn pins(&self) -> Result<Vec<String>, SessionError> {
        let pins = self.archive.head(&self.id)?.unwrap_or_default().pins;
        let mut texts = Vec::new();
        for seq in pins {
            for entry in self.archive.entries(&self.id, seq..seq + 1)? {
                texts.extend(texts_of(&entry));
            }
        }
        Ok(texts)
    }

    /// Keeps an entry in the window through every fold, or lets it go again.
    pub fn pin(&mut self, seq: u64, pinned: bool) -> Result<(), SessionError> {
        Ok(self.archive.pin(&self.id, seq, pinned)?)
    }

    /// Takes the newest fold back; what it folded is verbatim again, for as long as there is room.
    pub fn undo(&mut self) -> Result<Option<Batch>, SessionError> {
        let undone = self.archive.undo(&self.id)?;
        self.reload()?;
        Ok(undone)
    }

    /// The window for a new message of the user.
    pub fn window(&self, message: &str, prompt: &Prompt) -> Result<Window, SessionError> {
        let earlier = self.batch.as_ref().map(|batch| Earlier {
            text: &batch.text,
            rounds: self.engine.verbatim().start,
            handle: fold_handle(&self.id, &batch.entries),
        });
        let (system, quoted) = sections(prompt, earlier);
        let around: Vec<Message> = [(Role::System, system), (Role::User, quoted)]
            .into_iter()
            .filter_map(|(role, text)| Some(plain(role, &text?)))
            .collect();
        let current = (!message.is_empty()).then(|| plain(Role::User, message));
        let mut messages: Vec<(Dialect, &Message)> =
            around.iter().map(|message| (Dialect::Chat, message)).collect();
        let rounds = self.rounds.iter().flat_map(|round| &round.messages);
        messages.extend(rounds.map(|(dialect, message)| (*dialect, message)));
        messages.extend(current.iter().map(|message| (Dialect::Chat, message)));
        self.fitted(&write(&messages, prompt.dialect), prompt)
    }

    /// Makes sure that a window is valid and fits, whatever the archive holds and the newest message
    /// brought.
    fn fitted(&self, json: &str, prompt: &Prompt) -> Result<Window, SessionError> {
        let mut conversation = read(json.as_bytes().to_vec(), Some(prompt.dialect))?;
        // What was recorded may have been broken off in the middle of a call.
        if conversation.check().iter().any(Finding::is_fault) {
            conversation = conversation.repair()?;
        }
        let budget = Budget::of(prompt.budget.unwrap_or(self.settings.rolling.budget));
        let settings = longhand_core::Settings::default();
        let history = conversation.history(Tokens::ZERO);
        let plan = plan(&history, &budget, &settings, &*self.settings.meter);
        Ok(Window {
            json: conversation.apply(&plan.edits),
            tokens: plan.tokens,
            shortfall: plan.shortfall,
        })
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its sizes.
    pub fn rolling(&self) -> &Rolling {
        &self.settings.rolling
    }

    /// Summary and verbatim rounds together.
    pub fn tokens(&self) -> Tokens {
        self.engine.tokens()
    }

    /// What the summary counts for.
    pub fn summary_tokens(&self) -> Tokens {
        self.summary().map_or(Tokens::ZERO, |text| Scale::new(&*self.settings.meter).text(text))
    }

    /// The verbatim rounds as plain words.
    pub fn plain_rounds(&self) -> Vec<PlainRound> {
        let plain = |round: &Kept| {
            let Said { user, assistant, tools, .. } = round.said();
            PlainRound { user, assistant, tools, at_ms: round.at_ms }
        };
        self.rounds.iter().map(plain).collect()
    }

    /// The summary block, if anything was folded.
    pub fn summary(&self) -> Option<&str> {
        self.batch.as_ref().map(|batch| batch.text.as_str())
    }

    /// The rounds that are verbatim.
    pub fn verbatim(&self) -> Range<u64> {
        self.engine.verbatim()
    }

    /// Whether a summariser is at work in the background.
    pub fn is_folding(&self) -> bool {
        self.pending.is_some()
    }

    /// The entries that are folded.
    fn folded(&self) -> Range<u64> {
        self.batch.as_ref().map_or(0..0, |batch| batch.entries.clone())
    }
}

fn plain(role: Role, text: &str) -> Message {
    let raw = json!({"role": role.as_str(), "content": text}).to_string();
    Message { role, name: None, parts: vec![Part::Text(Text::from(text))], raw: Text::from(raw) }
}
