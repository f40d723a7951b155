//! The file answers as the model in memory does.

use std::fmt::Debug;

use longhand_archive::{
    Archive, ArchiveError, Content, Form, MemoryArchive, NewEntry, Original, SqliteArchive,
    fold_handle,
};
use longhand_core::Handle;
use proptest::prelude::*;

use crate::common::{batch, quick_folder, reply, user};

const SESSIONS: &[&str] = &["a", "a/b", ""];
const WORDS: &[&str] = &[
    "alpha",
    "Beta",
    "GB/s",
    "don't",
    "数据库",
    "据",
    "🚀",
    "expandHandle",
    "handle",
    "\"",
    "a-b",
    "-",
    "src/main.rs",
    "naïve",
    "NEAR",
    "\0",
];

#[derive(Clone, Debug)]
enum Step {
    Append {
        session: usize,
        entries: Vec<NewEntry>,
    },
    Commit {
        session: usize,
        is_stale: bool,
        end: u64,
    },
    Undo {
        session: usize,
    },
    Pin {
        session: usize,
        seq: u64,
        pinned: bool,
    },
    Keep {
        name: usize,
        original: Original,
    },
    Remove {
        session: usize,
    },
    Search {
        session: Option<usize>,
        query: String,
        limit: usize,
    },
    Read {
        session: usize,
        start: u64,
        end: u64,
    },
    /// The file alone: closed and opened, or its index made anew.
    Reopen,
    Reindex,
}

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..5).prop_map(|words| words.join(" "))
}

fn entry() -> impl Strategy<Value = NewEntry> {
    (words(), any::<bool>(), any::<i64>()).prop_map(|(text, opens_round, at_ms)| {
        let entry = if opens_round { user(&text) } else { reply(&text) };
        NewEntry { at_ms, ..entry }
    })
}

fn original() -> impl Strategy<Value = Original> {
    let content = prop_oneof![
        prop::sample::select(WORDS).prop_map(|text| Content::Text(text.to_owned())),
        (0..3_u64, 0..5_u64).prop_map(|(start, end)| Content::Entries(start..end)),
    ];
    (prop::option::of(0..SESSIONS.len()), content).prop_map(|(session, content)| Original {
        session: session.map(|at| SESSIONS[at].to_owned()),
        form: Form::Text,
        content,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        6 => (session.clone(), prop::collection::vec(entry(), 0..4))
            .prop_map(|(session, entries)| Step::Append { session, entries }),
        3 => (session.clone(), prop::bool::weighted(0.2), 0..6_u64)
            .prop_map(|(session, is_stale, end)| Step::Commit { session, is_stale, end }),
        2 => session.clone().prop_map(|session| Step::Undo { session }),
        2 => (session.clone(), 0..6_u64, any::<bool>())
            .prop_map(|(session, seq, pinned)| Step::Pin { session, seq, pinned }),
        3 => (0..3_usize, original()).prop_map(|(name, original)| Step::Keep { name, original }),
        1 => session.clone().prop_map(|session| Step::Remove { session }),
        4 => (prop::option::of(session.clone()), words(), 0..5_usize)
            .prop_map(|(session, query, limit)| Step::Search { session, query, limit }),
        2 => (session, 0..6_u64, 0..8_u64)
            .prop_map(|(session, start, end)| Step::Read { session, start, end }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Reindex),
    ]
}

/// Performs a step and tells what came of it.
fn perform(archive: &dyn Archive, step: &Step) -> String {
    match step {
        Step::Append { session, entries } => told(archive.append(SESSIONS[*session], entries)),
        Step::Commit { session, is_stale, end } => {
            let session = SESSIONS[*session];
            let head = archive.head(session).unwrap().unwrap_or_default();
            let newest = head.batch.map_or(0, |batch| batch.number);
            told(archive.commit(session, &batch(newest + u64::from(*is_stale), *end)))
        }
        Step::Undo { session } => told(archive.undo(SESSIONS[*session])),
        Step::Pin { session, seq, pinned } => told(archive.pin(SESSIONS[*session], *seq, *pinned)),
        Step::Keep { name, original } => told(archive.keep(&[(handle(*name), original.clone())])),
        Step::Remove { session } => told(archive.remove(SESSIONS[*session])),
        Step::Search { session, query, limit } => {
            told(archive.search(session.map(|at| SESSIONS[at]), query, *limit))
        }
        Step::Read { session, start, end } => {
            told(archive.entries(SESSIONS[*session], *start..*end))
        }
        Step::Reopen | Step::Reindex => String::new(),
    }
}

fn told<T: Debug>(outcome: Result<T, ArchiveError>) -> String {
    match outcome {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => format!("error: {error}"),
    }
}

fn handle(name: usize) -> Handle {
    Handle::of([["one", "two", "three"][name]])
}

/// Everything that can be asked.
fn state(archive: &dyn Archive) -> String {
    let mut state = told(archive.sessions());
    for session in SESSIONS {
        state += &told(archive.head(session));
        state += &told(archive.batches(session));
        state += &told(archive.entries(session, 0..u64::MAX));
        for end in 1..6 {
            state += &told(archive.expand(fold_handle(session, &(0..end))));
        }
    }
    for name in 0..3 {
        state += &told(archive.expand(handle(name)));
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_file_answers_as_memory_does(steps in prop::collection::vec(step(), 1..30)) {
        let folder = quick_folder();
        let path = folder.path().join("archive.db");
        let memory = MemoryArchive::new();
        let mut sqlite = SqliteArchive::open(&path).unwrap();
        for step in &steps {
            match step {
                Step::Reopen => {
                    drop(sqlite);
                    sqlite = SqliteArchive::open(&path).unwrap();
                }
                Step::Reindex => sqlite.reindex().unwrap(),
                step => prop_assert_eq!(perform(&sqlite, step), perform(&memory, step), "{:?}", step),
            }
        }
        prop_assert_eq!(state(&sqlite), state(&memory));
        prop_assert_eq!(sqlite.verify(None).unwrap(), []);
    }
}
