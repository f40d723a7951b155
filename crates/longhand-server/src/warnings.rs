//! What the person in front of the terminal must know, said once.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::lock::lock;
use crate::redaction::Redaction;
use crate::settings::LogSink;

/// How many different warnings are remembered.
const SAID_MAX: usize = 1_000;

/// Says each warning once.
pub(crate) struct Warnings {
    say: Option<LogSink>,
    redaction: Redaction,
    said: Mutex<HashSet<String>>,
}

impl Warnings {
    pub(crate) fn new(say: Option<LogSink>, redaction: Redaction) -> Self {
        Self { say, redaction, said: Mutex::default() }
    }

    /// Says something unless it was said before.
    pub(crate) fn once(&self, warning: &str) {
        let Some(say) = &self.say else { return };
        let warning = self.redaction.text(warning);
        let is_new = {
            let mut said = lock(&self.said);
            if said.len() >= SAID_MAX {
                // Better twice than never.
                said.clear();
            }
            said.insert(warning.clone().into_owned())
        };
        // A terminal may be stopped: nobody else waits for it.
        if is_new {
            say(&warning);
        }
    }
}
