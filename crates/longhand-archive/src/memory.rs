//! Storage in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhand_core::session::{BatchLine, Fork, News, Node, Version};
use longhand_core::{Handle, Link, Seq};
use longhand_recall::{Best, Query, Texts, snippet};

use crate::storage::{
    Answer, BatchRecord, BestEntries, BestQuery, Candidate, Candidates, EntryRecord, FoldStates,
    Key, NoteFilter, Opened, Referenced, RequestFilter, ScoredEntry, SearchQuery, SearchScope,
    SearchStatistics, SessionFilter, Storage, Upkeep, Vocabulary, VocabularyQuery, Write,
};
use crate::usage::{DailySums, EditSums, NO_MODEL, day_of};
use crate::{
    ArchiveError, Conflict, Cursor, Damage, Entry, Hit, KnownPath, Listing, NewSession, Note,
    Owner, Page, PreambleId, RequestRecord, SessionId, SessionInfo, SessionUsage, UsageLine, codec,
};

/// An archive in memory, for tests and for conversations that are not kept.
#[derive(Debug, Default)]
pub struct MemoryArchive {
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    sessions: BTreeMap<SessionId, MemorySession>,
    preambles: HashMap<(Owner, PreambleId), String>,
    shared: HashMap<String, String>,
    /// Entries ever appended, for the order between sessions.
    entries: u64,
    /// Sessions ever begun.
    begun: u64,
    /// Requests ever logged.
    requests: u64,
}

#[derive(Debug)]
struct MemorySession {
    id: SessionId,
    new: NewSession,
    /// Its number among all sessions ever begun.
    birth: u64,
    /// With their numbers among the entries of all sessions.
    entries: Vec<(u64, EntryRecord)>,
    bytes: u64,
    linked: HashMap<Link, Vec<Seq>>,
    batches: Vec<BatchRecord>,
    undone: Vec<u64>,
    pins: Vec<Seq>,
    /// How often the pins were changed.
    pinned: u64,
    /// The batch that had a handle first.
    references: HashMap<Handle, u64>,
    /// With their numbers among the requests of all sessions.
    requests: Vec<(u64, RequestRecord)>,
    notes: Vec<Note>,
    derived: BTreeMap<String, String>,
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

    /// Reads from a session; an unknown one gives the default value.
    fn read<T: Default + Send + 'static>(
        &self,
        id: SessionId,
        action: impl FnOnce(&MemorySession) -> Result<T, ArchiveError>,
    ) -> Answer<'static, T> {
        ready(self.content().sessions.get(&id).map_or_else(|| Ok(T::default()), action))
    }
}

fn ready<T: Send + 'static>(outcome: Result<T, ArchiveError>) -> Answer<'static, T> {
    Box::pin(std::future::ready(outcome))
}

impl Storage for MemoryArchive {
    fn write(&self, writes: Vec<Write>) -> Answer<'_, Vec<Result<Version, ArchiveError>>> {
        let mut content = self.content();
        ready(Ok(writes.into_iter().map(|write| content.write(write)).collect()))
    }

    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>> {
        self.read(id, |session| Ok(Some(session.opened(since))))
    }

    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>> {
        self.read(id, |session| Ok(session.records(seqs)?.map(node).collect()))
    }

    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>> {
        self.read(id, |session| Ok(session.records(seqs)?.cloned().collect()))
    }

    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>> {
        self.read(id, |session| {
            let batch = |number: u64| session.batches.get(number.checked_sub(1)? as usize).cloned();
            let mut records: Vec<BatchRecord> = numbers.into_iter().filter_map(batch).collect();
            let mut is_last = true;
            for record in records.iter_mut().rev() {
                let has_state = !record.batch.state.is_empty();
                if !states.include(is_last) {
                    record.batch.state = String::new();
                }
                is_last &= !has_state;
            }
            Ok(records)
        })
    }

    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>> {
        let content = self.content();
        let sessions = || content.sessions.values().filter(|session| session.new.owner == owner);
        let found = links.iter().enumerate().rev().find_map(|(index, link)| {
            let found = sessions().flat_map(|session| {
                let seqs = session.linked.get(link).into_iter().flatten();
                seqs.map(|seq| KnownPath { session: session.id, seq: *seq, known: index + 1 })
            });
            Some(found.collect::<Vec<KnownPath>>()).filter(|found| !found.is_empty())
        });
        ready(Ok(found.unwrap_or_default()))
    }

    fn references(&self, handle: Handle) -> Answer<'_, Vec<Referenced>> {
        let content = self.content();
        let mut sessions: Vec<&MemorySession> = content.sessions.values().collect();
        sessions.sort_unstable_by_key(|session| session.birth);
        let found = sessions.into_iter().filter_map(|session| {
            let batch = *session.references.get(&handle)?;
            Some(Referenced { session: session.id, owner: session.new.owner, batch })
        });
        ready(Ok(found.collect()))
    }

    fn candidates(&self, wanted: SearchQuery) -> Answer<'_, Candidates> {
        ready(Ok(self.content().candidates(&wanted)))
    }

    fn vocabulary(&self, wanted: VocabularyQuery) -> Answer<'_, Vocabulary> {
        ready(Ok(self.content().vocabulary(&wanted)))
    }

    fn best(&self, wanted: BestQuery) -> Answer<'_, BestEntries> {
        ready(Ok(self.content().best(&wanted)))
    }

    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>> {
        let content = self.content();
        let is_wanted = |session: &&MemorySession| match &of {
            SessionFilter::All => true,
            SessionFilter::Owner(owner) => session.new.owner == *owner,
            SessionFilter::Session(id) => session.id == *id,
            SessionFilter::Named(name) => session.new.name == *name,
            SessionFilter::NamePrefix(prefix) => session.new.name.starts_with(prefix.as_str()),
            SessionFilter::IdPrefix(digits) => session.id.to_string().starts_with(digits.as_str()),
            SessionFilter::Group(group) => session.new.group == Some(*group),
            SessionFilter::Continuing(id) => session.new.continues == Some(*id),
        };
        let mut sessions: Vec<&MemorySession> =
            content.sessions.values().filter(is_wanted).collect();
        sessions.sort_unstable_by_key(|session| std::cmp::Reverse(session.place()));
        let listing = page.take(sessions, |session| session.place());
        let items = listing.items.iter().map(|session| session.info()).collect();
        ready(Ok(Listing { items, next: listing.next }))
    }

    fn owners(&self) -> Answer<'_, Vec<Owner>> {
        let content = self.content();
        let owners = content.sessions.values().map(|session| session.new.owner);
        ready(Ok(owners.collect::<BTreeSet<Owner>>().into_iter().collect()))
    }

    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>> {
        let content = self.content();
        let is_wanted = |session: &MemorySession, request: &RequestRecord| match &of {
            RequestFilter::Session(id) => session.id == *id,
            RequestFilter::Answer(owner, answer) => {
                session.new.owner == *owner && request.answer.as_ref() == Some(answer)
            }
        };
        // Those of a session are numbered in it, from 1.
        let of_session = matches!(of, RequestFilter::Session(_));
        let lines = content.sessions.values().flat_map(|session| {
            let lines = session.requests.iter().zip(1..);
            let wanted = lines.filter(move |((_, request), _)| is_wanted(session, request));
            wanted.map(move |((order, request), number)| {
                (session.id, (if of_session { number } else { *order }, request))
            })
        });
        let mut lines: Vec<(SessionId, (u64, &RequestRecord))> = lines.collect();
        lines.sort_unstable_by_key(|(_, (order, _))| std::cmp::Reverse(*order));
        let listing = page.take(lines, |(_, (order, _))| Cursor::number(*order));
        let items = listing.items.into_iter().map(|(id, (_, request))| (id, request.clone()));
        ready(Ok(Listing { items: items.collect(), next: listing.next }))
    }

    fn usage(&self, since_ms: i64) -> Answer<'_, Vec<UsageLine>> {
        let content = self.content();
        let lines = content.sessions.values().flat_map(|session| {
            let lines = session.usage().1;
            lines.into_iter().map(|((day, model), (sums, edits))| {
                let session = session.id;
                UsageLine { session, day, model, sums, edits }
            })
        });
        ready(Ok(lines.filter(|line| line.day >= day_of(since_ms)).collect()))
    }

    fn notes(&self, of: NoteFilter) -> Answer<'_, Vec<(SessionId, Note)>> {
        let content = self.content();
        let mut sessions: Vec<&MemorySession> = content.sessions.values().collect();
        sessions.sort_unstable_by_key(|session| session.birth);
        let is_wanted = |session: SessionId, note: &Note| match of {
            NoteFilter::Session(id) => session == id,
            NoteFilter::Handle(handle) => note.handle == handle,
        };
        let notes = sessions
            .into_iter()
            .flat_map(|session| session.notes.iter().map(|note| (session.id, note.clone())));
        ready(Ok(notes.filter(|(id, note)| is_wanted(*id, note)).collect()))
    }

    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>> {
        let content = self.content();
        ready(Ok(keys.iter().map(|key| content.value(key).cloned()).collect()))
    }

    fn keys(&self, id: SessionId, prefix: String) -> Answer<'_, Vec<String>> {
        self.read(id, |session| {
            let keys = session.derived.keys().filter(|key| key.starts_with(&prefix));
            Ok(keys.cloned().collect())
        })
    }

    fn put(&self, key: Key, expected: Option<String>, value: String) -> Answer<'_, bool> {
        let mut content = self.content();
        if content.value(&key) != expected.as_ref() {
            return ready(Ok(false));
        }
        ready(content.put(key, value).map(|()| true))
    }

    fn erase(&self, id: SessionId) -> Answer<'_, bool> {
        ready(Ok(self.content().erase(id)))
    }

    fn check(&self, session: Option<SessionId>) -> Answer<'_, Vec<Damage>> {
        let content = self.content();
        let unknown = session.filter(|id| !content.sessions.contains_key(id));
        ready(match unknown {
            Some(session) => Err(ArchiveError::UnknownSession { session }),
            None => Ok(Vec::new()),
        })
    }

    fn maintain(&self, _upkeep: Upkeep) -> Answer<'_, bool> {
        ready(Ok(true))
    }
}

impl Content {
    fn write(&mut self, mut write: Write) -> Result<Version, ArchiveError> {
        let id = write.session;
        let version = self.sessions.get(&id).map_or(Version::default(), MemorySession::version);
        let is_there = version != Version::default();
        let is_expected = write.expected.is_none_or(|expected| expected == version);
        if !is_there && (write.begin.is_none() || !is_expected) {
            return Err(ArchiveError::UnknownSession { session: id });
        }
        if !is_expected || (is_there && write.begin.is_some()) {
            return Err(ArchiveError::Conflict { session: id, conflict: Conflict::Version });
        }
        if let Some(new) = write.begin.take() {
            self.begun += 1;
            self.sessions.insert(id, MemorySession::new(id, new, self.begun));
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return Err(ArchiveError::UnknownSession { session: id });
        };
        for record in write.entries {
            self.entries += 1;
            session.bytes += record.entry.raw.len() as u64;
            session.linked.entry(record.entry.link).or_default().push(record.entry.seq);
            session.entries.push((self.entries, record));
        }
        for record in write.batches {
            let number = session.batches.len() as u64 + 1;
            for handle in codec::handles(&record.batch) {
                session.references.entry(handle).or_insert(number);
            }
            session.batches.push(record);
        }
        session.undone.extend(write.undos);
        if let Some(pins) = write.pins {
            session.pinned += 1;
            session.pins = pins;
        }
        for request in write.requests {
            self.requests += 1;
            session.requests.push((self.requests, request));
        }
        session.notes.extend(write.notes);
        session.derived.extend(write.derived);
        if session.new.opening.is_empty() {
            session.new.opening = write.opening.unwrap_or_default();
        }
        if let Some(offset) = write.imported {
            session.new.origin.offset = offset;
        }
        if let Some(name) = write.name {
            session.new.name = name;
        }
        let owner = session.new.owner;
        for preamble in write.preambles {
            self.preambles.entry((owner, PreambleId::of(&preamble))).or_insert(preamble);
        }
        Ok(session.version())
    }

    fn value(&self, key: &Key) -> Option<&String> {
        match key {
            Key::Preamble(owner, id) => self.preambles.get(&(*owner, *id)),
            Key::Derived(id, key) => self.sessions.get(id)?.derived.get(key),
            Key::Shared(name) => self.shared.get(name),
        }
    }

    fn put(&mut self, key: Key, value: String) -> Result<(), ArchiveError> {
        match key {
            Key::Preamble(owner, id) => {
                self.preambles.insert((owner, id), value);
            }
            Key::Shared(name) => {
                self.shared.insert(name, value);
            }
            Key::Derived(id, key) => {
                let unknown = ArchiveError::UnknownSession { session: id };
                self.sessions.get_mut(&id).ok_or(unknown)?.derived.insert(key, value);
            }
        }
        Ok(())
    }

    fn candidates(&self, wanted: &SearchQuery) -> Candidates {
        let Some(query) = Query::parse(&wanted.query) else { return Candidates::default() };
        let mut entries = self.entries_within(&wanted.within);
        entries.reverse();
        let words = query.words();
        let mut statistics = SearchStatistics {
            entries_with: vec![0; words.len()],
            words: words.into_iter().map(str::to_owned).collect(),
            ..SearchStatistics::default()
        };
        for (_, record) in self.sessions.values().flat_map(|session| &session.entries) {
            let (frequencies, length) = query.frequencies(&record.searched());
            statistics.entries += 1;
            statistics.length += length;
            for (entries, frequency) in statistics.entries_with.iter_mut().zip(frequencies) {
                *entries += u64::from(frequency > 0);
            }
        }
        let hits = entries.into_iter().filter_map(|(order, session, record)| {
            let Entry { seq, round, .. } = &record.entry;
            let text = record.searched();
            let place = query.find(&text, wanted.strictness)?;
            if !wanted.filter.accepts(&record.entry) {
                return None;
            }
            let snippet = snippet(&text, &place);
            let hit = Hit { session, seq: *seq, round: *round, snippet };
            let (frequencies, length) = query.frequencies(&record.searched());
            Some((order, Candidate { hit, frequencies, length }))
        });
        let page = Page { after: wanted.after, limit: wanted.limit };
        let listing = page.take(hits, |(order, _)| Cursor::number(*order));
        let hits = listing.items.into_iter().map(|(_, hit)| hit).collect();
        Candidates { hits, statistics, is_partial: false, next: listing.next, damage: None }
    }

    /// The entries of a scope, the oldest first, with their numbers among all entries.
    fn entries_within(&self, within: &SearchScope) -> Vec<(u64, SessionId, &EntryRecord)> {
        let is_wanted = |session: &&MemorySession| match within {
            SearchScope::All => true,
            SearchScope::Owner(owner) => session.new.owner == *owner,
            SearchScope::Sessions(sessions) => sessions.contains(&session.id),
        };
        let sessions = self.sessions.values().filter(is_wanted);
        let entries = sessions.flat_map(|session| {
            session.entries.iter().map(move |(order, record)| (*order, session.id, record))
        });
        let mut entries: Vec<(u64, SessionId, &EntryRecord)> = entries.collect();
        entries.sort_unstable_by_key(|(order, ..)| *order);
        entries
    }

    fn vocabulary(&self, wanted: &VocabularyQuery) -> Vocabulary {
        let entries = self.entries_within(&SearchScope::All);
        let mut texts = Texts::default();
        for (_, _, record) in &entries {
            texts.add(&record.searched());
        }
        let sessions = wanted.within.counted_sessions();
        let is_counted =
            |number: usize| sessions.is_none_or(|sessions| sessions.contains(&entries[number].1));
        let terms = wanted.sought.iter().map(|sought| texts.known(sought, is_counted)).collect();
        Vocabulary { terms, totals: texts.totals(is_counted) }
    }

    fn best(&self, wanted: &BestQuery) -> BestEntries {
        let mut entries = self.entries_within(&wanted.within);
        entries.retain(|(_, _, record)| wanted.filter.accepts(&record.entry));
        let mut texts = Texts::default();
        for (_, _, record) in &entries {
            texts.add(&record.searched());
        }
        let mut best = Best::new(wanted.limit);
        for (number, measure) in texts.walked(&wanted.ranker, wanted.limit, |_| true) {
            best.add(wanted.ranker.score(&measure), number as u64);
        }
        let scored = best.into_sorted().into_iter().map(|(score, number)| {
            let (_, session, record) = entries[number as usize];
            ScoredEntry { session, record: record.clone(), score }
        });
        BestEntries { entries: scored.collect(), ..BestEntries::default() }
    }

    fn erase(&mut self, id: SessionId) -> bool {
        let Some(erased) = self.sessions.remove(&id) else { return false };
        let owner = erased.new.owner;
        for preamble in erased.requests.iter().filter_map(|(_, request)| request.preamble) {
            let uses = |session: &MemorySession| {
                session.requests.iter().any(|(_, request)| request.preamble == Some(preamble))
            };
            let mut others = self.sessions.values();
            if !others.any(|session| session.new.owner == owner && uses(session)) {
                self.preambles.remove(&(owner, preamble));
            }
        }
        true
    }
}

impl MemorySession {
    fn new(id: SessionId, new: NewSession, birth: u64) -> Self {
        Self {
            id,
            new,
            birth,
            entries: Vec::new(),
            bytes: 0,
            linked: HashMap::new(),
            batches: Vec::new(),
            undone: Vec::new(),
            pins: Vec::new(),
            pinned: 0,
            references: HashMap::new(),
            requests: Vec::new(),
            notes: Vec::new(),
            derived: BTreeMap::new(),
        }
    }

    fn version(&self) -> Version {
        Version {
            birth: self.birth,
            entries: self.entries.len() as u64,
            batches: self.batches.len() as u64,
            undos: self.undone.len() as u64,
            pins: self.pinned,
        }
    }

    /// How recently an entry was appended, and for sessions without entries, which is newer.
    fn place(&self) -> Cursor {
        Cursor { major: self.activity(), minor: self.birth }
    }

    fn activity(&self) -> u64 {
        self.entries.last().map_or(0, |(order, _)| *order)
    }

    fn opened(&self, since: Version) -> Opened {
        let since = if since.birth == self.birth { since } else { Version::default() };
        let new = self.entries.iter().skip(since.entries as usize);
        let forks = new.filter_map(|(_, EntryRecord { entry, .. })| {
            let Entry { seq, parent, link, .. } = *entry;
            let follows = parent.is_some_and(|parent| parent.0 + 1 == seq.0);
            (!follows).then_some(Fork { first: seq, parent, link })
        });
        let lines = self.batches.iter().skip(since.batches as usize).map(|record| record.line);
        let news = News {
            version: self.version(),
            newest: self.entries.last().map(|(_, record)| node(record)),
            forks: forks.collect(),
            batches: lines.collect::<Vec<BatchLine>>(),
            undone: self.undone.iter().skip(since.undos as usize).copied().collect(),
            pins: self.pins.clone(),
        };
        let requests = self.requests.len() as u64;
        Opened { session: self.info(), news, nodes: Vec::new(), requests }
    }

    /// The entries with numbers in ranges.
    fn records(
        &self,
        seqs: Vec<Range<u64>>,
    ) -> Result<impl Iterator<Item = &EntryRecord>, ArchiveError> {
        let entries = self.entries.len() as u64;
        if let Some(range) = seqs.iter().find(|range| range.end > entries) {
            let range = range.clone();
            return Err(ArchiveError::NoSuchEntries { session: self.id, range, entries });
        }
        Ok(seqs.into_iter().flatten().map(|seq| &self.entries[seq as usize].1))
    }

    /// What its requests took, in all and by day and model, with what became of edits.
    fn usage(&self) -> (SessionUsage, DailySums) {
        let mut usage = SessionUsage::default();
        let mut lines = DailySums::new();
        for (_, request) in &self.requests {
            let key = (day_of(request.at_ms), request.model.clone());
            usage.count(request, &mut lines.entry(key).or_default().0);
        }
        let batches = self.batches.iter().map(|record| (record.at_ms, &record.batch));
        for (day, edits) in EditSums::of(batches, &self.notes) {
            lines.entry((day, NO_MODEL.to_owned())).or_default().1.add(&edits);
        }
        (usage, lines)
    }

    fn info(&self) -> SessionInfo {
        let NewSession { owner, dialect, name, continues, group, begun_ms, origin, opening } =
            self.new.clone();
        let newest = self.entries.last().map(|(_, record)| &record.entry);
        SessionInfo {
            id: self.id,
            owner,
            dialect,
            name,
            continues,
            group,
            begun_ms,
            origin,
            opening,
            usage: self.usage().0,
            entries: self.entries.len() as u64,
            rounds: newest.map_or(0, |entry| entry.round + 1),
            batches: self.batches.len() as u64,
            bytes: self.bytes,
            first_ms: self.entries.first().map_or(0, |(_, record)| record.entry.at_ms),
            last_ms: newest.map_or(0, |entry| entry.at_ms),
            activity: self.activity(),
            is_damaged: false,
        }
    }
}

fn node(record: &EntryRecord) -> Node {
    let Entry { seq, parent, link, round, .. } = record.entry;
    Node { seq, parent, link, round }
}
