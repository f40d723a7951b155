//! `longhand chat` without a terminal: standard input is one message, and only the answer is printed.

use std::io::Read;

use anyhow::{Context, Result, bail};

use super::{Chat, DEFAULT_SESSION};
use crate::{CommandOutcome, hinted};

impl Chat {
    /// Sends all of standard input and prints the answer.
    pub(super) fn answer_once(&mut self) -> Result<CommandOutcome> {
        let mut message = String::new();
        std::io::stdin().read_to_string(&mut message).context("cannot read standard input")?;
        let message = message.trim();
        if message.is_empty() {
            return Err(hinted(
                "standard input is empty, so there is no message to send",
                "echo 'Hello' | longhand chat, or run it in a terminal",
            ));
        }
        let name = self.session.name();
        if self.session.verbatim().end == 0 && name != DEFAULT_SESSION {
            self.screen.notice(&format!("{name:?} is a new conversation"));
        }
        self.turn(message)?;
        if !self.unrecorded.is_empty() {
            bail!("the round could not be recorded");
        }
        if self.has_failed {
            bail!("there is no complete answer");
        }
        Ok(CommandOutcome::Done)
    }
}
