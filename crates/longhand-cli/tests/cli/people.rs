//! What people see: several files, narrow terminals, searches with dates and roles, answers with Markdown.

use std::fs;
use std::time::Duration;

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};

use crate::chat::{Terminal, folder};
use crate::documents::{run_in, run_raw};
use crate::run::{Folder, OWN_SETTINGS, example_folder};

#[test]
fn several_files_are_counted_in_one_go() {
    let folder = Folder::with(
        "a.json",
        r#"{"model":"gpt-4o","messages":[{"role":"user","content":"one"}]}"#,
    );
    folder.write("b.json", r#"{"model":"gpt-4o","messages":[{"role":"user","content":"two"}]}"#);
    let run = folder.run("count a.json b.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(run.stdout.lines().count(), 3, "{}", run.stdout);
    assert!(run.stdout.contains("1 message  a.json"), "{}", run.stdout);
    let sum = folder.count("a.json", "") + folder.count("b.json", "");
    assert!(run.stdout.contains(&format!("{sum} tokens in 2 files")), "{}", run.stdout);
    assert_eq!(folder.run("count a.json b.json -q").stdout.trim(), sum.to_string());
    let report = folder.run("count a.json b.json --json").json();
    assert_eq!((&report["tokens"], &report["exact"]), (&sum.into(), &true.into()));
    assert_eq!(report["files"][1]["file"], "b.json");
    // One that cannot be read does not hide the others.
    folder.write("c.json", "{");
    let run = folder.run("count a.json c.json");
    assert!(run.status == 1 && run.stderr.contains("skipped: c.json"), "{run:?}");
    assert!(run.stdout.contains("tokens in 1 file\n"), "{run:?}");
}

#[test]
fn a_count_says_what_takes_up_the_context() {
    let folder = Folder::with(
        "in.json",
        concat!(
            r#"{"model":"gpt-4o","tools":[{"type":"function","function":{"name":"read"}}],"messages":["#,
            r#"{"role":"system","content":"Be brief."},{"role":"user","content":"Read both."},"#,
            r#"{"role":"assistant","content":"I will.","tool_calls":["#,
            r#"{"id":"1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}},"#,
            r#"{"id":"2","type":"function","function":{"name":"read","arguments":"{\"path\":\"b\"}"}}]},"#,
            r#"{"role":"tool","tool_call_id":"1","content":"one two three four five six seven eight nine ten"},"#,
            r#"{"role":"tool","tool_call_id":"2","content":"short"}]}"#
        ),
    );
    let report = folder.run("count in.json --json").json();
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let kinds = report["kinds"].as_object().unwrap();
    assert_eq!(
        kinds.keys().collect::<Vec<_>>(),
        ["system", "tools", "user", "assistant", "calls", "results"]
    );
    let sum: u64 = kinds.values().map(number).sum();
    assert_eq!(sum + number(&report["reply"]), number(&report["tokens"]), "{report:#}");
    let tool = &report["tools"][0];
    assert_eq!((&tool["name"], &tool["calls"]), (&"read".into(), &2.into()));
    let largest = &report["largest"][0];
    assert_eq!(
        (&largest["at"], &largest["what"]),
        (&"messages[3]".into(), &"result of read".into())
    );

    let shown = folder.run("count in.json").stdout;
    for line in ["tool results ", "read  ", "2 calls\n", "result of read: one two"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let listed = folder.run("count in.json --messages").stdout;
    assert!(listed.contains("    3  tool ") && !listed.contains("largest"), "{listed}");
    let total = shown.lines().last().unwrap();
    assert_eq!(Some(total), listed.lines().last(), "the total comes last");
}

fn recorded() -> Folder {
    let folder = Folder::new();
    let rounds = concat!(
        r#"{"user": "Where is the lock file?", "assistant": "In var/lock.", "ts": "2026-11-01T10:00:00Z"}"#,
        "\n",
        r#"{"user": "Unlock the configuration.", "assistant": "The lock is off.", "ts": "2026-11-10T10:00:00Z"}"#,
        "\n"
    );
    let run = folder.run_fed("record work", rounds.as_bytes());
    assert_eq!(run.status, 0, "{run:?}");
    folder
}

#[test]
fn a_search_shows_date_role_and_session_and_takes_filters() {
    let folder = recorded();
    let shown = folder.run("search lock").stdout;
    assert!(
        shown.contains("work  2026-11-10")
            && shown.contains(" assistant entry 3 4 tokens  9716824519d1:3\n"),
        "{shown}"
    );
    assert!(shown.contains("\n  The lock is off.\n"), "{shown}");
    let entries = |options: &str| -> Vec<u64> {
        let run = folder.run(&format!("search {options} --json"));
        run.json().as_array().unwrap().iter().map(|hit| hit["entry"].as_u64().unwrap()).collect()
    };
    assert_eq!(entries("lock --newest"), [3, 1, 0]);
    assert_eq!(entries("where was the lock file"), [0, 3, 1]);
    assert_eq!(entries("--session work --role user"), [2, 0]);
    assert_eq!(entries("lock --before 2026-11-05"), [0, 1]);
    assert_eq!(entries("--regex lock.(is|file)"), [3, 0]);
    assert_eq!(entries("lock --project nowhere"), [0; 0]);
    assert_eq!(entries("lock --role user"), [0]);
    assert_eq!(entries("lock --since 2026-11-05"), [3]);
    assert_eq!(entries("conf*"), [2]);
    assert_eq!(entries("lock --role assistant --limit 1 --newest"), [3]);
    let hit = &folder.run("search conf* --json").json()[0];
    assert_eq!((&hit["role"], &hit["at"]), (&"user".into(), &"2026-11-10T10:00:00.000Z".into()));
    assert_eq!(folder.run("search lock --since 1m").status, 1);
    let around = folder.run("search var --context 1").stdout;
    assert!(
        around.contains("\n    0 user: Where is the lock file?\n  In var/lock.\n    2 user: "),
        "{around}"
    );
    let like_regex = folder.run("search 'lock.*'");
    assert!(like_regex.stderr.contains("--regex"), "{like_regex:?}");
    folder.run("search --regex '('").assert_refused(&["is no regular expression", "hint: "]);
    folder.run("search lock --since soon").assert_refused(&["is not a time", "hint: "]);
}

#[test]
fn the_words_of_a_query_are_highlighted_in_a_terminal() {
    let folder = recorded();
    let data = folder.path("data").display().to_string();
    let variables = [("NO_COLOR", ""), ("XDG_DATA_HOME", &data)];
    let (shown, _) = run_in(&folder, "longhand search var", 80, &variables);
    assert!(shown.contains("In \u{1b}[1mvar\u{1b}[0m/lock."), "{shown:?}");
}

#[test]
fn rm_removes_the_prompts_from_the_history_too() {
    let folder = recorded();
    folder.write("data/longhand/history", "#V2\nWhere is the lock file?\nsomething else\n");
    let run = folder.run("rm work --yes");
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(folder.read("data/longhand/history"), "#V2\nsomething else\n");
    assert!(
        run.stdout.contains("removed 1 prompt from ") && run.stdout.contains("longhand/history"),
        "{run:?}"
    );
    assert!(run.stdout.contains("removed work (") && run.stdout.contains("archive.db"), "{run:?}");
    assert!(run.stdout.contains("are not touched"), "{run:?}");
    assert!(run.stdout.contains("commands such as /search stay in "), "{run:?}");
}

#[test]
fn a_command_that_waits_for_standard_input_says_so() {
    let folder = example_folder();
    for (command, typed) in [
        ("check", r#"[{"role":"user","content":"one"}]"#),
        ("record demo", r#"{"user":"a","assistant":"b"}"#),
    ] {
        let mut terminal = Terminal::start(&folder, command);
        terminal.wait_for("reading from standard input; Ctrl-D ends it");
        terminal.press(&format!("{typed}\r\u{4}"));
        assert_eq!(terminal.end(), 0, "{command}");
    }
    // The plural is right, too.
    let run = folder.run_fed("check", br#"[{"role":"user","content":"one"}]"#);
    assert_eq!((run.status, run.stdout.trim()), (0, "valid: 1 message (chat)"), "{run:?}");
}

#[test]
fn nothing_wraps_in_a_terminal_of_fifty_columns() {
    let folder = example_folder();
    fs::write(folder.path("long-name-of-a-second-file-that-is-counted.json"), "[]").unwrap();
    for line in [
        "longhand compact long-session.json --budget 8000 -o window.json",
        "longhand count window.json",
        "longhand count window.json --messages",
        "longhand count long-session.json long-name-of-a-second-file-that-is-counted.json",
        "longhand import long-session.json --id work",
        "longhand context work --budget 8000 > window.json",
        "longhand search slot",
        "longhand ls --all",
        "longhand show work",
        "longhand log work",
        "longhand usage",
        "longhand replay long-session.json --budget 50% --compare",
        "timeout --preserve-status 2 longhand serve --upstream http://127.0.0.1:1 --listen 127.0.0.1:0",
        "longhand verify",
        "longhand doctor",
    ] {
        let (shown, status) = run_in(&folder, line, 50, &[]);
        // `doctor` finds no model here.
        assert!(status < 2, "{line}: {shown}");
        for shown in shown.lines() {
            // A single word, such as a path, may be longer than the terminal is wide.
            let is_word = !shown.trim().contains(' ');
            assert!(is_word || shown.chars().count() <= 50, "{line}: {shown:?}");
        }
    }
}

#[test]
fn a_chat_wraps_nowhere_in_fifty_columns() {
    let text = "The log is in **var/app.log**, and it is rotated every night at two; `logrotate` does it.\n\n\
                - an item that is longer than the terminal is wide, so it goes on below its words\n\n\
                | file | what it has | kept |\n|---|---|---|\n| var/app.log | all that the service says by day and by night | a week |\n";
    let server = ScriptedServer::start([ScriptStep::Answer(text.to_owned())]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.resize(60, 50);
    terminal.type_line("Where is the log?");
    terminal.wait_for("a week");
    terminal.wait_for_prompt();
    // Items and cells go on below where they began.
    let contents = terminal.contents();
    assert!(contents.contains("\n  wide, so it goes on"), "{contents}");
    let lines: Vec<&str> = contents.lines().collect();
    let row = lines.iter().position(|line| line.starts_with("var/app.log  all")).unwrap();
    assert!(
        lines[row].ends_with("a week") && lines[row + 1].starts_with("             "),
        "{contents}"
    );
    for command in ["/context", "/cost", "/search log", "/help", "/nonsense"] {
        terminal.type_line(command);
    }
    terminal.wait_for("there is no /nonsense");
    terminal.wait_for_prompt();
    let wrapped = terminal.wrapped();
    assert!(wrapped.is_empty(), "{wrapped:?} in\n{}", terminal.contents());
}

#[test]
fn what_takes_over_a_second_shows_that_it_goes_on() {
    let folder = example_folder();
    let line = "(sleep 3; cat long-session.json) | longhand count -q";
    let (sent, status) = run_raw(&folder, line, 80, &[]);
    assert!(status == 0 && !sent.contains("counting"), "-q: {sent:?}");
    let line = "(sleep 3; cat long-session.json) | longhand count --json | tail -1";
    let (sent, status) = run_raw(&folder, line, 80, &[]);
    assert!(
        status == 0 && sent.contains("counting, 1 s") && sent.contains("counting, 2 s"),
        "{sent:?}"
    );
    assert!(sent.ends_with("\r\u{1b}[K}\r\n"), "the line is taken away: {sent:?}");
    // Without a terminal there is nothing but the answer.
    let run = folder.run("count long-session.json");
    assert_eq!(run.stderr, "");
}

#[test]
fn without_a_terminal_chat_takes_one_message_and_prints_only_the_answer() {
    let server = ScriptedServer::start([ScriptStep::Answer("It is in **var**.".to_owned())]);
    let folder = folder(&server, "chat");
    let run = folder.run_fed("chat demo", b"Where is\nthe log?\n");
    assert_eq!((run.status, run.stdout.as_str()), (0, "It is in **var**.\n"), "{run:?}");
    assert!(server.requests()[0].body.contains("Where is\\nthe log?"));
    assert!(folder.run("export demo").stdout.contains("It is in **var**."));
    folder.run_fed("chat demo", b" \n").assert_refused(&["no message to send", "hint: "]);
}

#[test]
fn markdown_is_rendered_and_plain_shows_it_raw() {
    let text = "Run `make` **now**:\n\n- one\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    for (options, shown, raw) in [("", true, false), (" --plain", false, true)] {
        let server = ScriptedServer::start([ScriptStep::Answer(text.to_owned())]);
        let folder = folder(&server, "chat");
        let mut terminal = Terminal::start(&folder, &format!("chat demo{options}"));
        terminal.type_line("How?");
        terminal.wait_for("one");
        terminal.wait_for_prompt();
        let contents = terminal.contents();
        assert_eq!(
            contents.contains("Run make now:") && contents.contains("• one"),
            shown,
            "{contents}"
        );
        assert_eq!(
            contents.contains("**now**") && contents.contains("| 1 | 2 |"),
            raw,
            "{contents}"
        );
        terminal.type_line("/quit");
        assert_eq!(terminal.end(), 0);
    }
}

#[test]
fn what_is_typed_ahead_waits_for_the_prompt() {
    let slow =
        ScriptStep::Drip("one two three four five six ".repeat(3), Duration::from_millis(60));
    let server = ScriptedServer::start([slow, ScriptStep::Answer("Second answer.".to_owned())]);
    let folder = folder(&server, "chat");
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Count.");
    terminal.wait_for("one");
    terminal.press("typed ahead");
    terminal.wait_for_prompt_with("typed ahead");
    let contents = terminal.contents();
    let answer = contents.lines().find(|line| line.starts_with("one two")).unwrap();
    assert!(!answer.contains("typed"), "{contents}");
    assert_eq!(contents.matches("typed ahead").count(), 1, "{contents}");
    terminal.press("\r");
    terminal.wait_for("Second answer.");
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
}

#[test]
fn a_stopped_answer_counts_and_an_unknown_price_is_said() {
    let slow = ScriptStep::Drip("one two three ".repeat(200), Duration::from_millis(500));
    let server = ScriptedServer::start([slow]);
    // Models on a loopback address are free; this one is here, too, but has another address.
    let folder = folder(&server, "chat");
    let settings = folder.read(OWN_SETTINGS).replace("127.0.0.1", "0.0.0.0");
    folder.write(OWN_SETTINGS, settings);
    let mut terminal = Terminal::start(&folder, "chat demo");
    terminal.type_line("Count.");
    terminal.wait_for("one two");
    terminal.press("\u{3}");
    terminal.type_line("/cost");
    terminal.wait_for("answers   unknown (set [prices] in longhand.toml) for 1 call:");
    assert!(!terminal.contents().contains(" 0 written"), "{}", terminal.contents());
    terminal.type_line("/quit");
    assert_eq!(terminal.end(), 0);
}
