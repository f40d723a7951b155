//! Copies a session from one archive to another, record by record.

use std::ops::ControlFlow;

use longhand_archive::{
    Archive, ArchiveError, Ledger, NewSession, NoteFilter, Owner, Record, SessionId, Write, wait,
};
use longhand_core::{Link, Seq};

use super::TransferError;
use super::import::{BYTES_AT_A_TIME, RECORDS_AT_A_TIME, size};
use super::line;
use super::read::rank;

/// What was copied of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedSession {
    /// How many entries were new there.
    pub entries: u64,
    /// How many bytes their messages have.
    pub bytes: u64,
    /// How many entries the session has.
    pub total: u64,
}

/// Brings a session in the archive `to` to what the archive `from` has of it, and reads it there again to compare them.
/// `None` if `from` does not have it.
///
/// What `to` has of it stays, and must be the beginning: a copy that was interrupted goes on where it stopped.
pub fn copy(
    from: &dyn Archive,
    to: &dyn Archive,
    id: SessionId,
) -> Result<Option<CopiedSession>, TransferError> {
    let known = KnownRecords::of(to, id)?;
    let mut writer = CopyWriter::new(to, id, known);
    let is_there = taken(from, id, |record| writer.take(record))?;
    if !is_there {
        return Ok(None);
    }
    let (copied, written) = writer.end()?;
    let mut read = Fingerprint::default();
    taken(to, id, |record| read.add(id, record))?;
    match written.difference(&read) {
        None => Ok(Some(copied)),
        Some(what) => {
            let name = to.session(id)?.map(|session| session.name).unwrap_or_default();
            Err(TransferError::Differs { session: id, name, what: what.to_owned() })
        }
    }
}

/// Takes the records of a session until one cannot be taken; returns whether there is such a session.
fn taken(
    archive: &dyn Archive,
    id: SessionId,
    mut take: impl FnMut(Record) -> Result<(), TransferError>,
) -> Result<bool, TransferError> {
    let mut outcome = Ok(());
    let is_there = archive.export(id, &mut |record| {
        outcome = take(record);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    // Whoever could not take a record knows better why it ended.
    outcome?;
    Ok(is_there?)
}

/// How many records of each kind an archive has of a session.
#[derive(Default)]
struct KnownRecords {
    is_there: bool,
    entries: u64,
    /// The link of its newest entry.
    newest: Option<Link>,
    batches: u64,
    undos: u64,
    requests: u64,
    notes: u64,
    pins: Vec<Seq>,
}

impl KnownRecords {
    fn of(archive: &dyn Archive, id: SessionId) -> Result<Self, ArchiveError> {
        let Some(ledger) = wait(Ledger::open(archive, id))? else { return Ok(Self::default()) };
        let entries = ledger.state.tree().len();
        let newest = entries.checked_sub(1).and_then(|seq| ledger.state.link(Seq(seq)));
        Ok(Self {
            is_there: true,
            entries,
            newest,
            batches: ledger.state.log().len(),
            undos: ledger.state.log().undone().len() as u64,
            requests: ledger.opened.requests,
            notes: wait(archive.notes(NoteFilter::Session(id)))?.len() as u64,
            pins: ledger.state.pins().to_vec(),
        })
    }
}

/// Writes the records that an archive lacks, in transactions of bounded size.
struct CopyWriter<'a> {
    to: &'a dyn Archive,
    id: SessionId,
    known: KnownRecords,
    owner: Owner,
    name: String,
    /// The session as it is named and listed, where the archive has it already.
    listed: Option<NewSession>,
    portion: Vec<Record>,
    portion_bytes: usize,
    /// How many records of each rank came.
    taken: [u64; RANKS],
    has_pins: bool,
    copied: CopiedSession,
    fingerprint: Fingerprint,
}

impl<'a> CopyWriter<'a> {
    fn new(to: &'a dyn Archive, id: SessionId, known: KnownRecords) -> Self {
        Self {
            to,
            id,
            known,
            owner: Owner::LOCAL,
            name: String::new(),
            listed: None,
            portion: Vec::new(),
            portion_bytes: 0,
            taken: [0; RANKS],
            has_pins: false,
            copied: CopiedSession::default(),
            fingerprint: Fingerprint::default(),
        }
    }

    fn take(&mut self, record: Record) -> Result<(), TransferError> {
        self.check_known(usize::from(rank(&record)))?;
        let taken = &mut self.taken[usize::from(rank(&record))];
        let at = *taken;
        *taken += 1;
        if self.is_wanted(&record, at)? {
            let bytes = size(&record);
            if let Record::Entry { entry, .. } = &record {
                self.copied.entries += 1;
                self.copied.bytes += entry.raw.len() as u64;
            }
            self.portion.push(record.clone());
            self.portion_bytes += bytes;
        }
        self.fingerprint.add(self.id, record)?;
        if self.portion.len() >= RECORDS_AT_A_TIME || self.portion_bytes >= BYTES_AT_A_TIME {
            self.write()?;
        }
        Ok(())
    }

    /// Fails if the archive has more records of a rank below than came: nothing of such a session is written.
    fn check_known(&self, rank: usize) -> Result<(), TransferError> {
        let KnownRecords { entries, batches, undos, requests, notes, .. } = self.known;
        let logs = [(2, entries), (3, batches), (4, undos), (7, requests), (9, notes)];
        let mut logs = logs.iter().filter(|(of, _)| *of < rank);
        match logs.find(|(of, known)| self.taken[*of] < *known) {
            Some((of, _)) => Err(self.differs(KINDS[*of])),
            None => Ok(()),
        }
    }

    /// Whether the archive lacks a record, which is the one with this number of its kind.
    fn is_wanted(&mut self, record: &Record, at: u64) -> Result<bool, TransferError> {
        Ok(match record {
            Record::Session(new) => {
                self.owner = new.owner;
                self.name.clone_from(&new.name);
                self.listed = self.known.is_there.then(|| new.clone());
                true
            }
            Record::Entry { entry, .. } => {
                self.copied.total += 1;
                let is_last_known = at + 1 == self.known.entries;
                if is_last_known && self.known.newest.is_some_and(|link| link != entry.link) {
                    return Err(self.differs("its entries"));
                }
                at >= self.known.entries
            }
            Record::Batch { .. } => at >= self.known.batches,
            Record::Undo(_) => at >= self.known.undos,
            Record::Pins(pins) => {
                self.has_pins = true;
                *pins != self.known.pins
            }
            Record::Preamble(content) => {
                let key = longhand_archive::PreambleId::of(content);
                !self.known.is_there || self.to.preamble(self.owner, key)?.is_none()
            }
            Record::Request(_) => at >= self.known.requests,
            Record::Derived { key, value } => {
                !self.known.is_there || self.to.derived(self.id, key)?.as_ref() != Some(value)
            }
            Record::Note(_) => at >= self.known.notes,
        })
    }

    fn differs(&self, what: &str) -> TransferError {
        let (session, name) = (self.id, self.name.clone());
        TransferError::Differs { session, name, what: what.to_owned() }
    }

    fn write(&mut self) -> Result<(), TransferError> {
        self.portion_bytes = 0;
        let portion = std::mem::take(&mut self.portion);
        match self.to.restore(self.id, &portion) {
            // Somebody writes to it there, or it is another session.
            Err(ArchiveError::Unfit { record, .. }) => Err(self.differs(&record)),
            restored => Ok(restored?),
        }
    }

    fn end(mut self) -> Result<(CopiedSession, Fingerprint), TransferError> {
        self.check_known(RANKS)?;
        if !self.has_pins && !self.known.pins.is_empty() {
            self.portion.push(Record::Pins(Vec::new()));
        }
        if !self.portion.is_empty() {
            self.write()?;
        }
        if let Some(write) = self.renaming()? {
            for written in wait(self.to.write(vec![write]))? {
                written?;
            }
        }
        Ok((self.copied, self.fingerprint))
    }

    /// What brings the name of a session that was there, and what else lists show of it, to those of the other archive.
    fn renaming(&self) -> Result<Option<Write>, ArchiveError> {
        let (Some(new), Some(there)) = (&self.listed, self.to.session(self.id)?) else {
            return Ok(None);
        };
        let there = there.as_new();
        let write = Write {
            session: self.id,
            name: (new.name != there.name).then(|| new.name.clone()),
            opening: (new.opening != there.opening).then(|| new.opening.clone()),
            imported: (new.origin.offset != there.origin.offset).then_some(new.origin.offset),
            ..Write::default()
        };
        Ok((!write.is_empty()).then_some(write))
    }
}

/// One more than the highest rank of a record.
const RANKS: usize = 10;

/// What each kind of record is called where it differs.
const KINDS: [&str; RANKS] = [
    "",
    "its owner or beginning",
    "its entries",
    "its batches",
    "its undone batches",
    "its pins",
    "its system prompts",
    "its request log",
    "what was derived from it",
    "its notes",
];

/// A hash for each kind of record, over the lines that an export has of them.
struct Fingerprint([blake3::Hasher; RANKS]);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(std::array::from_fn(|_| blake3::Hasher::new()))
    }
}

impl Fingerprint {
    fn add(&mut self, id: SessionId, record: Record) -> Result<(), TransferError> {
        let hasher = &mut self.0[usize::from(rank(&record))];
        serde_json::to_writer(hasher, &line::written(id, record)).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// The first kind of record that is not the same.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let mut kinds = self.0.iter().zip(&other.0).zip(KINDS);
        kinds.find(|((one, other), _)| one.finalize() != other.finalize()).map(|(_, kind)| kind)
    }
}
