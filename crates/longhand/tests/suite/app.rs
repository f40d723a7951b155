//! The application layer over storage of any kind.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};

use longhand::app::{
    Access, App, AppError, ExpandRequest, FoundBy, FoundEntry, ImportOutcome, ImportReport,
    ImportRequest, ListRequest, ListedSession, LogLine, Reach, SearchRequest, SessionPage,
    SessionView, Timestamp, UsageBy, UsageReport, UsageRequest, ViewSettings,
};
use longhand::archive::{After, NewSession, Origin, RequestRecord, wait};
use longhand::{
    Archive, MemoryArchive, Owner, Prompt, Round, Session, SessionId, SessionSettings,
    SqliteArchive, Tokens,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Sessions of the local user and of another owner.
fn filled(archive: &Arc<dyn Archive>) {
    let settings = SessionSettings { budget: Tokens(1_500), ..SessionSettings::new().unwrap() };
    let mut demo = Session::open_with(Arc::clone(archive), "demo", settings).unwrap();
    for number in 0..60 {
        let question = format!("What is the port of server-{number}?");
        let answer = format!("server-{number} listens on port {}.", 4_000 + number);
        demo.record(&Round::new(&question, &answer, number * DAY_MS)).unwrap();
    }
    demo.window("And now?", &Prompt::default(), 60 * DAY_MS).unwrap();
    let request = RequestRecord {
        model: "m".to_owned(),
        before: 900,
        window: 300,
        sent: 310,
        edits: 3,
        at_ms: 5 * DAY_MS,
        ..RequestRecord::default()
    };
    archive.log_request(demo.id(), &request).unwrap();
    let owner = Owner::of("another key");
    for name in ["demo", "secret"] {
        let id = SessionId::named(owner, name);
        let new = NewSession { owner, name: name.to_owned(), ..NewSession::default() };
        archive.begin(id, &new).unwrap();
        let entries = Round::new("The port of the vault is 4711.", "Noted.", 1).entries();
        archive.append(id, After::Newest, &entries).unwrap();
        archive.log_request(id, &RequestRecord { sent: 7, ..RequestRecord::default() }).unwrap();
    }
}

fn archives() -> Vec<(Arc<dyn Archive>, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteArchive::open(folder.path().join("a.db")).unwrap();
    let all: Vec<(Arc<dyn Archive>, _)> =
        vec![(Arc::new(MemoryArchive::default()), None), (Arc::new(file), Some(folder))];
    for (archive, _) in &all {
        filled(archive);
    }
    all
}

/// Asserts that a struct comes back from its JSON.
fn assert_comes_back<T>(value: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let json = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), value, "{json}");
}

#[test]
fn everything_that_is_answered_can_be_sent_and_read_again() {
    for (archive, _folder) in archives() {
        let app = App::of_owner(archive, Owner::LOCAL);
        let page = app.sessions(&ListRequest { all: true, ..ListRequest::default() }).unwrap();
        assert_comes_back::<SessionPage>(&page);
        let listed: &ListedSession = &page.items[0];
        assert_eq!((listed.requests, listed.tokens, listed.saved), (1, 300, 600));
        assert_eq!(listed.task, "What is the port of server-0?");
        assert_comes_back::<Vec<FoundEntry>>(&app.search(&SearchRequest::of("port")).unwrap());
        let view = app.show("demo", &ViewSettings::default()).unwrap();
        assert!(view.map.folded > 0 && view.summary.is_some(), "{view:?}");
        assert_eq!(view.map, app.map("demo", &ViewSettings::default()).unwrap());
        assert_comes_back::<SessionView>(&view);
        let log = app.log("demo").unwrap();
        assert_comes_back::<Vec<LogLine>>(&log);
        let LogLine::Edits(edits) = log.last().unwrap() else { panic!("{log:?}") };
        assert!(edits.folded > 0 && edits.receipt.tokens_after.is_some(), "{edits:?}");
        let by_session = UsageRequest { by: UsageBy::Session, limit: None };
        assert_comes_back::<UsageReport>(&app.usage(&by_session, &|_, _| None).unwrap());
        assert_comes_back(&app.cost("demo").unwrap());
        assert_comes_back(&app.state("demo", &ViewSettings::default()).unwrap());
        assert_comes_back(&app.pin("demo", 3, true).unwrap());
        assert_comes_back(&app.undo("demo").unwrap());
        assert_comes_back(&app.verify(None).unwrap());
        assert_comes_back(&app.rename("demo", "other").unwrap());
        assert_comes_back(&app.remove("other").unwrap());
        assert_comes_back(&AppError::EmptyQuery.report());
    }
}

#[test]
fn an_owner_sees_nothing_of_another_one() {
    for (archive, _folder) in archives() {
        let (all, other) = (App::new(Arc::clone(&archive)), Owner::of("another key"));
        let handle = {
            let view = all.show(
                &SessionId::named(Owner::LOCAL, "demo").to_string(),
                &ViewSettings::default(),
            );
            let summary = view.unwrap().summary.unwrap();
            let at = summary.find("h:").unwrap();
            summary[at..at + 14].to_owned()
        };
        let export = {
            let mut lines = Vec::new();
            all.export(&SessionId::named(other, "secret").to_string(), &mut lines).unwrap();
            lines
        };
        // To whoever sees both, the name is ambiguous.
        let both = all.find("demo", Access::Read).unwrap_err();
        assert_eq!((both.kind(), both.candidates().len()), ("ambiguous_name", 2));
        assert!(all.expand(&ExpandRequest::of(&handle)).is_ok());

        let theirs = App::of_owner(Arc::clone(&archive), other);
        let names = |app: &App| {
            let page = app.sessions(&ListRequest::default()).unwrap();
            page.items.into_iter().map(|session| session.name).collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&theirs), ["demo", "secret"].map(str::to_owned).into());
        assert_eq!(theirs.find("demo", Access::Change).unwrap().session.rounds, 1);
        let id = SessionId::named(Owner::LOCAL, "demo").to_string();
        let beginning = &id[..8];
        for name in [id.as_str(), beginning, "@last"] {
            let found = theirs.find(name, Access::Read).map(|found| found.session.rounds);
            assert!(!matches!(found, Ok(60)), "{name}");
        }
        let unknown = theirs.expand(&ExpandRequest::of(&handle)).unwrap_err();
        assert_eq!(unknown.kind(), "unknown_handle");
        let found = theirs.search(&SearchRequest::of("port")).unwrap();
        assert!(found.iter().all(|found| found.snippet.contains("4711")), "{found:?}");
        assert_eq!(theirs.usage(&UsageRequest::default(), &|_, _| None).unwrap().total.sent, 14);
        assert_eq!(theirs.verify(None).unwrap().sessions, 2);

        let ours = App::of_owner(archive, Owner::LOCAL);
        assert_eq!(names(&ours), ["demo".to_owned()].into());
        // Nor can anybody write as another owner.
        let request = ImportRequest { bytes_max: 1 << 20, ..ImportRequest::default() };
        let checked = request.check(&export).unwrap();
        assert_eq!(ours.import(checked, &request).unwrap_err().kind(), "foreign_owner");
        let theirs = SessionId::named(other, "secret").to_string();
        assert_eq!(ours.remove(&theirs).unwrap_err().kind(), "unknown_session");
        let settings = SessionSettings::new().unwrap();
        let foreign = all.open(&theirs, settings).map(drop).unwrap_err();
        assert_eq!(foreign.kind(), "foreign_owner");
    }
}

#[test]
fn searches_are_filtered_by_role_and_time() {
    for (archive, _folder) in archives() {
        let app = App::of_owner(archive, Owner::LOCAL);
        let search = |request: SearchRequest| {
            let found = app.search(&SearchRequest { limit: 1_000, ..request }).unwrap();
            found.into_iter().map(|found| (found.role, found.at.0 / DAY_MS)).collect::<Vec<_>>()
        };
        let of = || SearchRequest::of("port");
        assert_eq!(search(of()).len(), 120);
        let user = search(SearchRequest { role: Some("user".to_owned()), ..of() });
        assert!(user.len() == 60 && user.iter().all(|(role, _)| role == "user"), "{user:?}");
        let (since, before) = (Some(Timestamp(10 * DAY_MS)), Some(Timestamp(12 * DAY_MS)));
        let days = search(SearchRequest { since, before, ..of() });
        assert_eq!(days.iter().map(|(_, day)| *day).collect::<BTreeSet<_>>(), [10, 11].into());
        let one = SearchRequest { since, before, limit: 1, ..of() };
        assert_eq!(app.search(&one).unwrap().len(), 1);
    }
}

#[test]
fn a_name_means_the_same_session_everywhere() {
    for (archive, _folder) in archives() {
        let app = App::of_owner(archive, Owner::LOCAL);
        let id = SessionId::named(Owner::LOCAL, "demo").to_string();
        for (name, by) in [
            ("demo", FoundBy::Whole),
            (id.as_str(), FoundBy::Whole),
            (&id[..16], FoundBy::Whole),
            ("dem", FoundBy::Beginning),
            (&id[..4], FoundBy::Beginning),
            ("@last", FoundBy::Newest),
        ] {
            let found = app.find(name, Access::Read).unwrap();
            assert_eq!((found.session.id.as_str(), found.by), (id.as_str(), by), "{name}");
            let changed = app.find(name, Access::Change);
            assert_eq!(changed.is_ok(), by == FoundBy::Whole, "{name}");
        }
        for name in ["", "demo2", &id[..3], "DEMO"] {
            let unknown = app.find(name, Access::Read).unwrap_err();
            assert_eq!(unknown.kind(), "unknown_session", "{name}");
        }
        let last = app.find("@last", Access::Change).unwrap_err();
        assert!(last.hint().unwrap().contains("@last is for reading"), "{last}");
    }
}

#[test]
fn a_conversation_goes_out_and_comes_in_again() {
    for (archive, _folder) in archives() {
        let app = App::of_owner(archive, Owner::LOCAL);
        let mut lines = Vec::new();
        let report = app.export("demo", &mut lines).unwrap();
        assert_eq!(report.entries, 120);
        let target = App::new(Arc::new(MemoryArchive::default()));
        let import = |request: ImportRequest, bytes: &[u8]| -> Result<ImportReport, AppError> {
            let request = ImportRequest { bytes_max: 1 << 20, ..request };
            target.import(request.check(&bytes)?, &request)
        };
        let outcome =
            |report: &ImportReport| (report.sessions[0].outcome, report.sessions[0].added);
        let first = import(ImportRequest::default(), &lines).unwrap();
        assert_eq!(outcome(&first), (ImportOutcome::New, 120));
        assert_comes_back(&first);
        let again = import(ImportRequest::default(), &lines).unwrap();
        assert_eq!(outcome(&again), (ImportOutcome::Same, 0));
        let named = ImportRequest { name: Some("copy".to_owned()), ..ImportRequest::default() };
        assert_eq!(outcome(&import(named, &lines).unwrap()), (ImportOutcome::New, 120));
        let mut out = Vec::new();
        target.export("demo", &mut out).unwrap();
        assert!(out == lines, "the copy is exported as the same bytes");
        assert_eq!(
            target.log("demo").unwrap().len(),
            app.log("demo").unwrap().len(),
            "with its edits"
        );
        let state = serde_json::to_vec(&app.state("demo", &ViewSettings::default()).unwrap());
        let taken = import(ImportRequest::default(), &state.unwrap()).unwrap_err();
        assert_eq!(taken.kind(), "name_taken", "a state is called as its session");
        for (bytes, kind) in [(&lines[..lines.len() / 2], "transfer"), (b"\xff\xfe", "bad_import")]
        {
            assert_eq!(import(ImportRequest::default(), bytes).unwrap_err().kind(), kind);
        }
        let nameless = br#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]"#;
        assert_eq!(import(ImportRequest::default(), nameless).unwrap_err().kind(), "bad_name");
    }
}

/// Begins a session of two messages.
fn spoken(archive: &dyn Archive, name: &str, new: NewSession) -> SessionId {
    let id = SessionId::named(Owner::LOCAL, name);
    archive.begin(id, &NewSession { name: name.to_owned(), ..new }).unwrap();
    let entries = Round::new(&format!("Do {name}."), "Done.", 1).entries();
    archive.append(id, After::Newest, &entries).unwrap();
    id
}

/// Whatever the size of a page: each conversation comes once, in the order in which something was said.
#[test]
fn pages_of_conversations_are_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteArchive::open(folder.path().join("a.db")).unwrap();
    let archives: [Arc<dyn Archive>; 2] = [Arc::new(MemoryArchive::default()), Arc::new(file)];
    for archive in archives {
        let of = |group| NewSession { group: Some(group), ..NewSession::default() };
        let first = spoken(&*archive, "first", of(1));
        spoken(&*archive, "alone", NewSession::default());
        spoken(&*archive, "title", of(1));
        let second = NewSession { continues: Some(first), ..NewSession::default() };
        let second = spoken(&*archive, "second", second);
        spoken(&*archive, "other", of(2));
        spoken(&*archive, "aside", of(2));
        let empty = SessionId::named(Owner::LOCAL, "empty");
        archive.begin(empty, &NewSession { continues: Some(second), ..of(3) }).unwrap();
        spoken(&*archive, "newest", NewSession::default());
        let entries = Round::new("And the first one again.", "Yes.", 2).entries();
        archive.append(first, After::Newest, &entries).unwrap();
        let app = App::new(Arc::clone(&archive));
        let listed = |limit: Option<usize>| {
            let mut request = ListRequest { limit, ..ListRequest::default() };
            let mut names = Vec::new();
            loop {
                let page = app.sessions(&request).unwrap();
                assert!(page.items.len() <= limit.unwrap_or(9) && !page.items.is_empty());
                names.extend(page.items.into_iter().map(|listed| listed.name));
                request.after = page.next;
                if request.after.is_none() {
                    return names;
                }
            }
        };
        let all = listed(None);
        assert_eq!(all[..2], ["first", "newest"]);
        assert_eq!(all.last().unwrap(), "alone");
        assert_eq!(all.len(), 4);
        for limit in 1..9 {
            assert_eq!(listed(Some(limit)), all, "{limit}");
        }
        assert_eq!(app.find("@last", Access::Read).unwrap().session.name, "first");
        let mut exported = Vec::new();
        app.export("title", &mut exported).unwrap();
        assert!(!String::from_utf8(exported).unwrap().contains("Do other."));
        let bad = ListRequest { after: Some("12.no".to_owned()), ..ListRequest::default() };
        assert!(matches!(app.sessions(&bad), Err(AppError::BadPage(_))));
    }
}

#[test]
fn one_round_of_a_fold_is_what_the_whole_has_of_it() {
    for (archive, _folder) in archives() {
        let app = App::of_owner(archive, Owner::LOCAL);
        let summary = app.show("demo", &ViewSettings::default()).unwrap().summary.unwrap();
        let at = summary.find("h:").unwrap();
        let expanded = |round| {
            let handle = summary[at..at + 14].to_owned();
            app.expand(&ExpandRequest { handle, round, raw: true, ..ExpandRequest::default() })
        };
        let whole = expanded(None).unwrap().content;
        let rounds: Vec<String> =
            (0..60).map_while(|round| Some(expanded(Some(round)).ok()?.content)).collect();
        assert!(rounds.len() > 5, "{whole}");
        assert_eq!(rounds.join("\n"), whole);
        let beyond = expanded(Some(rounds.len() as u64)).unwrap_err();
        let last = rounds.len() as u64 - 1;
        assert!(
            matches!(beyond, AppError::NoSuchRound { first: 0, last: found, .. } if found == last),
            "{beyond:?}"
        );
    }
}

#[test]
fn the_library_opens_a_renamed_session_by_its_new_name_alone() {
    for (archive, _folder) in archives() {
        App::of_owner(Arc::clone(&archive), Owner::LOCAL).rename("demo", "work").unwrap();
        let open = |name: &str| Session::open(Arc::clone(&archive), name).unwrap();
        assert_eq!(open("work").id(), SessionId::named(Owner::LOCAL, "demo"));
        let mut demo = open("demo");
        assert_ne!(demo.id(), open("work").id());
        demo.record(&Round::new("A new one.", "Yes.", 1)).unwrap();
        assert_eq!(open("demo").id(), demo.id());
        assert_eq!(App::of_owner(archive, Owner::LOCAL).verify(None).unwrap().sessions, 2);
    }
}

#[test]
fn trying_out_an_archive_looks_at_the_newest_sessions_only() {
    let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let app = App::new(Arc::clone(&archive));
    spoken(&*archive, "first", NewSession::default());
    let health = app.try_out("tried", DAY_MS).unwrap();
    assert_eq!((health.sessions, health.rounds, health.has_more), (1, 1, false));
    for number in 0..1_000 {
        spoken(&*archive, &format!("s{number}"), NewSession::default());
    }
    let health = app.try_out("tried", DAY_MS).unwrap();
    assert_eq!((health.sessions, health.rounds, health.has_more), (1_000, 1_000, true));
    assert_eq!(app.verify(None).unwrap().sessions, 1_001);
}

#[test]
fn nothing_is_seen_beyond_a_reach() {
    for (archive, _folder) in archives() {
        let of = |reach: Reach| App::of_owner(Arc::clone(&archive), Owner::LOCAL).within(reach);
        let all = of(Reach::All);
        let window = all.show("demo", &ViewSettings::default()).unwrap().summary.unwrap();
        let (at, _) = window.match_indices("h:").next().unwrap();
        let handle = &window[at..at + 14];
        let hit = all.search(&SearchRequest::of("server-3")).unwrap().remove(0);
        let origin = Origin { project: "/home/u/app".to_owned(), ..Origin::default() };
        spoken(&*archive, "app", NewSession { origin, ..NewSession::default() });
        assert!(all.expand(&ExpandRequest::of(handle)).is_ok());
        for reach in [
            Reach::Project("/home/u/app".to_owned()),
            Reach::Project("app".to_owned()),
            Reach::Session("app".to_owned()),
        ] {
            let app = of(reach.clone());
            let listed = app.sessions(&ListRequest::default()).unwrap().items;
            let names: Vec<&str> = listed.iter().map(|session| session.name.as_str()).collect();
            assert_eq!(names, ["app"], "{reach:?}");
            for handle in [handle, &hit.handle, "demo"] {
                assert!(app.expand(&ExpandRequest::of(handle)).is_err(), "{reach:?} {handle}");
            }
            let found = app.search(&SearchRequest::of("server-3 port")).unwrap();
            assert!(found.iter().all(|found| found.session == "app"), "{reach:?} {found:?}");
            assert!(app.show("demo", &ViewSettings::default()).is_err());
            assert!(app.pin("demo", 0, true).is_err());
            assert!(app.usage(&UsageRequest::default(), &|_, _| None).unwrap().rows.is_empty());
        }
        // One that is not there shows nothing, and not everything.
        assert!(of(Reach::Session("nobody".to_owned())).sessions(&ListRequest::default()).is_err());
        let nowhere = of(Reach::Project("/nowhere".to_owned()));
        assert!(nowhere.sessions(&ListRequest::default()).unwrap().items.is_empty());
    }
}

#[test]
fn a_search_that_would_read_too_much_says_so() {
    let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let id = spoken(&*archive, "long", NewSession::default());
    let entries = (0..2_100).flat_map(|number| {
        Round::new(&format!("Question {number}."), "An answer.", 2 + number).entries()
    });
    archive.append(id, After::Newest, &entries.collect::<Vec<_>>()).unwrap();
    let app = App::new(archive);
    let regex = |query: &str| SearchRequest { regex: true, ..SearchRequest::of(query) };
    let found = app.find_entries(&regex("^Do lo.g")).unwrap();
    assert!(found.entries.is_empty() && found.is_partial, "{found:?}");
    let found = app.find_entries(&regex("Question 209\\d")).unwrap();
    assert_eq!((found.entries.len(), found.is_partial), (10, true));
    let found = app.find_entries(&SearchRequest { limit: 5, ..regex("Question 209\\d") }).unwrap();
    assert_eq!((found.entries.len(), found.is_partial), (5, false));
}

#[test]
fn what_is_asked_in_the_background_blocks_nobody() {
    let app = App::new(Arc::new(MemoryArchive::default()));
    let (release, released) = mpsc::channel::<()>();
    let mut asked = pin!(app.ask(move |app| {
        let _ = released.recv();
        Ok(app.sessions(&ListRequest::default())?.items.len())
    }));
    let mut context = Context::from_waker(Waker::noop());
    assert!(asked.as_mut().poll(&mut context).is_pending());
    release.send(()).unwrap();
    assert_eq!(wait(asked).unwrap(), 0);
    let failed = app.ask(|app| app.show("nobody", &ViewSettings::default()).map(drop));
    assert!(wait(failed).is_err());
    let panics = || wait(app.ask(|_| -> Result<(), AppError> { panic!("of the caller") }));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
}
