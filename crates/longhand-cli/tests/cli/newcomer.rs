//! What somebody meets who tries the command for the first time: a clear word instead of a guess.

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::run::Folder;
use crate::serve::ServedProxy;

fn recorded() -> Folder {
    let folder = Folder::new();
    let rounds = "{\"user\": \"A retry storm?\", \"assistant\": \"After the storm.\"}\n";
    let run = folder.run_fed("record demo", rounds.as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
    folder
}

#[test]
fn what_is_no_message_is_not_counted() {
    for (input, place) in [
        ("[1,2]", "[0]: expected a message, found a number"),
        (r#"[{"role":"user","content":"a"},"b"]"#, "[1]: expected a message, found a string"),
        (r#"[{"a":1}]"#, "[0].role: a message needs a role"),
        (r#"{"messages":[null]}"#, "messages[0]: expected a message, found null"),
        (
            r#"{"model":"claude-opus-4-6","max_tokens":9,"system":"x","messages":[7]}"#,
            "messages[0]: ",
        ),
        (r#"{"input":[7]}"#, "input[0]: "),
    ] {
        let folder = Folder::with("in.json", input);
        for options in ["", "--json", "-q", "--messages"] {
            folder.run(&format!("count in.json {options}")).assert_refused(&[
                "in.json: ",
                place,
                "hint: ",
            ]);
        }
    }
    // What a provider would refuse for another reason still has a size.
    let folder = Folder::with("in.json", r#"[{"role":"tool","tool_call_id":"x","content":"y"}]"#);
    assert_eq!(folder.run("count in.json").status, 0);
}

#[test]
fn several_words_are_a_query_and_none_is_an_error() {
    let folder = recorded();
    let entries =
        |line: &str| folder.run(&format!("search {line} --json")).json().as_array().unwrap().len();
    assert_eq!((entries("storm"), entries("retry storm"), entries("storm after")), (2, 2, 2));
    let newest = |line: &str| entries(&format!("{line} --newest"));
    assert_eq!((newest("storm"), newest("retry storm"), newest("storm after")), (2, 1, 1));
    assert_eq!(entries("retry storm --role user --newest"), 1);
    assert_eq!(entries("retry nowhere"), 1, "one has one of them");
    assert_eq!(folder.run("search retry after --newest").status, 1, "no message has both");
    folder.run("search").assert_status_two();
    for blank in ["", " ", "\"", "\"\" "] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(["search", blank])
            .env("HOME", folder.path(""))
            .output()
            .unwrap();
        let run = crate::run::FinishedRun::of("search", &output);
        run.assert_refused(&["there is nothing to search for", "hint: "]);
    }
}

#[test]
fn small_slips_are_named_in_plain_words() {
    let folder = recorded();
    let cases: [(&str, &[&str]); 3] = [
        ("pin demo first", &["expected the number of an entry"]),
        ("export demo -o no/such/file", &["cannot write no/such/file: there is no folder no/such"]),
        (
            "context nobody",
            &["there is no session \"nobody\"", "`longhand record nobody` begins this one"],
        ),
    ];
    for (line, words) in cases {
        folder.run(line).assert_refused(words);
    }
}

/// The map adds up to what was sent: its system prompt and tools, too.
#[test]
fn the_map_is_of_what_is_sent() {
    let server = ScriptedServer::start((0..3).map(|_| ScriptStep::Answer("In var.".to_owned())));
    let folder = Folder::new();
    let words = "Answer in one sentence, and name files with their paths. ".repeat(40);
    let tool = json!({"type": "function", "function": {"name": "read", "description": words}});
    let body = json!({"model": "gpt-4o", "tools": [tool], "messages": [
        {"role": "system", "content": words}, {"role": "user", "content": "Where is the log?"}]});
    let proxy = ServedProxy::start(&folder, &format!("--upstream {} --budget 4000", server.url()));
    let header = "x-longhand-session: demo";
    proxy.post_with("/v1/chat/completions", &body, header);
    proxy.end();
    folder.write("body.json", body.to_string());
    let sent = folder.count("body.json", "");
    let shown = folder.run("show demo --archive a.db --json").json();
    let number = |key: &str| shown[key].as_u64().unwrap();
    // The session has the answer, too; the counts of a message's frame differ by a few tokens.
    let map = number("prompt_tokens") + number("tokens");
    assert!(map.abs_diff(sent) < 40 && sent > 800, "{map} for {sent}: {shown}");
    let text = folder.run("show demo --archive a.db").stdout;
    let line = |mark: &str| text.lines().find(|line| line.starts_with(mark)).unwrap().to_owned();
    assert!(text.contains("[SSSS"), "{text}");
    assert!(line("S system").ends_with("tokens, prompt and tools"), "{text}");
    let grouped = |tokens: u64| longhand_core::grouped(tokens as usize);
    assert!(
        line("· free").contains(&format!(" {} tokens", grouped(number("budget") - map))),
        "{text}"
    );

    let folder = recorded();
    let shown = folder.run("show demo --json").json();
    assert_eq!(shown["prompt_tokens"], Value::Null);
    assert!(folder.run("show demo").stdout.contains("\nS system   not known: "));
    let over = folder.run("show demo --budget 10").stdout;
    assert!(over.contains("\n· over  ") && !over.contains("· free"), "{over}");
}

#[test]
fn the_system_prompt_of_a_chat_is_in_its_map() {
    let server = ScriptedServer::start([ScriptStep::Answer("In var.".to_owned())]);
    let folder = crate::chat::folder(&server, "chat");
    let run = folder.run_fed("chat demo", b"Where is the log?");
    assert_eq!(run.status, 0, "{run:?}");
    let shown = folder.run("show demo --json").json();
    assert_eq!(shown["prompt_tokens"], 3, "Be brief.: {shown}");
}
