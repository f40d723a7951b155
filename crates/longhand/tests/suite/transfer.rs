//! Exports and imports: what comes back is what was there.

use longhand::transfer::{self, Exported, Imported, TransferError};
use longhand::{Archive, MemoryArchive, Owner, SessionId, SqliteArchive};
use longhand_archive::{
    After, NewBatch, NewEntry, NewSession, Origin, Page, RequestRecord, SessionInfo,
};
use longhand_core::{Batch, Edit, Fold, Handle, Meaning, Original, Place, Seq, Span};
use proptest::prelude::*;

const LINE_MAX: u64 = 1 << 30;

/// One thing that happens to a session.
#[derive(Clone, Debug)]
pub(crate) enum TransferStep {
    Say { after: Option<u64>, text: String, is_user: bool, is_silent: bool, time: i64 },
    Edit { head: u64, kind: u8, text: String },
    Undo { head: u64 },
    Pin { entry: u64, pinned: bool },
    Request { preamble: String, answer: Option<String>, number: u64 },
    Derive { key: String, value: String },
    RemoveNeighbour,
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,3}", "(→|é|e\u{301}|👩‍💻|数|\n|\\\\|\"|\u{202e}| |x){0,12}"]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<TransferStep>> {
    let say = (any::<Option<u64>>(), texts(), any::<bool>(), 0..8_u8, any::<i64>()).prop_map(
        |(after, text, is_user, silence, time)| TransferStep::Say {
            after,
            text,
            is_user,
            is_silent: silence == 0,
            time,
        },
    );
    let edit = (any::<u64>(), 0..5_u8, texts());
    let edit = edit.prop_map(|(head, kind, text)| TransferStep::Edit { head, kind, text });
    let request = (texts(), prop::option::of(texts()), any::<u64>());
    let request = request.prop_map(|(preamble, answer, number)| TransferStep::Request {
        preamble,
        answer,
        number,
    });
    let step = prop_oneof![
        6 => say,
        3 => edit,
        1 => any::<u64>().prop_map(|head| TransferStep::Undo { head }),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(entry, pinned)| TransferStep::Pin { entry, pinned }),
        1 => request,
        1 => (texts(), texts()).prop_map(|(key, value)| TransferStep::Derive { key, value }),
        1 => Just(TransferStep::RemoveNeighbour),
    ];
    prop::collection::vec(step, 1..40)
}

fn entry(text: &str, is_user: bool, is_silent: bool, at_ms: i64) -> NewEntry {
    let role = if is_user { "user" } else { "assistant" };
    let raw = serde_json::json!({"role": role, "content": text}).to_string();
    let meaning = Meaning::of_content(&raw);
    NewEntry {
        meaning: Meaning(meaning.0 & !1 | u128::from(is_silent)),
        opens_round: is_user,
        form: "chat".to_owned(),
        // Not always what follows from the message.
        text: if text.len().is_multiple_of(3) { text.to_owned() } else { "other words".to_owned() },
        raw,
        at_ms,
        source_ms: is_user.then_some(at_ms - 9),
    }
}

const OWNERS: [&str; 2] = ["", "key"];

pub(crate) fn session(owner: &str) -> (SessionId, NewSession) {
    let owner = if owner.is_empty() { Owner::LOCAL } else { Owner::of(owner) };
    let new = NewSession {
        owner,
        dialect: "chat".to_owned(),
        name: "wörk \"1\"".to_owned(),
        continues: Some(SessionId(7)),
        group: Some(u64::MAX),
        begun_ms: -5,
        origin: Origin {
            project: "/home/me/work".to_owned(),
            agent: "an agent".to_owned(),
            file: "a file.jsonl".to_owned(),
            offset: 77,
        },
        opening: "first \"words\"".to_owned(),
    };
    (SessionId::named(owner, "work"), new)
}

/// Makes a session, and a neighbour that says the same.
pub(crate) fn play(archive: &dyn Archive, id: SessionId, new: &NewSession, steps: &[TransferStep]) {
    archive.begin(id, new).unwrap();
    let neighbour = SessionId(99);
    for step in steps {
        let entries = archive.head(id).unwrap().unwrap().entries;
        let some = |number: u64| number.checked_rem(entries).map(Seq);
        match step {
            TransferStep::Say { after, text, is_user, is_silent, time } => {
                let after = match after {
                    None => After::Newest,
                    Some(number) if number % 7 == 0 => After::Entry(None),
                    Some(number) => After::Entry(some(*number)),
                };
                let entry = entry(text, *is_user, *is_silent, *time);
                archive.append(id, after, std::slice::from_ref(&entry)).unwrap();
                archive
                    .begin(neighbour, &NewSession { name: String::new(), ..new.clone() })
                    .unwrap();
                archive.append(neighbour, After::Newest, &[entry]).unwrap();
            }
            TransferStep::Edit { head, kind, text } => {
                let Some(head) = some(*head) else { continue };
                let path = archive.path(id, Some(head), 0..u64::MAX).unwrap();
                let first = path[0].seq;
                let after = archive.live(id, Some(head)).unwrap();
                let after = after.last().map_or(0, |batch| batch.number);
                let (at, handle) = (Place { entry: head, part: 3 }, Handle::of([text.as_str()]));
                let text = text.clone();
                let (edits, variants) = match kind {
                    0 => (vec![Edit::Stub { at, handle, text }], vec![]),
                    1 => (vec![Edit::Clip { at, handle, text }], vec![]),
                    2 => {
                        let spans = vec![Span { first, last: first }];
                        let blocks = vec![Place { entry: head, part: 0 }];
                        (vec![Edit::Fold(Fold { spans, blocks, sum: u128::MAX - 3, text })], vec![])
                    }
                    3 => (vec![Edit::Insert { after: head, text }], vec![]),
                    _ => (vec![], vec![(handle, Original::Json(text))]),
                };
                let batch = Batch { head, edits, state: "{\"a\":1}".to_owned(), variants };
                let receipt = "receipt".to_owned();
                archive.commit(id, &NewBatch { after, at_ms: 3, batch, receipt }).unwrap();
            }
            TransferStep::Undo { head } => drop(archive.undo(id, some(*head)).unwrap()),
            TransferStep::Pin { entry, pinned } => {
                if let Some(seq) = some(*entry) {
                    archive.pin(id, seq, *pinned).unwrap();
                }
            }
            TransferStep::Request { preamble, answer, number } => {
                let preamble = archive.keep_preamble(new.owner, preamble).unwrap();
                let request = RequestRecord {
                    preamble: Some(preamble),
                    head: some(*number),
                    sent: *number,
                    cost_micros: answer.as_ref().map(|_| u64::MAX),
                    answer: answer.clone(),
                    is_aside: true,
                    model: "m".to_owned(),
                    ..RequestRecord::default()
                };
                archive.log_request(id, &request).unwrap();
            }
            TransferStep::Derive { key, value } => archive.put_derived(id, key, value).unwrap(),
            TransferStep::RemoveNeighbour => drop(archive.remove(neighbour).unwrap()),
        }
    }
}

pub(crate) fn exported(archive: &dyn Archive, id: SessionId) -> Vec<u8> {
    let mut bytes = Vec::new();
    transfer::export(archive, &[id], "work", &mut bytes).unwrap();
    bytes
}

fn import(
    archive: &dyn Archive,
    bytes: &[u8],
    name: Option<&str>,
) -> Result<Imported, TransferError> {
    let open = || Exported::open(bytes, LINE_MAX);
    let sessions = transfer::check(open()?)?;
    let imported = transfer::import(archive, sessions, open, name)?;
    Ok(imported[0].imported)
}

fn sqlite() -> (tempfile::TempDir, SqliteArchive) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let archive = SqliteArchive::open(folder.path().join("archive.db")).unwrap();
    (folder, archive)
}

/// All that can be asked of a session.
fn seen(archive: &dyn Archive, id: SessionId) -> impl PartialEq + std::fmt::Debug + use<> {
    let heads = archive.head(id).unwrap().unwrap();
    let live: Vec<_> =
        (0..heads.entries).map(|head| archive.live(id, Some(Seq(head))).unwrap()).collect();
    (
        // Which session was spoken in last is no matter of the session's own.
        archive.session(id).unwrap().map(|info| SessionInfo { activity: 0, ..info }),
        heads,
        archive.entries(id, 0..u64::MAX).unwrap(),
        archive.batches(id, Page::ALL).unwrap().items,
        archive.requests(id, Page::ALL).unwrap().items,
        live,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn an_export_comes_back_byte_for_byte(steps in steps(), owner in 0..2_usize) {
        let (id, new) = session(OWNERS[owner]);
        let (_folder, first) = sqlite();
        let memory = MemoryArchive::new();
        play(&first, id, &new, &steps);
        play(&memory, id, &new, &steps);
        let bytes = exported(&first, id);
        prop_assert_eq!(String::from_utf8(bytes.clone()).unwrap(), String::from_utf8(exported(&memory, id)).unwrap());
        let (_folder, second) = sqlite();
        for archive in [&second as &dyn Archive, &MemoryArchive::new()] {
            prop_assert_eq!(import(archive, &bytes, None).unwrap(), Imported::New);
            prop_assert!(exported(archive, id) == bytes);
            prop_assert_eq!(seen(archive, id), seen(&first, id));
            prop_assert_eq!(archive.verify(None).unwrap(), []);
            prop_assert_eq!(import(archive, &bytes, None).unwrap(), Imported::Same);
            prop_assert!(exported(archive, id) == bytes);
        }
    }

    #[test]
    fn the_beginning_of_a_session_is_completed(steps in steps(), cut in any::<prop::sample::Index>()) {
        let (id, new) = session("");
        let (_folder, whole) = sqlite();
        let (_folder, part) = sqlite();
        play(&whole, id, &new, &steps);
        play(&part, id, &new, &steps[..cut.index(steps.len())]);
        let (bytes, before) = (exported(&whole, id), exported(&part, id));
        match import(&part, &bytes, None) {
            Ok(Imported::Same) => prop_assert_eq!(seen(&part, id), seen(&whole, id)),
            Ok(_) => {
                prop_assert!(exported(&part, id) == bytes);
                prop_assert_eq!(import(&whole, &before, None).unwrap(), Imported::Older);
            }
            // Only which entries are pinned, which says nothing of what was first.
            Err(error) => prop_assert!(error.to_string().contains("its pins"), "{}", error),
        }
        prop_assert_eq!(part.verify(None).unwrap(), []);
    }

    #[test]
    fn an_export_that_was_cut_or_changed_changes_nothing(steps in steps(), at in any::<prop::sample::Index>()) {
        let (id, new) = session("");
        let memory = MemoryArchive::new();
        play(&memory, id, &new, &steps);
        let bytes = exported(&memory, id);
        let at = at.index(bytes.len() - 1);
        let mut changed = bytes.clone();
        changed[at] = if changed[at] == b'7' { b'8' } else { b'7' };
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end + 1);
        let ends: Vec<usize> = ends.collect();
        let line = ends[at % (ends.len() - 1)];
        for bad in [&bytes[..at], &bytes[..line], &changed] {
            let archive = MemoryArchive::new();
            prop_assert!(import(&archive, bad, None).is_err());
            prop_assert_eq!(archive.sessions(None, Page::ALL).unwrap().items, []);
        }
    }
}

#[test]
fn a_session_that_differs_is_left_as_it_is() {
    let (id, new) = session("");
    let say = |text: &str| TransferStep::Say {
        after: None,
        text: text.to_owned(),
        is_user: true,
        is_silent: false,
        time: 1,
    };
    let (one, other) = (MemoryArchive::new(), MemoryArchive::new());
    play(&one, id, &new, &[say("same"), say("delete the wrong folder")]);
    play(&other, id, &new, &[say("same"), say("delete the right folder")]);
    let before = exported(&one, id);
    let error = import(&one, &exported(&other, id), None).unwrap_err();
    assert!(error.to_string().contains("entry 1") && error.to_string().contains(&id.to_string()));
    assert!(exported(&one, id) == before);
    // Under another name it is a session of its own.
    assert_eq!(import(&one, &exported(&other, id), Some("copy")).unwrap(), Imported::New);
    let copy = SessionId::named(Owner::LOCAL, "copy");
    assert_eq!(one.entries(copy, 0..9).unwrap(), other.entries(id, 0..9).unwrap());
}

#[test]
fn pins_that_only_the_export_has_are_no_same_session() {
    let (id, new) = session("");
    let request = TransferStep::Request { preamble: "a".to_owned(), answer: None, number: 0 };
    let said = TransferStep::Say {
        after: None,
        text: "a".to_owned(),
        is_user: false,
        is_silent: true,
        time: 1,
    };
    let pin = TransferStep::Pin { entry: 0, pinned: true };
    let (whole, part) = (MemoryArchive::new(), MemoryArchive::new());
    play(&part, id, &new, &[request.clone(), said.clone()]);
    play(&whole, id, &new, &[request, said, pin]);
    let error = import(&part, &exported(&whole, id), None).unwrap_err();
    assert!(error.to_string().contains("its pins"), "{error}");
}

#[test]
fn versions_and_lines_that_are_too_long_are_refused() {
    let header = |version: u64| format!("{{\"longhand\":\"session\",\"version\":{version}}}\n");
    let error = Exported::open(header(99).as_bytes(), LINE_MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the export has version 99, and this release reads versions up to 4"
    );
    let long = format!("{}{{\"preamble\":\"{}\"}}\n", header(3), "x".repeat(5_000));
    let error = transfer::check(Exported::open(long.as_bytes(), 1_000).unwrap()).unwrap_err();
    assert!(matches!(error, TransferError::LongLine { line: 2, max: 1_000 }), "{error:?}");
    let error = transfer::check(Exported::open(header(3).as_bytes(), 1_000).unwrap()).unwrap_err();
    assert!(matches!(error, TransferError::Cut { lines: 1, .. }), "{error:?}");
}

#[test]
fn exports_of_earlier_releases_keep_their_forks() {
    let line = |seq: u64, parent: Option<u64>, round: u64, text: &str| {
        let raw = serde_json::json!({"role": "user", "content": text}).to_string();
        let at = "2026-01-01T00:00:00.000Z";
        let line = serde_json::json!({"seq": seq, "parent": parent, "round": round, "at": at, "form": "chat", "raw": raw});
        format!("{line}\n")
    };
    let header = "{\"longhand\":\"session\",\"version\":2,\"id\":\"old\",\"entries\":5}\n";
    let lines = [
        line(0, None, 0, "hello"),
        line(1, Some(0), 1, "delete the WRONG folder"),
        line(2, Some(0), 1, "delete the right folder"),
        // A session that continued the first.
        line(3, None, 2, "later"),
        line(4, Some(3), 3, "latest"),
    ];
    let text = format!("{header}{}", lines.concat());
    let archive = MemoryArchive::new();
    let (id, new) = session("");
    archive.begin(id, &new).unwrap();
    let open =
        |text: &str| Exported::open(std::io::Cursor::new(text.to_owned()), LINE_MAX).unwrap();
    let made = |message: transfer::ExportedMessage| {
        let (raw, opens) = (message.raw, message.opens_round);
        Ok(longhand::driver::new_entry(&message.form, raw, opens, message.at_ms).unwrap())
    };
    let counts = transfer::messages(&archive, id, None, open(&text), made).unwrap();
    assert_eq!(counts, (5, 5));
    let path: Vec<u64> =
        archive.path(id, None, 0..9).unwrap().iter().map(|entry| entry.seq.0).collect();
    assert_eq!(path, [0, 2, 3, 4], "what was retracted is on no path that is shown");
    let cut = format!("{header}{}", lines[..3].concat());
    let error = open(&cut).messages(|_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("it should have 5 entries"), "{error}");
}
