//! One attempt to get an answer.

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use hyper::http::request::Builder;
use hyper::{Request, Response, Uri};
use longhand_dialect::{Reply, ReplyError, ReplyReader, SseReader, Stop, recognise};
use tokio::time::{Instant, timeout_at};

use crate::http::{self, HttpError, RequestBody};
use crate::secret::presentable;
use crate::{Api, Endpoint, ModelClient, ModelError, Wait, retry};

/// The most of an error's body that is read.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// One attempt.
pub(crate) struct Sending<'c> {
    pub(crate) client: &'c ModelClient,
    pub(crate) endpoint: &'c Endpoint,
    /// Until when the whole call may last.
    pub(crate) total: Instant,
}

impl Sending<'_> {
    pub(crate) async fn run(
        &self,
        address: &Uri,
        key: Option<&(HeaderName, HeaderValue)>,
        body: String,
        stream: bool,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let limits = &self.client.limits;
        let first_byte = Instant::now() + limits.first_byte;
        let request = Request::post(address)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, if stream { "text/event-stream" } else { "application/json" });
        let response = self.send(request, http::full(body), key, first_byte).await?;
        let answer = self.answer(response, first_byte, stream, on_delta);
        self.until(self.total, Wait::Total, answer).await?
    }

    /// Asks for the list of models.
    pub(crate) async fn models(
        &self,
        address: &Uri,
        key: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<String, ModelError> {
        let request = Request::get(self.beside(address, "models"));
        self.text(request, http::empty(), key).await
    }

    /// Asks what texts mean.
    pub(crate) async fn embeddings(
        &self,
        address: &Uri,
        key: Option<&(HeaderName, HeaderValue)>,
        body: String,
    ) -> Result<String, ModelError> {
        let request = Request::post(self.beside(address, "embeddings"));
        let request = request.header(CONTENT_TYPE, "application/json");
        self.text(request, http::full(body), key).await
    }

    /// Another address of the same endpoint.
    fn beside(&self, address: &Uri, path: &str) -> Uri {
        let base = address.path().strip_suffix(self.endpoint.api.path()).unwrap_or_default();
        http::at(address, &format!("{base}{path}")).unwrap_or_default()
    }

    /// Sends a request and reads its answer as a text.
    async fn text(
        &self,
        request: Builder,
        body: RequestBody,
        key: Option<&(HeaderName, HeaderValue)>,
    ) -> Result<String, ModelError> {
        let response = self.send(request, body, key, self.total).await?;
        let mut body = LimitedBody::new(self, response.into_body(), self.total);
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next(self.client.limits.response_bytes_max).await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a request and waits for the head of its answer, which must be a success.
    async fn send(
        &self,
        mut request: Builder,
        body: RequestBody,
        key: Option<&(HeaderName, HeaderValue)>,
        first_byte: Instant,
    ) -> Result<Response<http::ResponseBody>, ModelError> {
        request = request.header(USER_AGENT, concat!("longhand/", env!("CARGO_PKG_VERSION")));
        if self.endpoint.api == Api::Anthropic {
            request = request.header("anthropic-version", "2023-06-01");
        }
        if let Some((name, value)) = key {
            request = request.header(name, value);
        }
        let wrong = |_| self.wrong("a request cannot be made of its address");
        let request = request.body(body).map_err(wrong)?;
        let sent = self.client.http.send(request, self.client.limits.total);
        let response = match self.until(first_byte, Wait::FirstByte, sent).await? {
            Ok(response) => response,
            Err(HttpError::Late) => return Err(self.timeout(Wait::Connect)),
            Err(error) => return Err(self.transport(&error)),
        };
        let status = response.status();
        if status.is_redirection() {
            return Err(ModelError::Redirected { endpoint: self.name(), status: status.as_u16() });
        }
        if !status.is_success() {
            return Err(self.refusal(response, first_byte).await);
        }
        Ok(response)
    }

    /// Reads an answer, whole or in events, by what it is and not by what was asked for.
    async fn answer(
        &self,
        response: Response<http::ResponseBody>,
        first_byte: Instant,
        stream: bool,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let kind = header(response.headers(), &CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let in_events = match kind.as_str() {
            "text/event-stream" => true,
            "" => stream,
            kind if kind == "application/json" || kind.ends_with("+json") => false,
            _ => {
                let content_type = presentable(&kind, self.endpoint.key.as_ref());
                return Err(ModelError::ContentType { endpoint: self.name(), content_type });
            }
        };
        let mut body = LimitedBody::new(self, response.into_body(), first_byte);
        let reply = if in_events {
            self.events(&mut body, on_delta).await?
        } else {
            let mut bytes = Vec::new();
            while let Some(chunk) = body.next(self.client.limits.response_bytes_max).await? {
                bytes.extend_from_slice(&chunk);
            }
            let text = String::from_utf8(bytes).map_err(|_| self.unreadable("not UTF-8"))?;
            if text.trim().is_empty() {
                return Err(ModelError::Empty { endpoint: self.name() });
            }
            let reply = self.read(Reply::read(self.endpoint.api.dialect(), &text))?;
            if !reply.text.is_empty() {
                on_delta(&reply.text);
            }
            reply
        };
        // A model that thought until its room was used up has answered; its caller can give it more.
        if reply.is_empty() && reply.stop != Stop::Length {
            return Err(ModelError::Empty { endpoint: self.name() });
        }
        Ok(reply)
    }

    async fn events(
        &self,
        body: &mut LimitedBody<'_>,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Reply, ModelError> {
        let mut events = SseReader::new(self.client.limits.response_bytes_max);
        let mut reader = ReplyReader::new(self.endpoint.api.dialect());
        let mut is_empty = true;
        while !reader.is_done() {
            let Some(chunk) = body.next(self.client.limits.response_bytes_max).await? else {
                break;
            };
            for event in events.push(&chunk).map_err(|_| self.too_large())? {
                is_empty = false;
                if let Some(text) = self.read(reader.push(&event))? {
                    on_delta(&text);
                }
            }
        }
        if let Some(event) = events.finish() {
            is_empty = false;
            if let Some(text) = self.read(reader.push(&event))? {
                on_delta(&text);
            }
        }
        if is_empty && body.bytes == 0 {
            return Err(ModelError::Empty { endpoint: self.name() });
        }
        if is_empty {
            return Err(self.unreadable("no event"));
        }
        self.read(reader.finish())
    }

    /// Makes an error of an answer that is one.
    async fn refusal(
        &self,
        response: Response<http::ResponseBody>,
        first_byte: Instant,
    ) -> ModelError {
        let status = response.status().as_u16();
        let wish = header(response.headers(), &RETRY_AFTER);
        let retry_after = wish.and_then(|wish| retry::retry_after(&wish, self.client.clock.date()));
        let mut body = LimitedBody::new(self, response.into_body(), first_byte);
        let mut bytes = Vec::new();
        // An unreadable body is no great loss, since the status says enough.
        while let Ok(Some(chunk)) = body.next(ERROR_BYTES_MAX).await {
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&bytes);
        let (code, message) = match Reply::read(self.endpoint.api.dialect(), &text) {
            Err(ReplyError::Provider { code, message, .. }) => (code, message),
            _ => (None, text.trim().to_owned()),
        };
        let message = self.presentable(&message);
        let endpoint = self.name();
        if let Some(overflow) = recognise(status, &text) {
            return ModelError::TooLong { endpoint, overflow, message };
        }
        let is_out_of_money = code.is_some_and(|code| code.contains("insufficient_quota"));
        match status {
            429 if !is_out_of_money => ModelError::RateLimited { endpoint, message, retry_after },
            401 | 403 => ModelError::Unauthorised { endpoint, status, message },
            408 | 500.. => ModelError::Server { endpoint, status, message, retry_after },
            _ => ModelError::Rejected { endpoint, status, message },
        }
    }

    fn read<T>(&self, result: Result<T, ReplyError>) -> Result<T, ModelError> {
        result.map_err(|error| match error {
            ReplyError::Provider { message, overflow: Some(overflow), .. } => {
                let message = self.presentable(&message);
                ModelError::TooLong { endpoint: self.name(), overflow, message }
            }
            ReplyError::Provider { code, message, .. } => ModelError::Provider {
                endpoint: self.name(),
                code: code.map(|code| self.presentable(&code)),
                message: self.presentable(&message),
            },
            ReplyError::Cut => ModelError::Cut { endpoint: self.name() },
            other => ModelError::Unreadable { endpoint: self.name(), what: other.to_string() },
        })
    }

    /// Waits for something until its time limit or the limit of the whole call is over.
    async fn until<T>(
        &self,
        deadline: Instant,
        wait: Wait,
        future: impl Future<Output = T>,
    ) -> Result<T, ModelError> {
        timeout_at(deadline.min(self.total), future)
            .await
            .map_err(|_| self.timeout(if deadline < self.total { wait } else { Wait::Total }))
    }

    fn name(&self) -> String {
        self.endpoint.name.clone()
    }

    fn presentable(&self, message: &str) -> String {
        presentable(message, self.endpoint.key.as_ref())
    }

    fn timeout(&self, wait: Wait) -> ModelError {
        ModelError::Timeout { endpoint: self.name(), wait }
    }

    fn wrong(&self, what: &str) -> ModelError {
        ModelError::Endpoint { endpoint: self.name(), what: what.to_owned() }
    }

    fn transport(&self, error: &HttpError) -> ModelError {
        let what = self.presentable(&error.to_string());
        ModelError::Transport { endpoint: self.name(), what }
    }

    fn unreadable(&self, what: &str) -> ModelError {
        let what = format!("the answer is {what}");
        ModelError::Unreadable { endpoint: self.name(), what }
    }

    fn too_large(&self) -> ModelError {
        let bytes_max = self.client.limits.response_bytes_max;
        ModelError::TooLarge { endpoint: self.name(), bytes_max }
    }
}

/// The bytes of an answer, within its limits.
struct LimitedBody<'s> {
    sending: &'s Sending<'s>,
    incoming: http::ResponseBody,
    /// Until when the first byte may come.
    first_byte: Instant,
    bytes: usize,
}

impl<'s> LimitedBody<'s> {
    fn new(sending: &'s Sending<'s>, incoming: http::ResponseBody, first_byte: Instant) -> Self {
        Self { sending, incoming, first_byte, bytes: 0 }
    }

    async fn next(&mut self, bytes_max: usize) -> Result<Option<Bytes>, ModelError> {
        let sending = self.sending;
        let chunk = if self.bytes == 0 {
            sending.until(self.first_byte, Wait::FirstByte, self.incoming.chunk()).await?
        } else {
            self.incoming.chunk().await
        };
        let chunk = match chunk.transpose() {
            Ok(chunk) => chunk,
            Err(HttpError::Silent) => return Err(sending.timeout(Wait::Idle)),
            Err(error) if self.bytes == 0 => return Err(sending.transport(&error)),
            Err(_) => return Err(ModelError::Cut { endpoint: sending.name() }),
        };
        self.bytes += chunk.as_ref().map_or(0, Bytes::len);
        if self.bytes > bytes_max {
            return Err(sending.too_large());
        }
        Ok(chunk)
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Where requests go.
pub(crate) fn address(endpoint: &Endpoint) -> Result<Uri, ModelError> {
    let wrong = |what: String| ModelError::Endpoint { endpoint: endpoint.name.clone(), what };
    let base = http::parse(&endpoint.base_url)
        .map_err(|error| wrong(format!("its address cannot be used: {error}")))?;
    let path = match base.path().trim_end_matches('/') {
        "" => "/v1",
        path => path,
    };
    let path = format!("{path}/{}", endpoint.api.path());
    http::at(&base, &path).ok_or_else(|| wrong("its address is too long".to_owned()))
}

pub(crate) fn key_header(
    endpoint: &Endpoint,
) -> Result<Option<(HeaderName, HeaderValue)>, ModelError> {
    let Some(key) = &endpoint.key else { return Ok(None) };
    let (name, text) = match endpoint.api {
        Api::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
        Api::Chat | Api::Responses => (AUTHORIZATION, format!("Bearer {}", key.expose())),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| ModelError::Endpoint {
        endpoint: endpoint.name.clone(),
        what: "its key has characters that a header cannot hold".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}
