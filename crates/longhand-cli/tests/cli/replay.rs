//! `replay`: what recorded conversations would have cost, and what their windows would have remembered.

use crate::run::{Folder, example_folder};

const COLUMNS: usize = 50;

#[test]
fn the_example_is_cheaper_with_auto_than_with_anything_else() {
    let folder = example_folder();
    let run = folder.run("replay long-session.json --budget 50% --compare --json --svg plot.svg");
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    let report = run.json();
    let total = &report["total"];
    let auto = &total["auto"];
    assert_eq!((&auto["over_budget"], &auto["invalid"]), (&0.into(), &0.into()), "{auto}");
    assert_eq!(total["none"]["cost"], total["none"]["cost_none"]);
    assert_eq!(total["none"]["need"], 100.0);
    let cost = |policy: &str| total[policy]["cost"].as_f64().unwrap();
    for policy in ["none", "drop-oldest", "elision"] {
        assert!(cost("auto") < cost(policy), "{total:#}");
    }
    let file = &report["files"][0];
    assert_eq!(file["budget"].as_u64().unwrap(), file["tokens"].as_u64().unwrap() / 2);
    assert_eq!(file["tokens"].as_u64().unwrap(), folder.count("long-session.json", ""));
    assert_eq!(file["policies"]["auto"]["sent"], auto["sent"]);
    let svg = folder.read("plot.svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<polyline").count(), 5);
}

#[test]
fn tables_and_plots_fit_a_narrow_terminal() {
    let folder = example_folder();
    folder.write(
        "copy-with-a-rather-long-name-that-would-wrap-in-a-narrow-terminal.json",
        folder.read("long-session.json"),
    );
    let run = folder.run("replay long-session.json copy-with-a-rather-long-name-that-would-wrap-in-a-narrow-terminal.json --budget 30k --each");
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    assert!(run.stdout.contains("2 conversations"), "{run:?}");
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= COLUMNS, "{line}");
    }
    let run = folder.run("replay long-session.json --budget 20% --missing");
    assert!(run.stdout.contains("\nmissing, need ("), "{run:?}");
    let run = folder.run("replay long-session.json --plot always");
    let drawn: Vec<&str> =
        run.stdout.lines().take_while(|line| !line.contains("conversation")).collect();
    assert!(drawn.iter().any(|line| line.contains('█')), "{run:?}");
    assert!(drawn.iter().all(|line| line.chars().count() <= 72), "{run:?}");
}

#[test]
fn what_cannot_be_replayed_is_named() {
    let folder = Folder::with(
        "small.json",
        r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]"#,
    );
    folder.write("silent.json", r#"[{"role":"user","content":"hi"}]"#);
    folder.write("broken.json", "{");
    folder.run("replay").assert_status_two();
    folder.run("replay nowhere.json").assert_refused(&["cannot open nowhere.json"]);
    folder
        .run("replay silent.json")
        .assert_refused(&["silent.json", "there is no assistant message"]);
    folder
        .run("replay small.json --min-tokens 3000")
        .assert_refused(&["no conversation has 3,000 tokens", "hint: "]);
    for bad in ["0", "0%", "half"] {
        folder.run(&format!("replay small.json --budget {bad}")).assert_status_two();
    }
    let run = folder.run("replay small.json silent.json broken.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.stderr.contains("skipped: silent.json"), "{run:?}");
    assert!(run.stderr.contains("skipped: broken.json"), "{run:?}");
    assert!(run.stdout.starts_with("1 conversation, "), "{run:?}");
}

#[test]
fn the_recall_tool_is_counted_in_every_request() {
    let folder = example_folder();
    let total = |options: &str| {
        let run = folder.run(&format!("replay long-session.json --budget 50% --json {options}"));
        assert_eq!(run.status, 0, "{run:?}");
        run.json()["total"].clone()
    };
    let (plain, with) = (total("--compare"), total("--compare --recall-tool"));
    let number = |total: &serde_json::Value, key: &str| total["auto"][key].as_f64().unwrap();
    let more = (number(&with, "sent") - number(&plain, "sent")) / number(&with, "requests");
    assert!(more > 100.0 && more < 200.0, "{more}");
    assert!(number(&with, "cost") > number(&plain, "cost"), "{with:#}");
    assert_eq!(with["auto"]["breaks"], plain["auto"]["breaks"]);
    assert_eq!(with["none"], plain["none"], "what it is compared with has no such tool");
}
