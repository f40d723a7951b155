//! Adds the records of an export that an archive lacks.

use std::collections::HashMap;
use std::io::BufRead;
use std::ops::ControlFlow;

use longhand_archive::{
    After, Archive, NewEntry, NewSession, Note, NoteContent, Owner, Record, SessionId,
};
use longhand_core::Seq;

use super::TransferError;
use super::line::ExportLine;
use super::read::{Exported, ExportedMessage, rank};
use crate::driver::opening_of;

/// How many records are restored in one transaction.
pub(super) const RECORDS_AT_A_TIME: usize = 256;
/// How many bytes of messages are restored in one transaction, but for one message that has more.
pub(super) const BYTES_AT_A_TIME: usize = 4 << 20;

/// How many of the first entries are looked through for the user's words.
const OPENING_ENTRIES: usize = 12;

/// The result of importing a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedSession {
    /// Its id in the archive.
    pub id: SessionId,
    /// What it is called.
    pub name: String,
    /// How many entries it has in the export.
    pub entries: u64,
    /// What was done.
    pub imported: Imported,
}

/// What an import did to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// The archive did not have it.
    New,
    /// The archive had a beginning of it; this many entries were new.
    Extended(u64),
    /// The archive had all of it.
    Same,
    /// The archive has all of it and more.
    Older,
}

/// Reads all of an export and returns its sessions, if it is complete and unchanged.
pub fn check<R: BufRead>(mut exported: Exported<R>) -> Result<Vec<ExportedSession>, TransferError> {
    let mut sessions = Vec::new();
    while let Some(line) = exported.next()? {
        match line {
            ExportLine::Session(id, new) => sessions.push(ExportedSession { id, new, entries: 0 }),
            ExportLine::Record(Record::Entry { .. }) => {
                sessions.last_mut().into_iter().for_each(|session| session.entries += 1);
            }
            _ => {}
        }
    }
    Ok(sessions)
}

/// Restores the sessions of an export that was checked, after all of it was compared with what the archive has.
///
/// `open` reads the export from its beginning, which is done twice. With a `name`, they become sessions of that
/// name. If it is interrupted, importing the same export again continues it.
pub fn import<R: BufRead>(
    archive: &dyn Archive,
    sessions: Vec<ExportedSession>,
    open: impl Fn() -> Result<Exported<R>, TransferError>,
    name: Option<&str>,
) -> Result<Vec<ImportedSession>, TransferError> {
    let targets = targets(&sessions, name);
    let mut standings = Vec::new();
    let mut lines = SessionLines::new(open()?)?;
    for (target, session) in targets.iter().zip(&sessions) {
        lines.next_session()?;
        standings.push(compare(archive, target, session, &mut lines)?);
    }
    let mut lines = SessionLines::new(open()?)?;
    let mut imported = Vec::new();
    for ((target, session), standing) in targets.into_iter().zip(sessions).zip(standings) {
        lines.next_session()?;
        let outcome =
            standing.as_ref().map_or(Imported::New, |known| known.outcome(session.entries));
        if matches!(outcome, Imported::New | Imported::Extended(_)) {
            restore(archive, &target, &standing.unwrap_or_default(), &mut lines)?;
        }
        let (id, name, entries) = (target.id, target.new.name, session.entries);
        imported.push(ImportedSession { id, name, entries, imported: outcome });
    }
    Ok(imported)
}

/// A session of an export.
#[derive(Clone, Debug)]
pub struct ExportedSession {
    id: SessionId,
    new: NewSession,
    entries: u64,
}

impl ExportedSession {
    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.new.owner
    }
}

/// A session as it is to be in the archive.
struct WantedSession {
    id: SessionId,
    new: NewSession,
}

fn targets(sessions: &[ExportedSession], name: Option<&str>) -> Vec<WantedSession> {
    let Some(name) = name else {
        let same =
            |session: &ExportedSession| WantedSession { id: session.id, new: session.new.clone() };
        return sessions.iter().map(same).collect();
    };
    // The last one is the conversation; those that it continues are named after it.
    let names = (1..=sessions.len()).map(|at| match sessions.len() - at {
        0 => name.to_owned(),
        _ => format!("{name}.{at}"),
    });
    let names: Vec<String> = names.collect();
    let renamed = sessions.iter().zip(&names);
    let ids: HashMap<SessionId, SessionId> = renamed
        .map(|(session, name)| (session.id, SessionId::named(session.new.owner, name)))
        .collect();
    let target = |(session, name): (&ExportedSession, &String)| WantedSession {
        id: ids[&session.id],
        new: NewSession {
            name: name.clone(),
            continues: session.new.continues.map(|id| *ids.get(&id).unwrap_or(&id)),
            // Copies are not of the client's own conversation.
            group: None,
            ..session.new.clone()
        },
    };
    sessions.iter().zip(&names).map(target).collect()
}

/// The records of one session after another.
struct SessionLines<R> {
    exported: Exported<R>,
    /// The next record, or the session that begins.
    peeked: Option<ExportLine>,
}

impl<R: BufRead> SessionLines<R> {
    fn new(mut exported: Exported<R>) -> Result<Self, TransferError> {
        let peeked = exported.next()?;
        Ok(Self { exported, peeked })
    }

    /// Goes to the beginning of the next session.
    fn next_session(&mut self) -> Result<(), TransferError> {
        while self.take_record()?.is_some() {}
        self.peeked = self.exported.next()?;
        Ok(())
    }

    /// The next record of the session, which stays there.
    fn record(&self) -> Option<&Record> {
        match &self.peeked {
            Some(ExportLine::Record(record)) => Some(record),
            _ => None,
        }
    }

    /// Adds the user's first words to the record of a session, which exports of earlier releases do not have.
    fn add_opening(&self, portion: &mut [Record]) {
        let [Record::Session(new), records @ ..] = portion else { return };
        if self.exported.has_openings() {
            return;
        }
        let words = records.iter().take(OPENING_ENTRIES).find_map(|record| match record {
            Record::Entry { entry, .. } => opening_of(&entry.form, &entry.raw),
            _ => None,
        });
        new.opening = words.unwrap_or_default();
    }

    fn take_record(&mut self) -> Result<Option<Record>, TransferError> {
        if self.record().is_none() {
            return Ok(None);
        }
        let next = self.exported.next()?;
        match std::mem::replace(&mut self.peeked, next) {
            Some(ExportLine::Record(record)) => Ok(Some(record)),
            _ => Ok(None),
        }
    }
}

/// What the archive has of a session, compared with the export.
#[derive(Default)]
struct SessionComparison {
    /// How many of the first records of each rank the archive has.
    known: [u64; 10],
    archive_has_more: bool,
    export_has_more: bool,
    pins_differ: bool,
}

impl SessionComparison {
    /// What neither of them can be brought to from the other.
    fn difference(&self) -> Option<String> {
        match (self.archive_has_more, self.export_has_more) {
            (true, true) => Some("each has what the other has not".to_owned()),
            // Which of them is newer cannot be told.
            (false, false) if self.pins_differ => Some("its pins".to_owned()),
            _ => None,
        }
    }

    fn outcome(&self, entries: u64) -> Imported {
        match (self.export_has_more, self.archive_has_more) {
            (true, _) => Imported::Extended(entries.saturating_sub(self.known[2])),
            (false, true) => Imported::Older,
            (false, false) => Imported::Same,
        }
    }
}

/// Compares what the archive has of a session with the export, record by record; `None` if it has nothing of it.
fn compare<R: BufRead>(
    archive: &dyn Archive,
    target: &WantedSession,
    session: &ExportedSession,
    lines: &mut SessionLines<R>,
) -> Result<Option<SessionComparison>, TransferError> {
    let mut standing = SessionComparison::default();
    let mut difference = None;
    let mut failure = None;
    let is_there =
        archive.export(
            target.id,
            &mut |record| match meet(&record, target, lines, &mut standing) {
                Ok(None) => ControlFlow::Continue(()),
                Ok(what) => {
                    difference = what;
                    ControlFlow::Break(())
                }
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
    failure.map_or(Ok(()), Err)?;
    if !is_there {
        return Ok(None);
    }
    while let Some(record) = lines.take_record()? {
        standing.export_has_more |= is_logged(&record);
        standing.pins_differ |= matches!(record, Record::Pins(_));
    }
    let difference = difference.or_else(|| standing.difference());
    let differs =
        |what| TransferError::Differs { session: target.id, name: session.new.name.clone(), what };
    difference.map_or(Ok(Some(standing)), |what| Err(differs(what)))
}

/// Compares a record of the archive with the one in the export; returns what differs.
fn meet<R: BufRead>(
    record: &Record,
    target: &WantedSession,
    lines: &mut SessionLines<R>,
    standing: &mut SessionComparison,
) -> Result<Option<String>, TransferError> {
    if let Record::Session(found) = record {
        return Ok((!found.is_same(&target.new)).then(|| "its owner or beginning".to_owned()));
    }
    while lines.record().is_some_and(|next| rank(next) < rank(record)) {
        let skipped = lines.take_record()?;
        standing.export_has_more |= skipped.as_ref().is_some_and(is_logged);
        standing.pins_differ |= matches!(skipped, Some(Record::Pins(_)));
    }
    if lines.record().is_none_or(|next| rank(next) > rank(record)) {
        standing.archive_has_more |= is_logged(record);
        standing.pins_differ |= matches!(record, Record::Pins(_));
        return Ok(None);
    }
    let Some(next) = lines.take_record()? else { return Ok(None) };
    standing.known[usize::from(rank(record))] += 1;
    let is_same = match (record, &next) {
        // What search sees may have been worked out by another release.
        (Record::Entry { entry, .. }, Record::Entry { entry: other, .. }) => entry == other,
        (Record::Pins(pins), Record::Pins(others)) => {
            standing.pins_differ |= pins != others;
            true
        }
        // These can be derived again.
        (Record::Preamble(_) | Record::Derived { .. }, _) => true,
        (record, next) => record == next,
    };
    Ok((!is_same).then(|| described(record)))
}

/// Whether it is a line of a log, which only grows.
fn is_logged(record: &Record) -> bool {
    matches!(
        record,
        Record::Entry { .. }
            | Record::Batch { .. }
            | Record::Undo(_)
            | Record::Request(_)
            | Record::Note(_)
    )
}

fn described(record: &Record) -> String {
    match record {
        Record::Entry { entry, .. } => format!("entry {}", entry.seq.0),
        Record::Batch { number, .. } => format!("batch {number}"),
        Record::Undo(_) => "its undone batches".to_owned(),
        Record::Request(_) => "its request log".to_owned(),
        Record::Note(_) => "its notes".to_owned(),
        _ => "its record".to_owned(),
    }
}

/// Adds the records that the archive lacks, in transactions of bounded size.
fn restore<R: BufRead>(
    archive: &dyn Archive,
    target: &WantedSession,
    standing: &SessionComparison,
    lines: &mut SessionLines<R>,
) -> Result<(), TransferError> {
    let mut portion = vec![Record::Session(target.new.clone())];
    let mut bytes = 0;
    let mut left = standing.known;
    let mut has_pins = false;
    while let Some(record) = lines.take_record()? {
        let left = &mut left[usize::from(rank(&record))];
        if is_logged(&record) && *left > 0 {
            *left -= 1;
            continue;
        }
        has_pins |= matches!(record, Record::Pins(_));
        bytes += size(&record);
        portion.push(record);
        if portion.len() >= RECORDS_AT_A_TIME || bytes >= BYTES_AT_A_TIME {
            lines.add_opening(&mut portion);
            archive.restore(target.id, &portion)?;
            portion.clear();
            bytes = 0;
        }
    }
    if standing.pins_differ && !has_pins {
        portion.push(Record::Pins(Vec::new()));
    }
    lines.add_opening(&mut portion);
    if portion.is_empty() { Ok(()) } else { Ok(archive.restore(target.id, &portion)?) }
}

pub(super) fn size(record: &Record) -> usize {
    match record {
        Record::Entry { entry, text } => entry.raw.len() + text.len(),
        Record::Batch { batch, .. } => batch.batch.state.len() + batch.receipt.len(),
        Record::Preamble(content) => content.len(),
        Record::Note(Note { content: NoteContent::Unread(answer), .. }) => answer.len(),
        Record::Derived { value, .. } => value.len(),
        _ => 0,
    }
}

/// Appends the messages of an export to a session, with its forks; returns how many, and how many rounds.
///
/// `entry` makes an entry of a message; a root follows `after`, or begins a conversation.
pub fn messages<R: BufRead>(
    archive: &dyn Archive,
    session: SessionId,
    after: Option<Seq>,
    exported: Exported<R>,
    mut entry: impl FnMut(ExportedMessage) -> Result<NewEntry, TransferError>,
) -> Result<(u64, u64), TransferError> {
    let mut run = MessageRun {
        archive,
        session,
        root: after,
        after,
        seqs: Vec::new(),
        entries: Vec::new(),
        bytes: 0,
    };
    let (mut count, mut rounds) = (0, 0);
    exported.messages(|message| {
        count += 1;
        rounds += u64::from(message.opens_round);
        let parent = message.parent;
        run.add(parent, entry(message)?)
    })?;
    run.append()?;
    Ok((count, rounds))
}

/// Messages that follow one another, appended together.
struct MessageRun<'a> {
    archive: &'a dyn Archive,
    session: SessionId,
    /// The entry that roots follow.
    root: Option<Seq>,
    /// The entry that the first of them follows.
    after: Option<Seq>,
    /// The entries of all messages before them, by number.
    seqs: Vec<Seq>,
    entries: Vec<NewEntry>,
    bytes: usize,
}

impl MessageRun<'_> {
    fn add(&mut self, parent: Option<u64>, entry: NewEntry) -> Result<(), TransferError> {
        let next = self.seqs.len() + self.entries.len();
        let goes_on = parent.is_some_and(|parent| parent + 1 == next as u64);
        let is_full = self.entries.len() >= RECORDS_AT_A_TIME || self.bytes >= BYTES_AT_A_TIME;
        if !goes_on || is_full {
            self.append()?;
            self.after = match parent {
                Some(parent) => self.seqs.get(parent as usize).copied(),
                None => self.root,
            };
        }
        self.bytes += entry.raw.len();
        self.entries.push(entry);
        Ok(())
    }

    fn append(&mut self) -> Result<(), TransferError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        let after = After::Entry(self.after);
        let appended = self.archive.append(self.session, after, &entries)?;
        self.seqs.extend(appended.seqs);
        Ok(())
    }
}
