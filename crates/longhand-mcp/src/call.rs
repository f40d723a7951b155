//! Calls of the tools, and their answers.

use longhand::app::for_models::{self, handle_in};
use longhand::app::{Access, App, AppError, ExpandRequest, ListRequest, SearchRequest};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many messages a search finds, if nothing is said, and at most.
const HITS: usize = 8;
const HITS_MAX: usize = 50;

/// How many sessions are listed, if nothing is said, and at most.
const SESSIONS: usize = 20;
const SESSIONS_MAX: usize = 200;

/// A call whose arguments were read.
#[derive(Debug)]
pub(crate) enum Call {
    Search(SearchCall),
    Read(ReadCall),
    Sessions(SessionsCall),
    Pin(PinCall),
}

#[derive(Debug, Deserialize)]
pub(crate) struct SearchCall {
    query: String,
    session: Option<String>,
    role: Option<String>,
    file: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReadCall {
    handle: String,
    grep: Option<String>,
    #[serde(default)]
    from: usize,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SessionsCall {
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PinCall {
    handle: String,
    pinned: Option<bool>,
}

impl Call {
    /// Reads the arguments of a call; fails with what a model can do better.
    pub(crate) fn read(name: &str, arguments: Value, may_write: bool) -> Result<Self, String> {
        match name {
            "search" => read(arguments).map(Self::Search),
            "read" => read(arguments).map(Self::Read),
            "sessions" => read(arguments).map(Self::Sessions),
            "pin" if may_write => read(arguments).map(Self::Pin),
            _ => {
                let pin = if may_write { ", pin" } else { "" };
                Err(format!("There is no such tool. The tools are search, read, sessions{pin}."))
            }
        }
    }

    /// What the archive says to it.
    pub(crate) fn answer(self, app: &App) -> Result<String, AppError> {
        match self {
            Self::Search(call) => call.answer(app),
            Self::Read(call) => call.answer(app),
            Self::Sessions(call) => call.answer(app),
            Self::Pin(call) => call.answer(app),
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("The arguments do not fit: {error}."))
}

impl SearchCall {
    fn answer(self, app: &App) -> Result<String, AppError> {
        let set = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let request = SearchRequest {
            session: set(self.session),
            role: set(self.role),
            file: set(self.file),
            limit: self.limit.unwrap_or(HITS).clamp(1, HITS_MAX),
            ..SearchRequest::of(&self.query)
        };
        Ok(for_models::found(&app.find_entries(&request)?, &|_| true))
    }
}

impl ReadCall {
    fn answer(self, app: &App) -> Result<String, AppError> {
        let grep = self.grep.as_deref().filter(|grep| !grep.trim().is_empty());
        let limit = Some(for_models::MESSAGES_MAX);
        let request = ExpandRequest { limit, ..ExpandRequest::of(handle_in(&self.handle)) };
        Ok(for_models::read(&app.expand(&request)?, grep, self.from, &|_| true))
    }
}

impl SessionsCall {
    fn answer(self, app: &App) -> Result<String, AppError> {
        let limit = Some(self.limit.unwrap_or(SESSIONS).clamp(1, SESSIONS_MAX));
        let listed = app.sessions(&ListRequest { limit, ..ListRequest::default() })?;
        Ok(for_models::sessions(&listed))
    }
}

impl PinCall {
    fn answer(self, app: &App) -> Result<String, AppError> {
        let handle = handle_in(&self.handle);
        let place = handle.rsplit_once(':');
        let place = place.and_then(|(session, entry)| Some((session, entry.parse().ok()?)));
        let Some((session, entry)) = place else {
            return Err(AppError::BadHandle(handle.to_owned()));
        };
        // A handle has the beginning of an id, and only a whole name may be written to.
        let found = app.find(session, Access::Read)?;
        let pinned = self.pinned.unwrap_or(true);
        app.pin(&found.session.id, entry, pinned)?;
        let now = if pinned { "in every window of its session from now on" } else { "not pinned" };
        Ok(format!("Message {handle} is {now}."))
    }
}
