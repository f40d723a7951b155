//! What can be said to the commands that read files: `compact`, `check`, `count` and `expand`.

use std::path::PathBuf;

use clap::Args;

use super::{
    ArchiveArgs, DialectChoice, InputArgs, MapWhen, MeterArgs, PolicyName, amount, dialect,
};

#[derive(Args)]
#[command(after_help = "Example:
  longhand compact session.json --budget 8000 -o window.json
  longhand compact session.json --budget 32k --archive originals.db | longhand check
  longhand compact --resume claude@last      # a new session of the agent; the old one stays as it is")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Write a new session of the agent beside the old one, and print the command that goes on in it. A session is a file,
    /// the agent's id for it or the beginning of that, or claude@last, codex@last or pi@last
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["file", "output", "redact"])]
    pub(crate) resume: Option<String>,
    /// With --resume: write the new session in the place of the old one, of which a copy is kept
    #[arg(long, requires = "resume")]
    pub(crate) replace: bool,
    /// The most tokens to send, tools and system prompt included, such as 8000 or 32k [default with --resume: what the
    /// agent sends besides the messages, and 30% of what is left of the model's window, or of 200k if that is larger]
    #[arg(long, value_name = "N", value_parser = amount, required_unless_present = "resume", allow_negative_numbers = true)]
    pub(crate) budget: Option<u64>,
    /// Tokens of the budget to keep free for the reply
    #[arg(long, value_name = "N", default_value = "0", value_parser = amount)]
    pub(crate) reserve: u64,
    /// How many tokens to aim for if the budget is exceeded [default: the budget less the reserve]
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) target: Option<u64>,
    /// How to make it fit
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) policy: PolicyName,
    /// What summarises folded messages: `extractive` writes a work log without a model, `none` lists names
    /// only, a model adds how the work went; several are tried in order
    /// [default: models.summary in the settings, or extractive]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) summariser: Vec<String>,
    /// How many of the newest messages to keep verbatim [default: 4; `auto` keeps more if they fit]; `trim` and
    /// `rolling` ignore this and keep what fits
    #[arg(long, value_name = "N")]
    pub(crate) keep_tail: Option<usize>,
    /// Clip a new tool result to its beginning and end as it comes in, if it takes more than this share of the
    /// budget, in percent [default: never]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) clip_new: Option<u64>,
    /// Do not shorten texts of fewer characters
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) min_chars: usize,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// Repair an invalid conversation first: answer calls without results, quote results without calls
    #[arg(long)]
    pub(crate) repair: bool,
    /// Write the shortened conversation here instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a JSON report here; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// With --policy elide: also shorten protected messages if nothing else makes it fit
    #[arg(long)]
    pub(crate) last_resort: bool,
    /// Keep the conversation in this archive, where `longhand expand` finds what was left out. A longer version of
    /// it is recognised, and what was left out before stays out
    #[arg(long, value_name = "PATH")]
    pub(crate) archive: Option<PathBuf>,
    /// Replace keys and passwords in the archive by marks; messages that the window shows unchanged still have them
    #[arg(long, requires = "archive")]
    pub(crate) redact: bool,
    /// Draw a map of the result: auto (if standard error is a terminal), always or never
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) map: MapWhen,
    /// Print only errors on standard error
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
    /// Print nothing; only set the exit status
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand count session.jsonl                  # what takes up the context
  longhand count session.jsonl --messages       # every message
  longhand count one.json two.json three.jsonl
  longhand count request.json --meter cl100k --json")]
pub(crate) struct CountArgs {
    /// Conversations: requests, lists of messages or session files, also claude@last, codex@last or pi@last [default:
    /// standard input]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The format: auto, chat, responses, anthropic, claude-code, codex or pi
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = dialect)]
    pub(crate) dialect: DialectChoice,
    /// Refuse input of more bytes than this (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// List every message of one file
    #[arg(long)]
    pub(crate) messages: bool,
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
    /// The handle of something that a window left out, such as h:3kq9w2m1x7ab; of a message that `search` found, such as
    /// 7f3a9c02b1d4:12; of several, 7f3a9c02b1d4:12-15; or a session
    pub(crate) handle: String,
    /// Look in this file, the one that was shortened, instead of an archive
    #[arg(long, value_name = "FILE", conflicts_with = "archive")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print only this round of a fold
    #[arg(long, value_name = "N")]
    pub(crate) round: Option<u64>,
    /// Print messages and arguments as they came, a line of JSON each
    #[arg(long)]
    pub(crate) raw: bool,
    /// Print only the lines that have this, a regular expression
    #[arg(long, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,
    /// Print JSON: the handle, the form (text or json) and the content
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand repair claude@last --dry-run
  longhand repair session.jsonl

Mended are links to lines that are not there, links in a circle, lines that are there twice and a last line that is cut. The
old file is kept as a copy.")]
pub(crate) struct RepairArgs {
    /// The session: a file, the agent's id for it or the beginning of that, or claude@last, codex@last or pi@last
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Only list the faults
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Refuse a file of more bytes than this (suffixes k, m and g)
    #[arg(long, value_name = "BYTES", default_value = "256m", value_parser = amount)]
    pub(crate) max_input: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
