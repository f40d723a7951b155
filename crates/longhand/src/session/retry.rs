//! Retrying the newest round.

use longhand_archive::After;

use super::Session;
use crate::SessionError;

impl Session {
    /// Goes back to before the newest round, and returns what the user said in it; `None` if nothing was said.
    ///
    /// The next round that is recorded stands in its place. The archive keeps both, as two paths of the ledger.
    pub fn retry(&mut self) -> Result<Option<String>, SessionError> {
        self.place = After::Newest;
        self.reload()?;
        self.read_unfolded()?;
        let Some(newest) = self.shown.last().map(|entry| entry.round) else { return Ok(None) };
        let Some(round) = self.plain_rounds()?.pop() else { return Ok(None) };
        let first = self.shown.partition_point(|entry| entry.round < newest);
        let seq = self.shown[first].seq;
        let entries = self.archive.entries(self.id, seq.0..seq.0 + 1)?;
        self.place = After::Entry(entries.first().and_then(|entry| entry.parent));
        self.reload()?;
        Ok(Some(round.user))
    }
}
