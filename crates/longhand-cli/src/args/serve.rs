//! The arguments of `serve`.

use clap::Args;

use super::{ArchiveArgs, PolicyName, ProxyConsoleArgs, ProxyRecallArgs, RecallChoice, amount};

#[derive(Args)]
#[command(after_help = "Example:
  longhand serve --upstream http://127.0.0.1:8080 --budget 32k
  OPENAI_BASE_URL=http://127.0.0.1:4141/v1 your-agent
  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 your-agent

The proxy itself answers /longhand/health, /longhand/ready, /longhand/metrics and, with a login, \
/longhand/console/: open the link that it prints.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4141")]
    pub(crate) listen: std::net::SocketAddr,
    /// The server that requests are sent to
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// The server for Chat Completions and Responses [default: --upstream]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream_openai: Option<String>,
    /// The server for Anthropic Messages [default: --upstream]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream_anthropic: Option<String>,
    /// The most tokens of a request [default: the model's context window less the reply]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: Option<u64>,
    /// How far a full window is shortened, in percent of the budget
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) low_water: u64,
    /// Clip a new tool result to its beginning and end as it comes in, if it takes more than this share of the
    /// budget, in percent [default: what the settings say, or never]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) clip_new: Option<u64>,
    /// How a window is shortened
    #[arg(long, value_enum, default_value_t = PolicyName::Auto)]
    pub(crate) policy: PolicyName,
    /// What summarises folded messages: extractive, none, or models such as ollama/qwen3, which are asked in
    /// the background [default: models.summary in the settings, or extractive]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// Answer a client that orders a summary of its conversation (Claude Code's /compact, Codex) with a fold from the
    /// archive, at once and without the model; an order to which the user added something goes to the model
    #[arg(long)]
    pub(crate) answer_compactions: bool,
    /// Offer models a tool that brings back what was left out; clients never see it. Sessions that began without it
    /// go on without it
    #[arg(long, visible_alias = "expand-tool")]
    pub(crate) recall_tool: bool,
    /// How far that tool reaches; never to sessions of other callers
    #[arg(long, value_enum, value_name = "SCOPE", default_value_t = RecallChoice::Session)]
    pub(crate) recall_scope: RecallChoice,
    #[command(flatten)]
    pub(crate) brought_back: ProxyRecallArgs,
    /// A file with API keys, one per line; callers must send one of them
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<std::path::PathBuf>,
    /// A file with a token; who sends it may read the archive by MCP at /longhand/mcp, as those who send an API key may
    #[arg(long, value_name = "FILE", conflicts_with = "api_key_file")]
    pub(crate) mcp_token_file: Option<std::path::PathBuf>,
    /// Another header in which callers send a key; callers with different keys never share a session
    #[arg(long, value_name = "NAME")]
    pub(crate) credential_header: Vec<String>,
    /// Allow callers from other machines without a key
    #[arg(long)]
    pub(crate) allow_anyone: bool,
    /// Hold back the end of each answer until it is archived, and refuse requests that cannot be archived
    #[arg(long, conflicts_with = "no_archive")]
    pub(crate) require_archive: bool,
    /// Archive nothing: what windows leave out is kept in memory for a while, and cannot be brought back
    #[arg(long)]
    pub(crate) no_archive: bool,
    /// Write one line of JSON per request to this file; - is standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<std::path::PathBuf>,
    /// Replace keys and passwords in the archive by marks; the provider still gets them
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) console: ProxyConsoleArgs,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print a line for each request
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print only the address and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
