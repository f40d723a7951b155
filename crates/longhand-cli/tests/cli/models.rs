//! Settings, `doctor`, and summaries by a model.

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::Value;

use crate::run::{Folder, OWN_SETTINGS};
use crate::story::{StoryFormat, story};

fn configured(server: &ScriptedServer, more: &str) -> Folder {
    let config = format!("{more}\n[endpoints.fake]\nurl = '{}'\n", server.url());
    Folder::with(OWN_SETTINGS, config)
}

fn rounds(count: usize) -> String {
    let words = "A plain sentence about the work of that day. ".repeat(12);
    let round = |number: usize| {
        format!(
            "{}\n",
            serde_json::json!({"user": format!("Question {number}"), "assistant": format!("Answer {number}. {words}")})
        )
    };
    (0..count).map(round).collect()
}

#[test]
fn a_model_writes_the_summaries_and_its_cost_is_in_the_receipt() {
    let server =
        ScriptedServer::start((0..40).map(|_| ScriptStep::Answer("They did the work.".to_owned())));
    let folder = configured(&server, "[prices.'fake/tiny']\ninput = 1\noutput = 1\n");
    let line = "record demo --archive a.db --rounds 3 --summariser fake/tiny";
    let run = folder.run_fed(line, rounds(6).as_bytes());
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    // What the model wrote comes with the next batch.
    let run = folder.run_fed(line, rounds(1).as_bytes());
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    let log = folder.run("log demo --archive a.db --json").json();
    let newest = log.as_array().unwrap().last().unwrap();
    let receipt = &newest["receipt"]["fold"]["story"];
    assert_eq!(receipt["summariser"], "fake/tiny", "{log:#}");
    assert!(receipt["cost_micros"].as_u64().unwrap() > 0, "{receipt:#}");
    let window = folder.run("context demo --archive a.db --rounds 3").stdout;
    assert!(window.contains("They did the work."), "{window}\n{log:#}");
    let asked: Value = serde_json::from_str(&server.requests()[0].body).unwrap();
    assert_eq!(asked["temperature"], 0.0, "{asked:#}");
}

#[test]
fn a_model_that_fails_leaves_it_to_the_built_in_summariser() {
    let server = ScriptedServer::start((0..40).map(|_| ScriptStep::Status(400)));
    let folder = configured(
        &server,
        "[models]\nsummary = ['fake/tiny']\n[session]\nrounds = 3\npolicy = 'rolling'\n",
    );
    let run = folder.run_fed("record demo --archive a.db", rounds(5).as_bytes());
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    let log = folder.run("log demo --archive a.db --json").json();
    let receipt = &log[0]["receipt"];
    assert_eq!(receipt["fold"]["summariser"], "extractive", "{receipt:#}");
    assert!(receipt["fold"]["story"].is_null(), "{receipt:#}");
    assert!(!server.requests().is_empty(), "the model was asked");
}

#[test]
fn compact_asks_a_model_too() {
    let server = ScriptedServer::start(
        (0..4).map(|_| ScriptStep::Answer("They repaired the wheel.".to_owned())),
    );
    let folder = configured(&server, "");
    folder.write("in.json", story(StoryFormat::Chat, 30));
    let run = folder.run("compact in.json --budget 3000 --summariser fake/tiny -q -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.read("out.json").contains("They repaired the wheel."));
    let before = server.requests().len();
    let run = folder.run(
        "compact in.json --budget 3000 --summariser fake/tiny -o out.json --report report.json",
    );
    assert!(run.stderr.contains("summary by fake/tiny"), "{run:?}");
    assert!(run.stderr.contains(" tokens read, "), "{run:?}");
    let used = folder.json("report.json")["summary"]["used"].clone();
    assert_eq!(used["summariser"], "fake/tiny");
    // A plan may be made twice; every call is counted.
    assert_eq!(used["written"], server.requests().len() - before, "{used}");
    folder.assert_valid("out.json", "");
    assert!(folder.count("out.json", "--meter o200k") <= 3_000);
}

#[test]
fn a_summary_that_is_not_used_is_said_with_its_reason() {
    // What the server said is the reason, not that it is left alone for a while afterwards.
    for (status, reason) in [(401, "refused the key"), (500, "status 500")] {
        let server = ScriptedServer::start((0..12).map(|_| ScriptStep::Status(status)));
        let folder = configured(&server, "");
        folder.write("in.json", story(StoryFormat::Chat, 30));
        let run = folder.run(
            "compact in.json --budget 3000 --summariser fake/tiny -o out.json --report report.json",
        );
        assert_eq!(run.status, 0, "{run:?}");
        let said = run.stderr.lines().find(|line| line.starts_with("summary not used: "));
        assert!(said.is_some_and(|line| line.contains("fake") && line.contains(reason)), "{run:?}");
        assert!(run.stderr.contains("summary by the built-in summariser"), "{run:?}");
        let refused = folder.json("report.json")["summary"]["refused"].clone();
        assert!(refused[0].as_str().unwrap().contains(reason), "{refused}");
    }
}

#[test]
fn doctor_tries_to_write_and_prints_every_path() {
    let folder = Folder::new();
    let run = folder.run("doctor");
    assert_eq!(run.status, 0, "{run:?}");
    for path in [
        "config/longhand/longhand.toml",
        "config/longhand/trusted",
        "data/longhand/archive.db",
        "data/longhand/history",
    ] {
        assert!(run.stdout.contains(path), "no {path} in {}", run.stdout);
    }
    assert!(run.stdout.contains("its folder can be written"), "{}", run.stdout);
    folder.run_fed("record demo", b"{\"user\": \"a\", \"assistant\": \"b\"}\n");
    let run = folder.run("doctor");
    assert!(run.stdout.contains("can be read and written: 1 session, 1 round"), "{}", run.stdout);
    assert_eq!(
        folder.run("ls --json").json().as_array().unwrap().len(),
        1,
        "nothing is left behind"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn doctor_finds_a_home_that_cannot_be_written() {
    // Nobody, not even root, can make files there.
    let folder = Folder::new();
    let run = folder.run("doctor --archive /proc/longhand/archive.db");
    assert_eq!(run.status, 1, "{run:?}");
    assert!(
        run.stdout.contains("FAIL archive: /proc/longhand/archive.db cannot be created"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("hint: --archive, LONGHAND_ARCHIVE"), "{}", run.stdout);
}

#[test]
fn doctor_says_that_a_model_is_not_listed() {
    for (listed, said) in [
        (r#"{"data":[{"id":"tiny:latest"},{"id":"large"}]}"#, "it answers\n"),
        (r#"{"data":[{"id":"small"},{"id":"large"}]}"#, "it answers, but does not list tiny\n"),
        ("no JSON", "it answers\n"),
    ] {
        let json = vec![("content-type", "application/json".to_owned())];
        let server = ScriptedServer::start([ScriptStep::Raw(200, json, listed.to_owned())]);
        let folder = configured(&server, "[models]\nchat = 'fake/tiny'\n");
        let run = folder.run("doctor");
        assert!(run.status == 0 && run.stdout.contains(said), "{said}: {run:?}");
        assert_eq!(said.contains("but"), run.stdout.contains("hint: it lists small, large"));
    }
}

#[test]
fn doctor_shows_what_is_in_force_and_what_to_fix() {
    let list = ScriptStep::Raw(
        200,
        vec![("content-type", "application/json".to_owned())],
        "{\"data\":[]}".to_owned(),
    );
    let server = ScriptedServer::start([list]);
    let folder = configured(&server, "[models]\nchat = 'fake/tiny'\n[session]\nbudget = 9000\n");
    let run = folder.run("doctor --archive a.db");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.stdout.contains("session.budget                 9000"), "{}", run.stdout);
    assert!(
        run.stdout.contains("longhand.toml") && run.stdout.contains("ok   chat model fake/tiny"),
        "{}",
        run.stdout
    );
    assert!(server.requests()[0].path.ends_with("/v1/models"));

    // Nobody listens there any more.
    drop(server);
    let run = folder.run("doctor --json");
    assert_eq!(run.status, 1, "{run:?}");
    let findings = run.json()["findings"].clone();
    assert_eq!(findings[1]["ok"], false, "{findings:#}");
    assert!(
        findings[1]["hint"].as_str().unwrap().contains("is the server running"),
        "{findings:#}"
    );
}

#[test]
fn settings_that_are_wrong_are_named() {
    let folder = Folder::with("longhand.toml", "[session]\nbudgt = 9000\n");
    folder.run("doctor").assert_refused(&[
        "there is no setting `session.budgt`",
        "hint: did you mean `session.budget`?",
    ]);
    folder.write("longhand.toml", "oops = 3\n");
    folder.run("doctor").assert_refused(&["there is no setting `oops`", "hint: the sections are "]);
}

#[test]
fn a_folder_decides_nothing_about_where_words_go() {
    let server =
        ScriptedServer::start((0..40).map(|_| ScriptStep::Answer("Collected.".to_owned())));
    let theirs = format!(
        "[session]\nbudget = 9000\nrounds = 3\npolicy = 'rolling'\n[models]\nchat = 'evil/m'\nsummary = 'evil/m'\n\
         [archive]\npath = 'theirs.db'\n[endpoints.evil]\nurl = '{0}'\nkey_env = 'HOME'\n\
         [endpoints.openai]\nurl = '{0}'\n",
        server.url()
    );
    let folder = Folder::with("longhand.toml", &theirs);
    let note = "longhand.toml is not trusted, so archive.path, ";
    let run = folder.run_fed("record demo", rounds(6).as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(run.stderr.matches(note).count(), 1, "{run:?}");
    assert!(run.stderr.contains("hint: ") && run.stderr.contains("longhand trust"), "{run:?}");
    assert!(server.requests().is_empty() && !folder.path("theirs.db").exists());
    let run = folder.run("doctor");
    assert!(run.stdout.contains("session.budget                 9000"), "{}", run.stdout);
    assert!(run.stdout.contains("FAIL settings of the folder"), "{}", run.stdout);

    let run = folder.run("trust");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(
        run.stderr.contains("trusted until it changes") && run.stderr.contains("evil"),
        "{run:?}"
    );
    assert!(folder.run("trust --list").stdout.trim().ends_with("longhand.toml"));
    let run = folder.run_fed("record demo", rounds(6).as_bytes());
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    assert!(!server.requests().is_empty() && folder.path("theirs.db").exists());

    // Another word in it, and it is another file.
    folder.write("longhand.toml", theirs.clone() + "\n");
    let run = folder.run("ls");
    assert!(run.stderr.contains(note), "{run:?}");
    folder.write("longhand.toml", theirs);
    assert_eq!(folder.run("ls").stderr, "");
    assert_eq!(folder.run("trust --forget").status, 0);
    assert!(folder.run("ls").stderr.contains(note));
    folder.run("trust elsewhere").assert_refused(&["elsewhere", "longhand.toml"]);
}

#[test]
fn keys_are_never_shown() {
    let server = ScriptedServer::start((0..9).map(|_| ScriptStep::Status(401)));
    let folder = configured(&server, "[models]\nchat = 'fake/tiny'\nsummary = 'fake/tiny'");
    folder.write("key", "sk-secret-0123456789");
    let config = folder.read(OWN_SETTINGS) + "key_file = 'key'\n";
    folder.write(OWN_SETTINGS, config);
    let mut told = String::new();
    for line in ["doctor", "doctor --json", "record demo --rounds 1"] {
        let run = folder.run_fed(line, rounds(3).as_bytes());
        told += &format!("{}{}", run.stdout, run.stderr);
    }
    told += &folder.run("log demo --json").stdout;
    assert!(
        server.requests().iter().any(|request| {
            request.header("authorization") == Some("Bearer sk-secret-0123456789")
        })
    );
    assert!(!told.contains("sk-secret"), "{told}");
}

#[test]
fn man_pages_are_written_and_help_promises_only_what_works() {
    let folder = Folder::new();
    assert_eq!(folder.run("man .").status, 0);
    let names = folder.names();
    for name in ["longhand.1", "longhand-compact.1", "longhand-serve.1"] {
        assert!(names.iter().any(|other| other == name), "no {name} in {names:?}");
    }
    let help = folder.run("count --help").stdout;
    assert_eq!(help.contains("tokenizer.json"), cfg!(feature = "tokenizer-json"), "{help}");
    let wrong = folder.run("count --meter nonsense");
    assert_eq!(
        wrong.stderr.contains("tokenizer.json"),
        cfg!(feature = "tokenizer-json"),
        "{wrong:?}"
    );
}

#[test]
fn completions_are_printed() {
    let run = Folder::new().run("completions bash");
    assert!(run.status == 0 && run.stdout.contains("_longhand"), "{run:?}");
}
