//! A conversation that is open.

use std::collections::VecDeque;
use std::sync::Arc;

use longhand_archive::{Archive, ArchiveError, Batch, NewBatch};
use longhand_core::{
    Budget, Effect, Engine, Event, Message, Meter, Part, Role, Rolling, Scale, Text, Tokens, plan,
};
use longhand_dialect::{Dialect, DialectError, read, write};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_summary::{Extractive, Summariser};
use serde_json::json;
use thiserror::Error;

use crate::fold::{Block, NoBlock, fold};
use crate::prompt::{Prompt, Window, sections};
use crate::round::{Kept, Round, texts_of};

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
    /// Summarisers in the order they are tried.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// How tokens are counted.
    pub meter: Arc<dyn Meter + Send + Sync>,
}

impl Settings {
    /// The defaults: exact counts and the built-in summariser.
    pub fn new() -> Result<Self, SessionError> {
        let meter = MeterSpec::O200k.open(ImageRule::OpenAiDearer)?;
        Ok(Self {
            rolling: Rolling::default(),
            summarisers: vec![Arc::new(Extractive)],
            meter: Arc::from(meter),
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
pub struct Session {
    archive: Arc<dyn Archive>,
    id: String,
    settings: Settings,
    engine: Engine,
    rounds: VecDeque<Kept>,
    batch: Option<Batch>,
    next_entry: u64,
    ready: Option<Block>,
    refusals: Vec<String>,
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
        let rolling = settings.rolling;
        let mut session = Self {
            archive,
            id: id.to_owned(),
            settings,
            engine: Engine::open(rolling, 0, Tokens::ZERO, []),
            rounds: VecDeque::new(),
            batch: None,
            next_entry: 0,
            ready: None,
            refusals: Vec::new(),
        };
        session.reload()?;
        Ok(session)
    }

    /// Reads the state from the archive: never an estimate that was stored.
    fn reload(&mut self) -> Result<(), SessionError> {
        let head = self.archive.head(&self.id)?;
        self.batch = head.as_ref().and_then(|head| head.batch.clone());
        let first = self.batch.as_ref().map_or(0, |batch| batch.entries.end);
        self.next_entry = head.map_or(0, |head| head.entries);
        let scale = Scale::new(&*self.settings.meter);
        let entries = self.archive.entries(&self.id, first..self.next_entry)?;
        self.rounds = Kept::from_entries(&entries, &scale).into();
        let summary = self.batch.as_ref().map_or(Tokens::ZERO, |batch| scale.text(&batch.text));
        let number = self.rounds.front().map_or(0, |round| round.number);
        let tokens: Vec<Tokens> = self.rounds.iter().map(|round| round.tokens).collect();
        self.engine = Engine::open(self.settings.rolling, number, summary, tokens);
        self.ready = None;
        Ok(())
    }

    /// Records a round: it is durable before anything else happens.
    pub fn record(&mut self, round: &Round) -> Result<Recorded, SessionError> {
        let entries = round.entries();
        let appended = self.archive.append(&self.id, &entries)?;
        let end = appended.first + entries.len() as u64;
        // Other writers may have come first; their rounds are part of the conversation.
        let scale = Scale::new(&*self.settings.meter);
        let new = self.archive.entries(&self.id, self.next_entry..end)?;
        self.next_entry = end;
        for round in Kept::from_entries(&new, &scale) {
            if self.rounds.is_empty() && !self.engine.is_folding() {
                self.engine = self.engine_at(round.number);
            }
            self.engine.handle(Event::Recorded { round: round.number, tokens: round.tokens });
            self.rounds.push_back(round);
        }
        let (folded, over) = self.drive(round.at_ms)?;
        Ok(Recorded { round: appended.round, folded, tokens: self.engine.tokens(), over })
    }

    fn engine_at(&self, round: u64) -> Engine {
        let scale = Scale::new(&*self.settings.meter);
        let summary = self.batch.as_ref().map_or(Tokens::ZERO, |batch| scale.text(&batch.text));
        Engine::open(self.settings.rolling, round, summary, [])
    }

    /// Does what the engine asks for until it asks no more.
    fn drive(&mut self, now_ms: i64) -> Result<(u64, Option<Tokens>), SessionError> {
        let mut folded = 0;
        let mut over = None;
        while let Some(effect) = self.engine.next_effect() {
            match effect {
                Effect::Summarise { fold, rounds, rung, limit } => {
                    let event = match self.fold(rounds.end - rounds.start, rung, limit)? {
                        Ok(block) => {
                            let tokens = block.tokens;
                            self.ready = Some(block);
                            Event::Summarised { fold, tokens }
                        }
                        Err(NoBlock::Failed(why)) => self.refused(fold, why),
                        Err(NoBlock::Refused(refusal)) => self.refused(fold, refusal.to_string()),
                    };
                    self.engine.handle(event);
                }
                Effect::Commit { fold, upto } => {
                    let count = (upto - self.engine.verbatim().start) as usize;
                    match self.commit(count, now_ms) {
                        Ok(()) => {
                            folded += count as u64;
                            self.engine.handle(Event::Committed { fold });
                        }
                        // Another writer folded first: take its state and go on from there.
                        Err(SessionError::Archive(ArchiveError::Conflict { .. })) => {
                            self.reload()?
                        }
                        Err(error) => {
                            self.engine.handle(Event::NotCommitted { fold });
                            return Err(error);
                        }
                    }
                }
                Effect::OverBudget { by } => over = Some(by),
            }
        }
        Ok((folded, over))
    }

    fn refused(&mut self, fold: longhand_core::FoldId, why: String) -> Event {
        self.refusals.push(why);
        Event::Refused { fold }
    }

    fn fold(
        &mut self,
        count: u64,
        rung: usize,
        limit: Tokens,
    ) -> Result<Result<Block, NoBlock>, SessionError> {
        let pins = self.pins()?;
        let scale = Scale::new(&*self.settings.meter);
        let rounds: Vec<&Kept> = self.rounds.iter().take(count as usize).collect();
        let earlier = self.batch.as_ref().map(|batch| batch.text.as_str());
        let Some(summariser) = self.settings.summarisers.get(rung) else {
            return Ok(Err(NoBlock::Failed("there is no such summariser".to_owned())));
        };
        Ok(fold(earlier, &rounds, &pins, &**summariser, limit, &scale))
    }

    fn commit(&mut self, count: usize, now_ms: i64) -> Result<(), SessionError> {
        let Some(block) = self.ready.take() else { return Ok(()) };
        let start = self.batch.as_ref().map_or(0, |batch| batch.entries.end);
        let end = self.rounds.iter().take(count).last().map_or(start, |round| round.entries.end);
        let after = self.batch.as_ref().map_or(0, |batch| batch.number);
        let scale = Scale::new(&*self.settings.meter);
        let before: Tokens = self.rounds.iter().take(count).map(|round| round.tokens).sum();
        let earlier = self.batch.as_ref().map_or(Tokens::ZERO, |batch| scale.text(&batch.text));
        let receipt = json!({
            "at": crate::time::format(now_ms),
            "entries": [start, end],
            "rounds": count,
            "tokens_before": (before + earlier).0,
            "tokens_after": block.tokens.0,
            "refused": std::mem::take(&mut self.refusals),
            "fold": block.account,
        });
        let batch = NewBatch {
            after,
            at_ms: now_ms,
            entries: 0..end,
            text: block.text,
            receipt: receipt.to_string(),
        };
        let number = self.archive.commit(&self.id, &batch)?;
        self.rounds.drain(..count);
        self.batch = Some(Batch {
            number,
            after,
            at_ms: now_ms,
            entries: batch.entries,
            text: batch.text,
            receipt: batch.receipt,
            undone: false,
        });
        Ok(())
    }

    /// The texts of pinned entries that are folded.
    fn pins(&self) -> Result<Vec<String>, SessionError> {
        let Some(head) = self.archive.head(&self.id)? else { return Ok(Vec::new()) };
        let mut texts = Vec::new();
        for seq in head.pins {
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

    /// Takes the newest fold back; what it folded is verbatim again.
    pub fn undo(&mut self) -> Result<Option<Batch>, SessionError> {
        let undone = self.archive.undo(&self.id)?;
        self.reload()?;
        Ok(undone)
    }

    /// The window for a new message of the user.
    pub fn window(&self, message: &str, prompt: &Prompt) -> Result<Window, SessionError> {
        let (system, quoted) =
            sections(prompt, self.batch.as_ref().map(|batch| batch.text.as_str()));
        let plain = |role: Role, text: &str| {
            let raw = json!({"role": role.as_str(), "content": text}).to_string();
            Message {
                role,
                name: None,
                parts: vec![Part::Text(Text::from(text))],
                raw: Text::from(raw),
            }
        };
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
        self.fitted(&write(&messages, prompt.dialect), prompt.dialect)
    }

    /// Makes sure that a window fits, whatever the newest message brought.
    fn fitted(&self, json: &str, dialect: Dialect) -> Result<Window, SessionError> {
        let conversation = read(json.as_bytes().to_vec(), Some(dialect))?;
        let scale = Scale::new(&*self.settings.meter);
        let budget = Budget::of(self.settings.rolling.budget + scale.framing().reply);
        let settings = longhand_core::Settings::default();
        let plan =
            plan(&conversation.history(Tokens::ZERO), &budget, &settings, &*self.settings.meter);
        Ok(Window {
            json: conversation.apply(&plan.edits),
            tokens: plan.tokens,
            shortfall: plan.shortfall,
        })
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
        let plain = |round: &Kept| PlainRound {
            user: round.words(Role::User),
            assistant: round.words(Role::Assistant),
            tools: round.tools(),
            at_ms: round.at_ms,
        };
        self.rounds.iter().map(plain).collect()
    }

    /// Folds what does not fit, as after an import; says how many rounds that were.
    pub fn settle(&mut self, now_ms: i64) -> Result<u64, SessionError> {
        Ok(self.drive(now_ms)?.0)
    }

    /// The summary block, if anything was folded.
    pub fn summary(&self) -> Option<&str> {
        self.batch.as_ref().map(|batch| batch.text.as_str())
    }

    /// The rounds that are verbatim.
    pub fn verbatim(&self) -> std::ops::Range<u64> {
        self.engine.verbatim()
    }
}
