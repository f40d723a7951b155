//! The `longhand` command.
#![forbid(unsafe_code)]

mod archive;
mod args;
mod chat;
mod check;
mod compact;
mod config;
mod console;
mod count;
mod demo;
mod doctor;
mod embeddings;
mod eval;
mod expand;
mod history;
mod input;
mod inspect;
mod ls;
mod manage;
mod map;
mod mcp;
mod models;
mod names;
mod output;
mod paths;
mod progress;
mod record;
mod redaction;
mod repair;
mod replay;
mod report;
mod resume;
mod run;
mod search;
mod serve;
mod session_file;
mod store;
mod top;
mod transfer;
mod trust;
mod usage;
mod verbose;
mod weigh;

use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};
use longhand::ArchiveError;
use longhand::app::AppError;
use longhand::clean;
use longhand_archive::{FileError, ServerError, is_postgres};

use args::{Cli, Command};

/// How a command ended, if not in an error.
enum CommandOutcome {
    /// It did what was asked.
    Done,
    /// A check failed, or nothing was found.
    No,
    /// The conversation does not fit; the best window was written.
    TooBig,
    /// A program that was run ended with this status.
    Status(u8),
}

fn main() -> ExitCode {
    let cli = match command_line() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    if let Some(what) = progress::label(&cli.command) {
        progress::start(what);
    }
    let done = match cli.command {
        Command::Compact(args) => compact::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Expand(args) => expand::run(&args),
        Command::Record(args) => record::record(&args),
        Command::Context(args) => record::context(&args),
        Command::Ls(args) => ls::ls(&args),
        Command::Show(args) => inspect::show(&args),
        Command::Log(args) => inspect::log(&args),
        Command::Search(args) => search::run(&args),
        Command::Resume(args) => resume::run(&args),
        Command::Pin(args) => manage::pin(&args),
        Command::Undo(args) => manage::undo(&args),
        Command::Verify(args) => manage::verify(&args),
        Command::Export(args) => transfer::export(&args),
        Command::Import(args) => transfer::import(&args),
        Command::Repair(args) => repair::run(&args),
        Command::Rename(args) => manage::rename(&args),
        Command::Rm(args) => manage::rm(&args),
        Command::Archive(args) => archive::run(&args),
        Command::Chat(args) => chat::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Run(args) => run::run(&args),
        #[cfg(target_os = "linux")]
        Command::Launch(args) => run::launch(&args),
        Command::Console(args) => console::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Usage(args) => usage::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Trust(args) => trust::run(&args),
        Command::Completions(args) => completions(&args),
        Command::Man(args) => man(&args),
    };
    progress::end();
    match done {
        Ok(CommandOutcome::Done) => ExitCode::SUCCESS,
        Ok(CommandOutcome::No) => ExitCode::from(1),
        Ok(CommandOutcome::TooBig) => ExitCode::from(3),
        Ok(CommandOutcome::Status(status)) => ExitCode::from(status),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("error: {}", indented(&text(&error))));
            if let Some(hint) = hint(&error) {
                output::say(&format!("hint: {}", indented(&store::addressed(&hint))));
            }
            ExitCode::from(2)
        }
    }
}

/// Indents all lines but the first: what an error quotes cannot pose as a line of ours.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n  ")
}

/// Reads the command line. What is wrong with it is printed with clap's colours, unless it quotes what may control
/// the terminal: a file name, say, that a shell has put there.
fn command_line() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        let text = error.to_string();
        if clean::text(&text) == text {
            error.exit();
        }
        output::say(text.trim_end());
        ExitCode::from(2)
    })
}

fn completions(args: &args::CompletionsArgs) -> anyhow::Result<CommandOutcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "longhand", &mut script);
    output::print_data(&String::from_utf8_lossy(&script))?;
    Ok(CommandOutcome::Done)
}

fn man(args: &args::ManArgs) -> anyhow::Result<CommandOutcome> {
    clap_mangen::generate_to(Cli::command(), &args.folder)
        .with_context(|| format!("cannot write man pages to {}", args.folder.display()))?;
    Ok(CommandOutcome::Done)
}

/// Whether the reader of our output closed it, which is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of_app = match error.downcast_ref() {
        Some(AppError::Io(error)) => Some(error),
        _ => None,
    };
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.chain(of_app).any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// What an error says.
pub(crate) fn text(error: &anyhow::Error) -> String {
    error.downcast_ref().map_or_else(|| format!("{error:#}"), names::error_text)
}

/// What to do about an error, where that is known.
pub(crate) fn hint(error: &anyhow::Error) -> Option<String> {
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        return Some(hinted.hint.clone());
    }
    if let Some(hint) = error.downcast_ref().and_then(AppError::hint) {
        return Some(hint);
    }
    let of_app = error.downcast_ref().and_then(AppError::archive_error);
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<ArchiveError>());
    causes.chain(of_app).find_map(|cause| match cause.file_error() {
        _ if let Some(error) = cause.server_error() => server_hint(error),
        _ if let ArchiveError::OtherFormat { archive, found, known } = cause
            && found > known
            && is_postgres(archive) =>
        {
            Some("another node has made newer tables: bring this one to the same release".to_owned())
        }
        _ if let ArchiveError::OtherFormat { archive, found, known } = cause
            && found < known =>
        {
            Some(format!(
                "`longhand archive migrate {}` brings it to the new format, and keeps the old file",
                names::quoted(archive)
            ))
        }
        Some(FileError::InUse { .. }) => Some(
            "end the programs that use the archive, such as `longhand serve` and `longhand run`, \
             and try again"
                .to_owned(),
        ),
        Some(FileError::ForeignLog { log, .. }) => Some(format!(
            "the log may hold the newest messages of another archive: put that archive back, or move \
             {log} away and keep it"
        )),
        _ => None,
    })
}

/// What to do about a server that cannot be used.
fn server_hint(error: &ServerError) -> Option<String> {
    let hint = match error {
        ServerError::Address { .. } => {
            "it looks like postgres://user@host:5432/database?sslmode=verify-full"
        }
        ServerError::Unreachable { .. } | ServerError::Silent { .. } => {
            "see that the server runs, and that host, port and sslmode of the address are right"
        }
        ServerError::Login { .. } => {
            "the password is that of PGPASSWORD, of the file that PGPASSFILE names, or of \
             LONGHAND_ARCHIVE_PASSWORD_FILE"
        }
        ServerError::NoDatabase { .. } => "`createdb` makes it",
        ServerError::Uncertain { .. } => "look whether it is there before you try again",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// An error with a hint on what to do about it.
#[derive(Debug)]
struct Hinted {
    what: String,
    hint: String,
}

impl std::fmt::Display for Hinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {}

/// Makes an error with a hint.
fn hinted(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    Hinted { what: what.into(), hint: hint.into() }.into()
}
