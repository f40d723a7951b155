//! What can be said on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use longhand_core::{Policy, Rolling};
use longhand_dialect::Dialect;
use longhand_meter::MeterSpec;

/// An endless conversation for any LLM agent: a conversation in, one that fits out.
#[derive(Parser)]
#[command(name = "longhand", version)]
#[command(
    after_help = "Exit status: 0 done; 1 the answer is no; 2 bad usage or unreadable input; 3 it does not fit."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a conversation fit a budget, in the format it came in
    Compact(CompactArgs),
    /// Say whether a provider would take a conversation, and list what is wrong
    Check(CheckArgs),
    /// Count tokens per message and in total
    Count(CountArgs),
    /// Bring back what a stub, clip or fold stands for
    Expand(ExpandArgs),
    /// Record rounds into a session, one a line; each is durable before the next is read
    Record(RecordArgs),
    /// Print a session's window as messages
    Context(ContextArgs),
    /// List sessions
    Ls(LsArgs),
    /// Show what of a session is verbatim and what is folded
    Show(ShowArgs),
    /// Show the receipts of a session's folds, newest first
    Log(LogArgs),
    /// Find anything ever said
    Search(SearchArgs),
    /// Keep an entry in the window through every fold
    Pin(PinArgs),
    /// Take the newest fold of a session back
    Undo(UndoArgs),
    /// Check every checksum, handle and citation of the archive
    Verify(VerifyArgs),
    /// Write a session as JSON Lines
    Export(ExportArgs),
    /// Read a session from an export, a state file or a session file
    Import(ImportArgs),
    /// Remove a session for good
    Rm(RmArgs),
    /// Talk with a model, without an end
    Chat(ChatArgs),
    /// Be a proxy: any agent gets an endless conversation by changing one URL
    Serve(ServeArgs),
    /// Show what is configured and from where, and test the archive and every model
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand chat --model ollama/qwen3
  longhand chat work --model anthropic/claude-haiku-4-5 --summariser ollama/qwen3

/help in the conversation lists what can be typed there. Ctrl-C stops an answer, Ctrl-D leaves.")]
pub(crate) struct ChatArgs {
    /// The session to go on with, or to begin
    #[arg(default_value = "chat")]
    pub(crate) id: String,
    /// The model, as provider/model or endpoint/model [default: models.chat of the settings]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The base prompt [default: chat.system of the settings]
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand serve --upstream http://127.0.0.1:8080 --budget 32k
  OPENAI_BASE_URL=http://127.0.0.1:4141/v1 your-agent
  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 your-agent

Of its own it answers /longhand/health, /longhand/ready and /longhand/metrics.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4141")]
    pub(crate) listen: std::net::SocketAddr,
    /// Where requests go
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Where requests to Chat Completions and Responses go [default: the upstream]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream_openai: Option<String>,
    /// Where requests to Messages go [default: the upstream]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream_anthropic: Option<String>,
    /// The most tokens of a request [default: the model's known window less the reply]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: Option<u64>,
    /// What share of the budget a full window is brought down to
    #[arg(long, value_name = "PERCENT", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) low_water: u64,
    /// How a window is brought down
    #[arg(long, value_enum, default_value_t = PolicyName::Auto)]
    pub(crate) policy: PolicyName,
    /// Who tells of what is folded: extractive, none, or models such as ollama/qwen3, which are asked in
    /// the background [default: as the settings say, or extractive]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// Offer models a tool that brings back what a window left out; clients never see it
    #[arg(long)]
    pub(crate) expand_tool: bool,
    /// A file with the keys of which a caller must have one, a line each
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<std::path::PathBuf>,
    /// Listen on another address than loopback without a key
    #[arg(long)]
    pub(crate) allow_anyone: bool,
    /// Hold back the end of an answer until all is archived, and refuse what cannot be
    #[arg(long)]
    pub(crate) require_archive: bool,
    /// Where a line of JSON goes for each request; - is standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print nothing but the address and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand doctor")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand completions bash > ~/.local/share/bash-completion/completions/longhand")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ArchiveArgs {
    /// The archive [default: the user's own, in the platform's folder for data]
    #[arg(long, value_name = "PATH")]
    pub(crate) archive: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct SessionArgs {
    /// The most tokens of a window [default: 24000]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: Option<u64>,
    /// How a window is made to fit: `auto` changes it seldom and deeply, which costs least; `rolling` keeps
    /// the newest rounds and one summary of the rest [default: session.policy of the settings, or auto]
    #[arg(long, value_enum)]
    pub(crate) policy: Option<PolicyName>,
    /// With the policy rolling: the most rounds that stay verbatim [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// With the policy rolling: the most tokens of the summary [default: 4000]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) summary: Option<u64>,
    /// Who summarises what is folded: `extractive`, which needs no model, `none`, which lists names, or models
    /// in the order they are tried, separated by commas [default: models.summary of the settings, or extractive]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// What ids of this project look like, such as 'ACME-#' (# digits, @ letters and digits)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Example:
  echo '{\"user\": \"Where is the log?\", \"assistant\": \"In var/app.log.\"}' | longhand record demo")]
pub(crate) struct RecordArgs {
    /// The session; any text is a name
    pub(crate) id: String,
    /// Rounds, one a line: `{"user","assistant","ts"?,"tool_calls"?}` or `{"messages":[…]}`; `-` or nothing is standard input
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Take out what looks like a key before anything is stored
    #[arg(long)]
    pub(crate) redact: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand context demo --message 'And the config?' --system 'Be brief.'")]
pub(crate) struct ContextArgs {
    /// The session
    pub(crate) id: String,
    /// The user's next message
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The base prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Text recalled from elsewhere
    #[arg(long, value_name = "TEXT")]
    pub(crate) recall: Option<String>,
    /// Where the block of folded messages and the recalled text go: quoted in user messages, or into the system
    /// message [default: user; with the policy rolling, system]
    #[arg(long, value_enum)]
    pub(crate) placement: Option<PlacementName>,
    /// The format of the messages: chat, responses or anthropic
    #[arg(long, value_name = "NAME", default_value = "chat", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Print JSON with figures
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PlacementName {
    System,
    User,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand ls --json")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand show demo")]
pub(crate) struct ShowArgs {
    /// The session
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand log demo")]
pub(crate) struct LogArgs {
    /// The session
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand search 'retry storm' --session demo")]
pub(crate) struct SearchArgs {
    /// Words; those in double quotes must stand side by side
    pub(crate) query: String,
    /// Only in this session
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// The most to list
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand pin demo 14")]
pub(crate) struct PinArgs {
    /// The session
    pub(crate) id: String,
    /// The entry's number, as search shows it
    pub(crate) entry: u64,
    /// Unpin it instead
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand undo demo")]
pub(crate) struct UndoArgs {
    /// The session
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand verify")]
pub(crate) struct VerifyArgs {
    /// Only this session
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand export demo -o demo.jsonl")]
pub(crate) struct ExportArgs {
    /// The session
    pub(crate) id: String,
    /// What to write: every message ever recorded, or what the window holds
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    /// Write here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One entry a line
    Jsonl,
    /// Summary, verbatim rounds and counts as one JSON object
    State,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand import demo.jsonl --id copy")]
pub(crate) struct ImportArgs {
    /// An export, a state file or a session file; `-` or nothing is standard input
    pub(crate) file: Option<PathBuf>,
    /// The session [default: the id in the file, or the file's name]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Add to a session that is there already
    #[arg(long)]
    pub(crate) append: bool,
    /// Take out what looks like a key before anything is stored
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand rm demo --yes")]
pub(crate) struct RmArgs {
    /// The session
    pub(crate) id: String,
    /// Do it
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
}

#[derive(Args)]
pub(crate) struct InputArgs {
    /// The conversation: a request, a list of messages or a session file; `-` or nothing is standard input
    pub(crate) file: Option<PathBuf>,
    /// Its format: auto, chat, responses, anthropic, claude-code, codex or pi
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    /// Refuse input of more bytes than this (k, m and g are understood)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
}

#[derive(Args)]
pub(crate) struct MeterArgs {
    /// How to count: o200k, cl100k, chars:3.5 or the path of a tokenizer.json [default: by the model it names, ≈o200k times a factor if its vocabulary is not public]
    #[arg(long, value_name = "METER")]
    pub(crate) meter: Option<MeterSpec>,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand compact session.json --budget 8000 -o window.json
  longhand compact session.json --budget 32k --archive originals.db | longhand check")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The most tokens the window may have, tools and system prompt included (32k is understood)
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: u64,
    /// Tokens of the budget to keep free for the reply
    #[arg(long, value_name = "N", default_value = "0", value_parser = amount)]
    pub(crate) reserve: u64,
    /// What to come down to once the budget is used up [default: the budget less the reserve]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) target: Option<u64>,
    /// How to make it fit
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) policy: PolicyName,
    /// What tells of the messages that are folded: `extractive` picks sentences and puts back facts,
    /// `none` lists names, a model writes a summary; several are tried in turn
    /// [default: models.summary of the settings, or extractive]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// How many of the newest messages stay as they are [default: 4, and under auto as much as is sensible];
    /// trim and rolling keep what fits, whatever this says
    #[arg(long, value_name = "N")]
    pub(crate) keep_tail: Option<usize>,
    /// Leave bodies of fewer characters alone
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) min_chars: usize,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Mend an invalid conversation first: answer calls without results, quote results without calls
    #[arg(long)]
    pub(crate) repair: bool,
    /// Write the window here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a report as JSON here; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Under elide: clip protected messages too if nothing else makes it fit
    #[arg(long)]
    pub(crate) last_resort: bool,
    /// Keep the conversation in this archive: it is found again by its messages, what was left out stays left
    /// out, and `longhand expand` brings it back
    #[arg(long, value_name = "PATH")]
    pub(crate) archive: Option<PathBuf>,
    /// Draw the context map: when standard error is a terminal, always or never
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) map: MapWhen,
    /// Say nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand check request.json && curl -d @request.json …")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing; the exit status is the answer
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand count session.jsonl
  longhand count request.json --meter cl100k --json")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the total
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand expand h:3kq9w2m1x7ab --archive originals.db
  longhand expand h:3kq9w2m1x7ab --from session.json")]
pub(crate) struct ExpandArgs {
    /// The handle, as the stub shows it
    pub(crate) handle: String,
    /// Look in this conversation, from which the window was made, instead of an archive
    #[arg(long, value_name = "FILE", conflicts_with = "archive")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Only this round of a fold
    #[arg(long, value_name = "N")]
    pub(crate) round: Option<u64>,
    /// Print JSON: the handle, the form (text or json) and the content
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PolicyName {
    /// Stub old results, arguments and prose; then fold old steps
    Auto,
    /// Stub old results and prose, no more than needed; user messages stay
    Elide,
    /// Keep the newest steps that fit, and a note on the rest
    Trim,
    /// Keep the newest 10 rounds, and one summary of the rest
    Rolling,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::Auto => Policy::Auto,
            PolicyName::Elide => Policy::Elide,
            PolicyName::Trim => Policy::Trim,
            PolicyName::Rolling => Policy::Rolling(Rolling::default()),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum MapWhen {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy)]
pub(crate) struct DialectChoice(pub(crate) Option<Dialect>);

fn dialect(name: &str) -> Result<DialectChoice, String> {
    if name == "auto" {
        return Ok(DialectChoice(None));
    }
    Dialect::from_str(name).map(|dialect| DialectChoice(Some(dialect)))
}

/// Reads `8000`, `8_000`, `32k`, `1.5m`.
fn amount(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "").to_ascii_lowercase();
    let (digits, unit) = match plain.strip_suffix(['k', 'm', 'g']) {
        Some(digits) if plain.ends_with('k') => (digits, 1_000),
        Some(digits) if plain.ends_with('m') => (digits, 1_000_000),
        Some(digits) => (digits, 1_000_000_000),
        None => (plain.as_str(), 1),
    };
    let wrong = || format!("expected a number such as 8000 or 32k, found `{text}`");
    if unit == 1 {
        return digits.parse().map_err(|_| wrong());
    }
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    if !(0.0..=1e9).contains(&number) {
        return Err(wrong());
    }
    Ok((number * f64::from(unit)).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, value) in
            [("8000", 8_000), ("8_000", 8_000), ("32k", 32_000), ("1.5M", 1_500_000), ("0", 0)]
        {
            assert_eq!(amount(text), Ok(value), "{text}");
        }
        for bad in ["", "k", "-1", "8 000", "1e5x", "nan", "99999999999999999999999"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}
