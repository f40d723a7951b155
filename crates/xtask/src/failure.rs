//! What can go wrong with a chore.

use std::fmt;
use std::process::ExitCode;

/// A message for the person at the terminal, and what it tells a script.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    exit_code: u8,
}

/// The answer is no.
const NO: u8 = 1;

/// The command line is at fault.
const USAGE: u8 = 2;

/// What the chore needs cannot be had here; `.ci/run` knows it.
const UNAVAILABLE: u8 = 69;

impl Failure {
    /// The work was done and the answer is no.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit_code: NO }
    }

    /// Nothing was done, for want of something that is not part of the project.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { exit_code: UNAVAILABLE, ..Self::new(message) }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        let hint = Some("`cargo xtask help` lists the commands".to_owned());
        Self { message: message.into(), hint, exit_code: USAGE }
    }

    /// Whether something was missing that is not part of the project.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.exit_code == UNAVAILABLE
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
