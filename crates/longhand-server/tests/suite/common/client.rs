//! A client of the proxy.

use std::time::Duration;

use futures_util::{Stream, stream};
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Uri};
use longhand_model::http::{self, HttpClient, HttpError, RequestBody};

const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Client {
    client: HttpClient,
}

impl Default for Client {
    fn default() -> Self {
        Self { client: HttpClient::new(PATIENCE, PATIENCE) }
    }
}

impl Client {
    pub(crate) fn get(&self, url: String) -> Call<'_> {
        self.request(Method::GET, url)
    }

    pub(crate) fn post(&self, url: String) -> Call<'_> {
        self.request(Method::POST, url)
    }

    pub(crate) fn request(&self, method: Method, url: String) -> Call<'_> {
        let mut request = Request::new(http::empty());
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(url).unwrap();
        Call { client: &self.client, request, time: PATIENCE }
    }
}

/// A request that is about to be sent.
pub(crate) struct Call<'c> {
    client: &'c HttpClient,
    request: Request<RequestBody>,
    time: Duration,
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: impl TryInto<HeaderName>, value: &str) -> Self {
        let name = name.try_into().ok().unwrap();
        self.request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        self
    }

    pub(crate) fn bearer_auth(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    pub(crate) fn body(self, body: impl Into<Bytes>) -> Self {
        self.streamed(http::full(body))
    }

    pub(crate) fn streamed(mut self, body: RequestBody) -> Self {
        *self.request.body_mut() = body;
        self
    }

    /// Waits no longer than that for the head of the answer.
    pub(crate) fn timeout(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    pub(crate) async fn send(self) -> Result<Answer, HttpError> {
        let answer = self.client.send(self.request, self.time).await?;
        let (parts, body) = answer.into_parts();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: http::ResponseBody,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) async fn bytes(self) -> Result<Vec<u8>, HttpError> {
        self.body.bytes().await
    }

    pub(crate) async fn text(self) -> Result<String, HttpError> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    pub(crate) fn bytes_stream(mut self) -> impl Stream<Item = Result<Bytes, HttpError>> + Unpin {
        stream::poll_fn(move |context| self.body.poll_chunk(context))
    }
}
