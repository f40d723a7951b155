//! What the person in front of the terminal must know, said once.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::lock::lock;
use crate::redaction::Redaction;
use crate::settings::LogSink;

/// How many different warnings are remembered.
const SHOWN_MAX: usize = 1_000;

/// Says each warning once.
pub(crate) struct Warnings {
    say: Option<LogSink>,
    redaction: Redaction,
    shown: Mutex<HashSet<String>>,
}

impl Warnings {
    pub(crate) fn new(say: Option<LogSink>, redaction: Redaction) -> Self {
        Self { say, redaction, shown: Mutex::default() }
    }

    /// Says something unless it was said before.
    pub(crate) fn once(&self, warning: &str) {
        let Some(say) = &self.say else { return };
        let warning = self.redaction.text(warning);
        let is_new = {
            let mut shown = lock(&self.shown);
            if shown.len() >= SHOWN_MAX {
                // Better twice than never.
                shown.clear();
            }
            shown.insert(warning.clone().into_owned())
        };
        // A terminal may be stopped: nobody else waits for it.
        if is_new {
            say(&warning);
        }
    }
}
