//! Why a request got no answer, or only a part of one.

use std::error::Error;

use hyper_util::client::legacy;

/// Why a request got no answer, or only a part of one.
///
/// It names neither the address nor anything of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// There was no connection in time.
    #[error("no connection in time")]
    Late,
    /// Nothing came for too long.
    #[error("no answer in time")]
    Silent,
    /// The body of the request ended too early.
    #[error("the request broke off")]
    BrokeOff,
    /// There is no connection.
    #[error("no connection: {0}")]
    Connect(String),
    /// The connection broke, or what came is no HTTP.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The certificates that this machine trusts cannot be read.
    #[error("the certificates of this machine cannot be read: {0}")]
    Trust(String),
}

impl HttpError {
    /// Whether it is time that ran out.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Late | Self::Silent)
    }
}

impl From<legacy::Error> for HttpError {
    fn from(error: legacy::Error) -> Self {
        let causes = || std::iter::successors(error.source(), |cause| (*cause).source());
        // One of ours comes from the connector.
        if let Some(known) = causes().find_map(|cause| cause.downcast_ref::<Self>()) {
            return known.clone();
        }
        let mut http = causes().filter_map(|cause| cause.downcast_ref::<hyper::Error>());
        if http.any(hyper::Error::is_user) {
            return Self::BrokeOff;
        }
        let what = describe(error.source());
        if error.is_connect() { Self::Connect(what) } else { Self::Broken(what) }
    }
}

impl From<hyper::Error> for HttpError {
    fn from(error: hyper::Error) -> Self {
        Self::Broken(describe(Some(&error)))
    }
}

/// An error with its causes.
pub(super) fn describe(error: Option<&(dyn Error + 'static)>) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(error, |cause| (*cause).source()) {
        let more = cause.to_string();
        if text.is_empty() {
            text = more;
        } else if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}
