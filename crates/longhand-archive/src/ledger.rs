//! A session's state over its storage: what the state lacks is loaded, and what it decides is written.

use longhand_core::Seq;
use longhand_core::session::{CommitError, Lack, SessionState, Version};

use crate::archive::append::{append_to, commit_to};
use crate::storage::{Opened, Storage, Write};
use crate::{
    After, Appended, ArchiveError, Conflict, Damage, DamagedPart, NewBatch, NewEntry, NewSession,
    SessionId, SessionInfo,
};

/// How often something is decided anew because other writers were first.
///
/// Each time one of them got on, so a crowd gets through; but nobody tries for ever.
const CONFLICTS_MAX: usize = 256;

/// The attempts to do something that other writers may be first to.
pub fn attempts() -> impl Iterator<Item = ()> + Send {
    std::iter::repeat_n((), CONFLICTS_MAX)
}

/// A session and its state, as storage has them.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Who it is, and how much it had when it was opened.
    pub opened: Opened,
    /// Its state.
    pub state: SessionState,
    /// How it begins, as long as storage does not have it.
    begin: Option<NewSession>,
}

/// Why something could not be decided.
#[derive(Debug)]
pub enum Undecided {
    /// These entries must be known first.
    Lack(Lack),
    /// It cannot be done.
    Refused(ArchiveError),
}

impl From<Lack> for Undecided {
    fn from(lack: Lack) -> Self {
        Self::Lack(lack)
    }
}

impl From<ArchiveError> for Undecided {
    fn from(error: ArchiveError) -> Self {
        Self::Refused(error)
    }
}

impl Ledger {
    /// Opens a session; `None` if it is unknown.
    pub async fn open<S: Storage + ?Sized>(
        storage: &S,
        id: SessionId,
    ) -> Result<Option<Self>, ArchiveError> {
        let Some(mut opened) = storage.open(id, Version::default()).await? else { return Ok(None) };
        let mut state = SessionState::new(opened.session.owner.root());
        let news = std::mem::take(&mut opened.news);
        opened.nodes.clear();
        state.apply(news).map_err(|_| unsound(id))?;
        Ok(Some(Self { opened, state, begin: None }))
    }

    /// A session that begins with what is written to it first.
    pub fn begin(id: SessionId, new: NewSession) -> Self {
        let session = SessionInfo { id, owner: new.owner, ..SessionInfo::default() };
        let opened = Opened { session, ..Opened::default() };
        Self { opened, state: SessionState::new(new.owner.root()), begin: Some(new) }
    }

    /// Opens a session, or begins it; fails if it is another owner's.
    pub async fn open_or_begin<S: Storage + ?Sized>(
        storage: &S,
        id: SessionId,
        new: &NewSession,
    ) -> Result<Self, ArchiveError> {
        match Self::open(storage, id).await? {
            None => Ok(Self::begin(id, new.clone())),
            Some(ledger) if ledger.opened.session.owner == new.owner => Ok(ledger),
            Some(_) => Err(ArchiveError::NotTheOwner { session: id }),
        }
    }

    /// How many rounds its newest path has.
    pub fn rounds(&self) -> u64 {
        let newest = self.state.tree().newest();
        newest.and_then(|newest| self.state.round(newest).ok()).map_or(0, |round| round + 1)
    }

    /// A write to the version that it has, with which it begins if storage does not have it.
    pub fn write(&self) -> Write {
        Write { begin: self.begin.clone(), ..Write::to(self.id(), self.state.written()) }
    }

    /// Decides a change and writes it; decides anew whenever another writer was first.
    ///
    /// What is decided must not change anything before all that it lacks is known.
    pub async fn change<S: Storage + ?Sized, T>(
        &mut self,
        storage: &S,
        mut decide: impl FnMut(&mut SessionState, &mut Write) -> Result<T, Undecided>,
    ) -> Result<T, ArchiveError> {
        for () in attempts() {
            let mut write = self.write();
            let answer = self.ask(storage, |state| decide(state, &mut write)).await;
            let answer = answer.inspect_err(|_| self.state.rewind())?;
            if write.is_empty() {
                return Ok(answer);
            }
            match write_one(storage, write).await {
                Ok(version) => {
                    self.state.wrote(version);
                    self.begin = None;
                    return Ok(answer);
                }
                Err(ArchiveError::Conflict { conflict: Conflict::Version, .. }) => {
                    if !self.refresh(storage).await? {
                        return Err(ArchiveError::UnknownSession { session: self.id() });
                    }
                }
                Err(error) => {
                    self.state.rewind();
                    return Err(error);
                }
            }
        }
        Err(outrun(self.id()))
    }

    /// Appends entries. See [`crate::Archive::append`].
    pub async fn append<S: Storage + ?Sized>(
        &mut self,
        storage: &S,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        let id = self.id();
        self.change(storage, |state, write| append_to(id, state, after, entries, write)).await
    }

    /// Commits a batch. See [`crate::Archive::commit`].
    pub async fn commit<S: Storage + ?Sized>(
        &mut self,
        storage: &S,
        batch: &NewBatch,
    ) -> Result<u64, ArchiveError> {
        let id = self.id();
        self.change(storage, |state, write| Ok(commit_to(id, state, batch, write)?)).await
    }

    /// Takes in what others wrote; returns false if the session is not there any more.
    ///
    /// What was not written yet is forgotten.
    pub async fn refresh<S: Storage + ?Sized>(
        &mut self,
        storage: &S,
    ) -> Result<bool, ArchiveError> {
        let id = self.opened.session.id;
        let since = self.state.written();
        let Some(mut opened) = storage.open(id, since).await? else { return Ok(false) };
        let news = std::mem::take(&mut opened.news);
        // They are for whoever waits for each round trip; here they are asked for when they are needed, and checked.
        opened.nodes.clear();
        self.state.rewind();
        self.begin = None;
        let is_same = news.version.birth == since.birth;
        if !(is_same && self.state.apply(news).is_ok()) {
            // Another session of that id, or a file that was put back to an earlier state.
            let Some(anew) = Self::open(storage, id).await? else { return Ok(false) };
            *self = anew;
            return Ok(true);
        }
        self.opened = opened;
        Ok(true)
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.opened.session.id
    }

    /// Loads what the state lacks.
    pub async fn load<S: Storage + ?Sized>(
        &mut self,
        storage: &S,
        lack: Lack,
    ) -> Result<(), ArchiveError> {
        let Lack(seqs) = lack;
        if seqs.is_empty() {
            return Ok(());
        }
        let id = self.id();
        let wanted: u64 = seqs.iter().map(|range| range.end - range.start).sum();
        let is_learned = match storage.nodes(id, seqs).await {
            Ok(nodes) if nodes.len() as u64 == wanted => self.state.learn(&nodes).is_ok(),
            Ok(_) | Err(ArchiveError::NoSuchEntries { .. }) => false,
            Err(error) => return Err(error),
        };
        if is_learned {
            return Ok(());
        }
        // The session may have been removed, or another one may have its id by now.
        let birth = self.state.written().birth;
        if !self.refresh(storage).await? {
            return Err(ArchiveError::UnknownSession { session: id });
        }
        if self.state.written().birth == birth { Err(unsound(id)) } else { Ok(()) }
    }

    /// Does what it takes to decide something that was undecided.
    pub async fn settle<S: Storage + ?Sized>(
        &mut self,
        storage: &S,
        undecided: Undecided,
    ) -> Result<(), ArchiveError> {
        match undecided {
            Undecided::Lack(lack) => self.load(storage, lack).await,
            Undecided::Refused(error) => Err(error),
        }
    }

    /// Asks the state, and loads what it lacks until it has an answer.
    pub async fn ask<S: Storage + ?Sized, T>(
        &mut self,
        storage: &S,
        mut question: impl FnMut(&mut SessionState) -> Result<T, Undecided>,
    ) -> Result<T, ArchiveError> {
        loop {
            match question(&mut self.state) {
                Ok(answer) => return Ok(answer),
                Err(undecided) => self.settle(storage, undecided).await?,
            }
        }
    }

    /// The last entry of a path; `None` only if there are no entries.
    pub fn head(&self, head: Option<Seq>) -> Result<Option<Seq>, ArchiveError> {
        head.map_or(Ok(()), |head| self.require(head))?;
        Ok(self.state.head(head))
    }

    /// Fails if there is no such entry.
    pub fn require(&self, seq: Seq) -> Result<(), ArchiveError> {
        require(self.id(), &self.state, seq)
    }
}

/// Fails if a session has no such entry.
pub(crate) fn require(id: SessionId, state: &SessionState, seq: Seq) -> Result<(), ArchiveError> {
    if state.tree().contains(seq) {
        return Ok(());
    }
    let range = seq.0..seq.0.saturating_add(1);
    Err(ArchiveError::NoSuchEntries { session: id, range, entries: state.tree().len() })
}

/// Changes a session that must be there.
pub(crate) async fn change<S: Storage + ?Sized, T>(
    storage: &S,
    id: SessionId,
    decide: impl FnMut(&mut SessionState, &mut Write) -> Result<T, Undecided>,
) -> Result<T, ArchiveError> {
    let unknown = ArchiveError::UnknownSession { session: id };
    Ledger::open(storage, id).await?.ok_or(unknown)?.change(storage, decide).await
}

/// Makes one write in a transaction of its own.
pub(crate) async fn write_one<S: Storage + ?Sized>(
    storage: &S,
    write: Write,
) -> Result<Version, ArchiveError> {
    let session = write.session;
    let mut outcomes = storage.write(vec![write]).await?;
    outcomes.pop().unwrap_or(Err(ArchiveError::UnknownSession { session }))
}

/// Others have written to a session again and again before us.
pub fn outrun(session: SessionId) -> ArchiveError {
    ArchiveError::Conflict { session, conflict: Conflict::Version }
}

/// What storage says of a session contradicts itself.
pub fn unsound(id: SessionId) -> ArchiveError {
    let detail = "contradicts itself".to_owned();
    let damage = Damage { session: Some(id), part: DamagedPart::Session, detail };
    ArchiveError::Damaged { archive: "the archive".to_owned(), damage: Box::new(damage) }
}

/// Says why a batch of a session cannot be committed.
pub(crate) fn refused(
    id: SessionId,
    state: &SessionState,
    head: Seq,
    after: u64,
    error: CommitError,
) -> ArchiveError {
    match error {
        CommitError::NoSuchEntry(seq) => {
            require(id, state, seq).err().unwrap_or_else(|| unsound(id))
        }
        CommitError::NotOnPath(entry) => ArchiveError::NotOnPath { session: id, entry, head },
        CommitError::NotNewest(newest) => {
            ArchiveError::Conflict { session: id, conflict: Conflict::Batch { after, newest } }
        }
    }
}
