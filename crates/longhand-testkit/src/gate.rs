//! Something that waits until the test lets it go on.
//!
//! What a test says of "meanwhile" holds by the order of things then, and not by the clock of a busy machine.
#![allow(clippy::unwrap_used)]

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A test that forgot to open its gate fails after this time.
const PATIENCE: Duration = Duration::from_mins(2);

/// Holds whoever comes until it is opened.
#[derive(Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Lets all pass, now and from now on.
    pub fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// Waits until it is open.
    pub fn pass(&self) {
        let is_open = self.is_open.lock().unwrap();
        let (is_open, _) =
            self.opened.wait_timeout_while(is_open, PATIENCE, |is_open| !*is_open).unwrap();
        assert!(*is_open, "nobody opened the gate");
    }
}
