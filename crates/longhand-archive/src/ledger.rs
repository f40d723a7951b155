//! A session's state over its storage: what the state lacks is loaded, and what it decides is written.

use longhand_core::Seq;
use longhand_core::session::{CommitError, Lack, SessionState, Version};

use crate::storage::{Opened, Storage, Write};
use crate::{ArchiveError, Conflict, Damage, DamagedPart, SessionId};

/// How often a change is decided anew because other writers were first.
const CONFLICTS_MAX: usize = 256;

/// A session and its state, as storage has them.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Who it is, and how much it has; without a version, as it is about to begin.
    pub opened: Opened,
    /// Its state.
    pub state: SessionState,
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
        state.apply(news).map_err(|_| unsound(id))?;
        Ok(Some(Self { opened, state }))
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
        self.state.rewind();
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
        let nodes = storage.nodes(self.id(), seqs).await?;
        self.state.learn(&nodes).map_err(|_| unsound(self.id()))
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
                Err(Undecided::Lack(lack)) => self.load(storage, lack).await?,
                Err(Undecided::Refused(error)) => return Err(error),
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

/// Decides a change of a session and writes it; decides anew whenever another writer was first.
///
/// What is decided must not change anything before all that it lacks is known.
pub(crate) async fn change<S: Storage + ?Sized, T>(
    storage: &S,
    id: SessionId,
    mut decide: impl FnMut(&mut SessionState) -> Result<(Write, T), Undecided>,
) -> Result<T, ArchiveError> {
    let unknown = || ArchiveError::UnknownSession { session: id };
    let mut ledger = Ledger::open(storage, id).await?.ok_or_else(unknown)?;
    for _ in 0..CONFLICTS_MAX {
        let (write, answer) = ledger.ask(storage, &mut decide).await?;
        if write.is_empty() {
            return Ok(answer);
        }
        match write_one(storage, write).await {
            Ok(_) => return Ok(answer),
            Err(ArchiveError::Conflict { conflict: Conflict::Version, .. }) => {
                if !ledger.refresh(storage).await? {
                    return Err(unknown());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(ArchiveError::Conflict { session: id, conflict: Conflict::Version })
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

/// What storage says of a session contradicts itself.
pub(crate) fn unsound(id: SessionId) -> ArchiveError {
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

/// The same error once more, for each of several that failed together.
pub(crate) fn same(error: &ArchiveError) -> ArchiveError {
    match error {
        ArchiveError::Damaged { archive, damage } => {
            ArchiveError::Damaged { archive: archive.clone(), damage: damage.clone() }
        }
        ArchiveError::UnknownSession { session } => {
            ArchiveError::UnknownSession { session: *session }
        }
        ArchiveError::Conflict { session, conflict } => {
            ArchiveError::Conflict { session: *session, conflict: *conflict }
        }
        other => ArchiveError::Failed {
            archive: "the archive".to_owned(),
            source: other.to_string().into(),
        },
    }
}
