//! How a proxy is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use longhand::{Archive, Tokens};

/// How a proxy is set up.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where requests in the formats of `OpenAI` go, with or without `/v1` at its end.
    pub upstream_openai: Option<String>,
    /// Where requests in the format of Anthropic go, with or without `/v1` at its end.
    pub upstream_anthropic: Option<String>,
    /// The most tokens of a request; if not set, the model's known window less the reply.
    pub budget: Option<Tokens>,
    /// What share of the budget a window is brought down to when it is full, in percent.
    pub low_water_percent: u64,
    /// Where every message is kept.
    pub archive: Arc<dyn Archive>,
    /// The longest that our part may take before the request goes on as it is.
    pub deadline: Duration,
    /// The longest wait for a connection to an upstream.
    pub connect: Duration,
    /// The largest request that is looked into; a larger one goes on as it is.
    pub request_bytes_max: usize,
}

impl Settings {
    /// The usual settings: loopback, no upstream yet.
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4141)),
            upstream_openai: None,
            upstream_anthropic: None,
            budget: None,
            low_water_percent: 40,
            archive,
            deadline: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            request_bytes_max: 64 << 20,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("listen", &self.listen)
            .field("budget", &self.budget)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
