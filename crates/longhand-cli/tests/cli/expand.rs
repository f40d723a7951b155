//! What a window leaves out comes back exactly, or the archive says why not.

use std::collections::BTreeSet;
use std::fs;

use longhand::unread::{UnreadAnswer, UnreadContent};
use longhand::{Owner, Redactor, SessionId, SqliteArchive};
use longhand_archive::{Storage as _, Write, wait};
use longhand_testkit::notation;
use serde_json::Value;

use crate::run::{Folder, example_folder};
use crate::story::{StoryFormat, content_at, folded_at, story};

/// Finds the handles in a text: `h:` and twelve letters or digits, as markers quote them.
fn handles(text: &str) -> BTreeSet<String> {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.match_indices(" h:")
        .map(|(at, _)| at + 1)
        .filter_map(|at| text.get(at..at + 14))
        .filter(|handle| handle.as_bytes()[2..].iter().all(is_letter))
        .map(str::to_owned)
        .collect()
}

/// Brings back the content of a handle.
fn expand(folder: &Folder, handle: &str) -> String {
    let run = folder.run(&format!("expand {handle} --raw --archive kept"));
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{handle}: {run:?}");
    run.stdout
}

#[test]
fn every_handle_gives_back_what_was_there() {
    let mut kinds = BTreeSet::new();
    for format in StoryFormat::ALL {
        let text = story(format, 10);
        let body: Value = serde_json::from_str(&text).unwrap();
        for options in [
            "--budget 6000",
            "--budget 2000",
            "--budget 500 --keep-tail 6",
            "--budget 5000 --policy elide",
            "--budget 1500 --policy trim",
            "--budget 100",
        ] {
            let folder = Folder::with("in.json", &text);
            let line = format!("compact in.json {options} -o out --report report --archive kept");
            let run = folder.run(&format!("{line} --meter chars:3.5"));
            assert!([0, 3].contains(&run.status), "{format:?} {options}: {run:?}");
            let report = folder.json("report");
            let mut cited = BTreeSet::new();
            for list in ["stubbed", "clipped", "folded"] {
                for entry in report[list].as_array().unwrap() {
                    let original = if list == "folded" {
                        folded_at(format, &body, entry)
                    } else {
                        content_at(format, &body, entry)
                    };
                    let handle = entry["handle"].as_str().unwrap();
                    assert_eq!(expand(&folder, handle), original, "{format:?} {options}: {entry}");
                    cited.insert(handle.to_owned());
                    kinds
                        .insert(format!("{list} {}", entry["kind"].as_str().unwrap_or("messages")));
                }
            }
            assert_eq!(handles(&folder.read("out")), cited, "{format:?} {options}");
        }
    }
    let expected = [
        "clipped result",
        "folded messages",
        "stubbed arguments",
        "stubbed result",
        "stubbed text",
    ];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_clipped_observation_comes_back_whole() {
    let mut turns = "u Fix it.".to_owned();
    for n in 1..9 {
        turns += &format!(" | a ```ls {n}``` | u Observation: exit {n} 400tk");
    }
    let text = notation::chat(&format!("{turns} | a ```make``` | u Observation: done"));
    let messages: Value = serde_json::from_str(&text).unwrap();
    let folder = Folder::with("in.json", &text);
    let run = folder.run("compact in.json --budget 2500 -o out --report report --archive kept");
    assert_eq!(run.status, 0, "{run:?}");
    let report = folder.json("report");
    let clipped = report["clipped"].as_array().unwrap();
    assert!(!clipped.is_empty(), "{report:#}");
    for entry in clipped {
        let message = &messages[entry["message"].as_u64().unwrap() as usize];
        let handle = entry["handle"].as_str().unwrap();
        assert_eq!(expand(&folder, handle), message["content"].as_str().unwrap());
    }
}

#[test]
fn nothing_is_lost_over_many_compactions() {
    let folder = example_folder();
    let mut input = "long-session.json".to_owned();
    for (round, budget) in [40_000, 20_000, 8_000, 3_000, 1_600].iter().enumerate() {
        let output = format!("window{round}");
        let options = format!("--budget {budget} --archive kept");
        let run = folder.run(&format!("compact {input} {options} -o {output}"));
        assert_eq!(run.status, 0, "{run:?}");
        input = output;
    }
    // From the last window and back through all that its handles lead to.
    let mut found = strings(&folder.json(&input));
    let mut open: Vec<String> = handles(&folder.read(&input)).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(handle) = open.pop() {
        if !seen.insert(handle.clone()) {
            continue;
        }
        let original = expand(&folder, &handle);
        open.extend(handles(&original));
        for value in serde_json::Deserializer::from_str(&original).into_iter::<Value>() {
            found.extend(value.map(|value| strings(&value)).unwrap_or_default());
        }
        found.insert(original);
    }
    for wanted in strings(&folder.json("long-session.json")["messages"]) {
        assert!(found.contains(&wanted), "lost: {wanted:.200}");
    }
}

/// All strings in a value.
fn strings(value: &Value) -> BTreeSet<String> {
    match value {
        Value::String(text) => BTreeSet::from([text.clone()]),
        Value::Array(list) => list.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => BTreeSet::new(),
    }
}

/// A folder with `in.json`, its window `out` and the archive `kept`.
fn compacted() -> Folder {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 10));
    let run = folder.run("compact in.json --budget 4000 --meter chars:3.5 -o out --archive kept");
    assert_eq!(run.status, 0, "{run:?}");
    folder
}

#[test]
fn the_archive_only_ever_grows_and_does_not_change_the_window() {
    let folder = compacted();
    let again = "compact in.json --budget 4000 --meter chars:3.5 -o out2 --archive kept";
    assert_eq!(folder.run(again).status, 0);
    assert!(folder.read("out2") == folder.read("out"));
    let smaller = "compact in.json --budget 2000 --meter chars:3.5 -o out3 --archive kept";
    assert_eq!(folder.run(smaller).status, 0);
    for window in ["out", "out3"] {
        for handle in handles(&folder.read(window)) {
            expand(&folder, &handle);
        }
    }
    // With or without an archive, the window is the same.
    assert_eq!(folder.run("compact in.json --budget 4000 --meter chars:3.5 -o out4").status, 0);
    assert!(folder.read("out4") == folder.read("out"));
}

#[test]
fn a_handle_may_be_quoted_as_people_do() {
    let folder = compacted();
    let handle = handles(&folder.read("out")).pop_first().unwrap();
    let content = expand(&folder, &handle);
    for quoted in [handle[2..].to_owned(), format!("h:{}", handle[2..].to_uppercase())] {
        assert_eq!(expand(&folder, &quoted), content);
    }
    let run = folder.run(&format!("expand {handle} --raw --archive kept --json"));
    assert_eq!(run.status, 0, "{run:?}");
    let json = run.json();
    assert_eq!(json["handle"], *handle);
    assert_eq!(json["content"], *content);
    assert!(json["form"] == "text" || json["form"] == "json");
}

#[test]
fn what_search_finds_is_expanded_by_its_handle() {
    let folder = Folder::new();
    let round = r#"{"user": "Where is the lock file?", "assistant": "In var/lock.", "ts": "2026-11-01T10:00:00Z"}"#;
    assert_eq!(folder.run_fed("record work", round.as_bytes()).status, 0);
    let found = folder.run("search lock file --json").json();
    let handle = found[0]["handle"].as_str().unwrap();
    let entry = folder.run(&format!("expand {handle}")).stdout;
    assert!(entry.starts_with("## user, entry 0, 2026-11-01 "), "{entry}");
    assert!(entry.ends_with("\n\nWhere is the lock file?\n"), "{entry}");
    let range = folder.run(&format!("expand {handle}-1")).stdout;
    assert!(range.contains("lock file?\n\n## assistant, entry 1"), "{range}");
    assert_eq!(folder.run("expand work").stdout, range);
    assert_eq!(folder.run("expand work --grep VAR").stdout, "In var/lock.");
    assert!(folder.run("expand work:0 --raw").stdout.starts_with("{\"role\":\"user\""));
    folder.run("expand work:7").assert_refused(&["hint: "]);
    folder.run("expand nosuch:0").assert_refused(&["is not a handle"]);
}

#[test]
fn handles_that_lead_nowhere_are_refused_with_a_hint() {
    let folder = compacted();
    folder
        .run("expand h:000000000000 --archive kept")
        .assert_refused(&["has nothing with the handle h:000000000000", "hint: "]);
    for bad in ["h:", "h:short", "h:0000000000000", "h:il0000000000", "../../etc/x", "h:日本日本"]
    {
        let run = folder.run(&format!("expand {bad} --archive kept"));
        run.assert_refused(&[bad, "is not a handle", "hint: "]);
    }
    folder
        .run("expand h:000000000000 --archive none")
        .assert_refused(&["there is no archive at none", "hint: "]);
    assert_eq!(folder.names(), ["in.json", "kept", "out"]);
}

/// What an expansion may come to with a damaged archive: the content, or an error that names the file.
fn assert_sound_or_refused(folder: &Folder, handle: &str, content: &str, what: &str) -> bool {
    let run = folder.run(&format!("expand {handle} --raw --archive kept"));
    if run.status == 0 {
        assert_eq!(run.stdout, content, "{what}");
        return true;
    }
    assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{what}: {run:?}");
    let told = run.stderr.contains("kept") || run.stderr.contains("nothing under");
    assert!(told && !run.stderr.contains("panicked"), "{what}: {run:?}");
    false
}

#[test]
fn damage_is_an_error_that_names_the_file_or_does_no_harm() {
    let folder = compacted();
    let whole = fs::read(folder.path("kept")).unwrap();
    let handle = handles(&folder.read("out")).pop_first().unwrap();
    let content = expand(&folder, &handle);
    let mut refused = 0;
    for number in 0..24 {
        let mut bytes = whole.clone();
        let at = number * bytes.len() / 24 + number;
        bytes[at] ^= 1 << (number % 8);
        folder.write("kept", &bytes);
        let what = format!("bit {} of byte {at}", number % 8);
        refused += usize::from(!assert_sound_or_refused(&folder, &handle, &content, &what));
        let verify = folder.run("verify --archive kept");
        assert!([0, 1, 2].contains(&verify.status), "{what}: {verify:?}");
        assert!(!verify.stderr.contains("panicked"), "{what}: {verify:?}");
    }
    for cut in [1, 99, 4_096, whole.len() / 2, whole.len() - 1] {
        folder.write("kept", &whole[..cut]);
        let what = format!("cut to {cut}");
        refused += usize::from(!assert_sound_or_refused(&folder, &handle, &content, &what));
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_flipped_bit_in_what_is_kept_is_found_by_verify() {
    let folder = compacted();
    assert_eq!(folder.run("verify --archive kept").status, 0);
    let db = rusqlite::Connection::open(folder.path("kept")).unwrap();
    let select = "SELECT id, content FROM body ORDER BY id DESC LIMIT 1";
    let (id, mut content): (i64, Vec<u8>) =
        db.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    db.execute("UPDATE body SET content = ?2 WHERE id = ?1", (id, content)).unwrap();
    drop(db);
    let run = folder.run("verify --archive kept");
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.stdout.contains("damaged: "), "{run:?}");
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    for foreign in ["{}\n", "hello\n", "[{\"role\":\"user\"}]", "\n"] {
        let folder = Folder::with("in.json", story(StoryFormat::Chat, 10));
        folder.write("kept", foreign);
        for line in [
            "compact in.json --budget 2000 --meter chars:3.5 -o out --archive kept",
            "expand h:000000000000 --archive kept",
        ] {
            folder.run(line).assert_refused(&["kept is not an archive"]);
        }
        assert_eq!(folder.read("kept"), foreign);
        assert_eq!(folder.names(), ["in.json", "kept"]);
    }
}

#[cfg(unix)]
#[test]
fn only_its_owner_reads_an_archive() {
    use std::os::unix::fs::PermissionsExt;
    let folder = compacted();
    let mode = fs::metadata(folder.path("kept")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn two_commands_can_keep_their_originals_in_one_file() {
    let folder = Folder::new();
    let names = ["a", "b", "c", "d"];
    for (at, name) in names.iter().enumerate() {
        folder.write(
            name,
            story(StoryFormat::ALL[at % 3], 8 + at).replace("src/", &format!("{name}/")),
        );
    }
    let mut running = Vec::new();
    for name in names {
        let line = format!("compact {name} --budget 1500 --archive kept -o {name}.out");
        running.push(folder.start(&line));
    }
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    for name in names {
        let handles = handles(&folder.read(&format!("{name}.out")));
        assert!(!handles.is_empty());
        for handle in handles {
            expand(&folder, &handle);
        }
    }
    assert_eq!(folder.run("verify --archive kept").status, 0);
}

#[test]
fn half_a_character_comes_back_as_it_was() {
    let half = format!(r"{}\ud83d half", "word ".repeat(200));
    let json = format!(
        r#"[{{"role":"user","content":"go"}},{{"role":"assistant","content":"{half}"}},{{"role":"user","content":"on"}}]"#
    );
    let folder = Folder::with("in.json", json);
    let run = folder.run("compact in.json --budget 100 --keep-tail 1 --archive kept -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    let handles = handles(&folder.read("out.json"));
    assert_eq!(expand(&folder, handles.first().unwrap()), format!("\"{half}\""));
}

#[test]
fn an_answer_that_could_not_be_read_is_named_opened_and_removed_with_its_session() {
    let folder = Folder::new();
    let round = b"{\"user\":\"Hm?\",\"assistant\":\"So.\",\"ts\":\"2026-11-15T10:00:00Z\"}\n";
    assert_eq!(folder.run_fed("record work --archive kept", round).status, 0);
    let plain = folder.run("log work --archive kept").stdout;
    assert!(!plain.contains("could not be read"), "{plain}");
    let id = SessionId::named(Owner::LOCAL, "work");
    let answer = |at_ms: i64, bytes: &[u8], redactor: Option<&Redactor>| UnreadAnswer {
        at_ms,
        why: "it is no answer in its \u{1b}[2Jformat".to_owned(),
        kind: "text/html".to_owned(),
        coding: String::new(),
        bytes: bytes.len() as u64,
        content: UnreadContent::of(bytes, redactor, redactor.is_some()),
    };
    let redactor = Redactor::new([1; 32]);
    let answers = [
        answer(1_000, b"<html>\xc3\xa9\n", None),
        answer(2_000, b"\xff\x00", None),
        answer(3_000, b"x", Some(&redactor)),
    ];
    let archive = SqliteArchive::open(folder.path("kept")).unwrap();
    let notes = answers.iter().map(UnreadAnswer::note).collect();
    let write = Write { session: id, notes, ..Write::default() };
    wait(archive.write(vec![write])).unwrap().remove(0).unwrap();
    drop(archive);
    let shown = folder.run("show work --archive kept").stdout;
    assert!(shown.contains("3 answers could not be read"), "{shown}");
    let log = folder.run("log work --archive kept").stdout;
    assert!(log.contains("an answer of 9 bytes") && !log.contains('\u{1b}'), "{log}");
    assert!(log.contains("it was not kept"), "{log}");
    assert!(log.contains(" --archive kept` shows it as base64"), "hints can be typed: {log}");
    let list = folder.run("log work --archive kept --json").json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 3, "{list:?}");
    let handle = |at: usize| list[at]["unread"].as_str().unwrap().to_owned();
    assert!(log.contains(&handle(0)) && log.contains(&handle(1)), "{log}");
    assert_eq!(expand(&folder, &handle(0)), "<html>\u{e9}\n");
    assert_eq!(expand(&folder, &handle(1)), "/wA=");
    folder.run(&format!("expand {} --archive kept", handle(2))).assert_refused(&["was not kept"]);
    assert_eq!(folder.run("verify --archive kept").status, 0);
    assert_eq!(folder.run("rm work --archive kept --yes").status, 0);
    folder
        .run(&format!("expand {} --archive kept", handle(0)))
        .assert_refused(&["nothing with the handle"]);
}
