//! Sessions that are found by what was said in them, and gone on with.

use std::fs;

use serde_json::{Value, json};

use crate::run::{FinishedRun, Folder};

const CLAUDE: &str = "11112222-3333-4444-8555-666677778888";
const OTHER: &str = "22223333-3333-4444-8555-666677778888";
const CODEX: &str = "0199aaaa-1111-7222-8333-444455556666";

/// A session of Claude Code in which some things were said.
fn claude(id: &str, folder: &str, said: &[&str]) -> String {
    let mut parent = Value::Null;
    let mut text = String::new();
    for (at, words) in said.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        let line = json!({"parentUuid": parent, "isSidechain": false, "cwd": folder, "sessionId": id, "type": role,
            "message": {"role": role, "content": [{"type": "text", "text": words}]},
            "uuid": format!("{id}-{at}"), "timestamp": format!("2026-01-02T03:0{at}:00.000Z")});
        text.push_str(&format!("{line}\n"));
        parent = json!(format!("{id}-{at}"));
    }
    text
}

fn codex(folder: &str, words: &str) -> String {
    let meta = json!({"timestamp": "2026-01-03T03:00:00Z", "type": "session_meta",
        "payload": {"id": CODEX, "cwd": folder, "timestamp": "2026-01-03T03:00:00Z"}});
    let said = json!({"timestamp": "2026-01-03T03:00:01Z", "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}});
    format!("{meta}\n{said}\n")
}

/// A home with three sessions of two agents.
fn home() -> Folder {
    let folder = Folder::new();
    let work = folder.path("work").display().to_string();
    fs::create_dir_all(&work).unwrap();
    let name: String =
        work.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    folder.write(
        &format!(".claude/projects/{name}/{CLAUDE}.jsonl"),
        claude(CLAUDE, &work, &["Why does the retry queue stall?", "The backoff never ends."]),
    );
    folder.write(
        &format!(".claude/projects/{name}/{OTHER}.jsonl"),
        claude(OTHER, &work, &["Draw a map of the harbour.", "Here is a harbour."]),
    );
    folder.write(
        &format!(".codex/sessions/2026/01/03/rollout-2026-01-03T03-00-00-{CODEX}.jsonl"),
        codex(&work, "Count the lighthouses of the harbour."),
    );
    folder
}

fn command(folder: &Folder, line: &str) -> String {
    let run = folder.run_null(line);
    assert_eq!(run.status, 0, "{line}: {run:?}");
    run.stdout
}

fn expected(folder: &Folder, words: &str) -> String {
    format!("cd {} && {words}\n", folder.path("work").display())
}

#[test]
fn a_session_is_found_by_what_was_said_before_and_after_an_import() {
    let folder = home();
    let check = || {
        let claude = expected(&folder, &format!("claude --resume {CLAUDE}"));
        assert_eq!(command(&folder, "resume retry queue"), claude);
        assert_eq!(command(&folder, "resume the backoff never ends"), claude);
        assert_eq!(command(&folder, "resume 11112222"), claude);
        let codex = expected(&folder, &format!("codex resume {CODEX}"));
        assert_eq!(command(&folder, "resume lighthouses"), codex);
        assert_eq!(command(&folder, "resume codex@last"), codex);
    };
    check();
    assert_eq!(folder.run_null("import").status, 0);
    check();
    // What was said since the import is found as well.
    let grown = claude(OTHER, "/elsewhere", &["Draw a map.", "Here.", "And now the astrolabe."]);
    let path = glob(&folder, OTHER);
    folder.write(&path, grown);
    let found = command(&folder, "resume astrolabe");
    assert!(found.ends_with(&format!("claude --resume {OTHER}\n")), "{found}");
}

fn glob(folder: &Folder, id: &str) -> String {
    let projects = folder.path(".claude/projects");
    let project = fs::read_dir(&projects).unwrap().next().unwrap().unwrap().file_name();
    format!(".claude/projects/{}/{id}.jsonl", project.to_string_lossy())
}

#[test]
fn nothing_is_guessed_where_several_sessions_fit() {
    let folder = home();
    let run = folder.run_null("resume harbour --go");
    assert_eq!((run.status, run.stdout.as_str()), (1, ""), "{run:?}");
    for id in [OTHER, CODEX] {
        assert!(run.stderr.contains(&format!("longhand resume {id}")), "{run:?}");
    }
    let run = folder.run_null("resume");
    assert!(run.status == 1 && run.stdout.is_empty(), "{run:?}");
    assert_eq!(run.stderr.matches("longhand resume ").count(), 3, "{run:?}");
    let run = folder.run_null("resume zeppelin");
    assert!(run.status == 2 && run.stderr.contains("nothing fits"), "{run:?}");
    let run = folder.run_null("resume harbour --json");
    assert!(run.status == 1 && run.json()["sessions"].as_array().unwrap().len() == 2, "{run:?}");
}

#[test]
fn a_session_without_its_file_is_not_gone_on_with() {
    let folder = home();
    assert_eq!(folder.run_null("import").status, 0);
    fs::remove_file(folder.path(&glob(&folder, CLAUDE))).unwrap();
    let run = folder.run_null("resume retry queue");
    assert!(run.status == 2 && run.stderr.contains("--as claude-code"), "{run:?}");
    // What `record` keeps goes on in `chat`.
    let round = b"{\"user\":\"What is a gimbal?\",\"assistant\":\"A ring.\"}\n";
    assert_eq!(folder.run_fed("record sextant", round).status, 0);
    assert_eq!(command(&folder, "resume gimbal"), "longhand chat sextant\n");
}

#[cfg(unix)]
#[test]
fn go_runs_the_agent_in_its_folder() {
    use std::os::unix::fs::PermissionsExt;

    let folder = home();
    folder.write("bin/claude", "#!/bin/sh\npwd\necho \"$@\"\nexit 7\n");
    fs::set_permissions(folder.path("bin/claude"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path("bin").display(), std::env::var("PATH").unwrap());
    let run = |line: &str| -> FinishedRun {
        let mut command = folder.command(line);
        let output = command.env("PATH", &path).output().unwrap();
        FinishedRun {
            status: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    let ran = run("resume --go retry queue");
    let place = fs::canonicalize(folder.path("work")).unwrap();
    let said = format!("{}\n--resume {CLAUDE}\n", place.display());
    assert_eq!((ran.status, ran.stdout), (7, said));
    fs::remove_dir_all(folder.path("work")).unwrap();
    let ran = run("resume --go retry queue");
    assert!(ran.status == 2 && ran.stderr.contains("folder of this session is gone"), "{ran:?}");
}
