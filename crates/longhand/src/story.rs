//! What a model writes of folded rounds, in the background.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use longhand_summary::Summariser;

use crate::digest::State;
use crate::fold::Folding;

/// A summary that is being written; dropped, it lets the summariser finish and forgets what it says.
pub(crate) struct Story {
    told: Receiver<Option<State>>,
}

impl Story {
    /// The key under which an archive keeps the newest story of a session.
    pub(crate) const KEY: &str = "story";

    /// Asks summarisers in turn, on a thread.
    pub(crate) fn start(
        folding: Folding,
        rounds: u64,
        summarisers: Vec<Arc<dyn Summariser>>,
    ) -> Self {
        let (tell, told) = mpsc::channel();
        let run = move || {
            let blocks = summarisers.iter().map(|summariser| folding.run(&**summariser));
            let text = blocks.flatten().next().map(|block| block.text);
            // Nobody may be listening any more.
            let _ = tell.send(text.map(|text| State { rounds, text }));
        };
        // Where no thread can be had the channel is closed at once, which counts as a failure.
        let _ = thread::Builder::new().name("longhand-story".to_owned()).spawn(run);
        Self { told }
    }

    /// What was written, if anything was; itself again if it is not done within that time.
    pub(crate) fn told(self, wait: Duration) -> Result<Option<State>, Self> {
        match self.told.recv_timeout(wait) {
            Ok(state) => Ok(state),
            Err(RecvTimeoutError::Timeout) => Err(self),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}
