//! Why a model gave no answer.

use std::time::Duration;

use longhand_dialect::Overflow;

/// What was waited for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The connection.
    Connect,
    /// The first byte of the answer.
    FirstByte,
    /// The next bytes of the answer.
    Idle,
    /// The whole call, with all its attempts.
    Total,
}

impl Wait {
    fn describe(self) -> &'static str {
        match self {
            Self::Connect => "no connection in time",
            Self::FirstByte => "no answer in time",
            Self::Idle => "the answer stopped in the middle",
            Self::Total => "the answer took too long",
        }
    }
}

/// Why a model gave no answer.
///
/// Messages of providers are shortened to one line, and keys are taken out of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The endpoint cannot be used as it is described.
    #[error("{endpoint}: {what}")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        what: String,
    },
    /// There was no connection, or it broke before the answer began.
    #[error("{endpoint}: {what}")]
    Transport {
        /// The endpoint.
        endpoint: String,
        /// What happened.
        what: String,
    },
    /// It took too long.
    #[error("{endpoint}: {}", wait.describe())]
    Timeout {
        /// The endpoint.
        endpoint: String,
        /// What was waited for.
        wait: Wait,
    },
    /// The endpoint wants fewer requests.
    #[error("{endpoint} wants fewer requests: {message}")]
    RateLimited {
        /// The endpoint.
        endpoint: String,
        /// What it says.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The endpoint is in trouble.
    #[error("{endpoint} failed with status {status}: {message}")]
    Server {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The key is missing, wrong, or not allowed to do this.
    #[error("{endpoint} refused the key with status {status}: {message}")]
    Unauthorised {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// The request was refused.
    #[error("{endpoint} refused the request with status {status}: {message}")]
    Rejected {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// The request is too long for the model.
    #[error("{endpoint}: the request is too long: {message}")]
    TooLong {
        /// The endpoint.
        endpoint: String,
        /// What it says in numbers.
        overflow: Overflow,
        /// What it says in words.
        message: String,
    },
    /// An error came in the place of an answer, or in the middle of one.
    #[error("{endpoint} reports an error: {message}")]
    Provider {
        /// The endpoint.
        endpoint: String,
        /// The provider's name for it.
        code: Option<String>,
        /// What it says.
        message: String,
    },
    /// The endpoint points elsewhere; a key is never taken along.
    #[error("{endpoint} redirects to another address with status {status}; that is not followed")]
    Redirected {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
    },
    /// What came is not of the type that an answer has.
    #[error("{endpoint} answered with {content_type} instead of JSON or events")]
    ContentType {
        /// The endpoint.
        endpoint: String,
        /// The type.
        content_type: String,
    },
    /// There is nothing in the answer.
    #[error("{endpoint} answered with nothing")]
    Empty {
        /// The endpoint.
        endpoint: String,
    },
    /// What came cannot be read.
    #[error("{endpoint}: {what}")]
    Unreadable {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        what: String,
    },
    /// The answer ended in the middle.
    #[error("{endpoint}: the answer was cut off")]
    Cut {
        /// The endpoint.
        endpoint: String,
    },
    /// The answer is larger than is read.
    #[error("{endpoint}: the answer has more than {bytes_max} bytes")]
    TooLarge {
        /// The endpoint.
        endpoint: String,
        /// The most that is read.
        bytes_max: usize,
    },
    /// The model does not want to.
    #[error("{endpoint}: the model refused: {message}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// What it says.
        message: String,
    },
    /// The endpoint failed too often and is given a rest; nothing was sent.
    #[error("{endpoint} failed several times; the next attempt is in {} s", rest.as_secs().max(1))]
    Resting {
        /// The endpoint.
        endpoint: String,
        /// How long the rest still lasts.
        rest: Duration,
    },
}

impl ModelError {
    /// Whether the same request may succeed when it is sent again later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { .. }
            | Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Cut { .. }
            | Self::Resting { .. } => true,
            Self::Provider { code: Some(code), .. } => {
                let passing = ["overloaded", "rate_limit", "server_error", "api_error", "timeout"];
                let status = code.parse::<u16>().unwrap_or(0);
                status == 429 || status >= 500 || passing.iter().any(|word| code.contains(word))
            }
            _ => false,
        }
    }

    /// Whether another attempt is made at once: the answer had not begun, and a passing trouble is the
    /// reason.
    pub(crate) fn is_tried_again(&self) -> bool {
        matches!(
            self,
            Self::Transport { .. }
                | Self::Timeout { wait: Wait::Connect, .. }
                | Self::RateLimited { .. }
                | Self::Server { .. }
        )
    }

    /// Whether the provider may bill the call all the same: it had taken the request when things went wrong.
    pub(crate) fn is_perhaps_billed(&self) -> bool {
        match self {
            Self::Timeout { wait, .. } => !matches!(wait, Wait::Connect),
            Self::Cut { .. }
            | Self::Empty { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::ContentType { .. }
            | Self::Provider { .. }
            | Self::Refused { .. } => true,
            _ => false,
        }
    }

    /// Whether it speaks against the endpoint, not against the request.
    pub(crate) fn is_failure_of_endpoint(&self) -> bool {
        matches!(
            self,
            Self::Transport { .. }
                | Self::Timeout { .. }
                | Self::Server { .. }
                | Self::Cut { .. }
                | Self::ContentType { .. }
                | Self::Unreadable { .. }
        )
    }

    /// How long the endpoint wants to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}
