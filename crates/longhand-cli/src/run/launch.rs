//! Keeps an agent from outliving its proxy.
//!
//! `longhand run` does not start the agent itself. It starts a guard, which is this program once more, and the guard
//! starts the agent:
//!
//! ```text
//! run (proxy) ── guard ── agent ── what the agent starts
//! ```
//!
//! - If `run` is killed, the guard's connection to it closes. The guard ends all of the agent's processes, brings back
//!   the settings of the run and removes its folder. It is their subreaper, so a wrapper that ends early hides nothing.
//! - If the guard is killed, the kernel kills the agent, which has asked for that (the parent-death signal), and `run`
//!   ends the rest.
//!
//! The guard has a process group of its own, so nothing that is sent to the group of `run` ends it; the agent goes back
//! to that group and has the terminal.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, getppid, kill_process,
    set_child_subreaper, set_parent_process_death_signal, setpgid, wait,
};

use super::folder;
use super::signals::Signals;
use crate::args::LaunchArgs;
use crate::{CommandOutcome, hinted};

/// This program, even if its file was replaced since it started.
const OURSELVES: &str = "/proc/self/exe";

/// The name of the socket in the folder of a run.
const SOCKET: &str = "socket";

/// The longest that a guard may take to start.
const START_MAX: Duration = Duration::from_secs(30);

/// The guard says that the program has ended, and `run` that it has heard so: what is left running is then left on
/// purpose. No signal has the number 0.
const ENDED: u8 = 0;

/// How long processes have to end by themselves, and then to be gone.
const GRACE: Duration = Duration::from_secs(3);
const KILL_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How many searches in a row must find no process.
const LOOKS: usize = 5;

/// Starts a guard that starts a program. What is written to the connection are signals for the program.
pub(super) fn start(
    folder: &Path,
    command: &[OsString],
    variables: &[(OsString, OsString)],
) -> Result<(Child, UnixStream)> {
    let program = command.first().context("there is no program to run")?;
    find(program)?;
    // If the guard is killed, what it leaves comes to us.
    let _ = set_child_subreaper(Some(getpid()));
    let socket = folder.join(SOCKET);
    let listener = UnixListener::bind(&socket).map_err(|error| {
        hinted(
            format!("cannot listen on {}: {error}", socket.display()),
            "TMPDIR may name a folder with a shorter path",
        )
    })?;
    listener.set_nonblocking(true)?;
    let mut guard = Command::new(OURSELVES);
    guard.arg0("longhand").arg("launch").arg("--folder").arg(folder);
    guard.args(stage(getpgrp())).args(command).envs(variables.iter().cloned()).process_group(0);
    let mut guard = guard.spawn().context("cannot start the guard of the program")?;
    let begun = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("cannot reach the guard of the program"),
        }
        if guard.try_wait()?.is_some() || begun.elapsed() > START_MAX {
            let _ = guard.kill();
            anyhow::bail!("the guard of the program does not start");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    stream.set_nonblocking(false)?;
    let _ = std::fs::remove_file(&socket);
    Ok((guard, stream))
}

/// Waits until the guard says that the program has ended, or is gone itself.
pub(super) fn acknowledge(mut stream: &UnixStream) {
    if stream.read_exact(&mut [0]).is_ok() {
        let _ = stream.write_all(&[ENDED]);
    }
}

/// The arguments that both stages have: who starts it, and the group of the program.
fn stage(group: Pid) -> [OsString; 5] {
    let number = |pid: Pid| OsString::from(pid.as_raw_nonzero().to_string());
    ["--parent".into(), number(getpid()), "--group".into(), number(group), "--".into()]
}

/// Makes sure that a program can be started, as far as can be told before it is.
fn find(program: &OsString) -> Result<()> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if is_path {
        vec![PathBuf::from(program)]
    } else {
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let files: Vec<_> = places.iter().filter_map(|place| std::fs::metadata(place).ok()).collect();
    let runs = |file: &std::fs::Metadata| file.is_file() && file.permissions().mode() & 0o111 != 0;
    if files.iter().any(runs) {
        return Ok(());
    }
    let kind = if files.is_empty() { ErrorKind::NotFound } else { ErrorKind::PermissionDenied };
    Err(does_not_start(program, &kind.into()))
}

pub(super) fn does_not_start(program: &OsString, error: &std::io::Error) -> anyhow::Error {
    hinted(
        format!("{} does not start: {error}", program.to_string_lossy()),
        "is it installed, and in PATH?",
    )
}

/// `longhand launch`: one of the two stages.
pub(crate) fn launch(args: &LaunchArgs) -> Result<CommandOutcome> {
    let pid = |number: i32| Pid::from_raw(number).context("0 is no process");
    let (parent, group) = (pid(args.parent)?, pid(args.group)?);
    match &args.folder {
        Some(folder) => guard(folder, group, &args.command),
        None => execute(parent, group, &args.command),
    }
}

/// Becomes the program.
fn execute(parent: Pid, group: Pid, command: &[OsString]) -> Result<CommandOutcome> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be tied to the guard")?;
    // It may have ended before that.
    if getppid() != Some(parent) {
        return Ok(CommandOutcome::No);
    }
    // It fails if `run` is gone, and then the guard is about to end this process.
    let _ = setpgid(None, Some(group));
    let (program, arguments) = command.split_first().context("there is no program to run")?;
    Err(does_not_start(program, &Command::new(program).args(arguments).exec()))
}

/// What happens to a guard.
enum Event {
    /// A signal is to be passed on.
    Signal(Signal),
    /// The program has ended.
    Ended(WaitStatus),
    /// `run` was alive when it heard of that.
    Acknowledged,
    /// `run` has ended.
    Left,
}

fn guard(folder: &Path, group: Pid, command: &[OsString]) -> Result<CommandOutcome> {
    set_child_subreaper(Some(getpid())).context("cannot look after the program")?;
    // None of them ends us: a guard that is stopped when `run` dies would get HUP from the kernel.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot listen to signals")?;
    let _context = runtime.enter();
    let _signals = Signals::listen();
    let stream = UnixStream::connect(folder.join(SOCKET)).context("cannot reach `run`")?;
    let mut program = Command::new(OURSELVES);
    program.arg0("longhand").arg("launch").args(stage(group)).args(command);
    // From this thread, which ends last: the kernel takes the end of a thread for that of the parent.
    let program = program.spawn().context("cannot start the program")?;
    let program = Pid::from_raw(program.id().cast_signed()).context("it has no number")?;
    let (events, received) = mpsc::channel();
    let ends = events.clone();
    std::thread::spawn(move || reap(program, &ends));
    let reading = stream.try_clone().context("cannot read from `run`")?;
    std::thread::spawn(move || listen(reading, &events));
    let mut ended = None;
    for event in received {
        match event {
            Event::Signal(signal) => {
                // It may have ended in this very moment.
                let _ = kill_process(program, signal);
            }
            Event::Ended(status) => {
                ended = Some(code(status));
                if (&stream).write_all(&[ENDED]).is_err() {
                    break;
                }
            }
            Event::Acknowledged => {
                if let Some(code) = ended {
                    return Ok(CommandOutcome::Status(code));
                }
            }
            Event::Left => break,
        }
    }
    end_descendants();
    folder::end_left(folder);
    Ok(CommandOutcome::No)
}

/// Reaps the program and what it has left behind.
fn reap(program: Pid, events: &mpsc::Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let _ = events.send(Event::Ended(status));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Reads signals from `run`, until it is gone.
fn listen(mut stream: UnixStream, events: &mpsc::Sender<Event>) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        let signal = Signal::from_named_raw(i32::from(byte[0])).map(Event::Signal);
        let _ = events.send(signal.unwrap_or(Event::Acknowledged));
    }
    let _ = events.send(Event::Left);
}

/// The exit status that a shell would report.
fn code(status: WaitStatus) -> u8 {
    let by_signal = status.terminating_signal().map(|signal| 128 + signal);
    by_signal.or(status.exit_status()).unwrap_or(1) as u8
}

/// Ends every process that this one, or one of its descendants, has started: first politely.
pub(super) fn end_descendants() {
    let signal_all = |signals: &[Signal]| {
        for pid in descendants() {
            for signal in signals {
                // It may have ended meanwhile.
                let _ = kill_process(pid, *signal);
            }
        }
    };
    // One that is stopped could not end.
    signal_all(&[Signal::TERM, Signal::CONT]);
    let begun = Instant::now();
    let mut none_seen = 0;
    while none_seen < LOOKS && begun.elapsed() < GRACE + KILL_MAX {
        // A process may move to another parent while all of them are read, and not be found.
        none_seen = if descendants().is_empty() { none_seen + 1 } else { 0 };
        if begun.elapsed() > GRACE {
            signal_all(&[Signal::KILL]);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The living processes below this one.
fn descendants() -> Vec<Pid> {
    let processes: Vec<Process> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    let mut living = Vec::new();
    while let Some(parent) = parents.pop() {
        for process in processes.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            living.extend(Pid::from_raw(process.pid).filter(|_| process.is_alive));
        }
    }
    living
}

struct Process {
    pid: i32,
    parent: i32,
    is_alive: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of a program may have any letters in it, brackets too.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_alive = !matches!(fields.next()?, "Z" | "X");
        Some(Self { pid, parent: fields.next()?.parse().ok()?, is_alive })
    }
}
