//! `longhand run`, with programs of the shell in the place of agents, in a terminal and without one.

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use serde_json::{Value, json};

use crate::run::Folder;

/// A program that posts the file it is given to where `OPENAI_BASE_URL` says.
const POST: &str = r#"#!/bin/bash
set -e
address=${OPENAI_BASE_URL#http://}
host=${address%%/*}
path=/${address#*/}
body=$(cat "$1")
exec 3<>"/dev/tcp/${host%%:*}/${host##*:}"
printf 'POST %s/chat/completions HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\ncontent-length: %s\r\nconnection: close\r\n\r\n%s' "$path" "$host" "${#body}" "$body" >&3
cat <&3 | tail -n 1
test -t 0 && echo " in a terminal"
exit "${2:-0}"
"#;

fn answers(count: usize) -> ScriptedServer {
    ScriptedServer::start((0..count).map(|number| ScriptStep::Answer(format!("Answer {number}."))))
}

pub(crate) fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("agent", POST);
    let made = Command::new("chmod").arg("+x").arg(folder.path("agent")).status();
    assert!(made.unwrap().success());
    folder
}

fn request(rounds: usize) -> String {
    let words = "a sentence about the work ".repeat(60);
    let messages: Vec<Value> = (0..rounds * 2 - 1)
        .map(|at| {
            let (role, name) =
                if at % 2 == 0 { ("user", "Question") } else { ("assistant", "Answer") };
            json!({"role": role, "content": format!("{name} {at}: {words}")})
        })
        .collect();
    json!({"model": "gpt-4o", "messages": messages}).to_string()
}

pub(crate) fn run_line(server: &ScriptedServer, options: &str, command: &str) -> String {
    format!("run --archive a.db --upstream {} {options} -- {command}", server.url())
}

#[test]
fn a_program_runs_behind_a_private_proxy_and_its_status_is_passed_on() {
    let (server, folder) = (answers(3), folder());
    folder.write("long.json", request(20));
    let run = Command::new(env!("CARGO_BIN_EXE_longhand"))
        .args(
            run_line(&server, "--budget 4000 --name parser", "./agent long.json 7")
                .split_whitespace(),
        )
        .current_dir(folder.path(""))
        .env("HOME", folder.path(""))
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(7), "{said}");
    assert!(String::from_utf8(run.stdout).unwrap().contains("Answer 0."));
    assert_eq!(said.lines().count(), 1, "one line: {said}");
    assert!(said.starts_with("longhand: 1 request, 1 of them shortened: "), "{said}");
    assert!(said.contains("`longhand show parser --archive a.db`"), "{said}");
    assert!(server.requests()[0].body.len() < request(20).len() / 2);
    let listed = folder.run("ls --archive a.db --json").json();
    assert_eq!(listed[0]["name"], "parser");
    assert_eq!(listed[0]["agent"], "agent");
    assert_eq!(listed[0]["model"], "scripted");
    assert!(listed[0]["task"].as_str().unwrap().starts_with("Question 0: a sentence"), "{listed}");
    assert!(listed[0]["saved"].as_u64().unwrap() > 3_000, "{listed}");
    let shown = folder.run("show @last --archive a.db").stdout;
    assert!(shown.contains("of 4,000 tokens"), "the budget in force: {shown}");
    // The next run, under the same name, goes on.
    folder.write("long.json", request(21));
    assert_eq!(
        folder
            .run(&run_line(&server, "--budget 4000 --name parser -q", "./agent long.json"))
            .stderr,
        ""
    );
    let listed = folder.run("ls --archive a.db --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["requests"], 2);
}

#[test]
fn models_that_take_tools_get_one_for_what_was_left_out() {
    for (options, has_tools, expected) in [
        ("", true, true),
        ("", false, false),
        ("--no-recall-tool", true, false),
        ("--recall-tool", false, true),
    ] {
        let (server, folder) = (answers(1), folder());
        let mut body: Value = serde_json::from_str(&request(2)).unwrap();
        if has_tools {
            body["tools"] = json!([{"type": "function", "function": {"name": "read"}}]);
        }
        folder.write("body.json", body.to_string());
        let run = folder.run(&run_line(&server, options, "./agent body.json"));
        assert_eq!(run.status, 0, "{run:?}");
        let sent = &server.requests()[0].body;
        assert_eq!(sent.contains("longhand_recall"), expected, "{options} {has_tools}: {sent}");
    }
}

#[test]
fn a_conversation_without_a_name_is_found_again() {
    let (server, folder) = (answers(3), folder());
    for rounds in [3, 4] {
        folder.write("body.json", request(rounds));
        let run = folder.run(&run_line(&server, "", "./agent body.json"));
        assert_eq!(run.status, 0, "{run:?}");
        assert!(run.stderr.contains("1 request, which fit as it was"), "{run:?}");
    }
    let listed = folder.run("ls --archive a.db --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    // Where it was run, and by what, is known.
    for (filter, expected) in [
        (format!("--project {}", folder.path("").display()), 0),
        ("--project /nowhere".to_owned(), 1),
        ("--agent agent".to_owned(), 0),
    ] {
        let run = folder.run(&format!("search sentence {filter} --archive a.db"));
        assert_eq!(run.status, expected, "{filter}: {run:?}");
    }
    let id = listed[0]["id"].as_str().unwrap();
    let run = folder.run(&format!("show {} --archive a.db", &id[..8]));
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.run("ls --archive a.db").stdout.contains("agent scripted"));
}

#[test]
fn a_program_that_is_killed_or_ignores_the_variables_is_told() {
    let (server, folder) = (answers(1), folder());
    let line = |command: &str| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_longhand"));
        run.args(["run", "--archive", "a.db", "--upstream", &server.url(), "--"]);
        run.args(["sh", "-c", command]).current_dir(folder.path("")).env("HOME", folder.path(""));
        run.output().unwrap()
    };
    let killed = line("kill -9 $$");
    assert_eq!(killed.status.code(), Some(128 + 9));
    let ignored = line("exit 3");
    assert_eq!(ignored.status.code(), Some(3));
    let said = String::from_utf8(ignored.stderr).unwrap();
    assert!(
        said.contains("no request reached the proxy") && said.contains("OPENAI_BASE_URL"),
        "{said}"
    );
    let run = folder.run("run --archive a.db -- ./not-there");
    run.assert_refused(&["./not-there does not start", "hint: "]);
    assert_eq!(folder.run("run --archive a.db").status, 2);
}

#[test]
fn what_ends_the_runner_ends_the_program() {
    let (server, folder) = (answers(1), folder());
    let mut run = Command::new(env!("CARGO_BIN_EXE_longhand"))
        .args(["run", "--archive", "a.db", "--upstream", &server.url(), "--", "sh", "-c"])
        .arg("trap 'echo ended > ended; exit 5' TERM; touch started; while :; do sleep 0.05; done")
        .current_dir(folder.path(""))
        .env("HOME", folder.path(""))
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !folder.path("started").exists() {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").arg(run.id().to_string()).status().unwrap().success());
    assert_eq!(run.wait().unwrap().code(), Some(5));
    assert_eq!(folder.read("ended"), "ended\n");
}

#[test]
fn the_terminal_belongs_to_the_program() {
    let (server, folder) = (answers(1), folder());
    folder.write("body.json", request(2));
    let size = PtySize { rows: 30, cols: 200, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_longhand"));
    command.args(run_line(&server, "", "./agent body.json 4").split_whitespace());
    command.cwd(folder.path(""));
    command.env("HOME", folder.path(""));
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The end of a terminal is an error on some systems.
        let _ = output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    assert_eq!(child.wait().unwrap().exit_code(), 4);
    drop(pair.master);
    let screen = reader.join().unwrap();
    assert!(screen.contains("Answer 0.") && screen.contains("in a terminal"), "{screen}");
    assert!(screen.contains("longhand: 1 request"), "{screen}");
}

#[test]
fn an_api_that_is_not_known_is_passed_on_and_told_once() {
    let (server, folder) = (answers(4), folder());
    folder.write("twice", POST.replace("%s/chat/completions", "%s/models/g:generateContent"));
    folder.write("body.json", request(2));
    let run = folder.run(&run_line(&server, "", "bash twice body.json"));
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(run.stderr.matches("does not know that API").count(), 1, "{run:?}");
    assert_eq!(server.requests()[0].body, request(2));
}

#[test]
fn usage_adds_up_what_was_sent_and_saved() {
    let (server, folder) = (answers(3), folder());
    for rounds in [20, 21, 22] {
        folder.write("body.json", request(rounds));
        folder.run(&run_line(&server, "--budget 4000 -q", "./agent body.json"));
    }
    let usage = folder.run("usage --archive a.db --by session --json").json();
    assert_eq!(usage["total"]["requests"], 3, "{usage}");
    assert_eq!(usage["total"]["sent"], 3_000, "as the server counts");
    assert!(usage["total"]["saved"].as_u64().unwrap() > 10_000, "{usage}");
    assert_eq!(usage["total"]["unpriced"], 3, "nobody knows a price of it");
    for by in ["day", "model", "session"] {
        let run = folder.run(&format!("usage --archive a.db --by {by}"));
        assert!(run.stdout.contains("█") && run.stdout.contains("░ saved"), "{run:?}");
    }
}

#[test]
fn forks_and_side_calls_are_a_tree_below_their_conversation() {
    let (server, folder) = (answers(4), folder());
    let post = |messages: &[Value]| {
        folder.write("body.json", json!({"model": "gpt-4o", "messages": messages}).to_string());
        let run = folder.run(&run_line(&server, "--name parser -q", "./agent body.json"));
        assert_eq!(run.status, 0, "{run:?}");
    };
    let body: Value = serde_json::from_str(&request(3)).unwrap();
    let asked = body["messages"].as_array().unwrap().clone();
    let user = |text: &str| json!({"role": "user", "content": text});
    post(&asked);
    post(&[user("Name this in five words.")]);
    // Rewound to the second question, which is asked otherwise; then once more.
    post(&[&asked[..2], &[user("Otherwise: take the second parser.")]].concat());
    post(&[&asked[..2], &[user("Or else: write a third one.")]].concat());
    let listed = folder.run("ls --all --archive a.db").stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed}");
    assert!(lines[0].starts_with("parser           Question 0: "), "{listed}");
    for (line, place, words, entries) in [
        (lines[1], "  └ fork at 1    ", "Otherwise: take the second parser. ", " 2 entries "),
        (lines[2], "  └ side path    ", "Name this in five words. ", " 2 entries "),
        (lines[3], "  └ fork at 1    ", "Question 2: ", " 4 entries "),
    ] {
        assert!(line.starts_with(&format!("{place}{words}")) && line.contains(entries), "{listed}");
    }
    assert_eq!(folder.run("ls --archive a.db").stdout.lines().count(), 1, "hidden unless --all");
    let listed = folder.run("ls --all --json --archive a.db").json();
    let forks = listed[0]["forks"].as_array().unwrap();
    let place = |fork: &Value| [&fork["after"], &fork["first"], &fork["last"]].map(Value::as_u64);
    let places: Vec<_> = forks.iter().map(place).collect();
    let fork = |first, last| [Some(1), Some(first), Some(last)];
    assert_eq!(places, [fork(8, 9), [None, Some(6), Some(7)], fork(2, 5)], "{listed:#}");
}

#[test]
fn a_conversation_is_followed_through_a_client_s_own_summary() {
    let said = "The build fails because the linker cannot find libfoo, which moved to vendor/lib in March.";
    let server =
        ScriptedServer::start([said, "Done."].map(|text| ScriptStep::Answer(text.to_owned())));
    let folder = folder();
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    folder.write("long.json", request(20));
    // The client begins anew with what it made of the conversation.
    let summary = [
        message("user", &format!("Summary of the conversation so far: {said}")),
        message("assistant", "Understood."),
        message("user", "Now mend it."),
    ];
    folder.write("short.json", json!({"model": "gpt-4o", "messages": summary}).to_string());
    folder.write("both", "./agent long.json && ./agent short.json\n");
    let run = folder.run(&run_line(&server, "--budget 4000 -q", "bash both"));
    assert_eq!(run.status, 0, "{run:?}");
    let listed = folder.run("ls --all --json --archive a.db").json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["earlier"].as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["entries"], 40 + 4, "{listed:#}");
    let newest = listed[0]["id"].as_str().unwrap();
    for id in [newest, &newest[..8], "@last"] {
        let shown = folder.run(&format!("show {id} --archive a.db")).stdout;
        assert!(shown.contains("  continues ") && shown.contains("Question 0: "), "{id}: {shown}");
        let exported = folder.run(&format!("export {id} --archive a.db")).exported_entries();
        assert_eq!(exported.lines().count(), 44, "{id}: all entries of both sessions");
        let batches = folder.run(&format!("log {id} --json --archive a.db")).json();
        assert_eq!(batches.as_array().unwrap().len(), 1, "{id}: the batch of the first session");
        let found = folder.run(&format!("search sentence --session {id} --archive a.db"));
        assert!(found.stdout.contains("a sentence about the work"), "{id}: {found:?}");
    }
}

#[test]
fn what_a_person_must_know_is_said_once_a_session() {
    let (server, folder) = (answers(3), folder());
    let bodies: [Value; 3] = [2, 3, 4].map(|rounds| {
        let mut body: Value = serde_json::from_str(&request(rounds)).unwrap();
        let rules = json!({"role": "system", "content": "a rule that always holds ".repeat(600)});
        body["messages"].as_array_mut().unwrap().insert(0, rules);
        body
    });
    for (number, body) in bodies.iter().enumerate() {
        folder.write(&format!("body-{number}.json"), body.to_string());
    }
    folder.write("thrice", "for number in 0 1 2; do ./agent body-$number.json; done\n");
    let run = folder.run(&run_line(&server, "--budget 1000", "bash thrice"));
    assert_eq!(run.status, 0, "{run:?}");
    let told = run.stderr.lines().filter(|line| line.contains("a budget of")).count();
    assert_eq!(told, 1, "{}", run.stderr);
}

#[test]
fn an_upstream_that_is_down_or_fails_is_told() {
    let folder = folder();
    folder.write("body.json", request(2));
    folder.write("thrice", "for number in 0 1 2; do ./agent body.json; done\n");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let down = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    let line = |command: &str| format!("run --archive a.db --upstream {down} -- {command}");
    let run = folder.run(&line("bash thrice"));
    assert!(run.stderr.contains("longhand: 3 requests, none of which was answered;"), "{run:?}");
    let warning = format!("longhand: warning: the upstream cannot be reached: {down}: ");
    assert_eq!(run.stderr.matches(&warning).count(), 1, "{run:?}");
    let run = folder.run(&line("./agent body.json"));
    assert!(run.stderr.contains("longhand: 1 request, which was not answered;"), "{run:?}");
    let steps =
        [ScriptStep::Status(401), ScriptStep::Answer("Fine.".to_owned()), ScriptStep::Status(500)];
    let server = ScriptedServer::start(steps);
    let run = folder.run(&run_line(&server, "", "bash thrice"));
    let said = "longhand: 3 requests, 2 of which were answered with an error by the upstream;";
    assert!(run.stderr.contains(said), "{run:?}");
}
