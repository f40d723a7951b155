//! The file answers as the model in memory does.

use std::fmt::Debug;

use longhand_archive::{
    After, Archive, ArchiveError, Ledger, MemoryArchive, NewBatch, NewEntry, Owner, Page,
    PreambleId, RequestRecord, Scope, SearchFilter, SessionId, SessionInfo, SqliteArchive, Version,
    Write, ask, wait,
};
use longhand_core::session::SessionState;
use longhand_core::{Edit, Fold, Handle, Link, Original, Place, Seq, Span};
use longhand_testkit::arbitrary::cases;
use proptest::prelude::*;

use crate::common::{
    append_to, batch, commit_to, named, quick_folder, reply, silent, user, with_variants,
};

const NAMES: &[&str] = &["a", "a/b", ""];
const ANSWERS: &[&str] = &["answer", "other answer"];
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
    /// At most one for each session.
    Write {
        drafts: Vec<Draft>,
    },
    Commit {
        session: usize,
        is_stale: bool,
        head: u64,
        change: Change,
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
    Ask {
        session: usize,
        preamble: Option<usize>,
        request: RequestRecord,
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
    /// What a path of a session begins, and others go on with.
    Find {
        owner: usize,
        known: Option<(usize, Option<Seq>)>,
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

/// A write, but for what depends on where the session stands.
#[derive(Clone, Debug)]
struct Draft {
    session: usize,
    begins: bool,
    after: After,
    guess: Guess,
    entries: Vec<NewEntry>,
    change: Option<Change>,
    preamble: Option<usize>,
    request: Option<RequestRecord>,
}

/// What a writer expects.
#[derive(Clone, Copy, Debug)]
enum Guess {
    Right,
    MoreEntries,
    MoreUndos,
    AnotherBirth,
    NoSession,
}

/// The content of a batch.
#[derive(Clone, Debug)]
struct Change {
    edits: Vec<Edit>,
    variants: Vec<(Handle, Original)>,
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
        3 => prop::sample::select(&WORDS[..2]).prop_map(str::to_owned),
        3 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => words(),
    ];
    (text, 0..3_usize, any::<i64>()).prop_map(|(text, kind, at_ms)| {
        let entry = [user, reply, silent][kind](&text);
        NewEntry { at_ms, ..entry }
    })
}

fn entries() -> impl Strategy<Value = Vec<NewEntry>> {
    prop_oneof![
        8 => prop::collection::vec(entry(), 0..4),
        1 => prop::collection::vec(entry(), 8..24),
    ]
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

fn change() -> impl Strategy<Value = Change> {
    let original = (words(), any::<bool>()).prop_map(|(text, is_json)| {
        if is_json { Original::Json(text) } else { Original::Text(text) }
    });
    let variant = ((0..3_usize).prop_map(handle), original);
    (edits(), prop::collection::vec(variant, 0..2))
        .prop_map(|(edits, variants)| Change { edits, variants })
}

fn guess() -> impl Strategy<Value = Guess> {
    prop_oneof![
        12 => Just(Guess::Right),
        1 => Just(Guess::MoreEntries),
        1 => Just(Guess::MoreUndos),
        1 => Just(Guess::AnotherBirth),
        1 => Just(Guess::NoSession),
    ]
}

fn request() -> impl Strategy<Value = RequestRecord> {
    let answer = prop::option::of(prop::sample::select(ANSWERS));
    (any::<i64>(), any::<u64>(), answer).prop_map(|(at_ms, sent, answer)| RequestRecord {
        at_ms,
        sent,
        answer: answer.map(str::to_owned),
        ..RequestRecord::default()
    })
}

fn draft() -> impl Strategy<Value = Draft> {
    let place = (0..NAMES.len(), any::<bool>(), after(), guess());
    let extras =
        (prop::option::of(change()), prop::option::of(0..2_usize), prop::option::of(request()));
    (place, entries(), extras).prop_map(|(place, entries, (change, preamble, request))| {
        let (session, begins, after, guess) = place;
        Draft { session, begins, after, guess, entries, change, preamble, request }
    })
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
        5 => prop_oneof![
            2 => prop::collection::vec(draft(), 1..2),
            1 => prop::collection::vec(draft(), 0..4),
        ]
        .prop_map(|drafts| Step::Write { drafts }),
        8 => (session.clone(), prop::bool::weighted(0.1), 0..12_u64, change())
            .prop_map(|(session, is_stale, head, change)| Step::Commit {
                session, is_stale, head, change,
            }),
        2 => (session.clone(), head()).prop_map(|(session, head)| Step::Undo { session, head }),
        1 => (session.clone(), 0..6_u64, any::<bool>())
            .prop_map(|(session, seq, pinned)| Step::Pin { session, seq, pinned }),
        1 => (session.clone(), prop::option::of(0..2_usize), request())
            .prop_map(|(session, preamble, request)| Step::Ask { session, preamble, request }),
        1 => (session.clone(), words())
            .prop_map(|(session, value)| Step::Derive { session, value }),
        1 => session.clone().prop_map(|session| Step::Remove { session }),
        4 => (scope(), words(), 0..5_usize)
            .prop_map(|(scope, query, limit)| Step::Search { scope, query, limit }),
        4 => (0..2_usize, prop::option::of((session.clone(), head())), entries())
            .prop_map(|(owner, known, entries)| Step::Find { owner, known, entries }),
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
    change: &Change,
) -> NewBatch {
    let newest = archive.live(session, Some(Seq(head))).unwrap_or_default();
    let newest = newest.last().map_or(0, |batch| batch.number);
    let batch = batch(newest + u64::from(is_stale), head, change.edits.clone());
    with_variants(batch, &change.variants)
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
        Step::Write { drafts } => written(archive, drafts),
        Step::Commit { session, is_stale, head, change } => {
            let batch = fitting(archive, id(*session), *is_stale, *head, change);
            told(archive.commit(id(*session), &batch))
        }
        Step::Undo { session, head } => told(archive.undo(id(*session), *head)),
        Step::Pin { session, seq, pinned } => told(archive.pin(id(*session), Seq(*seq), *pinned)),
        Step::Ask { session, preamble: at, request } => {
            if let Some(at) = at {
                archive.keep_preamble(Owner::LOCAL, preamble(*at)).unwrap();
            }
            let preamble = at.map(|at| PreambleId::of(preamble(at)));
            let request = RequestRecord { preamble, ..request.clone() };
            told(archive.log_request(id(*session), &request))
        }
        Step::Derive { session, value } => told(archive.put_derived(id(*session), "key", value)),
        Step::Remove { session } => told(archive.remove(id(*session))),
        Step::Search { scope, query, limit } => {
            let (scopes, filter) = ([*scope], SearchFilter::default());
            let ranked = ask::ranked(archive, &scopes, query, filter, *limit, &|_, _| true);
            format!("{} {}", told(archive.search(scope, query, *limit)), told(wait(ranked)))
        }
        Step::Find { owner: at, known, entries } => {
            let links = said_after(archive, owner(*at), *known, entries);
            told(archive.find_path(owner(*at), &links))
        }
        Step::Path { session, head, start, end } => {
            told(archive.path(id(*session), *head, *start..*end))
        }
        Step::List { owner: at, limit } => listed(archive, at.map(owner), *limit),
        Step::Reopen | Step::Reindex => String::new(),
    }
}

/// Makes the writes of drafts in one transaction; tells of each what came of it.
fn written(archive: &dyn Archive, drafts: &[Draft]) -> String {
    let (mut writes, mut outcomes) = (Vec::<Write>::new(), Vec::new());
    for draft in drafts {
        let is_first = writes.iter().all(|write| write.session != id(draft.session));
        match drafted(archive, draft) {
            Ok(write) if is_first => writes.push(write),
            Ok(_) => {}
            Err(error) => outcomes.push(format!("error: {error}")),
        }
    }
    for outcome in wait(archive.write(writes)).unwrap() {
        // What tells one birth and one set of pins from another is the storage's own matter.
        let counts = outcome.map(|version| (version.entries, version.batches, version.undos));
        outcomes.push(told(counts));
    }
    outcomes.join("; ")
}

/// The write of a draft, decided by the session as it is.
fn drafted(archive: &dyn Archive, draft: &Draft) -> Result<Write, ArchiveError> {
    let session = id(draft.session);
    let new = named(Owner::LOCAL, NAMES[draft.session]);
    let opened = wait(Ledger::open(archive, session))?;
    let unknown = ArchiveError::UnknownSession { session };
    let mut ledger = match opened {
        Some(ledger) => ledger,
        None if draft.begins => Ledger::begin(session, new),
        None => return Err(unknown),
    };
    let parent = match draft.after {
        After::Newest => ledger.state.tree().newest(),
        After::Entry(parent) => parent,
    };
    parent.map_or(Ok(()), |parent| ledger.require(parent))?;
    let mut write = ledger.write();
    let decide =
        |state: &mut SessionState| Ok(append_to(state, &mut write, parent, &draft.entries)?);
    let head = wait(ledger.ask(archive, decide))?.last().copied().or(parent);
    if let (Some(change), Some(head)) = (&draft.change, head) {
        let newest = ledger.state.live(Some(head)).last().copied().unwrap_or(0);
        let new = with_variants(batch(newest, head.0, change.edits.clone()), &change.variants);
        if ledger.state.check_commit(&new.batch, newest).is_ok() {
            commit_to(&mut ledger.state, &mut write, &new);
        }
    }
    write.preambles.extend(draft.preamble.map(|at| preamble(at).to_owned()));
    write.requests.extend(draft.request.clone());
    let seen = write.expected.unwrap_or_default();
    if seen != Version::default() {
        write.expected = Some(match draft.guess {
            Guess::Right => seen,
            Guess::MoreEntries => Version { entries: seen.entries + 1, ..seen },
            Guess::MoreUndos => Version { undos: seen.undos + 1, ..seen },
            Guess::AnotherBirth => Version { birth: seen.birth + 1, ..seen },
            Guess::NoSession => Version::default(),
        });
    }
    Ok(write)
}

/// The links of a path, without silent ones, and of entries after it.
fn said_after(
    archive: &dyn Archive,
    owner: Owner,
    known: Option<(usize, Option<Seq>)>,
    entries: &[NewEntry],
) -> Vec<Link> {
    let path = known.map(|(session, head)| archive.path(id(session), head, 0..u64::MAX));
    let path = path.and_then(Result::ok).unwrap_or_default();
    let mut links: Vec<Link> = path.iter().map(|entry| entry.link).collect();
    links.retain(|link| !link.is_silent());
    for entry in entries.iter().filter(|entry| !entry.meaning.is_silent()) {
        let last = links.last().copied().unwrap_or_else(|| owner.root());
        links.push(last.next(entry.meaning));
    }
    links
}

/// A session without the number that tells which one was spoken in last, which each archive counts in its own way.
fn unnumbered(info: SessionInfo) -> SessionInfo {
    SessionInfo { activity: 0, ..info }
}

/// All pages of the list of sessions. Cursors are the archive's own matter.
fn listed(archive: &dyn Archive, owner: Option<Owner>, limit: usize) -> String {
    let mut page = Page::first(limit);
    let mut told = String::new();
    loop {
        let listing = archive.sessions(owner, page).unwrap();
        told += &format!("{:?};", listing.items.into_iter().map(unnumbered).collect::<Vec<_>>());
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
        state += &told(archive.session(session).map(|found| found.map(unnumbered)));
        state += &told(archive.batches(session, Page::ALL));
        state += &told(archive.entries(session, 0..u64::MAX));
        state += &told(archive.tree(session));
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
    for of in (0..2).map(owner) {
        for at in 0..2 {
            state += &told(archive.preamble(of, PreambleId::of(preamble(at))));
        }
        for answer in ANSWERS {
            state += &told(archive.answer(of, answer));
        }
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
