//! One request, sent with care.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhand_dialect::Reply;
use tokio::time::Instant;

use crate::breaker::Breaker;
use crate::http::HttpClient;
use crate::request::Quirks;
use crate::retry;
use crate::sending::{Sending, address, key_header};
use crate::{Clock, Endpoint, Model, ModelError, ModelRequest, SystemClock};

/// How long and how often to try, and how much to read.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// The longest wait for a connection.
    pub connect: Duration,
    /// The longest wait for the first byte of the answer.
    pub first_byte: Duration,
    /// The longest silence in the middle of an answer.
    pub idle: Duration,
    /// The longest time for everything, all attempts included.
    pub total: Duration,
    /// The most bytes of an answer that are read.
    pub response_bytes_max: usize,
    /// The most attempts; a request is tried again only if it fails before the answer begins.
    pub attempts: u32,
    /// The longest wait before the second attempt; it doubles with each.
    pub backoff: Duration,
    /// The longest wait before any attempt.
    pub backoff_max: Duration,
    /// The longest wait that an endpoint may wish for; if it wishes for more, the call fails at once.
    pub retry_after_max: Duration,
    /// How many failures in a row give an endpoint a rest.
    pub failures_max: u32,
    /// How long the rest is.
    pub rest: Duration,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(2),
            idle: Duration::from_mins(1),
            total: Duration::from_mins(10),
            response_bytes_max: 32 << 20,
            attempts: 3,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(20),
            retry_after_max: Duration::from_mins(1),
            failures_max: 3,
            rest: Duration::from_secs(30),
        }
    }
}

/// Asks models, at any number of endpoints.
///
/// A call is cancelled by dropping its future.
pub struct ModelClient {
    pub(crate) http: HttpClient,
    pub(crate) limits: ClientLimits,
    pub(crate) clock: Arc<dyn Clock>,
    breakers: Mutex<HashMap<String, Breaker>>,
    quirks: Mutex<HashMap<String, Quirks>>,
}

impl ModelClient {
    /// A client within limits.
    pub fn new(limits: ClientLimits) -> Self {
        Self {
            http: HttpClient::new(limits.connect, limits.idle),
            clock: Arc::new(SystemClock::default()),
            breakers: Mutex::default(),
            quirks: Mutex::default(),
            limits,
        }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Asks a model. Text is handed to `on_delta` as it comes; the whole answer is given in the end.
    pub async fn complete(
        &self,
        model: &Model,
        request: &ModelRequest,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let endpoint = &model.endpoint;
        let address = address(endpoint)?;
        let key = key_header(endpoint)?;
        let total = Instant::now() + self.limits.total;
        let who = model.to_string();
        let mut attempt = 0;
        let mut last = None;
        loop {
            let quirks = lock(&self.quirks).get(&who).copied().unwrap_or_default();
            let body = request.body(model, quirks);
            // The last error says more than that the breaker is open because of it.
            let admission =
                self.admit(endpoint).map_err(|resting| last.take().unwrap_or(resting))?;
            let sent = Sending { client: self, endpoint, total };
            let outcome =
                sent.run(&address, key.as_ref(), body, request.stream, &mut *on_delta).await;
            admission.settle(outcome.as_ref().err());
            let error = match outcome {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            if let ModelError::Rejected { status: 400 | 422, message, .. } = &error
                && lock(&self.quirks).entry(who.clone()).or_default().learn(request, message)
            {
                continue;
            }
            attempt += 1;
            if attempt >= self.limits.attempts || !error.is_tried_again() {
                return Err(error);
            }
            let backoff = retry::backoff(attempt - 1, self.limits.backoff, self.limits.backoff_max);
            let wait = match error.retry_after() {
                Some(wish) if wish > self.limits.retry_after_max => return Err(error),
                Some(wish) => wish + backoff.min(wish / 10),
                None => backoff,
            };
            if Instant::now() + wait >= total {
                return Err(error);
            }
            last = Some(error);
            self.clock.sleep(wait).await;
        }
    }

    /// Finds out whether an endpoint answers and takes the key, by asking for its list of models.
    pub async fn probe(&self, endpoint: &Endpoint) -> Result<(), ModelError> {
        self.models(endpoint).await.map(drop)
    }

    /// Asks an endpoint for its list of models, and returns the answer as it came.
    pub async fn models(&self, endpoint: &Endpoint) -> Result<String, ModelError> {
        let (address, key) = (address(endpoint)?, key_header(endpoint)?);
        let total = Instant::now() + self.limits.connect * 2;
        Sending { client: self, endpoint, total }.models(&address, key.as_ref()).await
    }

    /// Asks an endpoint for what texts mean, once, and returns the answer as it came.
    pub(crate) async fn embeddings(
        &self,
        endpoint: &Endpoint,
        body: String,
    ) -> Result<String, ModelError> {
        let (address, key) = (address(endpoint)?, key_header(endpoint)?);
        let admission = self.admit(endpoint)?;
        let total = Instant::now() + self.limits.first_byte;
        let sending = Sending { client: self, endpoint, total };
        let outcome = sending.embeddings(&address, key.as_ref(), body).await;
        admission.settle(outcome.as_ref().err());
        outcome
    }

    fn admit<'c>(&'c self, endpoint: &'c Endpoint) -> Result<Admission<'c>, ModelError> {
        let now = self.clock.now();
        self.breaker(endpoint, |breaker| breaker.admit(now))
            .map_err(|rest| ModelError::Resting { endpoint: endpoint.name.clone(), rest })?;
        Ok(Admission { client: self, endpoint, settled: false })
    }

    fn breaker<T>(&self, endpoint: &Endpoint, act: impl FnOnce(&mut Breaker) -> T) -> T {
        let name = format!("{} {}", endpoint.name, endpoint.base_url);
        let fresh = || Breaker::new(self.limits.failures_max, self.limits.rest);
        act(lock(&self.breakers).entry(name).or_insert_with(fresh))
    }
}

impl std::fmt::Debug for ModelClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that the breaker let pass and wants to hear about, even if it is dropped.
struct Admission<'c> {
    client: &'c ModelClient,
    endpoint: &'c Endpoint,
    settled: bool,
}

impl Admission<'_> {
    fn settle(mut self, error: Option<&ModelError>) {
        self.settled = true;
        let now = self.client.clock.now();
        self.client.breaker(self.endpoint, |breaker| {
            if error.is_some_and(ModelError::is_failure_of_endpoint) {
                breaker.fail(now);
            } else {
                breaker.succeed();
            }
        });
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let now = self.client.clock.now();
            self.client.breaker(self.endpoint, |breaker| breaker.abandon(now));
        }
    }
}
