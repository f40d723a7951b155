//! Sessions: recording rounds and making windows.

mod agent;
mod ahead;
mod driver;
pub(crate) mod name;
mod reading;
mod remember;
mod request;
mod retry;
mod settings;
mod view;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use longhand_archive::{
    After, Archive, ArchiveError, LoggedBatch, NewSession, Owner, SessionId, attempts, outrun,
};
use longhand_core::{
    Batch, Budget, CachePause, CachePrices, Economy, History, Message, Meter, Plan, Policy,
    Rolling, Scale, Seq, Size, Tokens, requests,
};
use longhand_dialect::{Dialect, DialectError};
use longhand_summary::{Extractive, Summariser};
use thiserror::Error;

use crate::digest::Summarised;
use crate::driver::WindowError;
use crate::entry::opening_of;
use crate::fit::Fitting;
use crate::preamble;
use crate::prompt::{Prompt, Window};
use crate::receipt::{EditReceipt, Receipt, ReceiptCause};
use crate::redact::Redactor;
use crate::round::{ModelCall, Round};
use crate::story::{StoryClaim, Storyteller};

pub use self::agent::Answered;
use self::ahead::FoldedAhead;
pub use self::ahead::keep_logs;
use self::driver::SessionDriver;
use self::reading::keep_newest_state;
use self::remember::RecalledWindow;
use self::request::SessionRequest;
pub use self::settings::SessionSettings;

/// Why a session could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A round could not be read.
    #[error("this is not a round: {0}")]
    Round(String),
    /// A request would be refused by its provider, whatever its length.
    #[error("the request is not valid: {0}")]
    Invalid(String),
    /// Messages could not be read.
    #[error(transparent)]
    Dialect(#[from] DialectError),
    /// A reply could not be read; it is kept beside the session as it came.
    #[error("the reply cannot be read: {0}")]
    Reply(String),
    /// The meter could not be opened.
    #[error(transparent)]
    Meter(#[from] longhand_meter::MeterError),
    /// The model that says what messages mean failed.
    #[error(transparent)]
    Embed(#[from] crate::embeddings::EmbedError),
}

impl From<WindowError> for SessionError {
    fn from(error: WindowError) -> Self {
        match error {
            WindowError::Dialect(error) => Self::Dialect(error),
            WindowError::Archive(error) => Self::Archive(error),
            WindowError::Renumbered => Self::Archive(outrun(SessionId::default())),
        }
    }
}

/// The result of recording a round.
#[derive(Debug)]
pub struct Recorded {
    /// The round's number, from 0.
    pub round: u64,
    /// How many rounds were folded; 0 is the normal case.
    pub folded: u64,
    /// The tokens of the fold and the verbatim rounds.
    pub tokens: Tokens,
    /// How many tokens they are over the budget, if nothing more can be folded.
    pub over: Option<Tokens>,
    /// What went wrong after the round was durable. It is recorded all the same: do not record it again.
    pub problem: Option<SessionError>,
}

/// The result of folding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folding {
    /// How many rounds were folded.
    pub rounds: u64,
    /// How many tokens fold and rounds are over the budget, if nothing more can be folded.
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
/// A window shows the ledger's messages as its live batches say. Between batches it only grows at its
/// end. A summariser that takes its time works in the background; what it writes comes with the next batch.
pub struct Session {
    archive: Arc<dyn Archive>,
    driver: SessionDriver,
    id: SessionId,
    name: String,
    settings: SessionSettings,
    /// The entries that are not folded, oldest first, as far as they were read.
    shown: Vec<ShownEntry>,
    /// The numbers of those that were not read yet, after the others.
    unread: VecDeque<Range<u64>>,
    /// What no window can show is folded before it is read with the rest.
    ahead: Option<FoldedAhead>,
    /// Whether all entries are read that are not folded by a batch.
    reads_all: bool,
    /// The batches that say what is shown, each built on the one before it.
    live: Vec<Batch>,
    /// The number of the newest of them in the archive's log, or 0.
    newest_batch: u64,
    pins: Vec<Seq>,
    entries: u64,
    rounds: u64,
    /// Where the next round goes: after the newest entry, or in place of a round that is retried.
    place: After,
    /// Whether the newest batch was undone: then no more is edited than necessary.
    is_undone: bool,
    storyteller: Storyteller,
    /// How many of the shown entries were counted, and what the window counted for then.
    weighed: Option<(usize, Tokens)>,
    /// How many bytes are to be recorded until it is looked whether a log of them is to be kept.
    log_due: usize,
}

/// Whether a new batch is committed, and when it was made.
#[derive(Clone, Copy)]
enum CommitWhen {
    Never,
    At(i64),
    /// Only if a summariser has written about what it folds.
    IfSummarised(i64),
}

/// An entry that a window may show.
#[derive(Clone, Debug)]
struct ShownEntry {
    seq: Seq,
    round: u64,
    at_ms: i64,
    content: ShownContent,
}

#[derive(Clone, Debug)]
enum ShownContent {
    Message(Dialect, Message),
    Trace(String, String),
    /// Not for models.
    Aside,
}

impl Session {
    /// Opens a conversation with the default settings; an absent one opens empty.
    pub fn open(archive: Arc<dyn Archive>, name: &str) -> Result<Self, SessionError> {
        Self::open_with(archive, name, SessionSettings::new()?)
    }

    /// Opens a conversation.
    pub fn open_with(
        archive: Arc<dyn Archive>,
        name: &str,
        settings: SessionSettings,
    ) -> Result<Self, SessionError> {
        let id = name::called(&*archive, Owner::LOCAL, name)?;
        Self::open_id(archive, id, name, settings)
    }

    /// Opens a conversation by its id.
    pub fn open_id(
        archive: Arc<dyn Archive>,
        id: SessionId,
        name: &str,
        settings: SessionSettings,
    ) -> Result<Self, SessionError> {
        let driver = SessionDriver::open(Arc::clone(&archive), id, name)?;
        let mut session = Self {
            archive,
            driver,
            id,
            name: name.to_owned(),
            settings,
            shown: Vec::new(),
            unread: VecDeque::new(),
            ahead: None,
            reads_all: false,
            live: Vec::new(),
            newest_batch: 0,
            pins: Vec::new(),
            entries: 0,
            rounds: 0,
            place: After::Newest,
            is_undone: false,
            storyteller: Storyteller::default(),
            weighed: None,
            log_due: 0,
        };
        let state = session.archive.derived(id, Storyteller::KEY)?;
        session.storyteller = Storyteller::new(state.as_deref());
        session.reload()?;
        Ok(session)
    }

    /// Sets what takes secrets out of the rounds that are recorded from now on.
    pub fn set_redactor(&mut self, redactor: Option<Arc<Redactor>>) {
        self.settings.redactor = redactor;
    }

    /// Records a round: it is durable before anything else happens.
    ///
    /// An error means that nothing was recorded. What goes wrong later is in [`Recorded::problem`].
    pub fn record(&mut self, round: &Round) -> Result<Recorded, SessionError> {
        let redacted = self.settings.redactor.as_ref().map(|redactor| round.redacted(redactor));
        let entries = redacted.as_ref().unwrap_or(round).entries();
        let dialect = entries.first().map_or(String::new(), |entry| entry.form.clone());
        let is_new = self.entries == 0;
        let opening =
            is_new.then(|| entries.iter().find_map(|entry| opening_of(&entry.form, &entry.raw)));
        let session = NewSession {
            owner: self.driver.live.owner,
            dialect,
            name: self.name.clone(),
            continues: None,
            group: None,
            begun_ms: round.at_ms,
            opening: opening.flatten().unwrap_or_default(),
            ..NewSession::default()
        };
        let appended = self.driver.append(&session, self.place, &entries)?;
        let mut recorded = Recorded {
            round: appended.round,
            folded: 0,
            tokens: Tokens::ZERO,
            over: None,
            problem: None,
        };
        let first = appended.seqs.len().checked_sub(appended.new as usize);
        let first = first.and_then(|first| appended.seqs.get(first)).copied();
        match self.after_record(first, round.at_ms) {
            Ok(folding) => (recorded.folded, recorded.over) = (folding.rounds, folding.over),
            Err(problem) => recorded.problem = Some(problem),
        }
        if let Err(problem) = self.keep_logs_of(&entries) {
            recorded.problem.get_or_insert(problem);
        }
        let budget = self.settings.budget;
        recorded.tokens = match self.fold_ahead(budget).and_then(|()| self.read_all()) {
            Ok(()) => self.weigh(),
            Err(problem) => {
                recorded.problem.get_or_insert(problem);
                Tokens::ZERO
            }
        };
        Ok(recorded)
    }

    /// The tokens of the window. What was counted before is not counted again.
    fn weigh(&mut self) -> Tokens {
        let tokens = match self.weighed {
            // Batches edit only what was there before them.
            Some((known, before)) => {
                let scale = Scale::new(&*self.settings.meter);
                let new = self.shown[known..].iter().filter_map(|entry| match &entry.content {
                    ShownContent::Message(_, message) => Some(scale.message(message, Tokens::MAX)),
                    _ => None,
                });
                before + new.sum::<Tokens>()
            }
            None => self.shown_tokens(view::COUNTED_MAX),
        };
        self.weighed = Some((self.shown.len(), tokens));
        tokens
    }

    /// Reads the new entries, notes what they fetched back, and folds at once if the policy is a rolling one.
    fn after_record(&mut self, first: Option<Seq>, now_ms: i64) -> Result<Folding, SessionError> {
        match std::mem::take(&mut self.place) {
            After::Newest => self.catch_up()?,
            After::Entry(_) => self.reload()?,
        }
        if let Some(first) = first.filter(|_| !self.live.is_empty()) {
            self.read_all()?;
            let request = SessionRequest::of(self, None, &Prompt::default());
            let (path, meter) = (request.path(), &*self.settings.meter);
            self.driver.note_regrets(&path, &self.live, path.from(first), meter, now_ms)?;
        }
        self.hear_story(Duration::ZERO)?;
        // Without a summariser rounds stay as they are until a window needs the room.
        let folds = self.settings.is_rolling() && !self.settings.summarisers.is_empty();
        if folds { self.fold_due(now_ms) } else { Ok(Folding::default()) }
    }

    /// Reads the entries that were appended since, by this process or another.
    fn catch_up(&mut self) -> Result<(), SessionError> {
        // A retried round does not see the entries after its place.
        if self.place != After::Newest {
            return Ok(());
        }
        self.driver.refresh()?;
        let batches = self.driver.live.lock().state.log().len();
        if batches != self.newest_batch && !self.is_undone {
            return self.reload();
        }
        let is_undone = self.is_undone;
        let known = self.entries;
        self.read_counts();
        self.is_undone = is_undone;
        if known < self.entries {
            self.unread.push_back(known..self.entries);
        }
        Ok(())
    }

    /// Makes the conversation fit without a new message, in one batch if it does not.
    fn fold_due(&mut self, now_ms: i64) -> Result<Folding, SessionError> {
        let before = self.verbatim().start;
        let commit = CommitWhen::IfSummarised(now_ms);
        let window = self.make_window(None, &Prompt::default(), self.settings.plan, commit)?;
        let over = Some(window.shortfall).filter(|over| *over > Tokens::ZERO);
        Ok(Folding { rounds: self.verbatim().start.saturating_sub(before), over })
    }

    /// Waits at most `wait` for a summary that is being written; it comes with the next batch.
    ///
    /// Returns whether none is being written any more.
    pub fn settle(&mut self, wait: Duration) -> Result<bool, SessionError> {
        let end = Instant::now() + wait;
        // When one summary is done, the next may begin.
        while !self.hear_story(end.saturating_duration_since(Instant::now()))? {
            if Instant::now() >= end {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Folds all but the newest round, whatever there is room for.
    pub fn compact(&mut self, now_ms: i64) -> Result<Folding, SessionError> {
        let before = self.verbatim().start;
        let summary_max = Tokens(self.settings.budget.0 / 6).min(Rolling::default().summary_max);
        let policy = Policy::Rolling(Rolling { rounds_max: 1, summary_max });
        let plan = longhand_core::PlanSettings { policy, ..self.settings.plan };
        self.is_undone = false;
        let window = self.make_window(None, &Prompt::default(), plan, CommitWhen::At(now_ms))?;
        let over = Some(window.shortfall).filter(|over| *over > Tokens::ZERO);
        Ok(Folding { rounds: self.verbatim().start.saturating_sub(before), over })
    }

    /// Sets the summarisers, which are tried in order.
    pub fn set_summarisers(&mut self, summarisers: Vec<Arc<dyn Summariser>>) {
        self.settings.summarisers = summarisers;
    }

    /// Sets the room for earlier messages that are brought back, in percent of the budget; 0 for none.
    pub fn set_recall(&mut self, percent: u64) {
        self.settings.recall_percent = percent;
    }

    /// Sets the meter, for a session that goes to another model.
    pub fn set_meter(&mut self, meter: Arc<dyn Meter>) {
        self.weighed = None;
        self.settings.meter = meter;
    }

    /// Sets the prices; without any, a window grows until it is full.
    pub fn set_prices(&mut self, prices: Option<CachePrices>) {
        self.settings.prices = prices;
    }

    /// Pins an entry, which keeps it in every window, or unpins it.
    pub fn pin(&mut self, seq: u64, pinned: bool) -> Result<(), SessionError> {
        self.archive.pin(self.id, Seq(seq), pinned)?;
        self.reload()
    }

    /// Undoes the newest batch. What it left out is shown again while it fits.
    pub fn undo(&mut self) -> Result<Option<LoggedBatch>, SessionError> {
        let undone = self.archive.undo(self.id, None)?;
        self.storyteller.forget();
        self.reload()?;
        Ok(undone)
    }

    /// The window for a new message of the user; a batch is committed if it does not fit otherwise.
    ///
    /// Earlier messages that it leaves out and that matter for the new one stand before that one as quotes, where there is
    /// room; see [`SessionSettings::recall_percent`].
    pub fn window(
        &mut self,
        message: &str,
        prompt: &Prompt,
        now_ms: i64,
    ) -> Result<Window, SessionError> {
        self.catch_up()?;
        self.hear_story(Duration::ZERO)?;
        let said = Some(message).filter(|message| !message.is_empty());
        self.make_window(said, prompt, self.settings.plan, CommitWhen::At(now_ms))
    }

    /// The window that [`Session::window`] would make; nothing is committed.
    pub fn preview(&mut self, message: &str, prompt: &Prompt) -> Result<Window, SessionError> {
        self.catch_up()?;
        let said = Some(message).filter(|message| !message.is_empty());
        self.make_window(said, prompt, self.settings.plan, CommitWhen::Never)
    }

    /// Plans, commits and writes a window.
    fn make_window(
        &mut self,
        message: Option<&str>,
        prompt: &Prompt,
        settings: longhand_core::PlanSettings,
        commit: CommitWhen,
    ) -> Result<Window, SessionError> {
        let room = prompt.budget.unwrap_or(self.settings.budget);
        for () in attempts() {
            self.fold_ahead(room)?;
            self.read_all()?;
            if let Some(window) = self.try_window(message, prompt, settings, commit)? {
                return Ok(window);
            }
        }
        Err(outrun(self.id).into())
    }

    /// The same of what was read, unless another writer was first: then what that one wrote is known.
    fn try_window(
        &mut self,
        message: Option<&str>,
        prompt: &Prompt,
        settings: longhand_core::PlanSettings,
        commit: CommitWhen,
    ) -> Result<Option<Window>, SessionError> {
        let room = prompt.budget.unwrap_or(self.settings.budget);
        let request = SessionRequest::of(self, message, prompt);
        let mut live = self.planned_on();
        let mut slack = Tokens::ZERO;
        let (digest, mut plan, budget, window) = loop {
            let digest = self.digest();
            let (plan, budget) =
                self.plan(&request, prompt, settings, (slack, commit), &live, &digest);
            // If the summary would lose facts, a few more verbatim rounds are better as long as they fit.
            if matches!(settings.policy, Policy::Rolling(_)) && digest.is_lossy() {
                let window = request.write(&live, prompt, &*self.settings.meter)?;
                if window.tokens <= room {
                    return Ok(Some(window));
                }
            }
            let known = live.len();
            if !plan.is_noop() {
                live.push(plan.batch.clone());
            }
            let window = request.write(&live, prompt, &*self.settings.meter)?;
            live.truncate(known);
            // Another format may count for more than what was planned with.
            if !plan.fits() || window.tokens <= room || slack >= room {
                break (digest, plan, budget, window);
            }
            slack += window.tokens - room;
        };
        if self.ahead.is_some() && plan.batch.fold().is_none() {
            // No batch has what was folded ahead.
            self.reads_all = true;
            self.reload()?;
            return Ok(None);
        }
        let window = Window { shortfall: window.tokens.saturating_sub(room), ..window };
        let recalled = match message {
            Some(message) => {
                self.recalled(message, prompt, &request, &live, &plan.batch, &window)?
            }
            None => None,
        };
        if let (true, Some(RecalledWindow { window, batch })) = (plan.is_noop(), &recalled) {
            let CommitWhen::At(now_ms) = commit else { return Ok(Some(window.clone())) };
            let is_committed = self.commit_recalled(batch.clone(), window.tokens, room, now_ms)?;
            return Ok(is_committed.then(|| window.clone()));
        }
        let now_ms = match commit {
            _ if plan.is_noop() => return Ok(Some(window)),
            CommitWhen::Never if recalled.is_some() => return Ok(recalled.map(|made| made.window)),
            CommitWhen::Never => return Ok(Some(window)),
            // A round that no summariser could describe stays verbatim: over budget is better than lost.
            CommitWhen::IfSummarised(_) if digest.account().is_none() => return Ok(Some(window)),
            CommitWhen::At(now_ms) | CommitWhen::IfSummarised(now_ms) => now_ms,
        };
        let mut receipt = Receipt {
            why: Some(ReceiptCause::of_plan(&budget, self.shown_tokens(room))),
            policy: Some(settings.policy.name().to_owned()),
            ..Receipt::of_plan(&request.path(), &plan, room)
        };
        let mut window = window;
        if let Some(recalled) = recalled {
            // One step undoes both.
            receipt.edits.push(EditReceipt::recalled(recalled.batch.head));
            plan.batch.edits.extend(recalled.batch.edits);
            window = recalled.window;
        }
        let is_committed = self.commit(&plan, &digest, receipt, now_ms)?;
        Ok(is_committed.then_some(window))
    }

    fn plan(
        &self,
        request: &SessionRequest,
        prompt: &Prompt,
        settings: longhand_core::PlanSettings,
        (slack, commit): (Tokens, CommitWhen),
        live: &[Batch],
        digest: &Summarised,
    ) -> (Plan, Budget) {
        let history = History {
            path: request.path(),
            live,
            pins: &self.pins,
            fixed: Size::ZERO,
            wire: request.wire,
        };
        let limit = prompt.budget.unwrap_or(self.settings.budget).saturating_sub(slack);
        let mut budget = Budget::of(limit);
        let mut settings = settings;
        if self.is_undone {
            settings.clip_new_percent = None;
        }
        match &mut settings.policy {
            Policy::Rolling(rolling) if self.is_undone => rolling.rounds_max = usize::MAX,
            Policy::Auto if !self.is_undone => {
                let system = request.system_tokens(&*self.settings.meter);
                budget = budget.with_low_water(self.settings.low_water_percent, system);
                budget.economy = self.economy(request, commit);
            }
            _ => {}
        }
        (Fitting::new(history, &*self.settings.meter).plan(&budget, &settings, digest), budget)
    }

    /// The prices of coming requests, by the entries that are shown.
    fn economy(&self, request: &SessionRequest, commit: CommitWhen) -> Option<Economy> {
        let prices = self.settings.prices?;
        let messages = request.path().messages;
        let scale = Scale::new(&*self.settings.meter);
        let tokens = messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
        let growth = Economy::of(prices, tokens, requests(messages));
        let idle_ms = match commit {
            CommitWhen::At(now_ms) => self.driver.live.lock().idle_ms(now_ms),
            // A preview has no time, and after a round the provider has just read the prefix.
            CommitWhen::Never | CommitWhen::IfSummarised(_) => None,
        };
        let life_ms = self.settings.cache_life_ms.unwrap_or(SessionSettings::CACHE_LIFE_MS);
        let pause = idle_ms.map(|idle_ms| CachePause { life_ms, idle_ms });
        Some(Economy { requests: self.rounds, pause, ..growth })
    }

    fn digest(&self) -> Summarised {
        let settings = &self.settings;
        let instant =
            settings.summarisers.iter().filter(|summariser| summariser.is_instant()).cloned();
        let mut summarisers: Vec<Arc<dyn Summariser>> = instant.collect();
        // Until a model has answered, the built-in summariser stands in for it.
        if summarisers.is_empty() && !settings.summarisers.is_empty() {
            summarisers.push(Arc::new(Extractive));
        }
        let traces = self.shown.iter().filter_map(|entry| match &entry.content {
            ShownContent::Trace(name, summary) => {
                Some((entry.seq, (name.clone(), summary.clone())))
            }
            _ => None,
        });
        let digest =
            Summarised::new(summarisers, Arc::clone(&settings.meter), settings.miner.clone());
        let digest = digest.keeping_state().with_traces(traces.collect());
        let has_models = settings.summarisers.iter().any(|summariser| !summariser.is_instant());
        if has_models { digest.with_story(&self.storyteller) } else { digest }
    }

    /// Commits the batch of a plan; says whether no other writer was first.
    fn commit(
        &mut self,
        plan: &Plan,
        digest: &Summarised,
        receipt: Receipt,
        now_ms: i64,
    ) -> Result<bool, SessionError> {
        // A receipt is worth no exact count of what is far too much for the budget.
        let before = self.shown_tokens(Tokens(self.settings.budget.0.saturating_mul(4)));
        let mut batch = plan.batch.clone();
        // The newest message may not be recorded yet.
        batch.head = batch.head.min(Seq(self.entries.saturating_sub(1)));
        if let After::Entry(Some(last)) = self.place {
            batch.head = batch.head.min(last);
        }
        let receipt = Receipt {
            tokens_before: Some(before.0),
            fold: batch.fold().and_then(|_| digest.account()),
            refused: digest.refused(),
            ..receipt
        };
        if !self.commit_batch(&batch, receipt, now_ms)? {
            return Ok(false);
        }
        if let Some(fold) = batch.fold() {
            self.shown.retain(|entry| !fold.contains(entry.seq));
            self.ahead = None;
            self.tell_story(digest);
        }
        self.live.push(batch);
        keep_newest_state(&mut self.live);
        self.is_undone = false;
        Ok(true)
    }

    /// Has a model summarise what was just folded, in the background.
    fn tell_story(&mut self, digest: &Summarised) {
        let slow =
            self.settings.summarisers.iter().filter(|summariser| !summariser.is_instant()).cloned();
        let claim = StoryClaim::of(&self.archive, self.id);
        self.storyteller.tell(digest, slow.collect(), claim);
    }

    /// Stores a summary that has arrived. Returns whether no summary is being written any more.
    fn hear_story(&mut self, wait: Duration) -> Result<bool, SessionError> {
        if let Some(state) = self.storyteller.hear(wait) {
            self.archive.put_derived(self.id, Storyteller::KEY, &state.write())?;
        }
        Ok(!self.storyteller.is_busy())
    }

    /// Adds a line to the request log: what a model was sent for a window below a system prompt, with tokens and cost.
    pub fn log_request(
        &self,
        call: &ModelCall,
        window: &Window,
        system: &str,
        now_ms: i64,
    ) -> Result<(), SessionError> {
        let edits = self.live.iter().map(|batch| batch.edits.len() as u64).sum();
        let system = Some(system).filter(|system| !system.is_empty());
        let preamble = preamble::write(&call.model, system.into_iter());
        let preamble = self.archive.keep_preamble(Owner::LOCAL, &preamble)?;
        let request = longhand_archive::RequestRecord {
            at_ms: now_ms,
            preamble: Some(preamble),
            head: self.entries.checked_sub(1).map(Seq),
            batch: self.newest_batch,
            model: call.model.clone(),
            agent: "longhand chat".to_owned(),
            limit: self.settings.budget.0,
            before: window.tokens.0,
            window: window.tokens.0,
            sent: call.input,
            cached: call.cached_input,
            output: call.output,
            cost_micros: call.cost_micros,
            edits,
            answer: None,
            is_cut: false,
            is_aside: false,
            is_bypassed: false,
        };
        Ok(self.archive.log_request(self.id, &request)?)
    }
}
