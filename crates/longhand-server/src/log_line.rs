//! The line that a request leaves in the log, and what it counts for. It has none of the request's text.

use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use longhand::Tokens;
use longhand::time;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::metrics::{Bypass, Metrics, RequestOutcome, TokenFlow};
use crate::redaction::Redaction;
use crate::request::window::RequestWindow;
use crate::settings::LogSink;

/// Gathers the log line of a request, from its head to the last byte of its answer.
///
/// The line is written when this is dropped: an answer may end in many ways.
pub(crate) struct LogLine {
    metrics: Arc<Metrics>,
    log: Option<LogSink>,
    redaction: Redaction,
    started: Instant,
    fields: Map<String, Value>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Longer names are cut: they come from requests.
const NAME_CHARS_MAX: usize = 120;

impl LogLine {
    pub(crate) fn new(
        metrics: &Arc<Metrics>,
        log: Option<&LogSink>,
        redaction: &Redaction,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        metrics.requests.inc();
        metrics.open.inc();
        Self {
            metrics: Arc::clone(metrics),
            log: log.cloned(),
            redaction: redaction.clone(),
            started: Instant::now(),
            fields: Map::new(),
            _permit: permit,
        }
    }

    /// Adds a text that comes from the request.
    pub(crate) fn name(&mut self, key: &str, name: &str) {
        if self.log.is_some() {
            // Before it is cut: half a key would not be recognised.
            let name: String = self.redaction.text(name).chars().take(NAME_CHARS_MAX).collect();
            self.fields.insert(key.to_owned(), name.into());
        }
    }

    pub(crate) fn add(&mut self, key: &str, value: impl Into<Value>) {
        if self.log.is_some() {
            self.fields.insert(key.to_owned(), value.into());
        }
    }

    pub(crate) fn status(&mut self, status: StatusCode) {
        self.add("status", status.as_u16());
    }

    /// Adds the status that the upstream answered with.
    pub(crate) fn upstream_status(&mut self, status: StatusCode) {
        if status.is_client_error() || status.is_server_error() {
            self.metrics.failed.inc();
        }
        self.status(status);
    }

    /// Notes that the upstream did not answer.
    pub(crate) fn unanswered(&mut self, cause: &str) {
        self.metrics.unanswered.inc();
        self.name("cause", cause);
    }

    /// Adds the window that was sent.
    pub(crate) fn window(&mut self, window: &RequestWindow) {
        let compacted = window.is_compacted();
        let outcome = if compacted { RequestOutcome::Compacted } else { RequestOutcome::Passed };
        self.metrics.became(outcome);
        self.name("outcome", if compacted { "compacted" } else { "passed" });
        self.add("edits", window.edits);
        if let (Some(before), Some(after)) = (window.before, window.after) {
            self.metrics.flow(TokenFlow::In, before.0);
            self.metrics.flow(TokenFlow::Sent, after.0);
            self.metrics.flow(TokenFlow::Saved, before.saturating_sub(after).0);
            self.add("tokens_before", before.0);
            self.add("tokens_after", after.0);
        }
        if window.shortfall.0 > 0 {
            self.add("shortfall", window.shortfall.0);
        }
    }

    /// Adds the summary that a client got in the place of one by its model.
    pub(crate) fn compaction(&mut self, agent: &str, before: Tokens, after: Tokens) {
        self.metrics.became(RequestOutcome::Answered);
        self.name("outcome", "answered");
        self.name("compaction_of", agent);
        self.add("tokens_before", before.0);
        self.add("tokens_after", after.0);
        self.status(StatusCode::OK);
    }

    pub(crate) fn bypassed(&mut self, why: Bypass) {
        self.metrics.bypass(why);
        self.name("outcome", "bypassed");
        self.name("why", &format!("{why:?}"));
        self.add("level", "warn");
    }

    /// Adds a notice to the user.
    pub(crate) fn warned(&mut self, notice: &str) {
        self.name("notice", notice);
        self.add("level", "warn");
    }

    pub(crate) fn refused(&mut self, why: &str) {
        self.metrics.became(RequestOutcome::Refused);
        self.name("outcome", "refused");
        self.name("why", why);
    }

    /// Notes that the request is about to be sent: all time so far is ours.
    pub(crate) fn added(&mut self) {
        let seconds = self.started.elapsed().as_secs_f64();
        self.metrics.added.observe(seconds);
        self.add("added_ms", millis(seconds));
    }

    /// Notes how long the head of the answer took.
    pub(crate) fn answered(&mut self, seconds: f64) {
        self.metrics.upstream.observe(seconds);
        self.add("upstream_ms", millis(seconds));
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        self.metrics.open.dec();
        let Some(log) = &self.log else { return };
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mut line = Map::new();
        line.insert("at".to_owned(), time::format(now.as_millis() as i64).into());
        line.insert("level".to_owned(), "info".into());
        line.append(&mut self.fields);
        line.insert("ms".to_owned(), millis(self.started.elapsed().as_secs_f64()));
        log(&Value::Object(line).to_string());
    }
}

fn millis(seconds: f64) -> Value {
    json!((seconds * 1e6).round() / 1e3)
}
