//! The program in the foreground: it has the terminal, and its exit status becomes ours.

use std::ffi::OsString;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};
use tokio::task::spawn_blocking;

use super::recipe::Recipe;
use crate::hinted;

/// A program that runs.
pub(super) struct Child {
    child: std::process::Child,
}

impl Child {
    /// Starts it with our own standard streams and what its recipe says.
    pub(super) fn start(command: &[OsString], recipe: &Recipe) -> Result<Self> {
        let (program, arguments) = command.split_first().context("there is no program to run")?;
        let mut command = Command::new(program);
        command.args(&recipe.arguments).args(arguments).envs(recipe.variables.iter().cloned());
        let child = command.spawn().map_err(|error| {
            hinted(
                format!("{} does not start: {error}", program.to_string_lossy()),
                "is it installed, and in PATH?",
            )
        })?;
        Ok(Self { child })
    }

    /// Waits for its end, and gives the status to end with.
    ///
    /// Ctrl-C goes to all programs of a terminal, so the program decides what to do about it. What ends us
    /// alone is passed on.
    pub(super) async fn wait(mut self) -> Result<u8> {
        let signals = Signals::listen(&self.child);
        let waiting = spawn_blocking(move || self.child.wait());
        let status = tokio::select! {
            status = waiting => status,
            never = signals.pass_on() => match never {},
        };
        Ok(code(status.context("cannot wait for the program")?.context("cannot wait")?))
    }
}

/// The exit status that a shell would report.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return 128_u8.wrapping_add(signal as u8);
        }
    }
    status.code().map_or(1, |code| code as u8)
}

/// Signals that are passed on to the program.
#[cfg(unix)]
struct Signals {
    child: Option<rustix::process::Pid>,
    interrupt: Option<tokio::signal::unix::Signal>,
    terminate: Option<tokio::signal::unix::Signal>,
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn listen(child: &std::process::Child) -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        Self {
            child: rustix::process::Pid::from_raw(child.id().cast_signed()),
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            hang_up: signal(SignalKind::hangup()).ok(),
        }
    }

    async fn pass_on(mut self) -> std::convert::Infallible {
        use rustix::process::Signal;
        loop {
            let signal = tokio::select! {
                () = heard(&mut self.interrupt) => None,
                () = heard(&mut self.terminate) => Some(Signal::TERM),
                () = heard(&mut self.hang_up) => Some(Signal::HUP),
            };
            if let (Some(signal), Some(child)) = (signal, self.child) {
                // It may have ended in this very moment.
                let _ = rustix::process::kill_process(child, signal);
            }
        }
    }
}

#[cfg(unix)]
async fn heard(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen(_child: &std::process::Child) -> Self {
        Self
    }

    async fn pass_on(self) -> std::convert::Infallible {
        loop {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
