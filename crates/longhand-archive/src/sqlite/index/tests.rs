//! The index against plain comparison of every text.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use longhand_recall::{Query, Strictness};
use longhand_testkit::rng::Rng;
use rusqlite::Connection;

use super::segment::insert_slice;
use super::slice::{IndexedEntry, SliceBuilder};
use super::{
    Blocks, Conditions, Finding, Forgetting, Joins, TABLES, check, counts, cut, go_on, is_due, live,
};
use super::{owner_mark, session_mark};
use crate::Owner;

const WORDS: &[&str] = &[
    "the",
    "of",
    "order",
    "Order",
    "OrderSerializer",
    "serializer",
    "HTTPServer",
    "server",
    "数据库",
    "数",
    "据",
    "ไทย",
    "서버",
    "café",
    "CAFE",
    "x1",
    "4d8461b77aa1",
    "part12345678",
    "a1",
    "🚀",
    "→",
    "config",
    "configuration",
    "reconfigure",
    "がか",
    "Straße",
    "naïve",
    "aVeryLongNameWithManyParts",
];
const GAPS: &[&str] = &[" ", " ", " ", "_", "-", "\n", ".", "", "/"];

/// An entry as the test knows it.
struct TestEntry {
    session: i64,
    said_ms: i64,
    text: String,
}

struct TestArchive {
    db: Connection,
    rng: Rng,
    entries: BTreeMap<i64, TestEntry>,
    newest: i64,
}

fn below(rng: &mut Rng, end: i64) -> i64 {
    rng.range(0..end as usize).cast_signed() as i64
}

fn words(rng: &mut Rng, count: usize) -> String {
    let mut text = String::new();
    for _ in 0..count {
        // Few words make up most of a text.
        let word = if rng.chance(0.6) { rng.range(0..6) } else { rng.range(0..WORDS.len()) };
        text.push_str(WORDS[word]);
        if rng.chance(0.02) {
            text.push_str(&"long".repeat(20 + rng.range(0..3)));
        }
        text.push_str(rng.choose::<&str>(GAPS));
    }
    text
}

impl TestArchive {
    fn new(seed: u64) -> Self {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(TABLES).unwrap();
        db.execute_batch("CREATE TABLE state (indexed INTEGER); INSERT INTO state VALUES (0)")
            .unwrap();
        Self { db, rng: Rng::new(seed), entries: BTreeMap::new(), newest: 0 }
    }

    fn marks(session: i64) -> Vec<Vec<u8>> {
        vec![session_mark(session), owner_mark(Owner::LOCAL)]
    }

    fn add_slice(&mut self) {
        let mut builder = SliceBuilder::default();
        for _ in 0..self.rng.range(1..60) {
            let count = self.rng.range(0..25);
            let text = words(&mut self.rng, count);
            let (session, said_ms) = (below(&mut self.rng, 3), below(&mut self.rng, 1_000));
            self.newest += 1;
            let marks = Self::marks(session);
            let id = self.newest;
            builder.add(&IndexedEntry { id, said_ms, marks: &marks, text: &text });
            self.entries.insert(id, TestEntry { session, said_ms, text });
        }
        insert_slice(&self.db, &builder.build(self.newest)).unwrap();
    }

    /// Forgets entries in as many steps as possible, with searches in between.
    fn forget(&mut self, ids: impl Iterator<Item = i64>) {
        let mut forgetting = Forgetting::default();
        for id in ids {
            if let Some(entry) = self.entries.remove(&id) {
                forgetting.add(id, &Self::marks(entry.session), &entry.text);
            }
        }
        while !forgetting.go_on(&self.db, Instant::now()).unwrap() {
            if self.rng.chance(0.05) {
                self.check_query();
            }
            if self.rng.chance(0.05) {
                go_on(&self.db, Joins::All, Instant::now()).unwrap();
            }
        }
    }

    /// Forgets the newest entries, whose ids are then used again.
    fn cut(&mut self) {
        let first = (self.newest - below(&mut self.rng, 80)).max(1);
        self.forget(first..=self.newest);
        self.newest = self.entries.keys().next_back().copied().unwrap_or(0);
        cut(&self.db, self.newest).unwrap();
    }

    fn query(&mut self) -> String {
        let some = |rng: &mut Rng| {
            let count = 1 + rng.range(0..3);
            words(rng, count)
        };
        let place = self.rng.range(0..self.entries.len().max(1));
        let said = self.entries.values().nth(place).map_or("", |entry| entry.text.as_str());
        let letters: Vec<char> = said.chars().filter(|letter| *letter != '"').collect();
        let start = self.rng.range(0..letters.len().max(1));
        let end = (start + 1 + self.rng.range(0..20)).min(letters.len());
        let quoted: String = letters.get(start..end).unwrap_or_default().iter().collect();
        match self.rng.range(0..6) {
            0 => some(&mut self.rng),
            1 => format!("\"{}\"", some(&mut self.rng)),
            2 => format!("\"{quoted}\""),
            3 => format!("{quoted}*"),
            4 => quoted,
            _ => format!("{} \"{quoted}\"", some(&mut self.rng)),
        }
    }

    fn check_query(&mut self) {
        let text = self.query();
        let Some(query) = Query::parse(&text) else { return };
        let session = self.rng.chance(0.3).then(|| below(&mut self.rng, 3));
        let since_ms = self.rng.chance(0.3).then(|| below(&mut self.rng, 1_000));
        let before_ms = self.rng.chance(0.2).then(|| below(&mut self.rng, 1_000));
        let marks = session.map(|session| vec![session_mark(session)]).into_iter().collect();
        let conditions =
            Conditions { marks, newest: self.newest, since_ms, before_ms, ..Conditions::default() };
        for strictness in [Strictness::Words, Strictness::Substrings] {
            let is_wanted = |entry: &TestEntry| {
                session.is_none_or(|session| entry.session == session)
                    && since_ms.is_none_or(|since| entry.said_ms >= since)
                    && before_ms.is_none_or(|before| entry.said_ms < before)
                    && query.find(&entry.text, strictness).is_some()
            };
            let all = self.entries.iter().rev();
            let right: Vec<i64> =
                all.filter(|(_, entry)| is_wanted(entry)).map(|(id, _)| *id).collect();
            let mut blocks = Blocks::new(&self.db);
            let mut found = Vec::new();
            for segment in live(&self.db).unwrap() {
                let finding = Finding::new(&mut blocks, &segment, &query, strictness, &conditions);
                let Some(mut finding) = finding.unwrap() else { continue };
                while let Some(id) = finding.next(&mut blocks).unwrap() {
                    found.push(id);
                }
            }
            assert!(found.is_sorted_by(|one, other| one > other), "{text:?}: {found:?}");
            found.retain(|id| self.entries.get(id).is_some_and(is_wanted));
            assert_eq!(found, right, "{text:?} {strictness:?} {conditions:?}");
        }
    }

    /// The index knows of every entry what its text says, and nothing else.
    fn check_all(&self) {
        let sums = check::sums(&self.db).unwrap();
        assert_eq!(sums.len(), self.entries.len());
        for (id, entry) in &self.entries {
            let (id, said_ms, marks) = (*id, entry.said_ms, Self::marks(entry.session));
            let right = check::sum(&IndexedEntry { id, said_ms, marks: &marks, text: &entry.text });
            assert_eq!(sums.get(&id), Some(&right), "{}", entry.text);
        }
        let query = Query::parse("the of order serializer 数 config").unwrap();
        let words: Vec<&str> = query.words().into_iter().collect();
        let mut blocks = Blocks::new(&self.db);
        let found = counts(&mut blocks, &live(&self.db).unwrap(), &words).unwrap();
        let mut right = vec![0; words.len()];
        for entry in self.entries.values() {
            for (count, frequency) in right.iter_mut().zip(query.frequencies(&entry.text).0) {
                *count += u64::from(frequency > 0);
            }
        }
        assert_eq!(found, right, "{words:?}");
    }
}

#[test]
fn the_index_finds_what_comparing_every_text_finds() {
    for seed in 0..12 {
        let mut archive = TestArchive::new(seed);
        for _ in 0..20 {
            match archive.rng.range(0..10) {
                0..=5 => (0..6).for_each(|_| archive.add_slice()),
                6 => {
                    let count = archive.rng.range(0..60);
                    let newest = archive.newest.max(1);
                    let ids = (0..count).map(|_| 1 + below(&mut archive.rng, newest));
                    let ids: BTreeSet<i64> = ids.collect();
                    archive.forget(ids.into_iter());
                }
                7 => archive.cut(),
                // Some of it, as if it had broken off then, or all.
                8 => _ = go_on(&archive.db, Joins::All, Instant::now()).unwrap(),
                _ => {
                    let long = Instant::now() + Duration::from_mins(1);
                    go_on(&archive.db, Joins::All, long).unwrap();
                }
            }
            (0..12).for_each(|_| archive.check_query());
        }
        archive.check_all();
        while !go_on(&archive.db, Joins::All, Instant::now()).unwrap() {}
        assert!(!is_due(&archive.db, Joins::All).unwrap());
        assert!(live(&archive.db).unwrap().len() < 48);
        archive.check_all();
        (0..30).for_each(|_| archive.check_query());
    }
}

/// What nobody has said any more is not in the file.
#[test]
fn a_word_goes_with_the_last_entry_that_has_it() {
    let mut archive = TestArchive::new(7);
    let mut secrets = Vec::new();
    for _ in 0..12 {
        archive.add_slice();
        let mut builder = SliceBuilder::default();
        for _ in 0..30 {
            archive.newest += 1;
            let (id, text) = (archive.newest, "my secretword canary is MySecretCanary".to_owned());
            let marks = TestArchive::marks(1);
            builder.add(&IndexedEntry { id, said_ms: 5, marks: &marks, text: &text });
            archive.entries.insert(id, TestEntry { session: 1, said_ms: 5, text });
            secrets.push(id);
        }
        insert_slice(&archive.db, &builder.build(archive.newest)).unwrap();
    }
    go_on(&archive.db, Joins::All, Instant::now() + Duration::from_mins(1)).unwrap();
    archive.forget(secrets.into_iter());
    let mut select = archive.db.prepare("SELECT data FROM index_block").unwrap();
    let blocks = select.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    for block in blocks.map(Result::unwrap) {
        for word in ["secret", "canary"] {
            assert!(memchr::memmem::find(&block, word.as_bytes()).is_none(), "{word}");
        }
    }
    archive.check_all();
}
