//! The command on a server: every command that works on an archive.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::server::{PASSWORD, Server, server};

/// The command and a server with a database; `None` where one of them is missing.
struct Commands {
    command: String,
    server: &'static Server,
    address: String,
    folder: tempfile::TempDir,
}

fn commands() -> Option<Commands> {
    let server = server()?;
    let Ok(command) = std::env::var("LONGHAND_COMMAND") else {
        eprintln!("SKIPPED: LONGHAND_COMMAND does not name the command");
        return None;
    };
    let address = server.address(&server.database(), server.pooler_port.unwrap());
    let address = address.replace(&format!(":{PASSWORD}"), "");
    Some(Commands { command, server, address, folder: tempfile::tempdir().unwrap() })
}

impl Commands {
    fn spoken(&self, line: &str, input: &str, password: &str) -> Output {
        let mut command = Command::new(&self.command);
        command.args(line.split(' ')).current_dir(self.folder.path()).env_clear();
        command.env("HOME", self.folder.path()).env("LONGHAND_ARCHIVE", &self.address);
        command.env("PGPASSWORD", password).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        for said in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(said).contains(PASSWORD), "{line}");
        }
        output
    }

    fn run(&self, line: &str, input: &str) -> String {
        let output = self.spoken(line, input, PASSWORD);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn refused(&self, line: &str, password: &str) -> String {
        let output = self.spoken(line, "", password);
        assert!(!output.status.success(), "{line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

const MESSAGES: &str = r#"{"user": "The exporter crashed because the queue was full.", "assistant": "Then the queue must be larger."}
"#;

#[test]
fn every_command_works_on_a_server() {
    let Some(commands) = commands() else { return };
    commands.run("record demo", MESSAGES);
    assert!(commands.run("ls", "").contains("demo"));
    assert!(commands.run("search exporter queue", "").contains("crashed"));
    assert!(commands.run("context demo --budget 4000", "").contains("crashed"));
    assert!(commands.run("show demo", "").contains("demo"));
    commands.run("usage", "");
    assert!(commands.run("verify", "").contains("sound: 1 session, 2 entries"));
    let exported = commands.run("export demo", "");
    commands.run("rm demo --yes", "");
    assert!(commands.run("verify", "").contains("sound: 0 sessions"));
    std::fs::write(commands.folder.path().join("demo.jsonl"), exported).unwrap();
    commands.run("import demo.jsonl", "");
    assert!(commands.run("search exporter", "").contains("crashed"));
    let doctor = commands.spoken("doctor", "", PASSWORD);
    let told = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(told.contains("can be read and written"), "{told}");
    assert_eq!(
        commands
            .server
            .sql(&commands.address.rsplit_once('/').unwrap().1.to_owned(), "SELECT 1")
            .unwrap(),
        "1"
    );
}

#[test]
fn what_a_server_cannot_do_is_said_with_a_hint() {
    let Some(commands) = commands() else { return };
    for line in ["archive backup copy.db", "archive migrate"] {
        let said = commands.refused(line, PASSWORD);
        assert!(said.contains("is on a server") && said.contains("hint:"), "{said}");
    }
    let said = commands.refused("ls", "a wrong one");
    assert!(said.contains("hint:") && !said.contains("a wrong one"), "{said}");
}

/// Processes record to one session at once, and some are killed: what one has acknowledged by its success is there once,
/// and its messages stand side by side.
#[test]
fn processes_that_are_killed_lose_and_double_nothing() {
    let Some(commands) = commands() else { return };
    commands.run("record shared", MESSAGES);
    let begin = |number: usize| {
        let mut command = Command::new(&commands.command);
        command.args(["record", "shared", "--archive", &commands.address]).env_clear();
        command.env("HOME", commands.folder.path()).env("PGPASSWORD", PASSWORD);
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap();
        let said =
            format!("{{\"user\": \"question {number}.\", \"assistant\": \"answer {number}.\"}}\n");
        child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
        child
    };
    let mut acknowledged = Vec::new();
    for round in 0..3_usize {
        let mut children: Vec<_> =
            (0..4).map(|at| (round * 4 + at, begin(round * 4 + at))).collect();
        std::thread::sleep(std::time::Duration::from_millis(60 * (round as u64 + 1)));
        children[1].1.kill().unwrap();
        for (number, mut child) in children {
            if child.wait().unwrap().success() {
                acknowledged.push(number);
            }
        }
    }
    assert!(acknowledged.len() >= 6, "{acknowledged:?}");
    let exported = commands.run("export shared", "");
    for number in 0..12 {
        let (question, answer) = (format!("question {number}."), format!("answer {number}."));
        let lines = |text: &str| -> Vec<usize> {
            exported
                .lines()
                .enumerate()
                .filter(|(_, line)| line.contains(text))
                .map(|(at, _)| at)
                .collect()
        };
        let (questions, answers) = (lines(&question), lines(&answer));
        assert!(questions.len() <= 1 && questions.len() == answers.len(), "{number}: {exported}");
        if acknowledged.contains(&number) {
            assert_eq!(answers, [questions[0] + 1], "{number}");
        }
    }
    assert!(commands.run("verify", "").contains("sound: 1 session"));
}
