//! Connections to servers: directly or through a proxy, with TLS where the address says so.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{future::Future, io};

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::error::describe;
use super::{BoxError, HttpError, is_loopback};

/// How soon it is noticed that a server is gone without a word.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    pub(super) proxies: Option<Arc<Matcher>>,
    /// Other certificates than those that this machine trusts.
    pub(super) tls: Option<Arc<ClientConfig>>,
    limit: Duration,
}

impl Connector {
    /// Opens connections within a time limit, through the proxies that the environment names.
    pub(super) fn new(limit: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Self { tcp, proxies: Some(Arc::new(Matcher::from_env())), tls: None, limit }
    }

    /// The credentials for the proxy that a request itself is sent to; a tunnel has its own way.
    pub(super) fn proxy_credentials(&self, uri: &Uri) -> Option<HeaderValue> {
        let proxy = self.proxy(uri).filter(|_| !is_secure(uri))?;
        proxy.basic_auth().cloned()
    }

    fn proxy(&self, uri: &Uri) -> Option<Intercept> {
        self.proxies.as_ref().filter(|_| !is_loopback(uri))?.intercept(uri)
    }

    async fn open(mut self, uri: Uri) -> Result<HttpConnection, BoxError> {
        let proxy = self.proxy(&uri);
        let direct = Self { proxies: None, ..self.clone() };
        let wire = match proxy {
            None => HttpConnection::new(self.tcp.call(uri.clone()).await?.into_inner()),
            Some(proxy) if !matches!(proxy.uri().scheme_str(), Some("http" | "https")) => {
                return Err("the proxy that the environment names is no HTTP proxy".into());
            }
            Some(proxy) if is_secure(&uri) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), direct);
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                tunnel.call(uri.clone()).await?
            }
            Some(proxy) => {
                let wire = Box::pin(direct.open(proxy.uri().clone())).await?;
                return Ok(HttpConnection { is_proxied: true, ..wire });
            }
        };
        if !is_secure(&uri) {
            return Ok(wire);
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tls = TlsConnector::from(self.tls.map_or_else(trust, Ok)?);
        Ok(HttpConnection::new(tls.connect(ServerName::try_from(host)?, TokioIo::new(wire)).await?))
    }
}

impl Service<Uri> for Connector {
    type Response = HttpConnection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpConnection, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            timeout(connector.limit, connector.open(uri)).await.map_err(|_| HttpError::Late)?
        })
    }
}

fn is_secure(uri: &Uri) -> bool {
    uri.scheme() == Some(&Scheme::HTTPS)
}

/// How TLS is spoken: HTTP/1.1, with the certificates that this machine trusts.
///
/// They are read once; that takes some milliseconds.
pub fn trust() -> Result<Arc<ClientConfig>, HttpError> {
    static TRUST: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = TRUST.get() {
        return Ok(Arc::clone(config));
    }
    // A provider of cryptography that the program has already chosen is kept.
    let chosen = CryptoProvider::get_default().cloned();
    let provider = chosen.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| HttpError::Trust(describe(Some(&error))))?
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(TRUST.get_or_init(|| Arc::new(config))))
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// An open connection.
pub(super) struct HttpConnection {
    stream: TokioIo<Box<dyn ByteStream>>,
    /// Whether requests on it are for a proxy, which wants to know the host.
    is_proxied: bool,
}

impl HttpConnection {
    fn new(stream: impl ByteStream + 'static) -> Self {
        Self { stream: TokioIo::new(Box::new(stream)), is_proxied: false }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TokioIo<Box<dyn ByteStream>>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connection for HttpConnection {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl Read for HttpConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context,
        buffer: ReadBufCursor,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(context, buffer)
    }
}

impl Write for HttpConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context,
        slices: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}
