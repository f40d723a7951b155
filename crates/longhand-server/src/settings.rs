//! How a proxy is set up.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use longhand::embeddings::Embeddings;
use longhand::recall::RecallReach;
use longhand::{Archive, Extractive, Miner, Owner, Redactor, Summariser, Tokens};
use longhand_core::Policy;
use longhand_model::Prices;

use crate::console::ConsoleSettings;

/// Where models are offered the tool that brings back what a window left out. It is never added to a session in its
/// middle, nor where a request forces a tool or forbids others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecallTool {
    /// Nowhere.
    #[default]
    Never,
    /// In requests with tools of the client: not every model takes a tool.
    BesideOthers,
    /// In all requests.
    Always,
}

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
    /// What a caller must have to read the archive by MCP, where no keys are set. Without either, nobody can.
    pub mcp_token: Option<String>,
    /// The secret of a private proxy, such as that of `longhand run`. Every request must have it as the first piece of
    /// its path, or before a dot in `openai-project`; without it, the answer is an empty 401.
    pub secret: Option<String>,
    /// Whether others than this machine may call without a key.
    pub open_to_all: bool,
    /// The owner of all sessions; if not set, a caller's keys decide.
    pub owner: Option<Owner>,
    /// Headers that hold keys of callers, besides those of well-known providers.
    pub credential_headers: Vec<HeaderName>,
    /// Where requests in the formats of `OpenAI` go, with or without `/v1` at its end.
    pub upstream_openai: Option<String>,
    /// Where requests in the format of Anthropic go, with or without `/v1` at its end.
    pub upstream_anthropic: Option<String>,
    /// The most tokens of a request; if not set, the model's known window less the reply.
    pub budget: Option<Tokens>,
    /// The windows of models by name; they override the built-in catalogue.
    pub windows: HashMap<String, Tokens>,
    /// The share of the budget that a full window is brought down to, in percent.
    pub low_water_percent: u64,
    /// The share of the budget beyond which a new tool result is clipped at once, in percent.
    pub clip_new_percent: Option<u64>,
    /// How a window is brought down.
    pub policy: Policy,
    /// The summarisers of folds, in order of preference; slow ones run in the background.
    pub summarisers: Vec<Arc<dyn Summariser>>,
    /// Finds the ids of this project in texts, so that folds keep them.
    pub miner: Miner,
    /// What models cost.
    pub prices: Prices,
    /// The folder that clients work in; new sessions are of this project. Empty if it is not known.
    pub project: String,
    /// The room for earlier messages that come back as quotes when a new one is about them, in percent of the budget; 0
    /// for none.
    pub recall_percent: u64,
    /// Knows what the messages of the archive mean, so that what comes back may have been said in other words.
    pub embeddings: Option<Arc<Embeddings>>,
    /// Where models are offered a tool that brings back what a window left out.
    pub recall_tool: RecallTool,
    /// How far that tool reaches.
    pub recall_reach: RecallReach,
    /// Whether clients that order a summary of their conversation get a fold of it, without the upstream being asked.
    pub answer_compactions: bool,
    /// Where every message is kept.
    pub archive: Arc<dyn Archive>,
    /// Whether nothing is archived: what a window leaves out is kept in memory for a while, without handles.
    pub no_archive: bool,
    /// Whether every message must be archived: a request is refused if it cannot be, and the end of an answer waits
    /// until all of it is.
    pub require_archive: bool,
    /// The most bytes of new messages that may wait for the archive before requests are held back.
    pub archive_bytes_max: usize,
    /// The longest that a request is held back while these are written; then it is refused.
    pub archive_wait: Duration,
    /// How long a write may take before the archive counts as failing.
    pub archive_silence: Duration,
    /// How long a stop keeps trying to write to an archive that fails.
    pub archive_farewell: Duration,
    /// The longest that Longhand may work on a request before it is passed on as it is.
    pub deadline: Duration,
    /// The longest wait for a connection to an upstream.
    pub connect: Duration,
    /// The longest that an upstream may send nothing.
    pub upstream_silence: Duration,
    /// The longest that a client may take for the head of a request, and for each 64 KiB of its body.
    pub client_silence: Duration,
    /// The largest request that is parsed; a larger one is passed on as it is.
    pub request_bytes_max: usize,
    /// The largest request that is passed on at all.
    pub body_bytes_max: u64,
    /// How many requests may be under way.
    pub requests_max: usize,
    /// The memory for all requests under way, with what was parsed from them; approximate.
    pub memory_bytes_max: u64,
    /// How long a stop waits for requests that are under way.
    pub grace: Duration,
    /// Takes a line for each request.
    pub log: Option<LogSink>,
    /// Takes the warnings that a person must see, each once.
    pub warn: Option<LogSink>,
    /// The session of requests that name none; if not set, each conversation gets its own session.
    pub session: Option<String>,
    /// The name of the calling program; if not set, its user agent.
    pub agent: Option<String>,
    /// Takes secrets out of what is archived; what is sent on keeps them.
    pub redactor: Option<Arc<Redactor>>,
    /// The console; without it there is none.
    pub console: Option<ConsoleSettings>,
}

impl Settings {
    /// The usual settings: loopback, no upstream yet.
    pub fn new(archive: Arc<dyn Archive>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4141)),
            keys: Vec::new(),
            mcp_token: None,
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
            project: String::new(),
            recall_percent: 0,
            embeddings: None,
            recall_tool: RecallTool::Never,
            recall_reach: RecallReach::Session,
            answer_compactions: false,
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
            console: None,
        }
    }

    /// How long writes may gather before they share a transaction: not at all if clients wait for them.
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
