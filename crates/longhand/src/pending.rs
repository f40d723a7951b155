//! A summary that is being written in the background.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use longhand_core::FoldId;
use longhand_summary::SummaryError;

use crate::fold::{Block, Folding, NoBlock};

/// Waits for a block; dropped, it lets the summariser finish and forgets what it says.
pub(crate) struct Pending {
    fold: FoldId,
    rung: usize,
    name: String,
    blocks: Receiver<Result<Block, NoBlock>>,
}

impl Pending {
    pub(crate) fn start(fold: FoldId, rung: usize, folding: Folding) -> Self {
        let (tell, blocks) = mpsc::channel();
        let name = folding.summariser.name().to_owned();
        let run = move || {
            // Nobody may be listening any more.
            let _ = tell.send(folding.run());
        };
        // Where no thread can be had the channel is closed at once, which counts as a failure.
        let _ = thread::Builder::new().name("longhand-fold".to_owned()).spawn(run);
        Self { fold, rung, name, blocks }
    }

    /// What came of it; itself again if there is no answer within that time.
    pub(crate) fn answer(
        self,
        wait: Duration,
    ) -> Result<(FoldId, usize, Result<Block, NoBlock>), Self> {
        let answer = match self.blocks.recv_timeout(wait) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return Err(self),
            Err(RecvTimeoutError::Disconnected) => Err(NoBlock::Failed(SummaryError::Failed {
                name: self.name,
                source: "it came to an unexpected end".into(),
            })),
        };
        Ok((self.fold, self.rung, answer))
    }
}
