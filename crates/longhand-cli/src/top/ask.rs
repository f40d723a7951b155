//! Asks the archive again and again, on a thread of its own: the screen never waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use longhand::app::{
    App, AppError, ContextMap, ListRequest, ListedSession, RequestLine, UsageBy, UsageRequest,
    UsageRow,
};
use longhand_dialect::Usage;
use longhand_model::Prices;

use crate::config::Config;
use crate::models;

/// The most sessions in the list.
const SESSIONS_MAX: usize = 200;
/// The most requests in the list.
const REQUESTS_MAX: usize = 100;

/// What the archive said.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    /// The newest sessions.
    pub(super) sessions: Vec<ListedSession>,
    /// Whether there are more.
    pub(super) has_more: bool,
    /// The chosen session.
    pub(super) session: Option<ChosenSession>,
    /// The sum of all requests.
    pub(super) total: Option<UsageRow>,
    /// Whether the archive has answered at all.
    pub(super) is_there: bool,
}

/// The session whose window is shown.
#[derive(Clone)]
pub(super) struct ChosenSession {
    pub(super) id: String,
    pub(super) map: ContextMap,
    /// Its requests, newest first.
    pub(super) requests: Vec<RequestLine>,
}

/// A thread that asks.
pub(super) struct Asker {
    choices: Sender<Option<String>>,
    answers: Receiver<Result<Snapshot, String>>,
}

impl Asker {
    /// Begins to ask, every so often.
    pub(super) fn start(app: App, every: Duration) -> Result<Self> {
        let prices = models::prices(&Config::load()?);
        let (choices, chosen) = channel();
        let (sender, answers) = channel();
        thread::Builder::new().name("longhand-top".to_owned()).spawn(move || {
            let mut asked = Asked { app, prices, chosen: None, snapshot: Snapshot::default() };
            loop {
                let answer = asked.again().map_err(|error| error.to_string());
                if sender.send(answer).is_err() {
                    return;
                }
                match chosen.recv_timeout(every) {
                    // Of several choices, the last one counts.
                    Ok(choice) => asked.chosen = chosen.try_iter().last().unwrap_or(choice),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { choices, answers })
    }

    /// What came since the last call, if anything did.
    pub(super) fn answer(&self) -> Option<Result<Snapshot, String>> {
        self.answers.try_iter().last()
    }

    /// Shows another session.
    pub(super) fn choose(&self, id: Option<String>) {
        // The thread is gone only when the program is.
        let _ = self.choices.send(id);
    }
}

struct Asked {
    app: App,
    prices: Prices,
    chosen: Option<String>,
    snapshot: Snapshot,
}

impl Asked {
    fn again(&mut self) -> Result<Snapshot, AppError> {
        let request = ListRequest { limit: Some(SESSIONS_MAX), ..ListRequest::default() };
        let page = self.app.sessions(&request)?;
        // Adding up all usage takes longer than the rest: only if a request was sent.
        let figures = |sessions: &[ListedSession]| -> Vec<(String, u64)> {
            sessions.iter().map(|session| (session.id.clone(), session.requests)).collect()
        };
        let is_new = figures(&page.items) != figures(&self.snapshot.sessions);
        if is_new || self.snapshot.total.is_none() {
            self.snapshot.total = Some(self.usage()?);
        }
        self.snapshot.has_more = page.next.is_some();
        self.snapshot.sessions = page.items;
        self.snapshot.is_there = true;
        let known = |id: &&String| self.snapshot.sessions.iter().any(|session| &session.id == *id);
        let chosen = self.chosen.as_ref().filter(known).cloned();
        let id =
            chosen.or_else(|| self.snapshot.sessions.first().map(|session| session.id.clone()));
        self.snapshot.session = id.map(|id| self.session(id)).transpose()?;
        Ok(self.snapshot.clone())
    }

    fn session(&self, id: String) -> Result<ChosenSession, AppError> {
        let map = self.app.context_map(&id, None)?;
        let requests = self.app.request_page(&id, None, REQUESTS_MAX)?.items;
        Ok(ChosenSession { id, map, requests })
    }

    fn usage(&self) -> Result<UsageRow, AppError> {
        let price = |model: &str, usage: &Usage| {
            self.prices.named(model).map(|price| longhand_model::cost_micros(&price, usage))
        };
        Ok(self.app.usage(&UsageRequest { by: UsageBy::Model, limit: Some(1) }, &price)?.total)
    }
}
