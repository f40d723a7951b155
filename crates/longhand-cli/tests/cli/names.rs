//! Which session a name means: exact where something is written, a unique beginning where something is read.

use longhand::{Owner, Round, SessionId};
use longhand_archive::{After, Archive, NewSession, SqliteArchive};
use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::{FinishedRun, Folder};
use crate::serve::ServedProxy;

/// Commands that write or remove, for a session.
const WRITING: [&str; 5] = ["pin {} 0", "undo {}", "context {}", "rename {} gamma", "rm {} --yes"];

/// Commands that only read.
const READING: [&str; 5] =
    ["show {}", "log {}", "export {}", "verify {}", "search log --session {}"];

fn run(folder: &Folder, command: &str, name: &str) -> FinishedRun {
    folder.run(&format!("{} --archive a.db", command.replace("{}", name)))
}

fn record(folder: &Folder, name: &str) {
    let round = json!({"user": format!("Where is the log of {name}?"), "assistant": "In var."});
    let line = format!("record {name} --archive a.db");
    let run = folder.run_fed(&line, round.to_string().as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
}

fn with_sessions(names: &[&str]) -> Folder {
    let folder = Folder::new();
    for name in names {
        record(&folder, name);
    }
    folder
}

/// The sessions with their rounds, by name.
fn listed(folder: &Folder) -> Vec<(String, u64)> {
    let list = folder.run("ls --archive a.db --json").json();
    let one = |info: &Value| {
        (info["name"].as_str().unwrap().to_owned(), info["rounds"].as_u64().unwrap())
    };
    let mut sessions: Vec<_> = list.as_array().unwrap().iter().map(one).collect();
    sessions.sort();
    sessions
}

#[test]
fn record_writes_into_the_session_that_is_named_and_no_other() {
    let folder = with_sessions(&["demo2"]);
    let round = br#"{"user": "Mine.", "assistant": "Yes."}"#;
    let run = folder.run_fed("record demo --archive a.db", round);
    assert!(run.stdout.starts_with("recorded 1 round in the new session \"demo\"; "), "{run:?}");
    assert_eq!(listed(&folder), [("demo".to_owned(), 1), ("demo2".to_owned(), 1)]);
    let run = folder.run_fed("record demo --archive a.db", round);
    assert!(run.stdout.starts_with("recorded 1 round; "), "{run:?}");
    for name in ["@last", "\u{20}"] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_longhand"));
        let child = child.args(["record", name, "--archive", "a.db"]).current_dir(folder.path(""));
        let output = child.env("HOME", folder.path("")).output().unwrap();
        FinishedRun::of(name, &output).assert_refused(&["a session cannot be called", "hint: "]);
    }
}

#[test]
fn chat_never_sends_another_conversation() {
    let server = ScriptedServer::start([ScriptStep::Answer("Hello.".to_owned())]);
    let folder = crate::chat::folder(&server, "chat");
    record(&folder, "workshop");
    let run = folder.run_fed("chat work --archive a.db", b"Hi there.");
    let told = "\"work\" is a new conversation\n";
    assert_eq!((run.status, run.stderr.as_str()), (0, told), "{run:?}");
    let sent = server.requests()[0].body.clone();
    assert!(sent.contains("Hi there.") && !sent.contains("log of workshop"), "{sent}");
    assert_eq!(listed(&folder), [("work".to_owned(), 1), ("workshop".to_owned(), 1)]);
}

#[test]
fn a_beginning_is_not_enough_where_something_is_written_or_removed() {
    let folder = with_sessions(&["alpha", "beta"]);
    let before = std::fs::read(folder.path("a.db")).unwrap();
    let id = &folder.run("ls --archive a.db --json").json()[0]["id"];
    for command in WRITING {
        for name in ["a", "alph", "@last", &id.as_str().unwrap()[..8]] {
            run(&folder, command, name).assert_refused(&["there is no session", "hint: "]);
        }
        run(&folder, command, "alph").assert_refused(&["a name is exact here", "\n  alpha ("]);
    }
    assert_eq!(std::fs::read(folder.path("a.db")).unwrap(), before, "nothing was written");
    for command in WRITING {
        assert_ne!(run(&folder, command, "alpha").status, 2, "{command}");
        record(&folder, "alpha");
    }
}

#[test]
fn reading_takes_a_unique_beginning_and_says_which_session_it_took() {
    let folder = with_sessions(&["alpha", "beta", "beta2"]);
    for command in READING {
        let whole = run(&folder, command, "alpha");
        assert_eq!((whole.status, whole.stderr.as_str()), (0, ""), "{command}");
        let part = run(&folder, command, "al");
        assert_eq!((part.status, &part.stdout), (0, &whole.stdout), "{command}");
        assert!(part.stderr.starts_with("taking alpha ("), "{command}: {part:?}");
        let last = run(&folder, command, "@last");
        assert!(last.status == 0 && last.stderr.contains("taking beta2 ("), "{command}: {last:?}");
        run(&folder, command, "bet").assert_refused(&[
            "2 sessions begin with",
            "beta (",
            "beta2 (",
        ]);
        assert_eq!(run(&folder, command, "beta").stderr, "", "a whole name is no beginning");
    }
}

#[test]
fn sessions_that_share_a_name_are_told_apart_by_their_ids() {
    let folder = with_sessions(&["work"]);
    let archive = SqliteArchive::open(folder.path("a.db")).unwrap();
    let owner = Owner::of("another key");
    let other = SessionId::named(owner, "work");
    let new = NewSession { owner, name: "work".to_owned(), ..NewSession::default() };
    archive.begin(other, &new).unwrap();
    let entries = Round::new("Where is the log?", "Elsewhere.", 1_000).entries();
    archive.append(other, After::Newest, &entries).unwrap();
    drop(archive);
    let ids = [other, SessionId::named(Owner::LOCAL, "work")].map(|id| id.to_string());
    let short = ids.each_ref().map(|id| &id[..16]);
    for command in WRITING.iter().chain(&READING) {
        let run = run(&folder, command, "work");
        run.assert_refused(&["2 sessions are called \"work\"", short[0], short[1]]);
    }
    let round = br#"{"user": "Mine.", "assistant": "Yes."}"#;
    folder.run_fed("record work --archive a.db", round).assert_refused(&[short[0], short[1]]);
    // Adding to another owner's session is the proxy's business.
    let line = format!("record {} --archive a.db", short[0]);
    folder.run_fed(&line, round).assert_refused(&["belongs to a key of the proxy"]);
    let list = folder.run("ls --archive a.db").stdout;
    assert!(short.iter().all(|id| list.contains(&format!("{id} work"))), "{list}");
    for command in READING {
        for id in [&ids[0], short[0]] {
            let run = run(&folder, command, id);
            assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{command} {id}");
        }
    }
    assert_eq!(run(&folder, "rm {} --yes", short[0]).status, 0);
    assert_eq!(listed(&folder), [("work".to_owned(), 1)]);
}

#[test]
fn a_session_that_nobody_named_has_one_id_everywhere() {
    let server = ScriptedServer::start([ScriptStep::Answer("In var.".to_owned())]);
    let folder = Folder::new();
    let proxy = ServedProxy::start(&folder, &format!("--upstream {}", server.url()));
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where is the log?"}]);
    let body = json!({"model": "gpt-4o", "messages": messages});
    let answer = proxy.post("/v1/chat/completions", &body);
    proxy.end();
    let header = |line: &str| line.strip_prefix("x-longhand-session: ").map(str::to_owned);
    let id = answer.lines().find_map(header).expect("the answer names its session");
    let first = |command: &str| {
        let run = run(&folder, command, &id);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{command}: {run:?}");
        run.stdout
    };
    assert!(first("ls").starts_with(&format!("{id} ")));
    assert!(first("show {}").starts_with(&format!("{id}: ")));
    assert!(first("search log").starts_with(&format!("{id} Where is the log? ")));
    assert!(first("usage --by session").contains(&format!("\n{id} Where")));
    let exported = first("export {}");
    let head: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert!(head.to_string().contains(&id), "{head}");
    // Once it is renamed, it has a name.
    let commands = READING.iter().chain(&WRITING);
    for command in commands.filter(|command| !command.starts_with("rename")) {
        assert_ne!(run(&folder, command, &id).status, 2, "{command}");
    }
}

#[test]
fn a_session_that_is_renamed_is_the_same_session_and_its_old_name_is_free() {
    let folder = with_sessions(&["alpha", "beta"]);
    let id = |name: &str| {
        let list = folder.run("ls --archive a.db --json").json();
        let found = list.as_array().unwrap().iter().find(|info| info["name"] == name);
        found.expect(name)["id"].as_str().unwrap().to_owned()
    };
    let before = id("alpha");
    let run = folder.run("rename alpha beta --archive a.db");
    run.assert_refused(&["session \"beta\" exists already", "hint: give another name"]);
    folder.run("rename alpha @last --archive a.db").assert_refused(&["cannot be called"]);
    let run = folder.run("rename alpha gamma --archive a.db");
    assert_eq!((run.status, run.stdout.as_str()), (0, "alpha is gamma now\n"), "{run:?}");
    assert_eq!(id("gamma"), before);
    run_refused(&folder, "show alpha");
    // What is recorded under the old name is another session.
    record(&folder, "alpha");
    record(&folder, "gamma");
    assert_ne!(id("alpha"), before);
    let sessions = [("alpha", 1), ("beta", 1), ("gamma", 2)];
    assert_eq!(listed(&folder), sessions.map(|(name, rounds)| (name.to_owned(), rounds)));
    assert_eq!(folder.run("verify --archive a.db").status, 0);
    let json = folder.run("rename gamma alpha2 --archive a.db --json").json();
    assert_eq!((&json["before"], &json["session"]["id"]), (&json!("gamma"), &json!(before)));
}

#[test]
fn an_export_from_before_a_rename_is_of_the_same_session() {
    let folder = with_sessions(&["alpha"]);
    folder.write("before.jsonl", folder.run("export alpha --archive a.db").stdout);
    assert_eq!(folder.run("rename alpha gamma --archive a.db").status, 0);
    let run = folder.run("import before.jsonl --archive a.db");
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(listed(&folder), [("gamma".to_owned(), 1)]);
    assert_eq!(folder.run("verify --archive a.db").status, 0);
}

fn run_refused(folder: &Folder, command: &str) {
    let run = folder.run(&format!("{command} --archive a.db"));
    run.assert_refused(&["there is no session"]);
}
