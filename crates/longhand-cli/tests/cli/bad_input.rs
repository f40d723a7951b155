//! Input that cannot be used is refused with its place, and nothing is written.

use std::fs;

use crate::run::{Folder, names};
use crate::story::{StoryFormat, story};

const USER: &str = r#"{"role":"user","content":"go"}"#;
const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#;
const RESULT: &str = r#"{"role":"tool","tool_call_id":"c1","content":"ok"}"#;
const USE: &str =
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{}}]}"#;
const USED: &str =
    r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}"#;
const ITEM: &str = r#"{"type":"function_call","call_id":"f1","name":"ls","arguments":"{}"}"#;
const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"f1","output":"ok"}"#;

/// Compacts `input`, which must be refused with all of `words`, and leave no trace.
fn refused(input: impl AsRef<[u8]>, words: &[&str]) {
    let folder = Folder::with("in.json", input);
    folder.run("compact in.json --budget 1000 -o out.json").assert_refused(words);
    assert_eq!(folder.names(), ["in.json"]);
    folder.write("out.json", "before");
    folder
        .run("compact in.json --budget 1000 -o out.json --report report.json")
        .assert_refused(words);
    assert_eq!(folder.names(), ["in.json", "out.json"]);
    assert_eq!(folder.read("out.json"), "before");
    // These may have an answer, but never a panic.
    for command in ["count in.json", "count in.json --json", "compact in.json --budget 9 --repair"]
    {
        folder.run(&format!("{command} --meter chars:3.5"));
    }
}

/// Input that is no conversation at all: every command says so.
fn unreadable(input: impl AsRef<[u8]>, words: &[&str]) {
    refused(&input, words);
    let folder = Folder::with("in.json", input);
    for command in ["check in.json", "count in.json"] {
        folder.run(command).assert_refused(words);
    }
}

/// Input that can be read but that no provider takes: `check` names the same places.
fn invalid(input: &str, words: &[&str]) {
    refused(input, words);
    let folder = Folder::with("in.json", input);
    let check = folder.run("check in.json");
    assert_eq!(check.status, 1, "{check:?}");
    assert!(check.stdout.contains("not valid: "), "{check:?}");
    let is_hint = |word: &str| word.starts_with("hint") || word.starts_with("--");
    for word in words.iter().filter(|word| !is_hint(word)) {
        assert!(check.stdout.contains(word), "no {word:?} in {check:?}");
    }
    let json = folder.run("check in.json --json");
    assert_eq!((json.status, json.json()["valid"].as_bool()), (1, Some(false)), "{json:?}");
    let findings = json.json()["findings"].as_array().unwrap().clone();
    let grave: Vec<_> = findings.iter().filter(|found| found["severity"] == "violation").collect();
    assert!(!grave.is_empty() && grave.iter().all(|found| found["at"] != ""), "{json:?}");
    let quiet = folder.run("check in.json --quiet");
    assert_eq!((quiet.status, quiet.stdout.as_str(), quiet.stderr.as_str()), (1, "", ""));
}

/// A conversation that fits comes out as it went in.
fn passes(input: &str) {
    let folder = Folder::with("in.json", input);
    let run = folder.run("compact in.json --budget 10m -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.read("out.json") == input, "{run:?}");
    folder.assert_valid("out.json", "");
}

#[test]
fn text_that_is_not_json_is_named_by_line_and_column() {
    for (input, words) in [
        ("", &["in.json", "the input is empty"][..]),
        (" \n\t ", &["in.json", "the input is empty"]),
        ("hello", &["in.json", "line 1, column 1", "expected `{` or `[`"]),
        ("\n  null", &["line 2, column 3", "expected `{` or `[`"]),
        ("17", &["line 1, column 1"]),
        ("\"text\"", &["line 1, column 1"]),
        (
            "[{\"role\":\"user\"",
            &["line 1, column 16", "(in [0])", "ends", "hint: the file looks cut off"],
        ),
        (
            "{\"messages\":[\n{\"role\":\"user\",\"content\":\"a\"},\n{\"role\":\"us",
            &["line 3, column 9", "(in messages[1])", "no end"],
        ),
        ("{\"input\":[{\"role\":\"user\",\"content\":\"a", &["(in input[0])", "no end"]),
        ("[{\"role\":\"user\",\"content\":\"a\"},]", &["line 1, column 32", "(in [1])"]),
        ("[{\"role\" \"user\"}]", &["line 1, column 10", "(in [0])"]),
        ("[{\"role\":\"user\",\"content\":\"a\nb\"}]", &["(in [0])", "control character"]),
        ("[{'role':'user'}]", &["line 1, column 3", "(in [0])"]),
        ("[] []", &["line 1, column 4"]),
        ("{\"messages\":[]} x", &["line 1, column 17"]),
    ] {
        unreadable(input, words);
    }
    // Agents pass a line over that is still being written, and so does what only counts.
    let growing = Folder::with("in.json", "{\"type\":\"user\",\"message\":{}}\n{\"type\":");
    for command in ["compact in.json --budget 900", "check in.json"] {
        growing.run(command).assert_refused(&["line 2", "ends"]);
    }
    assert!(growing.run("count in.json").stdout.contains("1 line that cannot be read"));
    unreadable(b"\xff\xfe{\x00}\x00", &["in.json", "byte 0", "not UTF-8"]);
    unreadable(b"[{\"role\":\"user\",\"content\":\"caf\xe9\"}]", &["byte 30", "not UTF-8"]);
    unreadable(b"\x28\xb5\x2f\xfd and no more", &["in.json", "zstd"]);
}

#[test]
fn every_cut_of_a_conversation_is_refused_without_a_trace() {
    let whole = format!("{{\"messages\":[{USER},{CALL},{RESULT},{USER}],\"model\":\"gpt-4o\"}}");
    let folder = Folder::new();
    for cut in (0..whole.len()).step_by(7) {
        folder.write("in.json", &whole[..cut]);
        let run = folder.run("compact in.json --budget 1000 -o out.json");
        run.assert_refused(&["in.json: "]);
        assert_eq!(folder.names(), ["in.json"], "cut at {cut}");
    }
}

#[test]
fn json_that_is_no_conversation_is_refused() {
    for input in [
        "{}",
        r#"{"messages":5}"#,
        r#"{"messages":null}"#,
        r#"{"messages":{"role":"user","content":"a"}}"#,
        r#"{"input":5}"#,
        r#"{"model":"gpt-4o"}"#,
        "{\"a\":1}\n{\"b\":2}\n",
    ] {
        unreadable(input, &["in.json", "no conversation", "`", "hint: "]);
    }
}

#[test]
fn wrong_types_are_named_by_message_and_field() {
    let chat = |message: &str| format!("{{\"messages\":[{USER},{message}]}}");
    for (message, words) in [
        ("5", &["messages[1]: expected a message, found a number"][..]),
        ("null", &["messages[1]: expected a message"]),
        ("[]", &["messages[1]: expected a message, found an array"]),
        (r#"{"role":"robot","content":"a"}"#, &["messages[1].role: unknown role \"robot\""]),
        (r#"{"role":5,"content":"a"}"#, &["messages[1].role: "]),
        (r#"{"content":"a"}"#, &["messages[1].role: a message needs a role"]),
        (r#"{"role":"user"}"#, &["messages[1].content: "]),
        (r#"{"role":"user","content":null}"#, &["messages[1].content: "]),
        (r#"{"role":"user","content":7}"#, &["messages[1].content: expected a string or a list"]),
        (r#"{"role":"user","content":{}}"#, &["messages[1].content: ", "found an object"]),
        (r#"{"role":"user","content":[]}"#, &["messages[1].content: ", "empty"]),
        (r#"{"role":"user","content":[7]}"#, &["messages[1].content[0]: expected a part"]),
        (r#"{"role":"user","content":[{"text":"a"}]}"#, &["messages[1].content[0].type: "]),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":9}]}"#,
            &["messages[1].content[1].text: expected a string"],
        ),
        (
            r#"{"role":"user","content":[{"type":"image_url","image_url":5}]}"#,
            &["messages[1].content[0].image_url.url: "],
        ),
        (r#"{"role":"assistant","content":null}"#, &["messages[1].content: "]),
        (
            r#"{"role":"assistant","tool_calls":{"id":"c1"}}"#,
            &["messages[1].tool_calls: expected a list of calls, found an object"],
        ),
        (r#"{"role":"assistant","tool_calls":[]}"#, &["messages[1].tool_calls: "]),
        (r#"{"role":"assistant","tool_calls":[7]}"#, &["messages[1].tool_calls[0].id: "]),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{}}}]}"#,
            &["messages[1].tool_calls[0].function.arguments: expected a string"],
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"arguments":"{}"}}]}"#,
            &["messages[1].tool_calls[0].function.name: "],
        ),
        (r#"{"role":"tool","content":"a"}"#, &["messages[1].tool_call_id: "]),
        (r#"{"role":"tool","tool_call_id":7,"content":"a"}"#, &["messages[1].tool_call_id: "]),
    ] {
        invalid(&chat(message), words);
    }
    let third_is_a_string = format!("{{\"messages\":[{USER},{USER},{USER},\"text\"]}}");
    invalid(&third_is_a_string, &["messages[3]: expected a message, found a string"]);
    invalid(&format!("[{USER},7]"), &["[1]: expected a message, found a number", "hint: "]);
}

#[test]
fn wrong_types_of_other_dialects_are_named_too() {
    let anthropic = |message: &str| format!("{{\"system\":\"s\",\"messages\":[{USER},{message}]}}");
    for (message, words) in [
        (r#"{"role":"tool","content":"a"}"#, &["messages[1].role: unknown role \"tool\""][..]),
        (r#"{"role":"assistant"}"#, &["messages[1].content: "]),
        (r#"{"role":"assistant","content":7}"#, &["messages[1].content: ", "found a number"]),
        (r#"{"role":"assistant","content":" \n"}"#, &["messages[1].content: ", "white space"]),
        (r#"{"role":"assistant","content":["a"]}"#, &["messages[1].content[0]: expected a block"]),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":"x"}]}"#,
            &["messages[1].content[0].input: expected an object"],
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"a b","name":"f","input":{}}]}"#,
            &["messages[1].content[0].id: "],
        ),
        (
            r#"{"role":"user","content":[{"type":"tool_result","content":"x"}]}"#,
            &["messages[1].content[0].tool_use_id: "],
        ),
    ] {
        invalid(&anthropic(message), words);
    }
    invalid(r#"{"system":5,"messages":[{"role":"user","content":"a"}]}"#, &["system: "]);
    invalid(
        r#"{"system":"s","messages":[{"role":"assistant","content":"a"}]}"#,
        &["messages[0]", "the first message must be the user's"],
    );

    let responses = |item: &str| format!("{{\"input\":[{USER},{item}]}}");
    for (item, words) in [
        ("5", &["input[1]: expected an item, found a number"][..]),
        (r#"{"role":"robot","content":"a"}"#, &["input[1].role: unknown role \"robot\""]),
        (r#"{"role":"user","content":7}"#, &["input[1].content: "]),
        (
            r#"{"role":"user","content":[{"type":"input_text","text":7}]}"#,
            &["input[1].content[0].text: "],
        ),
        (r#"{"type":"function_call","name":"f","arguments":"{}"}"#, &["input[1].call_id: "]),
        (
            r#"{"type":"function_call","call_id":"f1","name":"f","arguments":{}}"#,
            &["input[1].arguments: "],
        ),
    ] {
        invalid(&responses(item), words);
    }
}

#[test]
fn calls_and_results_that_do_not_match_are_named() {
    let twice = CALL.replace(
        "[{",
        r#"[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}},{"#,
    );
    for (input, words) in [
        (
            format!("[{USER},{twice},{RESULT},{RESULT}]"),
            &["chat", "[1]", "the call id \"c1\" is used in [1] already"][..],
        ),
        (format!("[{USER},{RESULT}]"), &["chat", "[1]", "the result of \"c1\"", "--repair"]),
        (format!("[{USER},{CALL}]"), &["chat", "[1]", "the call \"c1\" has no result", "--repair"]),
        (
            format!("[{USER},{CALL},{USER},{RESULT}]"),
            &["[1]", "the call \"c1\" has no result", "[3]", "the result of \"c1\""],
        ),
        (format!("[{USER},{CALL},{RESULT},{RESULT}]"), &["[3]", "\"c1\""]),
        (format!("[{USER},{USE}]"), &["anthropic", "[1]", "the call \"t1\" has no result"]),
        (format!("[{USED}]"), &["anthropic", "[0]", "the result of \"t1\" has no call"]),
        (
            format!("{{\"system\":\"s\",\"messages\":[{USER},{USE},{USED},{USE},{USED}]}}"),
            &["messages[3]", "the call id \"t1\" is used in messages[1] already"],
        ),
        (
            format!("{{\"input\":[{USER},{ITEM},{OUTPUT},{ITEM},{OUTPUT}]}}"),
            &["input[3]", "the call id \"f1\" is used in input[1] already"],
        ),
        (
            format!("{{\"input\":[{USER},{ITEM}]}}"),
            &["responses", "input[1]", "the call \"f1\" has no result"],
        ),
        (
            format!("{{\"input\":[{USER},{OUTPUT}]}}"),
            &["responses", "input[1]", "the result of \"f1\" has no call"],
        ),
    ] {
        invalid(&input, words);
    }
}

#[test]
fn many_violations_are_cut_short_but_counted() {
    let bad: Vec<_> = (0..9).map(|_| r#"{"role":"robot","content":"a"}"#).collect();
    refused(format!("[{}]", bad.join(",")), &["[0].role", "[4].role", "and 4 more"]);
}

#[test]
fn nothing_much_is_still_a_conversation() {
    for input in [
        "[]",
        "[ ]\n",
        r#"{"messages":[]}"#,
        r#"{"input":[]}"#,
        r#"{"input":"hello"}"#,
        &format!("[{USER}]"),
        &format!("\n [ {USER} ] \n"),
    ] {
        passes(input);
    }
}

#[test]
fn deep_nesting_is_an_answer_and_no_crash() {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let object = "{\"a\":".repeat(100_000);
    let closed = format!("{object}1{}", "}".repeat(100_000));
    refused(format!("{open}{close}"), &["[0]: expected a message, found an array"]);
    unreadable(&open, &["line 1, column 100001", "(in [0])", "ends"]);
    unreadable(&object, &["in.json", "ends"]);
    unreadable(&closed, &["no conversation"]);
    unreadable(format!("{open}}}{close}"), &["line 1, column 100001", "(in [0])"]);
}

#[test]
fn deep_nesting_inside_a_valid_conversation_survives_as_it_is() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let call = CALL.replace(r#""{}""#, &format!("\"{{\\\"deep\\\":{deep}}}\""));
    passes(&format!("[{USER},{call},{RESULT}]"));
    passes(&format!(r#"[{{"role":"user","content":"go","unknown":{deep}}},{CALL},{RESULT}]"#));
    passes(&format!(r#"{{"unknown":{deep},"messages":[{USER}]}}"#));
    let used = USE.replace(r#""input":{}"#, &format!(r#""input":{{"deep":{deep}}}"#));
    passes(&format!("[{USER},{used},{USED}]"));
    passes(&format!("{{\"type\":\"user\",\"message\":{USER},\"uuid\":\"1\",\"extra\":{deep}}}\n"));

    // Also when the message beside it is edited.
    let mut text = story(StoryFormat::Chat, 6);
    text = text.replacen(r#"{"role":"#, &format!(r#"{{"unknown":{deep},"role":"#), 1);
    let folder = Folder::with("in.json", &text);
    let run = folder.run("compact in.json --budget 2000 -o out.json");
    assert_eq!(run.status, 0, "{run:?}");
    assert!(folder.read("out.json").contains(&deep));
    folder.assert_valid("out.json", "");
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let folder = Folder::with("in.json", format!("[{USER}]"));
    let size = format!("[{USER}]").len();
    for command in ["check in.json", "count in.json", "compact in.json --budget 99 -o out.json"] {
        assert_eq!(folder.run(&format!("{command} --max-input {size}")).status, 0);
        let less = folder.run(&format!("{command} --max-input {}", size - 1));
        less.assert_refused(&["in.json has more than 31 bytes", "hint: --max-input"]);
    }
    let pipe = folder.run_fed("compact --budget 99 --max-input 10", format!("[{USER}]").as_bytes());
    pipe.assert_refused(&["standard input", "hint: --max-input"]);

    // The message has the whole size: it was asked for, not found by reading.
    let folder = Folder::new();
    fs::File::create(folder.path("in.json")).unwrap().set_len(1 << 30).unwrap();
    for command in ["check in.json", "count in.json", "compact in.json --budget 99 -o out.json"] {
        let run = folder.run(command);
        run.assert_refused(&["in.json has more than 256,000,000 bytes", "hint: --max-input"]);
    }
    assert_eq!(folder.names(), ["in.json"]);
}

#[test]
fn files_that_are_none_are_named() {
    let folder = Folder::new();
    fs::create_dir(folder.path("folder")).unwrap();
    for command in ["check", "count", "compact --budget 99 -o out.json"] {
        folder
            .run(&format!("{command} missing.json"))
            .assert_refused(&["cannot open missing.json"]);
        folder.run(&format!("{command} folder")).assert_refused(&["cannot read folder"]);
    }
    assert_eq!(folder.names(), ["folder"]);
}

#[test]
fn bad_usage_says_what_would_do() {
    let folder = Folder::with("in.json", format!("[{USER}]"));
    for (options, words) in [
        ("--budget 0", &["a budget of 0", "hint: "][..]),
        ("--budget 100 --reserve 100", &["a reserve of 100", "a budget of 100"]),
        ("--budget 100 --reserve 1k", &["a reserve of 1000", "a budget of 100"]),
        ("--budget -5", &["--budget"]),
        ("--budget many", &["--budget", "`many`", "8000 or 32k"]),
        ("--budget 99999999999999999999", &["--budget"]),
        ("", &["--budget"]),
        ("--budget 99 --dialect klingon", &["--dialect", "`klingon`", "claude-code"]),
        ("--budget 99 --meter scales", &["--meter", "`scales`", "o200k", "chars:3.5"]),
        ("--budget 99 --meter chars:0", &["--meter"]),
        ("--budget 99 --meter chars:nan", &["--meter"]),
        ("--budget 99 --meter missing/tokenizer.json", &["missing/tokenizer.json"]),
        ("--budget 99 --policy guess", &["--policy", "guess", "auto", "elide", "trim"]),
        ("--budget 99 --keep-tail -1", &["-1"]),
        ("--budget 99 --map sometimes", &["--map", "always"]),
        ("--budget 99 --report -", &["-o FILE"]),
        ("--budget 99 --surprise", &["--surprise"]),
    ] {
        let output = if options.contains("--report") { "" } else { "-o out.json" };
        folder.run(&format!("compact in.json {output} {options}")).assert_refused(words);
        assert_eq!(folder.names(), ["in.json"], "{options}");
    }
    folder.run("compact in.json --budget 99 -o - --report -").assert_refused(&["-o FILE"]);
    folder.run("ponder in.json").assert_refused(&["ponder"]);
}

#[test]
fn a_dialect_that_it_is_not_in_names_what_is_wrong() {
    let folder = Folder::with("in.json", format!("[{USER},{CALL},{RESULT}]"));
    let run = folder.run("compact in.json --budget 99 --dialect anthropic -o out.json");
    run.assert_refused(&["anthropic", "[1].content", "[2].role: unknown role \"tool\""]);
    assert_eq!(folder.names(), ["in.json"]);
}

#[test]
fn output_that_cannot_be_written_is_an_error_without_a_trace() {
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 6));
    fs::create_dir(folder.path("folder")).unwrap();
    for (options, word) in [
        ("-o missing/out.json", "cannot write missing/out.json"),
        ("-o in.json/out.json", "cannot write in.json/out.json"),
        ("-o folder", "cannot write folder"),
        ("-o folder/out.json --archive in.json/kept", "in.json/kept cannot be written"),
        ("-o folder/out.json --archive folder", "folder"),
        ("-o folder/out.json --archive in.json", "in.json is not an archive"),
    ] {
        let before = folder.read("in.json");
        folder.run(&format!("compact in.json --budget 2000 {options}")).assert_refused(&[word]);
        assert_eq!(folder.names(), ["folder", "in.json"], "{options}");
        assert_eq!(names(&folder.path("folder")), [""; 0], "{options}");
        assert!(folder.read("in.json") == before, "{options}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_read_only_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with("in.json", story(StoryFormat::Chat, 6));
    let locked = folder.path("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write anywhere");
        return;
    }
    for (options, words) in [
        ("-o locked/out.json", &["cannot write locked/out.json", "ermission denied"]),
        (
            "-o out.json --archive locked/kept",
            &["locked/kept cannot be written", "ermission denied"],
        ),
    ] {
        folder.run(&format!("compact in.json --budget 2000 {options}")).assert_refused(words);
        assert_eq!(names(&locked), [""; 0]);
        assert_eq!(folder.names(), ["in.json", "locked"]);
    }
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    let json = r#"{"tools":5,"messages":[{"role":"user","content":"go"}]}"#;
    let folder = Folder::with("in.json", json);
    let run = folder.run("check in.json");
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.stdout.contains("tools: expected an array, found a number"), "{run:?}");
    folder.run("compact in.json --budget 1000").assert_refused(&["tools: expected an array"]);
}
