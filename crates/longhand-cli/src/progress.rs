//! A line that says that the command is still working, if it takes over a second.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::args::{ArchiveCommand, ArchiveCommandArgs, Command};
use crate::clean;

/// How long a command is quiet before the line appears.
const QUIET: Duration = Duration::from_secs(1);

/// How often the line changes.
const TICK: Duration = Duration::from_millis(500);

/// The task that is shown, and since when it runs.
struct RunningTask {
    what: String,
    since: Instant,
    is_shown: bool,
}

static WORK: Mutex<Option<RunningTask>> = Mutex::new(None);

fn work() -> MutexGuard<'static, Option<RunningTask>> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a command is called while it works; `None` if it shows no progress.
pub(crate) fn label(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Compact(args) if !args.quiet => "making it fit",
        Command::Check(args) if !args.quiet => "checking",
        Command::Count(args) if !args.quiet => "counting",
        Command::Replay(args) if !args.quiet => "replaying",
        Command::Eval(_) => "asking questions",
        Command::Expand(_) | Command::Search(_) => "searching",
        Command::Resume(args) if !args.go => "searching",
        Command::Verify(_) => "verifying",
        Command::Export(_) => "exporting",
        Command::Import(_) => "importing",
        Command::Rm(_) => "removing",
        Command::Archive(ArchiveCommandArgs {
            command: ArchiveCommand::Backup(_) | ArchiveCommand::Copy(_),
        }) => "copying",
        Command::Archive(ArchiveCommandArgs { command: ArchiveCommand::Migrate(_) }) => "migrating",
        Command::Doctor(_) => "testing the archive and the models",
        _ => return None,
    })
}

/// Shows what is being done if it takes over a second and standard error is a terminal.
pub(crate) fn start(what: &str) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let is_first = work()
        .replace(RunningTask { what: clean::line(what), since: Instant::now(), is_shown: false })
        .is_none();
    if is_first {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(TICK);
                let mut work = work();
                let Some(work) = work.as_mut() else { return };
                if work.since.elapsed() >= QUIET {
                    work.is_shown = true;
                    show(&format!("{}, {} s", work.what, work.since.elapsed().as_secs()));
                }
            }
        });
    }
}

/// Changes what is shown, if something is.
pub(crate) fn rename(what: &str) {
    if let Some(work) = work().as_mut() {
        what.clone_into(&mut work.what);
    }
}

/// Removes the line so that something else can be printed; it comes back if the work takes another second.
pub(crate) fn clear() {
    if let Some(work) = work().as_mut() {
        if work.is_shown {
            show("");
        }
        work.since = Instant::now();
        work.is_shown = false;
    }
}

/// Removes the line: the work is done.
pub(crate) fn end() {
    if work().take().is_some_and(|work| work.is_shown) {
        show("");
    }
}

/// Overwrites the line.
pub(crate) fn show(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\u{1b}[K{text}").and_then(|()| out.flush());
}
