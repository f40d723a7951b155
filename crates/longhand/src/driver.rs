//! The way of a conversation through its session: where it goes on, which batches hold for it, and a new one if its
//! window needs that.

use std::ops::Range;
use std::sync::Arc;

use longhand_archive::{
    After, Appended, Archive, ArchiveError, Conflict, Conflicts, Entry, FoldStates, Ledger,
    LoggedBatch, NewBatch, NewEntry, NewSession, SessionId, wait,
};
use longhand_core::session::{Chain, Trail};
use longhand_core::{Batch, Message, Seq};

use crate::known_calls::{KnownCalls, Unread};
use crate::{SessionError, recall};

/// A session that a conversation is in.
pub struct Driver {
    archive: Arc<dyn Archive>,
    id: SessionId,
    /// `None` as long as the archive does not have it.
    ledger: Option<Ledger>,
    calls: KnownCalls,
    /// The batches that were live when they were asked for last.
    batches: Vec<LoggedBatch>,
}

impl Driver {
    /// Opens a session; one that the archive does not have is empty.
    pub fn open(archive: Arc<dyn Archive>, id: SessionId) -> Result<Self, SessionError> {
        let ledger = wait(Ledger::open(&*archive, id))?;
        Ok(Self { archive, id, ledger, calls: KnownCalls::default(), batches: Vec::new() })
    }

    /// Takes in what was written since, by whomever.
    pub fn refresh(&mut self) -> Result<(), SessionError> {
        let is_there = match &mut self.ledger {
            Some(ledger) => wait(ledger.refresh(&*self.archive))?,
            None => false,
        };
        if !is_there {
            self.ledger = wait(Ledger::open(&*self.archive, self.id))?;
        }
        Ok(())
    }

    /// The session's id.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Where it is kept.
    pub fn archive(&self) -> &dyn Archive {
        &*self.archive
    }

    /// The session as it is known; `None` if the archive does not have it.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Finds where the messages of a conversation are, as far as the session has them. A call whose arguments were
    /// changed is another message, and so are all after it.
    pub fn follow(
        &mut self,
        chain: &mut Chain,
        messages: &[Message],
    ) -> Result<Trail, SessionError> {
        let Some(ledger) = &mut self.ledger else { return Ok(Trail::default()) };
        loop {
            match self.calls.follow(&ledger.state, chain, messages, 0) {
                Ok(trail) => return Ok(trail),
                Err(Unread::Nodes(lack)) => wait(ledger.load(&*self.archive, lack))?,
                Err(Unread::Calls(seqs)) => {
                    let read = recall::messages_of(&*self.archive, self.id, &seqs);
                    let read = read.unwrap_or_default();
                    for seq in seqs {
                        self.calls.learn(seq, read.get(&seq).map(|(_, message)| message));
                    }
                }
            }
        }
    }

    /// Appends entries to the session, which begins with them if the archive does not have it.
    pub fn append(
        &mut self,
        new: &NewSession,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, SessionError> {
        let ledger = match &mut self.ledger {
            Some(ledger) => ledger,
            empty => empty.insert(wait(Ledger::open_or_begin(&*self.archive, self.id, new))?),
        };
        match wait(ledger.append(&*self.archive, after, entries)) {
            // It was removed meanwhile.
            Err(ArchiveError::UnknownSession { .. }) => {
                let anew = wait(Ledger::open_or_begin(&*self.archive, self.id, new))?;
                let ledger = self.ledger.insert(anew);
                Ok(wait(ledger.append(&*self.archive, after, entries))?)
            }
            outcome => Ok(outcome?),
        }
    }

    /// The live batches of the path to a head, oldest first. Of the states of their folds, the newest is there.
    pub fn live(&mut self, head: Option<Seq>) -> Result<&[LoggedBatch], SessionError> {
        let live = match &self.ledger {
            Some(ledger) => ledger.state.live(ledger.head(head)?),
            None => Vec::new(),
        };
        let known = self.batches.iter().map(|batch| batch.number);
        let known = known.zip(&live).take_while(|(known, live)| known == *live).count();
        self.batches.truncate(known);
        self.read_batches(&live[known..])?;
        // Of all states, that of the newest fold is used. What came after it may have been undone.
        let newest = self.batches.iter().rposition(|logged| logged.batch.fold().is_some());
        if let Some(newest) = newest.filter(|newest| *newest < known)
            && self.batches[newest].batch.state.is_empty()
        {
            self.batches.truncate(newest);
            self.read_batches(&live[newest..])?;
        }
        Ok(&self.batches)
    }

    /// Reads live batches that follow those that are known.
    fn read_batches(&mut self, numbers: &[u64]) -> Result<(), SessionError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let read = self.archive.read_batches(self.id, numbers.to_vec(), FoldStates::Last);
        let logged = wait(read)?.into_iter().zip(numbers);
        self.batches.extend(logged.map(|(record, number)| record.logged(*number, true)));
        Ok(())
    }

    /// The entries of a path with numbers in a range, oldest first.
    pub fn entries(&self, head: Option<Seq>, seqs: Range<u64>) -> Result<Vec<Entry>, SessionError> {
        let Some(ledger) = &self.ledger else { return Ok(Vec::new()) };
        let Some(head) = ledger.head(head)? else { return Ok(Vec::new()) };
        let seqs = ledger.state.tree().path(head, seqs);
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let records = wait(self.archive.bodies(self.id, seqs))?;
        Ok(records.into_iter().map(|record| record.entry).collect())
    }

    /// The session's pinned entries, in order.
    pub fn pins(&self) -> Vec<Seq> {
        self.ledger.as_ref().map(|ledger| ledger.state.pins().to_vec()).unwrap_or_default()
    }

    /// Plans with the live batches of a path, and commits the batch of the plan if there is one. If another writer was
    /// first, it plans anew from what that one did. Returns the batches that the plan was made with, too.
    pub fn planned<T>(
        &mut self,
        head: Option<Seq>,
        mut plan: impl FnMut(&Self, &[Batch], &[Seq]) -> Result<(Option<NewBatch>, T), SessionError>,
    ) -> Result<(Vec<Batch>, T), SessionError> {
        until_settled(|| {
            let live = self.live(head)?;
            let after = live.last().map_or(0, |logged| logged.number);
            let live: Vec<Batch> = live.iter().map(|logged| logged.batch.clone()).collect();
            let (batch, planned) = plan(self, &live, &self.pins())?;
            let Some(batch) = batch else { return Ok(Some((live, planned))) };
            let number = self.commit(&NewBatch { after, ..batch })?;
            Ok(number.map(|_| (live, planned)))
        })
    }

    /// Commits a batch and returns its number; `None` if another writer was first. What that one wrote is known then.
    pub fn commit(&mut self, batch: &NewBatch) -> Result<Option<u64>, SessionError> {
        let unknown = ArchiveError::UnknownSession { session: self.id };
        let ledger = self.ledger.as_mut().ok_or(unknown)?;
        match wait(ledger.commit(&*self.archive, batch)) {
            Ok(number) => Ok(Some(number)),
            Err(ArchiveError::Conflict { .. }) => self.refresh().map(|()| None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Tries something until no other writer comes first, but not for ever. An attempt that fails so gives `None`.
pub(crate) fn until_settled<T>(
    mut attempt: impl FnMut() -> Result<Option<T>, SessionError>,
) -> Result<T, SessionError> {
    let mut conflicts = Conflicts::default();
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if !conflicts.may_retry() {
            let (session, conflict) = (SessionId::default(), Conflict::Version);
            return Err(ArchiveError::Conflict { session, conflict }.into());
        }
    }
}
