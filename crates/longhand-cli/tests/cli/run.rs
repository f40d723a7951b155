//! Runs of the binary in a folder of their own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The user's own settings, in a folder that commands are run in.
pub(crate) const OWN_SETTINGS: &str = "config/longhand/longhand.toml";

/// A temporary folder that commands are run in.
pub(crate) struct Folder(TempDir);

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct FinishedRun {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Makes a folder with one file in it.
    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.write(name, content);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// Lists what is in the folder, hidden files too.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Runs `longhand` with the words of `line` as its arguments.
    pub(crate) fn run(&self, line: &str) -> FinishedRun {
        self.run_fed(line, b"")
    }

    /// Runs it with `input` on standard input.
    pub(crate) fn run_fed(&self, line: &str, input: &[u8]) -> FinishedRun {
        let mut child = self.start(line);
        // Whoever refuses its input early closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        FinishedRun::of(line, &child.wait_with_output().unwrap())
    }

    /// Runs it without any input, as a scheduler does.
    pub(crate) fn run_null(&self, line: &str) -> FinishedRun {
        FinishedRun::of(line, &self.command(line).stdin(Stdio::null()).output().unwrap())
    }

    /// Starts it with all three streams piped.
    pub(crate) fn start(&self, line: &str) -> Child {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
        command
            .args(line.split_whitespace())
            .current_dir(self.0.path())
            .env("NO_COLOR", "1")
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("OPENAI_API_KEY")
            .env("HOME", self.0.path())
            .env_remove("CLAUDE_CONFIG_DIR")
            .env_remove("CODEX_HOME")
            .env_remove("PI_CODING_AGENT_DIR");
        command
    }

    /// Counts a file's tokens.
    pub(crate) fn count(&self, name: &str, options: &str) -> u64 {
        let run = self.run(&format!("count {name} --json {options}"));
        assert_eq!(run.status, 0, "{run:?}");
        run.json()["tokens"].as_u64().unwrap()
    }

    /// Makes sure that `check` has nothing against a file.
    pub(crate) fn assert_valid(&self, name: &str, options: &str) {
        let run = self.run(&format!("check {name} {options}"));
        assert_eq!(run.status, 0, "{run:?}");
    }
}

impl FinishedRun {
    /// Takes the outcome of a run, which must not be a panic, a signal or an unknown status.
    pub(crate) fn of(line: &str, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let run = Self {
            status: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        };
        assert!((0..=3).contains(&run.status), "{line}: {run:?}");
        assert!(!run.stderr.contains("panicked"), "{line}: {run:?}");
        run
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// The lines of an export that are messages.
    pub(crate) fn exported_entries(&self) -> String {
        let lines = self.stdout.lines().filter(|line| line.starts_with("{\"entry\":"));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// Makes sure that the run was refused for what was typed.
    pub(crate) fn assert_status_two(&self) {
        assert_eq!((self.status, self.stdout.as_str()), (2, ""), "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
    }

    /// Makes sure that the run was refused with an error that holds all of `words`.
    pub(crate) fn assert_refused(&self, words: &[&str]) {
        assert_eq!(self.status, 2, "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no {word:?} in {self:?}");
        }
    }
}

/// Lists a folder, hidden files too.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes a folder with the session that the README compacts.
pub(crate) fn example_folder() -> Folder {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/long-session.json");
    Folder::with("long-session.json", fs::read(path).unwrap())
}
