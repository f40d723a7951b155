//! HTTP/1.1 over TCP or TLS, with a limit for every wait.
//!
//! The client of this crate, and of the proxy. It follows no redirects and keeps connections open; a
//! request that meets a connection which the server has closed meanwhile is sent over another one.

mod address;
mod body;
mod connect;
mod error;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body as HttpBody, Bytes};
use hyper::header::PROXY_AUTHORIZATION;
use hyper::{Request, Response};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

pub use self::address::{AddressError, at, is_loopback, parse};
pub use self::body::ResponseBody;
use self::body::Silence;
use self::connect::Connector;
pub use self::connect::trust;
pub use self::error::HttpError;

/// The error of a body that is sent.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request: one that is known, or one that is still to come.
pub type RequestBody = Either<Full<Bytes>, UnsyncBoxBody<Bytes, BoxError>>;

/// How long a connection is kept that nobody uses.
const POOL_IDLE_MAX: Duration = Duration::from_secs(90);

/// Sends requests, over connections that it keeps.
#[derive(Clone)]
pub struct HttpClient {
    client: legacy::Client<Connector, RequestBody>,
    connector: Connector,
    silence: Duration,
}

impl HttpClient {
    /// A client that waits no longer than `connect` for a connection.
    ///
    /// An answer breaks off if nothing comes for `silence`, or up to a quarter of it longer.
    ///
    /// The environment may name a proxy (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`); what is
    /// sent to this machine goes through none.
    pub fn new(connect: Duration, silence: Duration) -> Self {
        Self::with(Connector::new(connect), silence)
    }

    fn with(connector: Connector, silence: Duration) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(POOL_IDLE_MAX)
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        Self { client, connector, silence }
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// The head, and then the first piece of the body, may each take as long as `first`.
    pub async fn send(
        &self,
        mut request: Request<RequestBody>,
        first: Duration,
    ) -> Result<Response<ResponseBody>, HttpError> {
        if let Some(credentials) = self.connector.proxy_credentials(request.uri()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credentials);
        }
        let mut silence = Silence::new(first);
        let mut answer = pin!(self.client.request(request));
        let response = poll_fn(|context| match answer.as_mut().poll(context) {
            Poll::Ready(response) => Poll::Ready(response.map_err(HttpError::from)),
            Poll::Pending => silence.poll(context).map(|()| Err(HttpError::Silent)),
        });
        Ok(response.await?.map(|body| ResponseBody::new(body, silence, self.silence)))
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("silence", &self.silence).finish_non_exhaustive()
    }
}

/// A body that is known.
pub fn full(bytes: impl Into<Bytes>) -> RequestBody {
    Either::Left(Full::new(bytes.into()))
}

/// No body.
pub fn empty() -> RequestBody {
    full(Bytes::new())
}

/// A body that is still to come.
pub fn boxed<B>(body: B) -> RequestBody
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    Either::Right(body.map_err(Into::into).boxed_unsync())
}

#[cfg(test)]
mod tests;
