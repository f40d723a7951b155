//! An archive that forgets when it is dropped.
//!
//! It follows the definitions word for word and walks whole paths, so that the others can be compared
//! with it.

mod session;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand_core::Seq;
use longhand_core::{Handle, Link};

use self::session::Session;
use crate::query::{Query, Strictness, snippet};
use crate::{
    Addition, After, Appended, Archive, ArchiveError, Cursor, Damage, Entry, Found, Head, Hit,
    Listing, LoggedBatch, NewBatch, NewEntry, NewSession, Node, Owner, Page, PreambleId, Record,
    Reference, Request, Reserved, Scope, SessionId, SessionInfo, Wish,
};

/// An archive in memory: for tests and for what nobody wants to keep.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    sessions: BTreeMap<SessionId, Session>,
    preambles: HashMap<(Owner, PreambleId), String>,
    /// Entries ever appended, for the order between sessions.
    entries: u64,
    /// Sessions ever begun.
    begun: u64,
    /// Requests ever logged.
    requests: u64,
    /// Money reserved or spent, by number: when, and how much.
    spending: BTreeMap<u64, (i64, u64)>,
    /// Reservations ever made.
    reservations: u64,
}

impl MemoryArchive {
    /// Returns an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // Every change below is made after all checks, so a panic leaves nothing half done.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from a session; nothing comes from one that is unknown.
    fn read<T: Default>(
        &self,
        id: SessionId,
        action: impl FnOnce(&Session) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        self.content().sessions.get(&id).map_or_else(|| Ok(T::default()), action)
    }

    fn change<T>(
        &self,
        id: SessionId,
        action: impl FnOnce(&mut Session) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        action(self.content().session(id)?)
    }
}

impl Archive for MemoryArchive {
    fn begin(&self, id: SessionId, session: &NewSession) -> Result<(), ArchiveError> {
        self.content().begin(id, session)
    }

    fn append(
        &self,
        id: SessionId,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        self.content().append(id, after, entries)
    }

    fn append_all(
        &self,
        additions: &[Addition],
    ) -> Result<Vec<Result<Appended, ArchiveError>>, ArchiveError> {
        let mut content = self.content();
        Ok(additions.iter().map(|addition| content.add(addition)).collect())
    }

    fn commit(&self, id: SessionId, batch: &NewBatch) -> Result<u64, ArchiveError> {
        self.change(id, |session| session.commit(batch))
    }

    fn undo(&self, id: SessionId, head: Option<Seq>) -> Result<Option<LoggedBatch>, ArchiveError> {
        let mut content = self.content();
        content.sessions.get_mut(&id).map_or(Ok(None), |session| session.undo(head))
    }

    fn live(&self, id: SessionId, head: Option<Seq>) -> Result<Vec<LoggedBatch>, ArchiveError> {
        self.read(id, |session| session.live(head))
    }

    fn head(&self, id: SessionId) -> Result<Option<Head>, ArchiveError> {
        self.read(id, |session| Ok(Some(session.head())))
    }

    fn session(&self, id: SessionId) -> Result<Option<SessionInfo>, ArchiveError> {
        self.read(id, |session| Ok(Some(session.info())))
    }

    fn find_path(&self, owner: Owner, links: &[Link]) -> Result<Option<Found>, ArchiveError> {
        let content = self.content();
        let own = || content.sessions.values().filter(|session| session.new.owner == owner);
        let found = links.iter().enumerate().rev().find_map(|(at, link)| {
            let found = own().filter_map(|session| Some((session, session.by_link(*link)?)));
            let (session, seq) = found.max_by_key(|(session, seq)| session.order_of(*seq))?;
            Some(Found { session: session.id, seq, known: at + 1 })
        });
        Ok(found)
    }

    fn path(
        &self,
        id: SessionId,
        head: Option<Seq>,
        seqs: Range<u64>,
    ) -> Result<Vec<Entry>, ArchiveError> {
        self.read(id, |session| {
            let path = session.path(head)?;
            let wanted = path.into_iter().filter(|seq| seqs.contains(&seq.0));
            Ok(wanted.map(|seq| session.entry(seq).clone()).collect())
        })
    }

    fn entries(&self, id: SessionId, seqs: Range<u64>) -> Result<Vec<Entry>, ArchiveError> {
        self.read(id, |session| {
            let entries = session.entries().filter(|entry| seqs.contains(&entry.seq.0));
            Ok(entries.cloned().collect())
        })
    }

    fn tree(&self, id: SessionId) -> Result<Vec<Node>, ArchiveError> {
        self.read(id, |session| {
            let node =
                |entry: &Entry| Node { seq: entry.seq, parent: entry.parent, link: entry.link };
            Ok(session.entries().map(node).collect())
        })
    }

    fn batches(&self, id: SessionId, page: Page) -> Result<Listing<LoggedBatch>, ArchiveError> {
        let content = self.content();
        let Some(session) = content.sessions.get(&id) else { return Ok(Listing::empty()) };
        let batches = session.batches().into_iter().rev();
        Ok(page.take(batches, |batch| Cursor::number(batch.number)))
    }

    fn sessions(
        &self,
        owner: Option<Owner>,
        page: Page,
    ) -> Result<Listing<SessionInfo>, ArchiveError> {
        let content = self.content();
        let own = content.sessions.values();
        let own = own.filter(|session| owner.is_none_or(|owner| session.new.owner == owner));
        let mut own: Vec<&Session> = own.collect();
        own.sort_unstable_by_key(|session| std::cmp::Reverse(session.activity()));
        let listing = page.take(own, |session| session.activity());
        let items = listing.items.iter().map(|session| session.info()).collect();
        Ok(Listing { items, next: listing.next })
    }

    fn search(&self, scope: &Scope, query: &str, limit: usize) -> Result<Vec<Hit>, ArchiveError> {
        let content = self.content();
        let mut candidates = Vec::new();
        for session in content.sessions.values() {
            let path: Option<BTreeSet<Seq>> = match scope {
                Scope::All => None,
                Scope::Owner(owner) if session.new.owner == *owner => None,
                Scope::Session(id) if session.id == *id => None,
                Scope::Path { session: id, head } if session.id == *id => {
                    Some(session.path(*head)?.into_iter().collect())
                }
                _ => continue,
            };
            let entries = session.entries();
            let entries =
                entries.filter(|entry| path.as_ref().is_none_or(|path| path.contains(&entry.seq)));
            candidates.extend(entries.map(|entry| (session, entry)));
        }
        let Some(query) = Query::parse(query) else { return Ok(Vec::new()) };
        candidates.sort_unstable_by_key(|(session, entry)| {
            std::cmp::Reverse(session.order_of(entry.seq))
        });
        let hits = |strictness| {
            let found = candidates.iter().filter_map(|(session, entry)| {
                let text = session.text(entry.seq);
                let place = query.find(text, strictness)?;
                Some(Hit {
                    session: session.id,
                    seq: entry.seq,
                    round: entry.round,
                    snippet: snippet(text, &place),
                })
            });
            found.take(limit).collect::<Vec<_>>()
        };
        let whole = hits(Strictness::Words);
        Ok(if whole.is_empty() { hits(Strictness::Substrings) } else { whole })
    }

    fn pin(&self, id: SessionId, entry: Seq, pinned: bool) -> Result<(), ArchiveError> {
        self.change(id, |session| session.pin(entry, pinned))
    }

    fn reference(&self, scope: &Scope, handle: Handle) -> Result<Option<Reference>, ArchiveError> {
        let content = self.content();
        let (first, owner) = match scope {
            Scope::All => (None, None),
            Scope::Owner(owner) => (None, Some(*owner)),
            Scope::Session(id) | Scope::Path { session: id, .. } => {
                let Some(session) = content.sessions.get(id) else { return Ok(None) };
                (Some(session), Some(session.new.owner))
            }
        };
        let own = content.sessions.values();
        let own = own.filter(|session| owner.is_none_or(|owner| session.new.owner == owner));
        let mut own: Vec<&Session> = own.collect();
        own.sort_unstable_by_key(|session| session.order);
        Ok(first.into_iter().chain(own).find_map(|session| session.reference(handle)))
    }

    fn keep_preamble(&self, owner: Owner, content: &str) -> Result<PreambleId, ArchiveError> {
        let id = PreambleId::of(content);
        self.content().preambles.entry((owner, id)).or_insert_with(|| content.to_owned());
        Ok(id)
    }

    fn preamble(&self, owner: Owner, id: PreambleId) -> Result<Option<String>, ArchiveError> {
        Ok(self.content().preambles.get(&(owner, id)).cloned())
    }

    fn log_request(&self, id: SessionId, request: &Request) -> Result<(), ArchiveError> {
        self.content().log(id, request)
    }

    fn requests(&self, id: SessionId, page: Page) -> Result<Listing<Request>, ArchiveError> {
        let content = self.content();
        let Some(session) = content.sessions.get(&id) else { return Ok(Listing::empty()) };
        let newest_first = session.requests.iter().rev();
        let listing = page.take(newest_first, |(order, _)| Cursor::number(*order));
        let items = listing.items.into_iter().map(|(_, request)| request.clone()).collect();
        Ok(Listing { items, next: listing.next })
    }

    fn answer(
        &self,
        owner: Owner,
        answer: &str,
    ) -> Result<Option<(SessionId, Request)>, ArchiveError> {
        let content = self.content();
        let sessions = content.sessions.values().filter(|session| session.new.owner == owner);
        let lines =
            sessions.flat_map(|session| session.requests.iter().map(|line| (session.id, line)));
        let found = lines.filter(|(_, (_, request))| request.answer.as_deref() == Some(answer));
        let newest = found.max_by_key(|(_, (order, _))| *order);
        Ok(newest.map(|(id, (_, request))| (id, request.clone())))
    }

    fn put_derived(&self, id: SessionId, key: &str, value: &str) -> Result<(), ArchiveError> {
        self.change(id, |session| {
            session.derived.insert(key.to_owned(), value.to_owned());
            Ok(())
        })
    }

    fn derived(&self, id: SessionId, key: &str) -> Result<Option<String>, ArchiveError> {
        self.read(id, |session| Ok(session.derived.get(key).cloned()))
    }

    fn export(
        &self,
        id: SessionId,
        take: &mut dyn FnMut(Record) -> ControlFlow<()>,
    ) -> Result<bool, ArchiveError> {
        let records = {
            let content = self.content();
            let Some(session) = content.sessions.get(&id) else { return Ok(false) };
            let owner = session.new.owner;
            session.records(|preamble| content.preambles.get(&(owner, preamble)).cloned())
        };
        // Whoever takes them may ask for more.
        let _ = records.into_iter().try_for_each(take);
        Ok(true)
    }

    fn restore(&self, id: SessionId, records: &[Record]) -> Result<(), ArchiveError> {
        let content = &mut *self.content();
        let before = content.sessions.get(&id).cloned();
        let outcome = records.iter().try_for_each(|record| content.restore(id, record));
        if outcome.is_err() {
            match before {
                Some(session) => content.sessions.insert(id, session),
                None => content.sessions.remove(&id),
            };
        }
        outcome
    }

    fn derived_keys(&self, id: SessionId, prefix: &str) -> Result<Vec<String>, ArchiveError> {
        self.read(id, |session| {
            let keys = session.derived.keys().filter(|key| key.starts_with(prefix)).cloned();
            let mut keys: Vec<String> = keys.collect();
            keys.sort();
            Ok(keys)
        })
    }

    fn reserve(&self, wish: &Wish) -> Result<Reserved, ArchiveError> {
        let mut content = self.content();
        for (at_ms, _) in content.spending.values_mut() {
            *at_ms = (*at_ms).min(wish.at_ms);
        }
        content.spending.retain(|_, (at_ms, _)| *at_ms > wish.since_ms());
        let mut spent: Vec<(i64, u64)> = content.spending.values().copied().collect();
        spent.sort_unstable();
        if let Err(until_ms) = wish.fits(&spent) {
            return Ok(Reserved::Full { until_ms });
        }
        content.reservations += 1;
        let number = content.reservations;
        content.spending.insert(number, (wish.at_ms, wish.micros));
        Ok(Reserved::Granted(number))
    }

    fn settle(&self, reservation: u64, micros: u64) -> Result<(), ArchiveError> {
        if let Some((_, reserved)) = self.content().spending.get_mut(&reservation) {
            *reserved = micros;
        }
        Ok(())
    }

    fn verify(&self, session: Option<SessionId>) -> Result<Vec<Damage>, ArchiveError> {
        session.map_or(Ok(()), |session| self.content().session(session).map(|_| ()))?;
        Ok(Vec::new())
    }

    fn remove(&self, id: SessionId) -> Result<bool, ArchiveError> {
        let content = &mut *self.content();
        let Some(removed) = content.sessions.remove(&id) else { return Ok(false) };
        let owner = removed.new.owner;
        for preamble in removed.requests.iter().filter_map(|(_, request)| request.preamble) {
            let uses = |session: &Session| {
                session.requests.iter().any(|(_, request)| request.preamble == Some(preamble))
            };
            let mut others = content.sessions.values();
            if !others.any(|session| session.new.owner == owner && uses(session)) {
                content.preambles.remove(&(owner, preamble));
            }
        }
        Ok(true)
    }
}

impl Content {
    fn session(&mut self, id: SessionId) -> Result<&mut Session, ArchiveError> {
        self.sessions.get_mut(&id).ok_or(ArchiveError::UnknownSession { session: id })
    }

    fn begin(&mut self, id: SessionId, new: &NewSession) -> Result<(), ArchiveError> {
        let order = self.begun + 1;
        let session =
            self.sessions.entry(id).or_insert_with(|| Session::new(id, order, new.clone()));
        if session.new.owner != new.owner {
            return Err(ArchiveError::NotTheOwner { session: id });
        }
        self.begun = self.begun.max(session.order);
        Ok(())
    }

    fn append(
        &mut self,
        id: SessionId,
        after: After,
        entries: &[NewEntry],
    ) -> Result<Appended, ArchiveError> {
        let order = self.entries;
        let appended = self.session(id)?.append(after, entries, order)?;
        self.entries += appended.new;
        Ok(appended)
    }

    fn log(&mut self, id: SessionId, request: &Request) -> Result<(), ArchiveError> {
        let order = self.requests + 1;
        self.session(id)?.requests.push((order, request.clone()));
        self.requests = order;
        Ok(())
    }

    fn restore(&mut self, id: SessionId, record: &Record) -> Result<(), ArchiveError> {
        match record {
            Record::Session(new) => {
                self.begin(id, new)?;
                self.session(id)?.require_same(new)
            }
            Record::Preamble(content) => {
                let owner = self.session(id)?.new.owner;
                let key = (owner, PreambleId::of(content));
                self.preambles.entry(key).or_insert_with(|| content.clone());
                Ok(())
            }
            Record::Request(request) => self.log(id, request),
            record => {
                let order = self.entries + 1;
                self.session(id)?.restore(record, order)?;
                self.entries += u64::from(matches!(record, Record::Entry { .. }));
                Ok(())
            }
        }
    }

    /// Makes an addition, or nothing of it.
    fn add(&mut self, addition: &Addition) -> Result<Appended, ArchiveError> {
        let id = addition.session;
        let was_there = self.sessions.contains_key(&id);
        if let Some(new) = &addition.begin {
            self.begin(id, new)?;
        }
        let entries_before = self.session(id)?.count();
        let outcome = self.add_entries(addition);
        if outcome.is_err() {
            if was_there {
                self.session(id)?.truncate(entries_before);
            } else {
                self.sessions.remove(&id);
            }
        }
        outcome
    }

    fn add_entries(&mut self, addition: &Addition) -> Result<Appended, ArchiveError> {
        let id = addition.session;
        if let Some(expected) = &addition.expected {
            self.session(id)?.check_place(addition.after, expected)?;
        }
        let mut appended = self.append(id, addition.after, &addition.entries)?;
        let session = self.session(id)?;
        if let Some(batch) = &addition.batch {
            appended.batch = Some(session.commit(batch)?);
        }
        let owner = session.new.owner;
        if let Some(preamble) = &addition.preamble {
            let key = (owner, PreambleId::of(preamble));
            self.preambles.entry(key).or_insert_with(|| preamble.clone());
        }
        if let Some(request) = &addition.request {
            self.log(id, request)?;
        }
        if let Some((key, value)) = &addition.derived {
            self.session(id)?.derived.insert(key.clone(), value.clone());
        }
        Ok(appended)
    }
}
