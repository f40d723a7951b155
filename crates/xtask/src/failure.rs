//! What can go wrong with a chore.

use std::fmt;
use std::process::ExitCode;

/// A message for the person at the terminal, and whether the command line was at fault.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    usage: bool,
}

impl Failure {
    /// The work was done and the answer is no.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, usage: false }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        let hint = Some("`cargo xtask help` lists the commands".to_owned());
        Self { message: message.into(), hint, usage: true }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
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
