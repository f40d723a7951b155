//! Sessions on their way out of an archive.

use std::io::{BufWriter, Write};

use longhand_archive::SessionId;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError, Timestamp, ViewSettings};
use crate::transfer;

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExportReport {
    /// The name of the conversation.
    pub name: String,
    /// The ids of its sessions, oldest first.
    pub sessions: Vec<String>,
    /// How many entries they have.
    pub entries: u64,
}

/// The window of a session, without what it left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionState {
    /// The name of the session.
    pub id: String,
    /// The text of the fold; empty if nothing is folded.
    pub summary: String,
    /// The verbatim rounds as plain words.
    pub window: Vec<StateRound>,
    /// How many rounds the session has.
    pub total_rounds: u64,
    /// The tokens of the window.
    pub token_estimate: u64,
}

/// A round as plain words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StateRound {
    /// What the user said.
    pub user: String,
    /// What the assistant said.
    pub assistant: String,
    /// When it ended.
    pub ts: Timestamp,
    /// The tools that were called.
    pub tool_calls: Vec<StateToolCall>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StateToolCall {
    /// The name of the tool.
    pub name: String,
    /// What it did.
    pub summary: String,
}

impl App {
    /// Writes a conversation with all that is kept of it, as JSON Lines ([`transfer`]).
    pub fn export(&self, name: &str, out: &mut dyn Write) -> Result<ExportReport, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let sessions = self.chain_of(&info)?;
        let ids: Vec<SessionId> = sessions.iter().map(|info| info.id).collect();
        let mut out = BufWriter::new(out);
        let entries = transfer::export(&*self.archive, &ids, &info.name, &mut out)?;
        out.flush()?;
        let sessions = ids.iter().map(ToString::to_string).collect();
        Ok(ExportReport { name: info.name, sessions, entries })
    }

    /// The window of a session as plain rounds.
    pub fn state(&self, name: &str, settings: &ViewSettings) -> Result<SessionState, AppError> {
        let (info, _) = self.look_up(name, Access::Read)?;
        let (mut session, _) = self.viewed(&info, settings)?;
        let rounds = session.plain_rounds()?.into_iter().map(|round| StateRound {
            user: round.user,
            assistant: round.assistant,
            ts: Timestamp(round.at_ms),
            tool_calls: round
                .tools
                .into_iter()
                .map(|(name, summary)| StateToolCall { name, summary })
                .collect(),
        });
        Ok(SessionState {
            summary: session.summary().unwrap_or_default().to_owned(),
            window: rounds.collect(),
            total_rounds: info.rounds,
            token_estimate: session.tokens()?.0,
            id: info.name,
        })
    }
}
