//! `compact`: it fits or says so, it is valid, and what it says of itself is true.

use std::fs;
use std::io::Read;

use longhand_testkit::notation;
use serde_json::Value;

use crate::run::{FinishedRun, Folder, example_folder};
use crate::story::{StoryFormat, story};

const POLICIES: [&str; 3] = ["auto", "elide", "trim"];
const METERS: [&str; 3] = ["o200k", "cl100k", "chars:3.5"];

#[test]
fn the_example_fits_in_eight_thousand_tokens() {
    let folder = example_folder();
    let run = folder.run("compact long-session.json --budget 8000 -o window.json");
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{run:?}");
    assert!(run.stderr.starts_with("longhand: "), "{run:?}");
    assert!(run.stderr.contains(" tokens of 8,000 (chat, o200k)"), "{run:?}");
    folder.assert_valid("window.json", "");
    assert!(folder.count("window.json", "") <= 8_000);
    assert!(folder.count("long-session.json", "") >= 60_000);
    assert_eq!(folder.names(), ["long-session.json", "window.json"]);
}

#[test]
fn an_estimate_is_never_called_exact() {
    for (model, meter, is_exact) in [
        ("gpt-4o", "o200k", true),
        ("claude-opus-4-6", "≈o200k×1.20", false),
        ("claude-opus-5", "≈o200k×1.56", false),
        ("llama-3.3-70b", "≈o200k", false),
    ] {
        let text = format!(
            r#"{{"model":"{model}","messages":[{{"role":"user","content":"How are you today?"}}]}}"#
        );
        let folder = Folder::with("in.json", text);
        let mark = if is_exact { "" } else { "≈" };
        let counted = folder.run("count in.json").stdout;
        let total = counted.lines().last().unwrap();
        assert!(total.ends_with(&format!("(chat, {meter})")), "{counted}");
        assert_eq!(total.starts_with('≈'), !is_exact, "{counted}");
        let run = folder
            .run("compact in.json --budget 999 -o out.json --report report.json --map always");
        let report = folder.json("report.json");
        let size = report["after"]["tokens"].as_u64().unwrap();
        assert!(
            run.stderr.contains(&format!("-> {mark}{size} tokens of 999 (chat, {meter})")),
            "{run:?}"
        );
        assert_eq!(report["exact"], is_exact);
        let free = run.stderr.lines().find(|line| line.contains("free")).unwrap();
        assert_eq!(free.contains('≈'), !is_exact, "{run:?}");

        let named = folder.run("compact in.json --budget 999 -o out.json --meter o200k");
        assert!(named.stderr.contains(" tokens of 999 (chat, o200k)"), "{named:?}");
        assert_eq!(
            named.stderr.contains('≈'),
            !is_exact,
            "exact for its own models only: {named:?}"
        );
    }
}

#[test]
fn a_pipe_gives_the_bytes_that_a_file_gives() {
    for format in StoryFormat::ALL {
        let text = story(format, 8);
        let folder = Folder::with("in.json", &text);
        assert_eq!(folder.run("compact in.json --budget 2000 -o out.json").status, 0);
        let window = folder.read("out.json");
        assert!(window != text);
        for line in [
            "compact in.json --budget 2000",
            "compact in.json --budget 2000 -o -",
            "compact --budget 2000",
            "compact - --budget 2000 --quiet",
        ] {
            let input = if line.contains("in.json") { "" } else { &text };
            let run = folder.run_fed(line, input.as_bytes());
            assert_eq!(run.status, 0, "{run:?}");
            assert!(run.stdout == window, "{format:?}: {line}");
        }
        let piped = folder.run_fed("check", window.as_bytes());
        assert_eq!(piped.status, 0, "{piped:?}");
        let piped = folder.run_fed("count --quiet -", window.as_bytes());
        assert_eq!(piped.stdout, format!("{}\n", folder.count("out.json", "")));
        assert_eq!(folder.names(), ["in.json", "out.json"]);
    }
}

#[test]
fn a_file_can_be_replaced_by_its_window() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 8));
    let elsewhere = folder.run("compact in.json --budget 2000");
    assert_eq!(folder.run("compact in.json --budget 2000 -o in.json").status, 0);
    assert!(folder.read("in.json") == elsewhere.stdout);
    assert_eq!(folder.names(), ["in.json", "in.json.orig"]);
}

#[test]
fn what_was_left_out_can_always_be_brought_back() {
    let original = story(StoryFormat::Chat, 8);
    let folder = Folder::with("in.json", &original);
    let run = folder.run("compact in.json --budget 2000 -o out.json");
    assert!(run.stderr.contains("`longhand expand HANDLE --from in.json` brings back"), "{run:?}");
    let run = folder.run("compact in.json --budget 2000 -o in.json");
    assert!(run.stderr.contains("the original is kept as in.json.orig"), "{run:?}");
    assert!(run.stderr.contains("--from in.json.orig`"), "{run:?}");
    assert_eq!(folder.read("in.json.orig"), original);
    let window = folder.read("in.json");
    let at = window.find("[longhand stub ").unwrap() + "[longhand stub ".len();
    let expanded =
        folder.run(&format!("expand {} --raw --from in.json.orig", &window[at..at + 14]));
    assert_eq!(expanded.status, 0, "{expanded:?}");
    assert!(original.contains(&serde_json::to_string(&expanded.stdout).unwrap()), "{expanded:?}");

    // Another copy does not replace the first one, and what does not change is not copied.
    assert_eq!(folder.run("compact in.json --budget 1500 -o in.json").status, 0);
    assert_eq!(folder.read("in.json.orig"), original);
    assert_eq!(folder.read("in.json.orig2"), window);
    assert_eq!(folder.run("compact in.json --budget 1m -o in.json").status, 0);
    assert_eq!(folder.names(), ["in.json", "in.json.orig", "in.json.orig2", "out.json"]);
    let piped = folder.run_fed("compact --budget 2000", original.as_bytes());
    assert!(piped.stderr.contains("keep the input"), "{piped:?}");
    let archived = folder.run("compact in.json.orig --budget 2000 --archive a.db -o out.json");
    assert!(archived.stderr.contains("HANDLE --archive a.db`"), "{archived:?}");
}

#[test]
fn what_fits_comes_out_as_it_went_in() {
    let odd = concat!(
        "\r\n{ \"messages\" : [\n\t{\"role\":\"user\" , \"content\":\"caf\\u00e9 \\/ caf\u{e9}\", \"x\":1.0e+2},",
        "\n\n  {\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"hologram\",\"z\":[{}]}],\"role\":\"user\"}",
        "],\"model\":\"gpt-4o\",\"temperature\":0.70, \"unknown\":{\"b\":null,\"a\":[]}}\n\n"
    );
    let texts = StoryFormat::ALL.map(|format| story(format, 3));
    for text in texts.iter().map(String::as_str).chain([odd, "[]\n"]) {
        let folder = Folder::with("in.json", text);
        for policy in POLICIES {
            let options = format!("--budget 1m --policy {policy} --meter chars:3.5");
            let run = folder.run(&format!("compact in.json {options}"));
            assert_eq!(run.status, 0, "{run:?}");
            assert!(run.stdout == text, "{policy}: {}", run.stdout);
            assert!(run.stderr.contains("it fits as it is"), "{run:?}");
        }
        let exactly = folder.count("in.json", "");
        let run = folder.run(&format!("compact in.json --budget {}", exactly.max(1)));
        assert!(run.status == 0 && run.stdout == text, "{run:?}");
    }
}

#[test]
fn the_report_has_every_field_and_agrees_with_count() {
    for format in StoryFormat::ALL {
        for budget in [300, 2_000] {
            let folder = Folder::with("in.json", story(format, 8));
            let line =
                format!("compact in.json --budget {budget} -o out.json --report report.json");
            let run = folder.run(&line);
            let report = folder.json("report.json");
            check_report(&folder, &report, run.status);
            assert_eq!(report["budget"], budget);
            assert_eq!(report["dialect"], format!("{format:?}").to_lowercase());

            let piped = folder.run(&line.replace("report.json", "-"));
            assert_eq!(piped.status, run.status);
            assert_eq!(piped.stdout, folder.read("report.json"));
            assert_eq!(piped.stderr, run.stderr);
        }
    }
}

/// Checks a report on `in.json` and `out.json`, counted by default.
fn check_report(folder: &Folder, report: &Value, status: i32) {
    for side in ["before", "after"] {
        for number in ["messages", "tokens", "bytes"] {
            assert!(report[side][number].is_u64(), "{side}.{number}: {report:#}");
        }
    }
    for number in ["budget", "floor"] {
        assert!(report[number].is_u64(), "{number}: {report:#}");
    }
    for list in ["stubbed", "folded", "clipped"] {
        for entry in report[list].as_array().unwrap() {
            assert!(entry["handle"].as_str().unwrap().starts_with("h:"), "{entry}");
        }
    }
    let anchors = |name: &str| report["anchors"][name].as_u64().unwrap();
    assert_eq!(anchors("total"), anchors("kept") + anchors("restored") + anchors("dropped"));
    let meter = report["meter"].as_str().unwrap();
    assert!(meter.trim_start_matches('≈').starts_with("o200k"), "{meter}");
    assert_eq!(report["exact"], !meter.starts_with('≈'));

    let number = |side: &str, name: &str| report[side][name].as_u64().unwrap();
    for (side, name) in [("before", "in.json"), ("after", "out.json")] {
        assert_eq!(number(side, "tokens"), folder.count(name, ""));
        assert_eq!(number(side, "bytes"), folder.read(name).len() as u64);
    }
    let fits = number("after", "tokens") <= report["budget"].as_u64().unwrap();
    assert_eq!(report["fits"], fits, "{report:#}");
    assert_eq!(status, if fits { 0 } else { 3 });
    assert!(report["floor"].as_u64() <= report["after"]["tokens"].as_u64());
    folder.assert_valid("out.json", "");
}

#[test]
fn what_cannot_fit_is_written_at_its_best_and_says_how_small() {
    for format in StoryFormat::ALL {
        for policy in POLICIES {
            let folder = Folder::with("in.json", story(format, 7));
            let line = |budget: u64| {
                format!(
                    "compact in.json --budget {budget} --policy {policy} -o out.json --report report.json"
                )
            };
            let run = folder.run(&line(20));
            assert_eq!(run.status, 3, "{run:?}");
            check_report(&folder, &folder.json("report.json"), 3);
            let report = folder.json("report.json");
            let floor = report["floor"].as_u64().unwrap();
            assert_eq!(report["after"]["tokens"], floor, "{format:?} {policy}");
            assert!(run.stderr.contains("does not fit"), "{run:?}");
            assert!(run.stderr.contains(&format!("--budget {floor}")), "{run:?}");

            if format == StoryFormat::Anthropic && policy == "auto" {
                continue; // A fold that joins a turn is smaller than its plan says.
            }
            let enough = folder.run(&line(floor));
            assert_eq!(enough.status, 0, "{format:?} {policy}: {enough:?}");
            assert!(folder.count("out.json", "") <= floor);
            folder.assert_valid("out.json", "");
        }
    }
}

#[test]
fn the_hint_counts_the_reserve_in() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 8));
    let run = folder.run("compact in.json --budget 60 --reserve 50 -o out.json");
    assert_eq!(run.status, 3, "{run:?}");
    let hint = run.stderr.split("--budget ").nth(1).unwrap();
    let budget: u64 = hint.split_whitespace().next().unwrap().parse().unwrap();
    let run = folder.run(&format!("compact in.json --budget {budget} --reserve 50 -o out.json"));
    assert_eq!(run.status, 0, "{run:?}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for policy in POLICIES {
        let folder = example_folder();
        for name in ["one", "two"] {
            let run = folder.run(&format!(
                "compact long-session.json --budget 9000 --policy {policy} -o {name} --report {name}.report"
            ));
            assert!([0, 3].contains(&run.status), "{run:?}");
        }
        assert!(folder.read("one") == folder.read("two"), "{policy}");
        assert!(folder.read("one.report") == folder.read("two.report"), "{policy}");
    }
}

#[test]
fn every_policy_and_meter_fits_or_says_so() {
    let folder = example_folder();
    for format in StoryFormat::ALL {
        folder.write(&format!("{format:?}.json"), story(format, 12));
    }
    for (name, budget) in [
        ("long-session.json", 8_000),
        ("Chat.json", 2_500),
        ("Responses.json", 2_500),
        ("Anthropic.json", 2_500),
    ] {
        for policy in POLICIES {
            for meter in METERS {
                let options = format!("--budget {budget} --policy {policy} --meter {meter}");
                let run = folder.run(&format!("compact {name} {options} -o out --report report"));
                let tokens = folder.count("out", &format!("--meter {meter}"));
                let fits = tokens <= budget;
                assert_eq!(run.status, if fits { 0 } else { 3 }, "{name} {options}: {run:?}");
                assert_eq!(folder.json("report")["after"]["tokens"], tokens, "{name} {options}");
                assert_eq!(folder.json("report")["meter"], meter);
                folder.assert_valid("out", "");
            }
        }
    }
}

#[test]
fn compacting_a_window_again_changes_nothing() {
    let folder = example_folder();
    for format in StoryFormat::ALL {
        folder.write(&format!("{format:?}.json"), story(format, 12));
    }
    for name in ["long-session.json", "Chat.json", "Responses.json", "Anthropic.json"] {
        for policy in POLICIES {
            for (budget, meter) in [
                (20, "chars:3.5"),
                (700, "chars:3.5"),
                (1_500, "chars:3.5"),
                (2_500, "o200k"),
                (6_000, "chars:3.5"),
                (30_000, "chars:3.5"),
            ] {
                let options = format!("--budget {budget} --policy {policy} --meter {meter}");
                let first = folder.run(&format!("compact {name} {options} -o one"));
                if policy == "trim" && first.status == 3 {
                    continue; // Below its floor, trim folds its own note.
                }
                let second = folder.run(&format!("compact one {options} -o two"));
                assert_eq!(first.status, second.status, "{name} {options}: {second:?}");
                assert!(folder.read("one") == folder.read("two"), "{name} {options}: {second:?}");
            }
        }
    }
}

#[test]
fn quiet_means_nothing_on_standard_error() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 8));
    for (budget, status) in [(20, 3), (2_000, 0), (100_000, 0)] {
        let run = folder.run(&format!("compact in.json --budget {budget} --quiet --map always"));
        assert_eq!((run.status, run.stderr.as_str()), (status, ""));
        assert!(!run.stdout.is_empty());
        let run =
            folder.run(&format!("compact in.json --budget {budget} -q -o out --report out.json"));
        assert_eq!((run.status, run.stderr.as_str(), run.stdout.as_str()), (status, "", ""));
        assert!(folder.json("out.json").is_object());
    }
}

#[test]
fn the_map_adds_up() {
    let folder = example_folder();
    for format in StoryFormat::ALL {
        folder.write(&format!("{format:?}.json"), story(format, 12));
    }
    for (name, meter, budget) in [
        ("long-session.json", "o200k", 8_000_u64),
        ("long-session.json", "cl100k", 20),
        ("Chat.json", "cl100k", 2_500),
        ("Responses.json", "o200k", 2_500),
        ("Anthropic.json", "o200k", 2_500),
        ("Anthropic.json", "cl100k", 200_000),
    ] {
        let options = format!("--budget {budget} --meter {meter}");
        let run = folder.run(&format!("compact {name} {options} --map always -o out"));
        let (used, free) = check_map(&run);
        let counted = folder.run(&format!("count out --json --meter {meter}")).json();
        let whole = counted["tokens"].as_u64().unwrap();
        let reply = counted["reply"].as_u64().unwrap();
        assert!((whole - reply..=whole).contains(&used), "{used} of {whole}: {run:?}");
        assert_eq!(free, budget.saturating_sub(used), "{run:?}");
    }
}

/// Reads a map: what its parts add up to, and what is free.
fn check_map(run: &FinishedRun) -> (u64, u64) {
    let bar = run.stderr.lines().find(|line| line.starts_with("  [")).unwrap();
    assert_eq!(bar.trim().chars().count(), 66, "{run:?}");
    assert!(!run.stderr.contains('\u{1b}'), "no colours without a terminal: {run:?}");
    let (mut used, mut free) = (0, None);
    for line in run.stderr.lines().filter(|line| line.ends_with('%')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let tokens: u64 = words[2].replace([',', '≈'], "").parse().unwrap();
        assert_eq!(words[3], "tokens", "{line}");
        if words[1] == "free" { free = Some(tokens) } else { used += tokens }
    }
    (used, free.unwrap())
}

#[test]
fn the_map_is_drawn_when_asked_for_or_on_a_terminal() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 8));
    for (when, drawn) in
        [("", false), ("--map auto", false), ("--map never", false), ("--map always", true)]
    {
        let run = folder.run(&format!("compact in.json --budget 2000 {when} -o out"));
        assert_eq!(run.stderr.contains(" free "), drawn, "{run:?}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let folder = example_folder();
    // More than a pipe holds, so that the writer notices.
    for line in
        ["compact long-session.json --budget 1m", "compact long-session.json --budget 60000"]
    {
        let mut child = folder.start(line);
        let mut head = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut head).unwrap();
        let run = FinishedRun::of(line, &child.wait_with_output().unwrap());
        assert_eq!(run.status, 0, "{run:?}");
        assert!(!run.stderr.contains("error"), "{run:?}");
        assert_eq!(head, folder.read("long-session.json").as_bytes()[..10]);
    }
}

#[test]
fn reserve_and_target_lower_what_is_used() {
    const METER: &str = "--meter chars:3.5";
    for format in StoryFormat::ALL {
        let folder = Folder::with("in.json", story(format, 12));
        let used = |options: &str| {
            let budget = if options.contains("--budget") { "" } else { "--budget 3000" };
            let run = folder.run(&format!("compact in.json {budget} {options} {METER} -o out"));
            assert_eq!(run.status, 0, "{run:?}");
            folder.count("out", METER)
        };
        let whole = used("");
        assert!((2_000..=3_000).contains(&whole), "{whole}");
        assert!(used("--reserve 1000") <= 2_000);
        assert!(used("--target 1500") <= 1_500);
        assert!(used("--reserve 500 --target 2000") <= 2_000);
        assert_eq!(used("--target 9k"), whole, "a target above the budget is the budget");
        assert!(used("--budget 6000 --policy elide --target 5500") <= 5_500);
        assert!(used("--policy trim --target 1500") <= 1_500);

        // The target matters only once the budget is used up.
        let run = folder.run("compact in.json --budget 1m --target 10");
        assert!(run.stdout == folder.read("in.json"), "{run:?}");
        // What is kept free counts as used.
        let size = folder.count("in.json", METER);
        let run =
            folder.run(&format!("compact in.json --budget {size} --reserve 1 {METER} -o out"));
        assert_eq!(run.status, 0, "{run:?}");
        assert!(folder.count("out", METER) < size);
    }
}

#[test]
fn the_tail_stays_as_it_was() {
    for format in StoryFormat::ALL {
        let text = story(format, 12);
        let body: Value = serde_json::from_str(&text).unwrap();
        let messages = body[format.field()].as_array().unwrap();
        let raws: Vec<_> = messages.iter().map(ToString::to_string).collect();
        let folder = Folder::with("in.json", &text);
        for policy in ["auto", "elide"] {
            for tail in [0, 1, 4, 9, 20] {
                let options = format!("--policy {policy} --keep-tail {tail} --meter chars:3.5");
                let run = folder.run(&format!("compact in.json --budget 3500 {options} -o out"));
                assert!([0, 3].contains(&run.status), "{run:?}");
                let kept = raws[raws.len() - tail..].join(",");
                // Thinking goes once anything before it is edited.
                if format != StoryFormat::Anthropic || !kept.contains("signature") {
                    assert!(folder.read("out").contains(&kept), "{format:?} {policy} {tail}");
                }
            }
        }
    }
}

#[test]
fn system_and_newest_user_message_are_never_touched_and_the_first_only_at_last() {
    let rules = "s Obey. 300tk | u the goal is g-42 400tk";
    let work: String = (1..40).map(|n| format!(" | a 60tk call:read#{n} | t #{n} 300tk")).collect();
    let text = notation::chat(&format!("{rules}{work} | a 200tk | u now do this 350tk")) + "\n";
    let messages: Vec<Value> = serde_json::from_str(&text).unwrap();
    let folder = Folder::with("in.json", &text);
    for budget in [20, 1_600, 2_500, 6_000] {
        let run = folder.run(&format!("compact in.json --budget {budget} -o out"));
        assert_eq!(run.status, if budget == 20 { 3 } else { 0 }, "{run:?}");
        let window: Vec<Value> = serde_json::from_str(&folder.read("out")).unwrap();
        for message in [&messages[0], messages.last().unwrap()] {
            assert!(window.contains(message), "{budget}: {message}");
        }
        assert_eq!(window.contains(&messages[1]), budget > 20, "{budget}");
    }
}

#[test]
fn agents_that_act_in_text_can_fit_too() {
    let mut turns = "u Fix the build of g-7.".to_owned();
    for n in 1..30 {
        turns += &format!(" | a Next. ```ls {n}``` | u Observation: exit {n} 500tk");
    }
    let text = notation::chat(&format!("{turns} | a ```make``` | u Observation: done 40tk"));
    let folder = Folder::with("in.json", text);
    let run = folder.run("compact in.json --budget 2500 -o out");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.count("out", "") <= 2_500);
    folder.assert_valid("out", "");
    let window = folder.read("out");
    assert!(window.contains("Fix the build of g-7.") && window.contains("Observation: done"));
}

#[test]
fn repair_answers_calls_and_quotes_orphans() {
    let user = r#"{"role":"user","content":"go"}"#;
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#;
    let orphan = r#"{"role":"tool","tool_call_id":"c9","content":"first\nsecond"}"#;
    let using =
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"ls","input":{}}]}"#;
    let stray = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c9","content":"first\nsecond"}]}"#;
    let item = r#"{"type":"function_call","call_id":"c1","name":"ls","arguments":"{}"}"#;
    let output = r#"{"type":"function_call_output","call_id":"c9","output":"first\nsecond"}"#;
    for (dialect, text) in [
        ("chat", format!("[{user},{call},{orphan},{user}]")),
        ("chat", format!("{{\"messages\":[{user},{orphan},{call}]}}")),
        ("anthropic", format!("{{\"system\":\"s\",\"messages\":[{user},{using},{stray}]}}")),
        ("anthropic", format!("{{\"system\":\"s\",\"messages\":[{user},{using},{user},{stray}]}}")),
        ("responses", format!("{{\"input\":[{user},{item},{output},{user}]}}")),
        ("responses", format!("{{\"input\":[{user},{output},{item}]}}")),
    ] {
        let folder = Folder::with("in.json", &text);
        folder.run("compact in.json --budget 5000 -o out").assert_refused(&["--repair"]);
        let run = folder.run("compact in.json --budget 5000 --repair -o out");
        assert_eq!(run.status, 0, "{text}: {run:?}");
        assert!(run.stderr.contains(&format!("({dialect}, ")), "{run:?}");
        folder.assert_valid("out", &format!("--dialect {dialect}"));
        let mended = folder.read("out");
        assert_eq!(mended.matches("no result was recorded").count(), 1, "{mended}");
        assert!(mended.contains(r"> first\n> second"), "{mended}");
        for kept in [user, call, using, item].iter().filter(|kept| text.contains(**kept)) {
            assert!(mended.contains(*kept), "{kept} in {mended}");
        }
        // What is whole is left alone.
        let again = folder.run("compact out --budget 5000 --repair -o again");
        assert_eq!(again.status, 0, "{again:?}");
        assert_eq!(folder.read("again"), mended);
    }
}

#[test]
fn repair_moves_late_results_to_their_calls() {
    let text = notation::chat("u go | a call:ls#1 | u hurry | t #1 late");
    let folder = Folder::with("in.json", text);
    let run = folder.run("compact in.json --budget 5000 --repair -o out");
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(folder.read("out"), notation::chat("u go | a call:ls#1 | t #1 late | u hurry"));
}

#[test]
fn repair_leaves_alone_what_it_cannot_mend() {
    let text = r#"[{"role":"user","content":"go"},{"role":"robot","content":7}]"#;
    let folder = Folder::with("in.json", text);
    let run = folder.run("compact in.json --budget 5000 --repair -o out");
    run.assert_refused(&["[1].role", "\"robot\"", "[1].content", "hint: --repair"]);
    assert_eq!(folder.names(), ["in.json"]);
}

#[test]
fn repair_and_compaction_go_together() {
    let text =
        story(StoryFormat::Chat, 8).replacen(r#""tool_call_id":"r1""#, r#""tool_call_id":"q1""#, 1);
    let folder = Folder::with("in.json", text);
    let run = folder.run("compact in.json --budget 2000 --repair -o out --archive kept");
    assert_eq!(run.status, 0, "{run:?}");
    folder.assert_valid("out", "");
    assert!(folder.count("out", "") <= 2_000);
}

#[test]
fn short_bodies_are_left_alone() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 8));
    let stubs = |min: usize| {
        let line = format!("compact in.json --budget 3000 --policy elide --min-chars {min}");
        folder.run(&format!("{line} -o out --report report"));
        folder.json("report")["stubbed"].as_array().unwrap().len()
    };
    assert!(stubs(256) > 0);
    assert_eq!(stubs(1_000_000), 0);
}

#[test]
fn count_lists_every_message_and_adds_up() {
    for format in StoryFormat::ALL {
        let folder = Folder::with("in.json", story(format, 3));
        for meter in METERS {
            let json = folder.run(&format!("count in.json --json --meter {meter}")).json();
            let number = |value: &Value| value.as_u64().unwrap();
            let messages = json["messages"].as_array().unwrap();
            let sum: u64 = messages.iter().map(|message| number(&message["tokens"])).sum();
            let whole = sum + number(&json["attributes"]) + number(&json["reply"]);
            assert_eq!(number(&json["tokens"]), whole);
            assert_eq!(json["bytes"], folder.read("in.json").len());
            let quiet = folder.run(&format!("count in.json -q --meter {meter}"));
            assert_eq!(quiet.stdout, format!("{whole}\n"));
            let lines = folder.run(&format!("count in.json --messages --meter {meter}")).stdout;
            assert_eq!(lines.lines().count(), messages.len() + 1, "{lines}");
        }
    }
}

#[test]
fn text_cannot_command_the_terminal() {
    let escape = r"\u001b[2J\u0007\u009b1m";
    let text = format!(r#"[{{"role":"{escape}","content":"{escape}"}}]"#);
    let folder = Folder::with("in.json", text);
    for line in [
        "check in.json",
        "count in.json",
        "count in.json --messages",
        "compact in.json --budget 99",
    ] {
        let run = folder.run(line);
        let said = run.stdout + &run.stderr;
        let obeyed: Vec<_> = said.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert_eq!(obeyed, [], "{line}: {said:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_replaced_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 3));
    folder.write("out", "before");
    fs::set_permissions(folder.path("out"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(folder.run("compact in.json --budget 1000 -o out").status, 0);
    let mode = fs::metadata(folder.path("out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn what_is_only_too_much_is_compacted() {
    let image = r#"{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}"#;
    let turns: Vec<String> = (0..31)
        .map(|_| {
            let images = [image; 20].join(",");
            let user = format!(r#"{{"role":"user","content":[{images}]}}"#);
            format!(r#"{user},{{"role":"assistant","content":"a wheel"}}"#)
        })
        .collect();
    let list = format!(r#"[{},{{"role":"user","content":"and?"}}]"#, turns.join(","));
    let folder = Folder::with("in.json", list);
    let check = folder.run("check in.json --dialect anthropic");
    assert_eq!(check.status, 1, "{check:?}");
    assert!(check.stdout.contains("620 images; at most 600 are taken"), "{check:?}");
    let run = folder.run("compact in.json --dialect anthropic --budget 200k -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    folder.assert_valid("out.json", "--dialect anthropic");
    // The number of pictures is planned for, even if all the tokens fit.
    let run = folder.run("compact in.json --dialect anthropic --budget 9000k -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    folder.assert_valid("out.json", "--dialect anthropic");
    assert!(folder.read("out.json").matches("base64").count() <= 600, "{run:?}");
}
