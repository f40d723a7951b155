//! The file answers as the model in memory does.

use std::fmt::Debug;

use longhand_archive::{
    Addition, After, Archive, ArchiveError, Form, MemoryArchive, NewBatch, NewEntry, Owner, Page,
    PreambleId, Request, Scope, SessionId, SqliteArchive,
};
use longhand_core::Handle;
use longhand_core::{Edit, Fold, Place, Seq, Span};
use longhand_testkit::arbitrary::cases;
use proptest::prelude::*;

use crate::common::{batch, links, named, quick_folder, reply, user};

const NAMES: &[&str] = &["a", "a/b", ""];
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
    Begin {
        session: usize,
        owner: usize,
    },
    Append {
        session: usize,
        after: After,
        entries: Vec<NewEntry>,
    },
    AppendAll {
        additions: Vec<(usize, bool, After, Vec<NewEntry>)>,
    },
    Commit {
        session: usize,
        is_stale: bool,
        head: u64,
        edits: Vec<Edit>,
    },
    AppendAndCommit {
        session: usize,
        is_late: bool,
        after: After,
        entries: Vec<NewEntry>,
        edits: Vec<Edit>,
    },
    Undo {
        session: usize,
        head: Option<Seq>,
    },
    Pin {
        session: usize,
        seq: u64,
        pinned: bool,
    },
    Keep {
        session: usize,
        name: usize,
        text: String,
    },
    Ask {
        session: usize,
        preamble: Option<usize>,
        tokens: u64,
    },
    Derive {
        session: usize,
        value: String,
    },
    Remove {
        session: usize,
    },
    Search {
        scope: Scope,
        query: String,
        limit: usize,
    },
    Find {
        owner: usize,
        entries: Vec<NewEntry>,
    },
    Path {
        session: usize,
        head: Option<Seq>,
        start: u64,
        end: u64,
    },
    List {
        owner: Option<usize>,
        limit: usize,
    },
    /// The file alone: closed and opened, or its index made anew.
    Reopen,
    Reindex,
}

fn owner(at: usize) -> Owner {
    [Owner::LOCAL, Owner::of("key")][at]
}

fn id(at: usize) -> SessionId {
    SessionId::named(Owner::LOCAL, NAMES[at])
}

fn preamble(at: usize) -> &'static str {
    ["tools", "more tools"][at]
}

fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 0..5).prop_map(|words| words.join(" "))
}

/// Few different texts, so that conversations meet.
fn entry() -> impl Strategy<Value = NewEntry> {
    let text = prop_oneof![
        3 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => words(),
    ];
    (text, any::<bool>(), any::<i64>()).prop_map(|(text, opens_round, at_ms)| {
        let entry = if opens_round { user(&text) } else { reply(&text) };
        NewEntry { at_ms, ..entry }
    })
}

fn entries() -> impl Strategy<Value = Vec<NewEntry>> {
    prop::collection::vec(entry(), 0..4)
}

fn seq() -> impl Strategy<Value = Seq> + Clone {
    (0..12_u64).prop_map(Seq)
}

fn head() -> impl Strategy<Value = Option<Seq>> {
    prop::option::of(seq())
}

fn after() -> impl Strategy<Value = After> {
    prop_oneof![Just(After::Newest), head().prop_map(After::Entry)]
}

fn edit() -> impl Strategy<Value = Edit> {
    let part = (seq(), 0..2_usize, 0..3_usize);
    prop_oneof![
        3 => part.clone().prop_map(|(entry, part, name)| Edit::Stub {
            at: Place { entry, part },
            handle: handle(name),
            text: format!("[{name}]"),
        }),
        1 => part.prop_map(|(entry, part, name)| Edit::Clip {
            at: Place { entry, part },
            handle: handle(name),
            text: String::new(),
        }),
        2 => (seq(), seq(), 0..2_u128).prop_map(|(one, other, sum)| Edit::Fold(Fold {
            spans: vec![Span { first: one.min(other), last: one.max(other) }],
            blocks: vec![],
            sum,
            text: "block".to_owned(),
        })),
        1 => seq().prop_map(|after| Edit::Insert { after, text: "recalled".to_owned() }),
    ]
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop_oneof![5 => prop::collection::vec(edit(), 1..2), 1 => prop::collection::vec(edit(), 0..4)]
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::All),
        (0..2_usize).prop_map(|at| Scope::Owner(owner(at))),
        (0..NAMES.len()).prop_map(|at| Scope::Session(id(at))),
        (0..NAMES.len(), head()).prop_map(|(at, head)| Scope::Path { session: id(at), head }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..NAMES.len();
    prop_oneof![
        2 => (session.clone(), 0..2_usize)
            .prop_map(|(session, owner)| Step::Begin { session, owner }),
        8 => (session.clone(), after(), entries())
            .prop_map(|(session, after, entries)| Step::Append { session, after, entries }),
        2 => prop::collection::vec((session.clone(), any::<bool>(), after(), entries()), 0..4)
            .prop_map(|additions| Step::AppendAll { additions }),
        8 => (session.clone(), prop::bool::weighted(0.1), 0..12_u64, edits())
            .prop_map(|(session, is_stale, head, edits)| Step::Commit {
                session, is_stale, head, edits,
            }),
        2 => (session.clone(), prop::bool::weighted(0.2), after(), entries(), edits())
            .prop_map(|(session, is_late, after, entries, edits)| Step::AppendAndCommit {
                session, is_late, after, entries, edits,
            }),
        2 => (session.clone(), head()).prop_map(|(session, head)| Step::Undo { session, head }),
        1 => (session.clone(), 0..6_u64, any::<bool>())
            .prop_map(|(session, seq, pinned)| Step::Pin { session, seq, pinned }),
        1 => (session.clone(), 0..3_usize, words())
            .prop_map(|(session, name, text)| Step::Keep { session, name, text }),
        1 => (session.clone(), prop::option::of(0..2_usize), any::<u64>())
            .prop_map(|(session, preamble, tokens)| Step::Ask { session, preamble, tokens }),
        1 => (session.clone(), words())
            .prop_map(|(session, value)| Step::Derive { session, value }),
        1 => session.clone().prop_map(|session| Step::Remove { session }),
        4 => (scope(), words(), 0..5_usize)
            .prop_map(|(scope, query, limit)| Step::Search { scope, query, limit }),
        2 => (0..2_usize, entries()).prop_map(|(owner, entries)| Step::Find { owner, entries }),
        3 => (session, head(), 0..12_u64, 0..14_u64)
            .prop_map(|(session, head, start, end)| Step::Path { session, head, start, end }),
        1 => (prop::option::of(0..2_usize), 1..3_usize)
            .prop_map(|(owner, limit)| Step::List { owner, limit }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Reindex),
    ]
}

/// A batch that fits, mostly: few random ones would.
fn fitting(
    archive: &dyn Archive,
    session: SessionId,
    is_stale: bool,
    head: u64,
    edits: &[Edit],
) -> NewBatch {
    let newest = archive.live(session, Some(Seq(head))).unwrap_or_default();
    let newest = newest.last().map_or(0, |batch| batch.number);
    batch(newest + u64::from(is_stale), head, edits.to_vec())
}

/// Performs a step and tells what came of it.
fn perform(archive: &dyn Archive, step: &Step) -> String {
    match step {
        Step::Begin { session, owner: at } => {
            told(archive.begin(id(*session), &named(owner(*at), NAMES[*session])))
        }
        Step::Append { session, after, entries } => {
            told(archive.append(id(*session), *after, entries))
        }
        Step::AppendAll { additions } => {
            let additions: Vec<Addition> = additions
                .iter()
                .map(|(session, begins, after, entries)| {
                    addition(*session, *begins, *after, entries)
                })
                .collect();
            let outcomes = archive.append_all(&additions).unwrap();
            outcomes.into_iter().map(told).collect::<Vec<_>>().join("; ")
        }
        Step::Commit { session, is_stale, head, edits } => {
            let batch = fitting(archive, id(*session), *is_stale, *head, edits);
            told(archive.commit(id(*session), &batch))
        }
        Step::AppendAndCommit { session, is_late, after, entries, edits } => {
            let first = archive.head(id(*session)).unwrap().unwrap_or_default().entries;
            let head = (first + entries.len() as u64).saturating_sub(1);
            let batch = fitting(archive, id(*session), false, first.saturating_sub(1), edits);
            let batch = NewBatch {
                batch: longhand_core::Batch { head: Seq(head), ..batch.batch },
                ..batch
            };
            let addition = addition(*session, true, *after, entries);
            told(archive.append_and_commit(&addition, Seq(first + u64::from(*is_late)), &batch))
        }
        Step::Undo { session, head } => told(archive.undo(id(*session), *head)),
        Step::Pin { session, seq, pinned } => told(archive.pin(id(*session), Seq(*seq), *pinned)),
        Step::Keep { session, name, text } => {
            told(archive.keep(id(*session), &[(handle(*name), text.clone(), Form::Text)]))
        }
        Step::Ask { session, preamble: at, tokens } => {
            if let Some(at) = at {
                archive.keep_preamble(Owner::LOCAL, preamble(*at)).unwrap();
            }
            let preamble = at.map(|at| PreambleId::of(preamble(at)));
            let request = Request { preamble, sent: *tokens, ..Request::default() };
            told(archive.log_request(id(*session), &request))
        }
        Step::Derive { session, value } => told(archive.put_derived(id(*session), "key", value)),
        Step::Remove { session } => told(archive.remove(id(*session))),
        Step::Search { scope, query, limit } => told(archive.search(scope, query, *limit)),
        Step::Find { owner: at, entries } => {
            told(archive.find_path(owner(*at), &links(owner(*at), entries)))
        }
        Step::Path { session, head, start, end } => {
            told(archive.path(id(*session), *head, *start..*end))
        }
        Step::List { owner: at, limit } => listed(archive, at.map(owner), *limit),
        Step::Reopen | Step::Reindex => String::new(),
    }
}

fn addition(session: usize, begins: bool, after: After, entries: &[NewEntry]) -> Addition {
    Addition {
        session: id(session),
        begin: begins.then(|| named(Owner::LOCAL, NAMES[session])),
        after,
        entries: entries.to_vec(),
    }
}

/// All pages of the list of sessions. Cursors are the archive's own matter.
fn listed(archive: &dyn Archive, owner: Option<Owner>, limit: usize) -> String {
    let mut page = Page::first(limit);
    let mut told = String::new();
    loop {
        let listing = archive.sessions(owner, page).unwrap();
        told += &format!("{:?};", listing.items);
        match listing.next {
            next @ Some(_) => page.after = next,
            None => return told,
        }
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
    let mut state = listed(archive, None, 9);
    let folds = (0..2).map(Handle::of_sum);
    let handles: Vec<Handle> = (0..3).map(handle).chain(folds).collect();
    for session in 0..NAMES.len() {
        let session = id(session);
        state += &told(archive.head(session));
        state += &told(archive.session(session));
        state += &told(archive.batches(session, Page::ALL));
        state += &told(archive.entries(session, 0..u64::MAX));
        state += &told(archive.requests(session, Page::ALL));
        state += &told(archive.derived(session, "key"));
        for head in (0..20).map(|head| Some(Seq(head))).chain([None]) {
            state += &told(archive.live(session, head));
            state += &told(archive.path(session, head, 0..u64::MAX));
        }
        for handle in &handles {
            state += &told(archive.reference(&Scope::Session(session), *handle));
        }
    }
    for handle in &handles {
        state += &told(archive.reference(&Scope::All, *handle));
        state += &told(archive.reference(&Scope::Owner(owner(1)), *handle));
    }
    for at in 0..2 {
        state += &told(archive.preamble(Owner::LOCAL, PreambleId::of(preamble(at))));
    }
    state
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_file_answers_as_memory_does(steps in prop::collection::vec(step(), 1..40)) {
        let folder = quick_folder();
        let path = folder.path().join("archive.db");
        let memory = MemoryArchive::new();
        let mut sqlite = SqliteArchive::open(&path).unwrap();
        for archive in [&memory as &dyn Archive, &sqlite] {
            archive.begin(id(0), &named(Owner::LOCAL, NAMES[0])).unwrap();
        }
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
