//! Settings, `doctor`, and summaries by a model.

use longhand_testkit::scripted::{ScriptedServer, Step};
use serde_json::Value;

use crate::run::Folder;
use crate::story::{Format, story};

fn configured(server: &ScriptedServer, more: &str) -> Folder {
    let config = format!("{more}\n[endpoints.fake]\nurl = '{}'\n", server.url());
    Folder::with("longhand.toml", config)
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
        ScriptedServer::start((0..40).map(|_| Step::Answer("They did the work.".to_owned())));
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
    let server = ScriptedServer::start((0..40).map(|_| Step::Status(400)));
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
    let server =
        ScriptedServer::start((0..4).map(|_| Step::Answer("They repaired the wheel.".to_owned())));
    let folder = configured(&server, "");
    folder.write("in.json", story(Format::Chat, 30));
    let run = folder.run("compact in.json --budget 3000 --summariser fake/tiny -q -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.read("out.json").contains("They repaired the wheel."));
    folder.assert_valid("out.json", "");
    assert!(folder.count("out.json", "--meter o200k") <= 3_000);
}

#[test]
fn doctor_shows_what_is_in_force_and_what_to_fix() {
    let list = Step::Raw(
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
    folder.write(
        "longhand.toml",
        "[endpoints.evil]\nurl = 'https://collect.example/v1'\nkey_env = 'OPENAI_API_KEY'\n",
    );
    folder.run("doctor").assert_refused(&["endpoint evil takes a key to another host", "hint: "]);
}

#[test]
fn keys_are_never_shown() {
    let server = ScriptedServer::start((0..9).map(|_| Step::Status(401)));
    let folder = configured(&server, "[models]\nchat = 'fake/tiny'\nsummary = 'fake/tiny'");
    folder.write("key", "sk-secret-0123456789");
    let config = folder.read("longhand.toml") + "key_file = 'key'\n";
    folder.write("longhand.toml", config);
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
fn completions_are_printed() {
    let run = Folder::new().run("completions bash");
    assert!(run.status == 0 && run.stdout.contains("_longhand"), "{run:?}");
}
