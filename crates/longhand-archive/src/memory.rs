//! An archive that forgets when it is dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand_core::Handle;

use crate::query::{Query, Strictness, snippet};
use crate::{
    Addition, Appended, Archive, ArchiveError, Batch, Content, Damage, Entry, Form, Head, Hit,
    NewBatch, NewEntry, Original, SessionInfo, fold_handle,
};

/// An archive in memory: for tests, and the model that the others are compared with.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    shelves: Mutex<Shelves>,
}

#[derive(Debug, Default)]
struct Shelves {
    sessions: BTreeMap<String, Session>,
    originals: HashMap<Handle, Vec<Original>>,
    /// Entries ever appended, for the order between sessions.
    count: u64,
}

#[derive(Debug, Default)]
struct Session {
    entries: Vec<Entry>,
    texts: Vec<Text>,
    batches: Vec<Batch>,
    pins: BTreeSet<u64>,
}

/// What search sees of an entry, and when it came.
#[derive(Debug)]
struct Text {
    order: u64,
    text: String,
}

impl MemoryArchive {
    /// Returns an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        // Every change below is made after all checks, so a panic leaves nothing half done.
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Archive for MemoryArchive {
    fn append(&self, session: &str, entries: &[NewEntry]) -> Result<Appended, ArchiveError> {
        Ok(self.shelves().append(session, entries))
    }

    fn append_at(&self, additions: &[Addition]) -> Result<usize, ArchiveError> {
        let mut shelves = self.shelves();
        let made = additions.iter().take_while(|Addition { session, first, entries }| {
            let known = shelves.sessions.get(session);
            let is_place = known.map_or(0, |session| session.entries.len() as u64) == *first;
            if is_place {
                shelves.append(session, entries);
            }
            is_place
        });
        Ok(made.count())
    }

    fn commit(&self, session: &str, batch: &NewBatch) -> Result<u64, ArchiveError> {
        let shelves = &mut *self.shelves();
        let found = shelves.session(session)?;
        let newest = found.live().map_or(0, |batch| batch.number);
        if newest != batch.after {
            let session = session.to_owned();
            return Err(ArchiveError::Conflict { session, after: batch.after, newest });
        }
        found.require(session, &batch.entries)?;
        let number = found.batches.len() as u64 + 1;
        found.batches.push(Batch {
            number,
            after: batch.after,
            at_ms: batch.at_ms,
            entries: batch.entries.clone(),
            text: batch.text.clone(),
            receipt: batch.receipt.clone(),
            undone: false,
        });
        if !batch.entries.is_empty() {
            let content = Content::Entries(batch.entries.clone());
            let original =
                Original { session: Some(session.to_owned()), form: Form::Json, content };
            let handle = fold_handle(session, &batch.entries);
            shelves.originals.entry(handle).or_insert_with(|| vec![original]);
        }
        Ok(number)
    }

    fn undo(&self, session: &str) -> Result<Option<Batch>, ArchiveError> {
        let shelves = &mut *self.shelves();
        let Some(session) = shelves.sessions.get_mut(session) else { return Ok(None) };
        let newest = session.batches.iter_mut().rfind(|batch| !batch.undone);
        Ok(newest.map(|batch| {
            batch.undone = true;
            batch.clone()
        }))
    }

    fn head(&self, session: &str) -> Result<Option<Head>, ArchiveError> {
        Ok(self.shelves().sessions.get(session).map(|session| Head {
            entries: session.entries.len() as u64,
            rounds: session.rounds(),
            batch: session.live().cloned(),
            undone: session.batches.last().is_some_and(|batch| batch.undone),
            pins: session.pins.iter().copied().collect(),
        }))
    }

    fn entries(&self, session: &str, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError> {
        let shelves = self.shelves();
        let Some(session) = shelves.sessions.get(session) else { return Ok(Vec::new()) };
        let count = session.entries.len() as u64;
        let end = seqs.end.min(count);
        let start = seqs.start.min(end);
        Ok(session.entries[start as usize..end as usize].to_vec())
    }

    fn batches(&self, session: &str) -> Result<Vec<Batch>, ArchiveError> {
        let shelves = self.shelves();
        Ok(shelves.sessions.get(session).map(|session| session.batches.clone()).unwrap_or_default())
    }

    fn sessions(&self) -> Result<Vec<SessionInfo>, ArchiveError> {
        let shelves = self.shelves();
        let info = |(id, session): (&String, &Session)| SessionInfo {
            id: id.clone(),
            entries: session.entries.len() as u64,
            rounds: session.rounds(),
            batches: session.batches.len() as u64,
            bytes: session.entries.iter().map(|entry| entry.raw.len() as u64).sum(),
            first_ms: session.entries.first().map_or(0, |entry| entry.at_ms),
            last_ms: session.entries.last().map_or(0, |entry| entry.at_ms),
            damaged: false,
        };
        Ok(shelves.sessions.iter().map(info).collect())
    }

    fn search(
        &self,
        session: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<Vec<Hit>, ArchiveError> {
        let Some(query) = Query::parse(query) else { return Ok(Vec::new()) };
        let shelves = self.shelves();
        let chosen =
            shelves.sessions.iter().filter(|(id, _)| session.is_none_or(|only| only == *id));
        let mut texts: Vec<(&String, &Entry, &Text)> = chosen
            .flat_map(|(id, session)| {
                session
                    .entries
                    .iter()
                    .zip(&session.texts)
                    .map(move |(entry, text)| (id, entry, text))
            })
            .collect();
        texts.sort_unstable_by_key(|(_, _, text)| std::cmp::Reverse(text.order));
        let hits = |strictness| {
            let found = texts.iter().filter_map(|(id, entry, text)| {
                let place = query.find(&text.text, strictness)?;
                Some(Hit {
                    session: (*id).clone(),
                    seq: entry.seq,
                    round: entry.round,
                    snippet: snippet(&text.text, &place),
                })
            });
            found.take(limit).collect::<Vec<_>>()
        };
        let whole = hits(Strictness::Words);
        Ok(if whole.is_empty() { hits(Strictness::Substrings) } else { whole })
    }

    fn pin(&self, session: &str, seq: u64, pinned: bool) -> Result<(), ArchiveError> {
        let shelves = &mut *self.shelves();
        let found = shelves.session(session)?;
        found.require(session, &(seq..seq.saturating_add(1)))?;
        if pinned {
            found.pins.insert(seq);
        } else {
            found.pins.remove(&seq);
        }
        Ok(())
    }

    fn keep(&self, originals: &[(Handle, Original)]) -> Result<(), ArchiveError> {
        let shelves = &mut *self.shelves();
        let mut new: HashMap<Handle, Vec<&Original>> = HashMap::new();
        for (handle, original) in originals {
            shelves.check(*handle, original)?;
            let known = shelves.originals.get(handle).into_iter().flatten();
            let taken = known.chain(new.get(handle).into_iter().flatten().copied()).any(|other| {
                other.form != original.form || shelves.text(other) != shelves.text(original)
            });
            if taken {
                return Err(ArchiveError::HandleTaken { handle: *handle });
            }
            new.entry(*handle).or_default().push(original);
        }
        for (handle, originals) in new {
            let kept = shelves.originals.entry(handle).or_default();
            for original in originals {
                if kept.iter().all(|other| other.session != original.session) {
                    kept.push(original.clone());
                }
            }
        }
        Ok(())
    }

    fn expand(&self, handle: Handle) -> Result<Option<Original>, ArchiveError> {
        let shelves = self.shelves();
        Ok(shelves.originals.get(&handle).and_then(|kept| kept.first()).cloned())
    }

    fn expand_in(&self, session: &str, handle: Handle) -> Result<Option<Original>, ArchiveError> {
        let shelves = self.shelves();
        let mut kept = shelves.originals.get(&handle).into_iter().flatten();
        Ok(kept.find(|original| original.session.as_deref() == Some(session)).cloned())
    }

    fn verify(&self, session: Option<&str>) -> Result<Vec<Damage>, ArchiveError> {
        session.map_or(Ok(()), |session| self.shelves().session(session).map(|_| ()))?;
        Ok(Vec::new())
    }

    fn remove(&self, session: &str) -> Result<bool, ArchiveError> {
        let shelves = &mut *self.shelves();
        shelves.originals.retain(|_, kept| {
            kept.retain(|original| original.session.as_deref() != Some(session));
            !kept.is_empty()
        });
        Ok(shelves.sessions.remove(session).is_some())
    }
}

impl Shelves {
    fn append(&mut self, session: &str, entries: &[NewEntry]) -> Appended {
        if entries.is_empty() {
            let empty = Session::default();
            let session = self.sessions.get(session).unwrap_or(&empty);
            let round = session.rounds().saturating_sub(1);
            return Appended { first: session.entries.len() as u64, round };
        }
        let session = self.sessions.entry(session.to_owned()).or_default();
        let first = session.entries.len();
        for entry in entries {
            let rounds = session.rounds();
            let opens_round = entry.opens_round || session.entries.is_empty();
            self.count += 1;
            session.texts.push(Text { order: self.count, text: entry.text.clone() });
            session.entries.push(Entry {
                seq: session.entries.len() as u64,
                round: if opens_round { rounds } else { rounds - 1 },
                form: entry.form.clone(),
                raw: entry.raw.clone(),
                at_ms: entry.at_ms,
            });
        }
        Appended { first: first as u64, round: session.entries[first].round }
    }

    fn session(&mut self, session: &str) -> Result<&mut Session, ArchiveError> {
        let unknown = || ArchiveError::UnknownSession { session: session.to_owned() };
        self.sessions.get_mut(session).ok_or_else(unknown)
    }

    /// An original belongs to a session that exists, and cites entries that it has.
    fn check(&self, handle: Handle, original: &Original) -> Result<(), ArchiveError> {
        let Some(session) = &original.session else {
            return match original.content {
                Content::Text(_) => Ok(()),
                Content::Entries(_) => Err(ArchiveError::NoSession { handle }),
            };
        };
        let unknown = || ArchiveError::UnknownSession { session: session.clone() };
        let found = self.sessions.get(session).ok_or_else(unknown)?;
        match &original.content {
            Content::Text(_) => Ok(()),
            Content::Entries(range) => found.require(session, range),
        }
    }

    fn text(&self, original: &Original) -> String {
        match (&original.content, &original.session) {
            (Content::Text(text), _) => text.clone(),
            (Content::Entries(range), Some(session)) => {
                let entries = &self.sessions[session].entries;
                let cited = &entries[range.start as usize..range.end as usize];
                cited.iter().map(|entry| entry.raw.as_str()).collect::<Vec<_>>().join("\n")
            }
            (Content::Entries(_), None) => String::new(),
        }
    }
}

impl Session {
    fn rounds(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.round + 1)
    }

    fn live(&self) -> Option<&Batch> {
        self.batches.iter().rfind(|batch| !batch.undone)
    }

    fn require(&self, session: &str, range: &Range<u64>) -> Result<(), ArchiveError> {
        let entries = self.entries.len() as u64;
        if range.start <= range.end && range.end <= entries {
            return Ok(());
        }
        let session = session.to_owned();
        Err(ArchiveError::NoSuchEntries { session, range: range.clone(), entries })
    }
}
