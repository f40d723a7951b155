//! `longhand top` and `longhand demo`, in terminals of any width.

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::chat::Terminal;
use crate::run::Folder;
use crate::running::{folder, run_line};

const WIDTHS: [u16; 3] = [50, 80, 200];

fn request(task: &str, rounds: usize) -> String {
    let words = "a sentence about the work ".repeat(60);
    let message = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        json!({"role": role, "content": format!("{task} {at}: {words}")})
    };
    let messages: Vec<Value> = (0..rounds * 2 - 1).map(message).collect();
    json!({"model": "gpt-5-mini", "messages": messages}).to_string()
}

/// Two sessions behind a proxy: one that was shortened, and one whose first words would paint the screen.
fn archive() -> Folder {
    let server = ScriptedServer::start((0..9).map(|_| ScriptStep::Answer("Good.".to_owned())));
    let folder = folder();
    let hostile = request("\u{1b}[2J\u{1b}]0;owned\u{7}red", 1);
    let requests = [hostile, request("Mend the roof", 20), request("Mend the roof", 21)];
    for request in requests {
        folder.write("body.json", request);
        let run = folder.run(&run_line(&server, "--budget 4000 -q", "./agent body.json"));
        assert_eq!(run.status, 0, "{run:?}");
    }
    folder
}

#[test]
fn top_shows_sessions_the_window_requests_and_savings_at_any_width() {
    let folder = archive();
    for columns in WIDTHS {
        let size = (40, columns);
        let mut top = Terminal::start_sized("xterm-256color", size, &folder, "top --archive a.db");
        top.wait_for("not sent");
        for shown in [
            "longhand  2 sessions",
            "Sessions",
            "Mend the roof",
            "Requests",
            "of 4.0k tokens",
            "fold",
            "q ends",
        ] {
            top.wait_for(shown);
        }
        let contents = top.contents();
        assert!(contents.contains("left out of the newest request"), "{columns}:\n{contents}");
        assert!(!contents.contains("owned\u{7}"), "{columns}:\n{contents}");
        assert!(
            contents.contains("red 0"),
            "what the terminal could obey is shown harmless: {contents}"
        );
        // The other session is chosen, and then has the screen to itself.
        top.press("\u{1b}[B");
        top.wait_while(|contents| contents.contains("left out of the newest"));
        top.press("\r");
        top.wait_while(|contents| contents.contains("Sessions"));
        top.resize(24, 60);
        top.wait_for("Requests");
        top.press("q");
        assert_eq!(top.end(), 0);
    }
}

#[test]
fn top_follows_what_happens() {
    let folder = archive();
    let line = "top --archive a.db --every 100";
    let mut top = Terminal::start_sized("xterm-256color", (40, 100), &folder, line);
    top.wait_for("longhand  2 sessions");
    let server = ScriptedServer::start([ScriptStep::Answer("Good.".to_owned())]);
    folder.write("body.json", request("Paint the door", 2));
    folder.run(&run_line(&server, "-q", "./agent body.json"));
    top.wait_for("longhand  3 sessions");
    top.wait_for("Paint the door");
    top.press("\u{3}");
    assert_eq!(top.end(), 0);
}

#[test]
fn top_says_what_it_needs() {
    let folder = archive();
    let run = folder.run("top --archive a.db");
    assert_eq!(run.status, 2);
    assert!(
        run.stderr.contains("needs a terminal") && run.stderr.contains("longhand usage"),
        "{run:?}"
    );
}

#[test]
fn the_demo_plays_a_session_and_cleans_up() {
    for columns in WIDTHS {
        let folder = Folder::new();
        let size = (200, columns);
        let line = "demo --no-open --fast --end";
        let terminal = Terminal::start_sized("xterm-256color", size, &folder, line);
        terminal.wait_for("the demo is over; its files are removed");
        let joined = terminal.contents().replace('\n', " ");
        let words = joined.split_whitespace().collect::<Vec<_>>().join(" ");
        for shown in
            ["/longhand/console/#token=", "left out by batch 1", "were not sent", "Nothing is lost"]
        {
            let found =
                words.contains(shown) || words.replace(' ', "").contains(&shown.replace(' ', ""));
            assert!(found, "{columns}: {shown}\n{joined}");
        }
        assert_eq!(terminal.end(), 0);
        assert_cleaned_up(&folder);
    }
}

#[test]
fn a_demo_that_is_ended_early_cleans_up() {
    let folder = Folder::new();
    let mut terminal = Terminal::start(&folder, "demo --no-open");
    terminal.wait_for("request   2");
    terminal.press("\u{3}");
    terminal.wait_for("the demo is over; its files are removed");
    assert_eq!(terminal.end(), 0);
    assert_cleaned_up(&folder);
}

fn assert_cleaned_up(folder: &Folder) {
    let left = folder.names();
    assert!(!left.iter().any(|name| name.starts_with("longhand-demo-")), "{left:?}");
}
