//! How a proxy is set up.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use longhand::{Archive, Extractive, Miner, Owner, Redactor, Summariser, Tokens};
use longhand_core::Policy;
use longhand_model::Prices;

/// Takes the lines of a log, each a JSON object.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// How a proxy is set up.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The keys of which a caller must have one; none are needed on a loopback address.
    pub keys: Vec<String>,
    /// What every request must have as the first piece of its path, or before a dot in `openai-project`; it is
    /// for callers of one run, and nobody else gets an answer that says anything.
    pub secret: Option<String>,
    /// Whether others than this machine may call without a key.
    pub open_to_all: bool,
    /// Whose all sessions are; if not set, that of the keys that a caller shows.
    pub owner: Option<Owner>,
    /// Headers with keys of callers, besides those that well-known providers use.
    pub credential_headers: Vec<HeaderName>,
    /// Where requests in the formats of `OpenAI` go, with or without `/v1` at its end.
    pub upstream_openai: Option<String>,
    /// Where requests in the format of Anthropic go, with or without `/v1` at its end.
    pub upstream_anthropic: Option<String>,
    /// The most tokens of a request; if not set, the model's known window less the reply.
    pub budget: Option<Tokens>,
    /// The windows of models, by name, before those that are known anyway.
    pub windows: HashMap<String, Tokens>,
    /// What share of the budget a window is brought down to when it is full, in percent.
    pub low_water_percent: u64,
    /// Beyond what share of the budget a new tool result is clipped as it enters, in percent.
    pub clip_new_percent: Option<u64>,
    /// How a window is brought down.
    pub policy: Policy,
    /// Who tells of what is folded, in this order; those that take their time are asked in the background.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// Knows the ids of this project.
    pub miner: Miner,
    /// What models cost.
    pub prices: Prices,
    /// Whether models are offered a tool that brings back what a window left out.
    pub expand_tool: bool,
    /// Where every message is kept.
    pub archive: Arc<dyn Archive>,
    /// Whether nothing is archived: what a window leaves out is kept in memory for a while, and no handles
    /// stand for it.
    pub no_archive: bool,
    /// Whether an answer waits until all of it is archived, and a request is refused that cannot be.
    pub require_archive: bool,
    /// The most bytes of new messages that may wait for the archive before requests are held back.
    pub archive_bytes_max: usize,
    /// The longest that a request is held back while these are written; then it is refused.
    pub archive_wait: Duration,
    /// How long a write may take before the archive is said not to answer.
    pub archive_silence: Duration,
    /// How long a stop tries to write to an archive that takes nothing.
    pub archive_farewell: Duration,
    /// The longest that our part may take before the request goes on as it is.
    pub deadline: Duration,
    /// The longest wait for a connection to an upstream.
    pub connect: Duration,
    /// The longest that an upstream may say nothing.
    pub upstream_silence: Duration,
    /// The longest that a client may take for the head of a request, and for each 64 KiB of its body.
    pub client_silence: Duration,
    /// The largest request that is looked into; a larger one goes on as it is.
    pub request_bytes_max: usize,
    /// The largest request that is passed on at all.
    pub body_bytes_max: u64,
    /// How many requests may be under way.
    pub requests_max: usize,
    /// About how much memory all requests under way may take together, what is read from them included.
    pub memory_bytes_max: u64,
    /// How long a stop waits for requests that are under way.
    pub grace: Duration,
    /// Where a line goes for each request.
    pub log: Option<LogSink>,
    /// Where a line goes that a person must see: each once.
    pub warn: Option<LogSink>,
    /// The session of requests that name none; if not set, each conversation is one of its own.
    pub session: Option<String>,
    /// The program that asks; if not set, what it calls itself.
    pub agent: Option<String>,
    /// Takes secrets out of what is archived; what is sent on keeps them.
    pub redactor: Option<Arc<Redactor>>,
}

impl Settings {
    /// The usual settings: loopback, no upstream yet.
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4141)),
            keys: Vec::new(),
            secret: None,
            open_to_all: false,
            owner: None,
            credential_headers: Vec::new(),
            upstream_openai: None,
            upstream_anthropic: None,
            budget: None,
            windows: HashMap::new(),
            low_water_percent: 30,
            clip_new_percent: None,
            policy: Policy::Auto,
            summarisers: vec![Arc::new(Extractive)],
            miner: Miner::default(),
            prices: Prices::default(),
            expand_tool: false,
            archive,
            no_archive: false,
            require_archive: false,
            archive_bytes_max: 128 << 20,
            archive_wait: Duration::from_secs(30),
            archive_silence: Duration::from_secs(2),
            archive_farewell: Duration::from_secs(5),
            deadline: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            upstream_silence: Duration::from_mins(10),
            client_silence: Duration::from_secs(30),
            request_bytes_max: 64 << 20,
            body_bytes_max: 1 << 30,
            requests_max: 1_024,
            memory_bytes_max: 384 << 20,
            grace: Duration::from_secs(30),
            log: None,
            warn: None,
            session: None,
            agent: None,
            redactor: None,
        }
    }

    /// How long work for the archive may gather: less than a client would notice, and not at all if it
    /// waits for it.
    pub(crate) fn archive_linger(&self) -> Duration {
        if self.require_archive { Duration::ZERO } else { Duration::from_millis(20) }
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
