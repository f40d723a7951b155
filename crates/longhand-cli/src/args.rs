//! The command line.

mod archive;
mod console;
mod demo;
mod eval;
mod files;
mod mcp;
mod recall_share;
mod replay;
mod resume;
mod run;
mod search;
mod serve;
mod setup;
mod transfer;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use longhand_core::{Policy, Rolling};
use longhand_dialect::Dialect;
use longhand_meter::MeterSpec;

pub(crate) use self::archive::{
    ArchiveCommand, ArchiveCommandArgs, BackupArgs, CopyArgs, MigrateArgs, PruneArgs,
};
pub(crate) use self::console::{ConsoleArgs, ProxyConsoleArgs};
pub(crate) use self::demo::{DemoArgs, TopArgs};
pub(crate) use self::eval::{EvalArgs, EvalCommand, EvalRecallArgs};
pub(crate) use self::files::{CheckArgs, CompactArgs, CountArgs, ExpandArgs, RepairArgs};
pub(crate) use self::mcp::{
    McpAgent, McpArgs, McpCommand, McpEditArgs, McpInstallArgs, McpReach, McpServeArgs,
    McpUninstallArgs,
};
pub(crate) use self::recall_share::{ProxyRecallArgs, RecallShareArgs};
pub(crate) use self::replay::ReplayArgs;
pub(crate) use self::resume::ResumeArgs;
#[cfg(target_os = "linux")]
pub(crate) use self::run::LaunchArgs;
pub(crate) use self::run::{RecallChoice, RunArgs, UsageArgs, UsageBy};
pub(crate) use self::search::SearchArgs;
pub(crate) use self::serve::ServeArgs;
pub(crate) use self::setup::{DoctorArgs, TrustArgs};
pub(crate) use self::transfer::{ExportArgs, ExportFormat, ImportArgs};

/// Gives any LLM agent an endless conversation: every word is kept, and what the model sees always fits.
#[derive(Parser)]
#[command(name = "longhand", version)]
#[command(
    after_help = "Exit status: 0 done; 1 a check failed or nothing was found; 2 bad usage or unreadable input; 3 the conversation does not fit the budget."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a conversation fit a budget, in the format it came in
    Compact(CompactArgs),
    /// Check whether a provider would accept a conversation, and list its faults
    Check(CheckArgs),
    /// Count tokens, and show what takes up the context
    Count(CountArgs),
    /// Replay recorded conversations: what they would have cost, and what the model would still have known
    Replay(ReplayArgs),
    /// Measure recall on conversations with known answers
    Eval(EvalArgs),
    /// Print the original that a handle in a window stands for
    Expand(ExpandArgs),
    /// Record rounds into a session, one per line; each is on disk before the next is read
    Record(RecordArgs),
    /// Print the messages to send for a session
    Context(ContextArgs),
    /// List sessions
    Ls(LsArgs),
    /// Show what is sent of a session: system prompt and tools, what is folded, what is verbatim, what is free
    Show(ShowArgs),
    /// List what was left out of a session's windows and when, newest first
    Log(LogArgs),
    /// Search everything that was ever said
    Search(SearchArgs),
    /// Find a session by what was said in it, and print the command that goes on in it
    Resume(ResumeArgs),
    /// Keep a message in every window
    Pin(PinArgs),
    /// Undo the newest batch of edits of a session
    Undo(UndoArgs),
    /// Check every checksum and handle in the archive
    Verify(VerifyArgs),
    /// Write a session with all that is kept of it, or its messages for another program
    Export(ExportArgs),
    /// Import a session from an export, a state file or an agent's session file
    Import(ImportArgs),
    /// Find and mend the faults of an agent's session file
    Repair(RepairArgs),
    /// Give a session another name
    Rename(RenameArgs),
    /// Remove a session for good
    Rm(RmArgs),
    /// Look after the archive: back it up, copy it, migrate it, remove what is old
    Archive(ArchiveCommandArgs),
    /// Chat with a model in the terminal, without end
    Chat(ChatArgs),
    /// Run a proxy that keeps any agent within its context window
    Serve(ServeArgs),
    /// Run any agent behind a private proxy, with nothing to set up
    Run(RunArgs),
    /// Start the agent of a run, and end it with that
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Launch(LaunchArgs),
    /// Show the archive in the browser: sessions, windows, what was left out, what it saved
    Console(ConsoleArgs),
    /// Let an agent search and read the archive, as an MCP server
    Mcp(McpArgs),
    /// Show what was sent, cached and saved, and what it cost
    Usage(UsageArgs),
    /// Watch sessions, windows and savings in the terminal
    Top(TopArgs),
    /// Watch a session that is played to you, in the console: offline, in a temporary place
    Demo(DemoArgs),
    /// Show every setting and path, and test the archive and every model
    Doctor(DoctorArgs),
    /// Trust the longhand.toml of a folder until it changes
    Trust(TrustArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write the man pages into a folder
    #[command(hide = true)]
    Man(ManArgs),
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// The folder, which must exist
    pub(crate) folder: PathBuf,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand chat --model ollama/qwen3
  longhand chat work --model anthropic/claude-haiku-4-5 --summariser ollama/qwen3

/help in the conversation lists the commands. Ctrl-C stops an answer, Ctrl-D leaves.
If standard input is not a terminal, it is one message, and only the answer goes to standard output:
  git diff | longhand chat review --model ollama/qwen3 > review.md")]
pub(crate) struct ChatArgs {
    /// The session to resume, by its whole name, or to begin
    #[arg(default_value = "chat", value_name = "SESSION")]
    pub(crate) id: String,
    /// The model, as provider/model or endpoint/model [default: models.chat in the settings]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The system prompt [default: chat.system in the settings]
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Print answers as the model writes them, without rendering Markdown
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) brought_back: RecallShareArgs,
    /// Replace keys and passwords in the archive by marks; the model still gets them
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand completions bash > ~/.local/share/bash-completion/completions/longhand")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Clone)]
pub(crate) struct ArchiveArgs {
    /// The archive file [default: ~/.local/share/longhand/archive.db; `longhand doctor` prints the path]
    #[arg(long, value_name = "PATH")]
    pub(crate) archive: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct SessionArgs {
    /// The most tokens to send [default: 24000]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) budget: Option<u64>,
    /// How messages are left out: `auto` does it seldom and thoroughly, which costs least; `rolling` keeps
    /// the newest rounds and one summary of the rest [default: session.policy in the settings, or auto]
    #[arg(long, value_enum)]
    pub(crate) policy: Option<PolicyName>,
    /// Clip a new tool result to its beginning and end as it comes in, if it takes more than this share of the
    /// budget, in percent [default: what the settings say, or never]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) clip_new: Option<u64>,
    /// With --policy rolling: how many rounds stay verbatim [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,
    /// With --policy rolling: the most tokens of the summary [default: 4000]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) summary: Option<u64>,
    /// What summarises folded messages: `extractive` needs no model, `none` lists names only, and models are
    /// tried in order, separated by commas [default: models.summary in the settings, or extractive]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// What ids in this project look like, such as 'ACME-#' (# is digits, @ letters and digits)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Vec<String>,
}

#[derive(Args)]
#[command(after_help = "Example:
  echo '{\"user\": \"Where is the log?\", \"assistant\": \"In var/app.log.\"}' | longhand record demo")]
pub(crate) struct RecordArgs {
    /// The session, by its whole name; any text can be one, and a new name begins a session
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// A file of rounds, one per line: `{"user","assistant","ts"?,"tool_calls"?}` or `{"messages":[…]}` [default: standard input]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Replace keys and passwords in the archive by marks
    #[arg(long)]
    pub(crate) redact: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand context demo --message 'And the config?' --system 'Be brief.'")]
pub(crate) struct ContextArgs {
    /// The session, by its whole name or id as `longhand ls` shows it
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// The user's next message; with it, a session that is not there yet has its first window
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Text from elsewhere to quote, such as search results
    #[arg(long, value_name = "TEXT")]
    pub(crate) recall: Option<String>,
    /// Where the summary of folded messages and recalled text go: quoted in user messages, or in the system
    /// message [default: user; with --policy rolling, system]
    #[arg(long, value_enum)]
    pub(crate) placement: Option<PlacementName>,
    /// The format of the messages: chat, responses or anthropic
    #[arg(long, value_name = "NAME", default_value = "chat", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    #[command(flatten)]
    pub(crate) brought_back: RecallShareArgs,
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
  longhand ls
  longhand ls --all --json

The newest session comes first. Tokens are those of its newest request, with Longhand and without.")]
pub(crate) struct LsArgs {
    /// Also show side calls, sub-agents and other paths, below their conversation
    #[arg(long)]
    pub(crate) all: bool,
    /// How many conversations to list at most; 0 is all [default: 100, with --json all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
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
    /// The session, by its name or id as `longhand ls` shows it; a beginning is enough, and @last is the newest
    #[arg(value_name = "SESSION")]
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
    /// The session, by its name or id as `longhand ls` shows it; a beginning is enough, and @last is the newest
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
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
    /// The session, by its whole name or id as `longhand ls` shows it
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// The number of the message, as `longhand search` shows it
    #[arg(value_parser = entry)]
    pub(crate) entry: u64,
    /// Unpin it instead
    #[arg(long)]
    pub(crate) remove: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand undo demo")]
pub(crate) struct UndoArgs {
    /// The session, by its whole name or id as `longhand ls` shows it
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand verify")]
pub(crate) struct VerifyArgs {
    /// Only this session; a beginning of its name or id is enough
    #[arg(value_name = "SESSION")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand rename demo 'search for the leak'")]
pub(crate) struct RenameArgs {
    /// The session, by its whole name or id as `longhand ls` shows it
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// The new name, which no other session may have
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(
    after_help = "The session is gone at once. Its texts are then wiped from the file, its index and its log, a \
little at a time, so that other programs can write meanwhile. If a program keeps the log in use, the command says what is \
left (exit status 0); the next command wipes it.

Example:
  longhand rm demo --yes"
)]
pub(crate) struct RmArgs {
    /// The session, by its whole name or id as `longhand ls` shows it
    #[arg(value_name = "SESSION")]
    pub(crate) id: String,
    /// Remove it; without this, the command only says what it would remove
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone)]
pub(crate) struct InputArgs {
    /// The conversation: a request, a list of messages or a session file, also claude@last, codex@last or pi@last
    /// [default: standard input]
    pub(crate) file: Option<PathBuf>,
    /// The format: auto, chat, responses, anthropic, claude-code, codex or pi
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    /// Refuse input of more bytes than this (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
}

#[derive(Args)]
pub(crate) struct MeterArgs {
    /// How to count: o200k, cl100k or chars:3.5 (3.5 characters per token) [default: by the model that the
    /// conversation names; models without a public vocabulary are estimated and marked ≈]
    #[cfg_attr(
        feature = "tokenizer-json",
        doc = "\n\nThe path of a model's tokenizer.json counts exactly for that model."
    )]
    #[arg(long, value_name = "METER")]
    pub(crate) meter: Option<MeterSpec>,
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

fn entry(text: &str) -> Result<u64, String> {
    let wrong = "expected the number of an entry, as `longhand search` shows it";
    text.parse().map_err(|_| wrong.to_owned())
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
