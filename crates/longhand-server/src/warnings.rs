//! Warnings for the person at the terminal.

use std::collections::HashSet;
use std::sync::Mutex;

use crate::lock::lock;
use crate::redaction::Redaction;
use crate::settings::LogSink;

/// How many different warnings are remembered.
const SHOWN_MAX: usize = 1_000;

/// Shows each warning once.
pub(crate) struct Warnings {
    say: Option<LogSink>,
    redaction: Redaction,
    shown: Mutex<HashSet<String>>,
}

impl Warnings {
    pub(crate) fn new(say: Option<LogSink>, redaction: Redaction) -> Self {
        Self { say, redaction, shown: Mutex::default() }
    }

    /// Shows a warning unless it was shown before.
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
        // Without the lock: a terminal may be stopped, and others must not wait for it.
        if is_new {
            say(&warning);
        }
    }
}
