//! How large an archive is beside the text that it keeps, with all that search needs.

use std::fs;
use std::path::{Path, PathBuf};

use longhand::{Archive, Owner, Round, SessionId, SqliteArchive};
use longhand_archive::{After, NewEntry, NewSession, RequestRecord};
use longhand_testkit::session::coding_session;
use serde_json::json;

/// How many bytes a file has more than an empty archive, once it is indexed and closed.
fn file_bytes(path: &Path) -> f64 {
    let empty = path.with_extension("empty");
    drop(SqliteArchive::open(&empty).unwrap());
    let bytes = |path: &Path| fs::metadata(path).unwrap().len();
    // Closing empties the log.
    SqliteArchive::open(path).unwrap().index().unwrap();
    (bytes(path) - bytes(&empty)) as f64
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Records requests, each with a call and a result of 2 KB, one after another; returns the bytes of the file for each
/// byte of text.
fn of_requests(count: usize) -> f64 {
    let folder = folder();
    let path = folder.path().join("archive.db");
    let archive = SqliteArchive::open(&path).unwrap();
    let id = SessionId::named(Owner::LOCAL, "s");
    archive.begin(id, &NewSession { name: "s".to_owned(), ..NewSession::default() }).unwrap();
    // What tools answer in a session of an agent, cut to one length.
    let mut results = String::new();
    for seed in 0.. {
        let session = coding_session(seed, 60_000);
        let messages = session["messages"].as_array().unwrap();
        let tools = messages.iter().filter(|message| message["role"] == "tool");
        tools.for_each(|message| results.push_str(message["content"].as_str().unwrap()));
        if results.len() > (count + 1) * 2_048 {
            break;
        }
    }
    let (mut text, mut at) = (0, 0);
    for number in 0..count {
        let end = results.floor_char_boundary(at + 2_048);
        let call = json!({"id": format!("call_{number}"), "type": "function",
            "function": {"name": "run", "arguments": format!("{{\"command\":\"step {number}\"}}")}});
        let result = json!({"role": "tool", "tool_call_id": format!("call_{number}"), "content": results[at..end]});
        at = end;
        let entries = [json!({"role": "assistant", "content": null, "tool_calls": [call]}), result];
        let entry = |raw: &serde_json::Value| {
            longhand::driver::new_entry("chat", raw.to_string(), number == 0, 5)
        };
        let entries: Vec<NewEntry> = entries.iter().map(|raw| entry(raw).unwrap()).collect();
        text += entries.iter().map(|entry| entry.raw.len()).sum::<usize>();
        archive.append(id, After::Newest, &entries).unwrap();
        let number = number as u64;
        let request = RequestRecord {
            at_ms: 1_795_000_000_000 + number.cast_signed() * 9_000,
            head: Some(longhand::Seq(2 * number)),
            model: "gpt-4o".to_owned(),
            agent: "an-agent/1.0".to_owned(),
            limit: 128_000,
            before: number * 700,
            window: number * 700,
            sent: number * 690,
            cached: number * 600,
            output: 120,
            cost_micros: Some(number * 900),
            ..RequestRecord::default()
        };
        archive.log_request(id, &request).unwrap();
    }
    drop(archive);
    file_bytes(&path) / text as f64
}

#[test]
fn an_archive_of_short_results_is_no_larger_than_its_text() {
    let (once, twice) = (of_requests(400), of_requests(800));
    println!("file / text: {once:.3}; of twice as many requests {twice:.3}");
    assert!(once <= 1.0, "{once}");
    // A merge of the search index leaves pages that are used again.
    assert!(twice <= once * 1.15, "it is linear: {once}, {twice}");
}

/// The recorded sessions: in `LONGHAND_SHARED`, or `shared` beside the project.
fn recorded() -> Vec<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LONGHAND_SHARED").map_or(beside, PathBuf::from);
    let mut files = Vec::new();
    for folder in
        ["data/traces", "data/formats/claude-code", "data/formats/codex", "data/formats/pi"]
            .map(|name| folder.join(name))
    {
        let Ok(found) = fs::read_dir(folder) else { continue };
        files.extend(found.map(|file| file.unwrap().path()));
    }
    files.sort_unstable();
    files
}

#[test]
fn an_archive_of_recorded_sessions_is_smaller_than_its_text() {
    let folder = folder();
    let path = folder.path().join("archive.db");
    let archive = SqliteArchive::open(&path).unwrap();
    let mut text = 0;
    for (number, file) in recorded().into_iter().enumerate() {
        let Ok(entries) = Round::split_conversation(fs::read(&file).unwrap(), 0) else { continue };
        let id = SessionId(number as u128);
        archive.begin(id, &NewSession::default()).unwrap();
        text += entries.iter().map(|entry| entry.raw.len()).sum::<usize>();
        archive.append(id, After::Newest, &entries).unwrap();
    }
    drop(archive);
    if text == 0 {
        println!("skipped: there are no recorded sessions");
        return;
    }
    let size = file_bytes(&path) / text as f64;
    println!("{text} bytes of recorded sessions: file / text {size:.3}");
    assert!(size <= 0.7, "{size}");
}
