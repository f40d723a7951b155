//! The errors of a proxy that cannot start.

use std::io;
use std::net::SocketAddr;

use longhand_model::http::{AddressError, HttpError};

/// Why a proxy cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Others could use it without a key.
    #[error("{address} can be reached by others, and there is no key")]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// An upstream is not an address of a web server.
    #[error("`{url}` cannot be an upstream: {what}")]
    Upstream {
        /// What was given.
        url: String,
        /// What is wrong with it.
        what: AddressError,
    },
    /// No upstream was named.
    #[error("a proxy needs an upstream")]
    NoUpstream,
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up")]
    Client(#[source] HttpError),
    /// The system has no random bytes.
    #[error("the system has no random bytes, so no link can be made that nobody guesses")]
    NoRandom,
    /// A thread could not be started.
    #[error("the thread that archives could not be started")]
    Thread(#[source] io::Error),
}
