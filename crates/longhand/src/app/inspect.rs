//! What is sent of a session, and what is left of its window.

use longhand_archive::{Page, RequestRecord, SessionInfo};
use longhand_core::{Scale, Tokens};
use longhand_dialect::Dialect;
use serde::{Deserialize, Serialize};

use super::resume_command::resume_command;
use super::{Access, App, AppError, RegretSums, ResumeCommand, SessionSummary, Timestamp, regret};
use crate::{Session, SessionSettings, SharedMeter, meter_for, preamble, unread};

/// The budget that a window is looked at with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewSettings {
    /// This budget, whatever the newest request had.
    pub budget: Option<u64>,
    /// The budget of a session for which no request is known.
    pub budget_default: Option<u64>,
}

/// A session and its window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its wire format.
    #[serde(default)]
    pub dialect: String,
    /// The program that sent the newest request; empty if that is not known.
    #[serde(default)]
    pub agent: String,
    /// The model that it asked.
    #[serde(default)]
    pub model: String,
    /// The folder that the agent worked in; empty if that is not known.
    #[serde(default)]
    pub project: String,
    /// How many entries it has, on all paths.
    pub entries: u64,
    /// How many rounds its newest path has.
    pub rounds: u64,
    /// How many requests were sent.
    #[serde(default)]
    pub requests: u64,
    /// When it began.
    #[serde(default)]
    pub begun: Timestamp,
    /// The time of its newest entry.
    #[serde(default)]
    pub last: Timestamp,
    /// What goes on with it, if that is known.
    #[serde(default)]
    pub resume: Option<ResumeCommand>,
    /// The entries that stay in every window.
    pub pins: Vec<u64>,
    /// The most tokens of its window.
    pub budget: u64,
    /// The ids of the sessions that it continues, oldest first.
    pub earlier: Vec<String>,
    /// The user's first words.
    pub task: String,
    /// The first round that is sent verbatim, and the round after the last one.
    pub verbatim: [u64; 2],
    /// The tokens of the window without system prompt and tools.
    pub tokens: u64,
    /// Those of the fold among them.
    pub summary_tokens: u64,
    /// The tokens of system prompt and tools, if the archive has them.
    pub prompt_tokens: Option<u64>,
    /// The text of the fold, if anything is folded.
    pub summary: Option<String>,
    /// What takes up its window.
    pub map: WindowMap,
    /// The sessions that it continues, oldest first.
    pub continues: Vec<SessionSummary>,
    /// The newest request.
    pub newest: Option<NewestRequest>,
    /// How many answers could not be read, or not all of them; the log says why.
    pub unread: u64,
    /// How many edits were made of it, and how many of them were regretted.
    #[serde(default)]
    pub edits: RegretSums,
}

/// What takes up a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowMap {
    /// The most tokens it may have.
    pub budget: u64,
    /// The tokens of system prompt and tools, if they are known.
    pub system: Option<u64>,
    /// The tokens of the fold.
    pub folded: u64,
    /// How many rounds are folded.
    pub folded_rounds: u64,
    /// The tokens of what is shown as it was said.
    pub verbatim: u64,
    /// How many rounds that is.
    pub verbatim_rounds: u64,
    /// The tokens that are free.
    pub free: u64,
    /// How many tokens it is over the budget; the next window leaves out what does not fit.
    pub over: u64,
}

/// The newest request of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewestRequest {
    /// The tokens of its window.
    pub tokens: u64,
    /// What it would have had without edits.
    pub tokens_ever: u64,
    /// How many edits its window had.
    pub edits: u64,
}

impl WindowMap {
    /// The window of a session; the tokens of system prompt and tools are known to the caller.
    pub fn of(session: &mut Session, prompt: Option<Tokens>) -> Result<Self, AppError> {
        let (total, folded, budget) =
            (session.tokens()?, session.summary_tokens(), session.budget());
        let verbatim = session.verbatim();
        let all = total + prompt.unwrap_or_default();
        Ok(Self {
            budget: budget.0,
            system: prompt.map(|tokens| tokens.0),
            folded: folded.0,
            folded_rounds: verbatim.start,
            verbatim: total.saturating_sub(folded).0,
            verbatim_rounds: verbatim.end - verbatim.start,
            free: budget.saturating_sub(all).0,
            over: all.saturating_sub(budget).0,
        })
    }
}

impl App {
    /// Shows what is sent of a session: what is folded, what is verbatim, what is free.
    pub fn show(&self, name: &str, settings: &ViewSettings) -> Result<SessionView, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let head = self.archive.head(info.id)?.unwrap_or_default();
        let (mut session, newest) = self.viewed(&info, settings)?;
        let mut earlier = self.chain_up_to(&info)?;
        earlier.pop();
        let prompt = self.prompt_tokens(&info, newest.as_ref())?;
        let verbatim = session.verbatim();
        let notes = self.notes_of(info.id)?;
        let batches = self.archive.batches(info.id, Page::ALL)?.items;
        Ok(SessionView {
            id: info.id.to_string(),
            name: info.name.clone(),
            dialect: info.dialect.clone(),
            agent: Some(&info.usage.agent)
                .filter(|agent| !agent.is_empty())
                .unwrap_or(&info.origin.agent)
                .clone(),
            model: info.usage.model.clone(),
            project: info.origin.project.clone(),
            requests: info.usage.sums.requests,
            begun: Timestamp(info.begun_ms),
            last: Timestamp(info.last_ms),
            resume: resume_command(&info),
            entries: head.entries,
            rounds: head.rounds,
            pins: head.pins.iter().map(|seq| seq.0).collect(),
            budget: session.budget().0,
            earlier: earlier.iter().map(|info| info.id.to_string()).collect(),
            task: self.task(earlier.first().unwrap_or(&info)),
            verbatim: [verbatim.start, verbatim.end],
            tokens: session.tokens()?.0,
            summary_tokens: session.summary_tokens().0,
            prompt_tokens: prompt.map(|tokens| tokens.0),
            summary: session.summary().map(str::to_owned),
            map: WindowMap::of(&mut session, prompt)?,
            continues: earlier.iter().map(SessionSummary::of).collect(),
            newest: newest.map(|request| NewestRequest {
                tokens: request.window,
                tokens_ever: request.before,
                edits: request.edits,
            }),
            unread: unread::among(&notes).len() as u64,
            edits: regret::sums(info.id, &batches, &notes),
        })
    }

    /// What takes up the window of a session.
    pub fn map(&self, name: &str, settings: &ViewSettings) -> Result<WindowMap, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let (mut session, newest) = self.viewed(&info, settings)?;
        WindowMap::of(&mut session, self.prompt_tokens(&info, newest.as_ref())?)
    }

    /// Opens a session to look at it, with the budget and the meter that its newest request had.
    pub(super) fn viewed(
        &self,
        info: &SessionInfo,
        view: &ViewSettings,
    ) -> Result<(Session, Option<RequestRecord>), AppError> {
        let mut settings = SessionSettings::new()?;
        if let Some(budget) = view.budget.or(view.budget_default) {
            settings.budget = Tokens(budget);
        }
        let newest = self.newest_request(info.id)?;
        if let Some(newest) = &newest {
            if view.budget.is_none() && newest.limit > 0 {
                settings.budget = Tokens(newest.limit);
            }
            settings.meter = meter_of(info, newest)?;
        }
        Ok((self.opened(info, settings)?, newest))
    }

    /// How many tokens the system prompt and the tools of the newest request have, if the archive has them.
    fn prompt_tokens(
        &self,
        info: &SessionInfo,
        newest: Option<&RequestRecord>,
    ) -> Result<Option<Tokens>, AppError> {
        let Some((newest, id)) = newest.and_then(|newest| Some((newest, newest.preamble?))) else {
            return Ok(None);
        };
        let Some(written) = self.archive.preamble(info.owner, id)? else { return Ok(None) };
        Ok(preamble::tokens(&written, &Scale::new(&*meter_of(info, newest)?)))
    }
}

/// Counts as the model of a request does.
pub(super) fn meter_of(
    info: &SessionInfo,
    request: &RequestRecord,
) -> Result<SharedMeter, AppError> {
    let dialect = info.dialect.parse().unwrap_or(Dialect::Chat);
    Ok(meter_for(dialect, Some(&request.model))?)
}
