//! What was recorded, and the window to send.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AppError;
use crate::{Recorded, Session, SessionError, Window};

/// A round that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordReport {
    /// The name of the session.
    pub session: String,
    /// The round's number, from 0.
    pub round: u64,
    /// How many rounds were folded.
    pub folded: u64,
    /// The tokens of the window.
    pub tokens: u64,
    /// How many tokens it is over the budget, if nothing more can be folded.
    pub over: Option<u64>,
    /// What went wrong after the round was durable. It is recorded all the same.
    pub problem: Option<String>,
}

/// The window of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WindowReport {
    /// The name of the session.
    pub session: String,
    /// The tokens of the window.
    pub tokens: u64,
    /// How many tokens it is over the budget.
    pub shortfall: u64,
    /// How many rounds the session has.
    pub rounds: u64,
    /// The first round that is sent verbatim, and the round after the last one.
    pub verbatim: [u64; 2],
    /// The text of the fold, if anything is folded.
    pub summary: Option<String>,
    /// The messages to send, in the format that was asked for.
    pub window: Value,
}

impl RecordReport {
    /// What became of a round.
    pub fn of(session: &Session, recorded: &Recorded) -> Self {
        Self {
            session: session.name().to_owned(),
            round: recorded.round,
            folded: recorded.folded,
            tokens: recorded.tokens.0,
            over: recorded.over.map(|over| over.0),
            problem: recorded.problem.as_ref().map(ToString::to_string),
        }
    }
}

impl WindowReport {
    /// A window of a session.
    pub fn of(session: &Session, window: &Window) -> Result<Self, AppError> {
        let not_json = |error| SessionError::Invalid(format!("the window is not JSON: {error}"));
        let verbatim = session.verbatim();
        Ok(Self {
            session: session.name().to_owned(),
            tokens: window.tokens.0,
            shortfall: window.shortfall.0,
            rounds: verbatim.end,
            verbatim: [verbatim.start, verbatim.end],
            summary: session.summary().map(str::to_owned),
            window: serde_json::from_str(&window.json).map_err(not_json)?,
        })
    }
}
