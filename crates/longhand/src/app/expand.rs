//! Opening the handle of something that a window left out.

use longhand_archive::Scope;
use longhand_archive::ask::RoundEntries;
use longhand_core::{Handle, Original};
use longhand_dialect::Conversation;
use serde::{Deserialize, Serialize};

use super::{Access, App, AppError};
use crate::recall;
use crate::unread::UnreadContent;

/// What is brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpandRequest {
    /// The handle, such as `h:3kq9w2m1x7ab`.
    pub handle: String,
    /// Only this round of a fold.
    pub round: Option<u64>,
    /// The session in whose window the handle stands, by its name or id; it is looked into first.
    pub session: Option<String>,
}

impl ExpandRequest {
    /// Opens a handle in any session.
    pub fn of(handle: &str) -> Self {
        Self { handle: handle.to_owned(), ..Self::default() }
    }

    /// Whether the handle is one.
    pub fn check(&self) -> Result<(), AppError> {
        parsed(&self.handle).map(drop)
    }
}

/// What a handle stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Expanded {
    /// The handle.
    pub handle: String,
    /// `text`, or `json` for messages, one on each line.
    pub form: String,
    /// The content.
    pub content: String,
}

impl Expanded {
    fn of(handle: Handle, original: Original) -> Self {
        let (form, content) = match original {
            Original::Text(text) => ("text", text),
            Original::Json(json) => ("json", json),
        };
        Self { handle: handle.to_string(), form: form.to_owned(), content }
    }

    /// Opens a handle in the conversation that a window was made from, which no archive keeps.
    pub fn from_conversation(conversation: &Conversation, handle: &str) -> Result<Self, AppError> {
        let handle = parsed(handle)?;
        let original = recall::open_from(conversation, handle);
        let original = original.ok_or_else(|| AppError::UnknownHandle(handle.to_string()))?;
        Ok(Self::of(handle, original))
    }
}

impl App {
    /// Opens a handle.
    pub fn expand(&self, request: &ExpandRequest) -> Result<Expanded, AppError> {
        let handle = parsed(&request.handle)?;
        let scope = match &request.session {
            Some(name) => Scope::Session(self.look_up(name, Access::Read)?.0.id),
            None => self.scope(),
        };
        if let Some(round) = request.round
            && let Some(found) = recall::open_round(&*self.archive, &scope, handle, round)?
        {
            return Ok(Expanded::of(handle, of_round(&found, round)?));
        }
        match recall::open(&*self.archive, &scope, handle)? {
            None => self.unread(handle),
            Some(_) if request.round.is_some() => Err(AppError::NoRounds),
            Some(recalled) => Ok(Expanded::of(handle, recalled.original)),
        }
    }

    /// An answer that could not be read, as it came; one that is no text comes as base64.
    fn unread(&self, handle: Handle) -> Result<Expanded, AppError> {
        let answer = self.unread_answer(handle)?;
        match answer.map(|answer| answer.content) {
            None => Err(AppError::UnknownHandle(handle.to_string())),
            Some(UnreadContent::Text(text) | UnreadContent::Base64(text)) => {
                Ok(Expanded::of(handle, Original::Text(text)))
            }
            Some(UnreadContent::Withheld) => Err(AppError::NotKept),
        }
    }
}

fn parsed(handle: &str) -> Result<Handle, AppError> {
    Handle::parse(handle).ok_or_else(|| AppError::BadHandle(handle.to_owned()))
}

/// The messages of one round of a fold, a line each.
fn of_round(found: &RoundEntries, round: u64) -> Result<Original, AppError> {
    if found.entries.is_empty() {
        let (first, last) = (*found.rounds.start(), *found.rounds.end());
        return Err(AppError::NoSuchRound { round, first, last });
    }
    let lines: Vec<&str> = found.entries.iter().map(|entry| entry.raw.as_str()).collect();
    Ok(Original::Json(lines.join("\n")))
}
