//! The program in the foreground: it has the terminal, and its exit status becomes ours.

use std::ffi::OsString;
use std::process::{Child, ExitStatus};

use anyhow::{Context, Result};
use tokio::task::{JoinSet, spawn_blocking};

use super::folder::RunFolder;
use super::recipe::Recipe;
use super::signals::{Receiver, Signals};

/// A program that runs.
pub(super) struct AgentProcess {
    child: Child,
    receiver: Receiver,
    /// Passes signals on for as long as it is there.
    passing: JoinSet<()>,
}

impl AgentProcess {
    /// Starts it with our own standard streams and what its recipe says.
    pub(super) fn start(command: &[OsString], recipe: &Recipe, folder: &RunFolder) -> Result<Self> {
        let (program, arguments) = command.split_first().context("there is no program to run")?;
        let words = [std::slice::from_ref(program), &recipe.arguments, arguments].concat();
        // From here on no signal ends us: it is passed to the program, which decides when to end.
        let signals = Signals::listen();
        let (child, receiver) = spawn(&words, recipe, folder)?;
        let passing = signals.pass_on(&receiver);
        Ok(Self { child, receiver, passing })
    }

    /// Waits for its end, and gives the status to end with.
    pub(super) async fn wait(self) -> Result<u8> {
        let Self { mut child, receiver, passing } = self;
        let ending = move || {
            receiver.acknowledge();
            child.wait()
        };
        let status = spawn_blocking(ending).await;
        drop(passing);
        let status = status.context("cannot wait for the program")?.context("cannot wait")?;
        #[cfg(target_os = "linux")]
        if status.code().is_none() {
            // The guard was killed, so its processes are ours now.
            super::launch::end_descendants();
        }
        Ok(code(status))
    }
}

#[cfg(target_os = "linux")]
fn spawn(words: &[OsString], recipe: &Recipe, folder: &RunFolder) -> Result<(Child, Receiver)> {
    let (child, stream) = super::launch::start(folder.path(), words, &recipe.variables)?;
    Ok((child, Receiver::Guard(stream.into())))
}

#[cfg(not(target_os = "linux"))]
fn spawn(words: &[OsString], recipe: &Recipe, _folder: &RunFolder) -> Result<(Child, Receiver)> {
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).envs(recipe.variables.iter().cloned());
    let child = command.spawn().map_err(|error| {
        crate::hinted(
            format!("{} does not start: {error}", words[0].to_string_lossy()),
            "is it installed, and in PATH?",
        )
    })?;
    let receiver = Receiver::Process(child.id());
    Ok((child, receiver))
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
