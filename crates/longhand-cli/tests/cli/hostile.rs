//! Names and texts that would control the terminal, planted wherever others may write, and every command that shows them.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use serde_json::{Value, json};

use crate::documents::run_raw;
use crate::run::{Folder, OWN_SETTINGS};
use crate::serve::ServedProxy;

/// Sets the title, clears the screen, turns text around, forges a line.
const EVIL: &str = "a\u{1b}]0;evil\u{7}\u{1b}[2J\u{9b}31m\u{202e}evil\u{2066}\u{200f}\u{feff}\u{7f}\u{8}\u{2028}\rz";

/// Commands that write what programs read: exact if piped, clean on a terminal.
const DATA: [&str; 6] = ["compact", "context", "expand", "export", "completions", "resume"];

fn is_harmful(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{61c}');
    turns || (c.is_control() && !"\n\t".contains(c))
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let found: BTreeSet<char> = text.chars().filter(|c| is_harmful(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
}

fn piped(folder: &Folder, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
        .args(args)
        .current_dir(folder.path(""))
        .env("HOME", folder.path(""))
        .env("XDG_DATA_HOME", folder.path("data"))
        .env("XDG_CONFIG_HOME", folder.path("config"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What a terminal is sent, but for the line breaks and the progress line that are ours.
fn on_terminal(folder: &Folder, args: &[&str]) -> String {
    let words: Vec<String> =
        args.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
    let line = format!("echo hi | longhand {}", words.join(" "));
    let data = folder.path("data").display().to_string();
    let (output, _) = run_raw(folder, &line, 100, &[("XDG_DATA_HOME", &data)]);
    let mut text = String::new();
    for line in output.replace("\r\n", "\n").split_inclusive('\n') {
        text.push_str(line.rsplit("\r\u{1b}[K").next().unwrap_or(line));
    }
    text
}

/// A request with something hostile in every field that a name or a text stands in.
fn request() -> serde_json::Value {
    let call = json!({"id": "c1", "type": "function", "function": {"name": EVIL, "arguments": json!({"path": EVIL}).to_string()}});
    let words = format!("{EVIL} word ").repeat(400);
    json!({
        "model": EVIL,
        "tools": [{"type": "function", "function": {"name": EVIL, "description": EVIL}}],
        "messages": [
            {"role": "system", "content": EVIL},
            {"role": "user", "content": format!("{EVIL} find the needle")},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": words},
            {"role": "assistant", "content": format!("{EVIL} decided: {EVIL}")},
            {"role": "user", "content": format!("{EVIL} go on")},
        ],
    })
}

/// An archive, files, settings and a server that are all hostile.
fn planted(server: &ScriptedServer) -> Folder {
    let model = format!("fake/{EVIL}");
    let quoted = |text: &str| serde_json::to_string(text).unwrap().replace('\u{7f}', "\\u007f");
    let settings = format!(
        "[models]\nchat = {}\n[endpoints.fake]\nurl = {}\napi = 'chat'\n",
        quoted(&model),
        quoted(&server.url())
    );
    let folder = Folder::with(OWN_SETTINGS, settings);
    folder.write(&format!("{EVIL}.json"), request().to_string());
    folder.write(&format!("{EVIL}.bad.json"), format!("[{{\"role\": \"{EVIL}\"}}, {EVIL}]"));
    folder.write("role.json", json!([{"role": EVIL, "content": EVIL}]).to_string());
    folder
        .write(&format!("{EVIL}/longhand.toml"), format!("[models]\nchat = {}\n", quoted(&model)));
    folder.write(&format!("{EVIL}.agent"), "#!/bin/sh\nexit 0\n");
    let agent = folder.path(&format!("{EVIL}.agent"));
    std::fs::set_permissions(agent, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut rounds = String::new();
    for number in 0..14 {
        let assistant = format!("{EVIL} decided {number}: {}", "word ".repeat(120));
        let round = json!({
            "user": format!("{EVIL} needle {number}"), "assistant": assistant,
            "tool_calls": [{"name": EVIL, "summary": EVIL}],
        });
        rounds += &format!("{round}\n");
    }
    let args = ["record", EVIL, "--archive", "a.db", "--policy", "rolling"];
    assert!(piped(&folder, &args, &rounds).status.success());
    folder
}

/// A proxy between a hostile client and a hostile server says nothing harmful, in its log either.
fn proxied(folder: &Folder) {
    let body = json!({"error": {"message": EVIL, "type": EVIL, "code": EVIL}}).to_string();
    let kind = vec![("content-type", "application/json".to_owned())];
    let server = ScriptedServer::start([
        ScriptStep::Answer(EVIL.to_owned()),
        ScriptStep::Raw(400, kind, body),
        ScriptStep::Drop,
    ]);
    let proxy =
        ServedProxy::start(folder, &format!("--upstream {} --budget 2000 --log -", server.url()));
    for _ in 0..3 {
        let header = "user-agent: \u{202e}evil/1.0\r\nauthorization: Bearer \u{202e}evil";
        proxy.post_with("/v1/chat/completions", &request(), header);
    }
    proxy.post_with("/v1/chat/completions", &json!({"messages": EVIL}), "x-longhand-session: s");
    let said = proxy.end();
    assert_clean("serve", &said);
    assert!(said.contains("\"session\""), "the log has lines: {said}");
}

#[test]
fn no_command_lets_foreign_text_control_the_terminal() {
    let models = json!({"data": [{"id": EVIL}, {"id": format!("{EVIL}2")}]}).to_string();
    let kind = vec![("content-type", "application/json".to_owned())];
    let refusal = json!({"error": {"message": EVIL}}).to_string();
    let mut answers = 0;
    let server = ScriptedServer::playing(1_000, move |request| {
        answers += 1;
        Some(match request.path.contains("models") {
            true => ScriptStep::Raw(200, kind.clone(), models.clone()),
            false if answers % 2 == 0 => ScriptStep::Answer(EVIL.to_owned()),
            false => ScriptStep::Raw(400, kind.clone(), refusal.clone()),
        })
    });
    let folder = planted(&server);
    proxied(&folder);
    let listed = piped(&folder, &["context", EVIL, "--archive", "a.db", "--policy", "rolling"], "");
    let window = String::from_utf8(listed.stdout).unwrap();
    let handle = window.split("h:").nth(1).map(|rest| format!("h:{}", &rest[..12])).unwrap();
    let (file, bad) = (format!("{EVIL}.json"), format!("{EVIL}.bad.json"));
    let (name, file, bad, handle) = (EVIL, file.as_str(), bad.as_str(), handle.as_str());
    let in_archive = ["--archive", "a.db"];
    let (elsewhere, copy) = (format!("{EVIL}/none.db"), format!("{EVIL}.db"));
    let second = format!("{EVIL}.second.db");
    let (upstream, agent) = (server.url(), format!("./{EVIL}.agent"));
    let commands: Vec<(&str, Vec<&str>)> = vec![
        ("ls", vec!["ls"]),
        ("ls --all", vec!["ls", "--all"]),
        ("show", vec!["show", name]),
        ("show a beginning", vec!["show", "a\u{1b}]0"]),
        ("show what is not there", vec!["show", "\u{202e}none\u{1b}[2J"]),
        ("log", vec!["log", name]),
        ("search", vec!["search", "needle"]),
        ("resume", vec!["resume", "needle"]),
        ("resume a name", vec!["resume", name]),
        // What it draws has tests of its own; without a keyboard it says that it needs one.
        ("top", vec!["top"]),
        ("console of what is not there", vec!["console", "\u{202e}none\u{1b}[2J", "--no-open"]),
        ("archive prune", vec!["archive", "prune", "--older-than", "1d", "--dry-run"]),
        ("usage", vec!["usage", "--by", "session"]),
        ("usage by model", vec!["usage", "--by", "model"]),
        ("verify", vec!["verify", name]),
        ("pin", vec!["pin", name, "0"]),
        ("undo", vec!["undo", name]),
        ("context", vec!["context", name]),
        ("context of a new session", vec!["context", "\u{202e}new", "--message", EVIL]),
        ("export", vec!["export", name]),
        ("expand", vec!["expand", handle]),
        ("rm", vec!["rm", name]),
        ("rename", vec!["rename", name, name]),
        ("archive backup", vec!["archive", "backup", &copy]),
        ("archive backup again", vec!["archive", "backup", &copy]),
        ("doctor", vec!["doctor"]),
        ("chat", vec!["chat", name]),
        ("chat again", vec!["chat", name]),
        ("run", vec!["run", "--name", name, "--upstream", &upstream, "--", &agent]),
    ];
    let in_files: Vec<(&str, Vec<&str>)> = vec![
        ("demo", vec!["demo", "--no-open", "--fast", "--end"]),
        ("archive copy", vec!["archive", "copy", "a.db", &second]),
        ("count", vec!["count", file]),
        ("count two", vec!["count", file, bad]),
        ("count messages", vec!["count", file, "--messages"]),
        ("count a role", vec!["count", "role.json"]),
        ("check", vec!["check", file]),
        ("check a bad file", vec!["check", bad]),
        ("check a role", vec!["check", "role.json"]),
        ("compact", vec!["compact", file, "--budget", "600"]),
        ("compact a bad file", vec!["compact", bad, "--budget", "600"]),
        ("replay", vec!["replay", file, "--each", "--missing", "--budget", "600"]),
        ("replay a bad file", vec!["replay", bad]),
        ("expand from a file", vec!["expand", "h:000000000000", "--from", file]),
        ("import a bad file", vec!["import", bad]),
        ("eval a bad file", vec!["eval", "recall", bad, "--budget", "600"]),
        ("repair a bad file", vec!["repair", bad, "--dry-run"]),
        ("record a bad line", vec!["record", "new", bad]),
        ("trust", vec!["trust", name]),
        ("trust none", vec!["trust", file]),
        ("ls elsewhere", vec!["show", name, "--archive", &elsewhere]),
        ("serve", vec!["serve", "--upstream", EVIL]),
        ("mcp", vec!["mcp", "--session", name]),
        ("no command", vec![name]),
        ("no option", vec!["ls", "--\u{202e}evil\u{1b}[2J"]),
        ("no number", vec!["compact", file, "--budget", EVIL]),
        ("completions", vec!["completions", "bash"]),
    ];
    let commands = commands.into_iter().map(|(what, mut args)| {
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        args.splice(at..at, in_archive);
        (what, args)
    });
    let all: Vec<(&str, Vec<&str>)> = commands.chain(in_files).collect();
    let mut shown = String::new();
    for (what, args) in &all {
        let mut forms = vec![args.clone()];
        if [
            "ls", "show", "log", "search", "usage", "verify", "context", "doctor", "count",
            "check", "replay", "pin", "undo", "rename", "import",
        ]
        .contains(&args[0])
        {
            let json: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
            forms.push(json);
        }
        for args in forms {
            let output = piped(&folder, &args, "hi");
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            assert_clean(what, &text(&output.stderr));
            if !DATA.contains(&args[0]) {
                assert_clean(what, &text(&output.stdout));
            }
            let seen = on_terminal(&folder, &args);
            assert_clean(what, &seen);
            shown += &seen;
        }
    }
    assert!(shown.matches("<U+202E>evil").count() > 40, "it is shown as such: {shown}");
    let tried: BTreeSet<&str> = all.iter().map(|(_, args)| args[0]).collect();
    for command in commands_of_help(&folder) {
        assert!(tried.contains(command.as_str()), "{command} is not tried");
    }
}

/// Cleaning is for people: programs get every byte.
#[test]
fn what_is_piped_is_exact() {
    let server = ScriptedServer::start([]);
    let folder = planted(&server);
    let out = |args: &[&str]| {
        let output = piped(&folder, args, "");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let window = out(&["context", EVIL, "--archive", "a.db", "--policy", "rolling"]);
    let handle = window.split("h:").nth(1).map(|rest| format!("h:{}", &rest[..12])).unwrap();
    let user = json!({"role": "user", "content": format!("{EVIL} needle 0")}).to_string();
    let original = out(&["expand", &handle, "--raw", "--archive", "a.db"]);
    assert!(original.contains(&user), "{original:?}");
    let exported = out(&["export", EVIL, "--archive", "a.db"]);
    let raws = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert_eq!(
        raws.filter(|line| line["entry"]["raw"] == user.as_str()).count(),
        1,
        "{exported:?}"
    );
    let file = format!("{EVIL}.json");
    assert_eq!(out(&["compact", &file, "--budget", "1m"]), folder.read(&file));
    // JSON may be written otherwise, but it means the same.
    let listed: Value = serde_json::from_str(&out(&["ls", "--archive", "a.db", "--json"])).unwrap();
    assert_eq!(listed[0]["name"], EVIL);
}

fn commands_of_help(folder: &Folder) -> Vec<String> {
    let help = String::from_utf8(piped(folder, &["--help"], "").stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // What a command does may go on in lines that are indented further.
    let lines = commands.lines().filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
