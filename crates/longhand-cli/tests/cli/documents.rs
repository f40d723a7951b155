//! The commands that README and docs show: each is run as it is printed, in a terminal, and its output compared.
//!
//! `cargo xtask tour` (or `LONGHAND_BLESS=1`) writes the outputs anew.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use longhand_testkit::scripted::{ScriptStep, ScriptedServer};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::run::{Folder, OWN_SETTINGS};

/// The longest time for one command.
const PATIENCE: Duration = Duration::from_mins(2);

/// Commands of a shell block that are not run here: CI runs them, or they need what only a reader has.
const NOT_RUN: &[&str] = &["cargo install ", "cargo build ", "cargo test ", "your-agent"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with the examples, a model under the name `ollama/qwen3`, and nothing else.
fn folder(server: &ScriptedServer) -> Folder {
    let folder = Folder::new();
    let example = fs::read(root().join("examples/long-session.json")).unwrap();
    folder.write("examples/long-session.json", example);
    folder.write(
        OWN_SETTINGS,
        format!("[endpoints.ollama]\nurl = '{}'\napi = 'chat'\n", server.url()),
    );
    folder
}

fn server() -> ScriptedServer {
    let answers = ["It is in **var/app.log**.", "Run `make ship`.", "Yes."];
    ScriptedServer::start(
        answers.iter().cycle().take(30).map(|text| ScriptStep::Answer((*text).to_owned())),
    )
}

/// Runs a line as a person would, and gives what the terminal shows and the exit status.
fn run(folder: &Folder, line: &str) -> (String, u32) {
    run_in(folder, line, 100, &[])
}

/// The same in a terminal of so many columns, with some variables set.
pub(crate) fn run_in(
    folder: &Folder,
    line: &str,
    cols: u16,
    variables: &[(&str, &str)],
) -> (String, u32) {
    let (output, status) = run_raw(folder, line, cols, variables);
    (shown(folder, &output), status)
}

/// The same with all that the terminal is sent.
pub(crate) fn run_raw(
    folder: &Folder,
    line: &str,
    cols: u16,
    variables: &[(&str, &str)],
) -> (String, u32) {
    let size = PtySize { rows: 40, cols, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", line]);
    command.cwd(folder.path(""));
    let longhand = Path::new(env!("CARGO_BIN_EXE_longhand")).parent().unwrap().to_owned();
    let path =
        std::env::join_paths([longhand, "/usr/local/bin".into(), "/usr/bin".into(), "/bin".into()]);
    command.env_clear();
    command.env("PATH", path.unwrap());
    command.env("TERM", "xterm");
    command.env("TZ", "UTC");
    command.env("NO_COLOR", "1");
    command.env("HOME", folder.path(""));
    command.env("XDG_CONFIG_HOME", folder.path("config"));
    for (name, value) in variables {
        command.env(name, value);
    }
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().unwrap();
    let reader = thread::spawn(move || {
        let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            all.extend_from_slice(&bytes[..count]);
        }
        all
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.exit_code();
        }
        assert!(start.elapsed() < PATIENCE, "`{line}` does not end");
        thread::sleep(Duration::from_millis(10));
    };
    drop(pair.master);
    (String::from_utf8_lossy(&reader.join().unwrap()).into_owned(), status)
}

/// What a reader sees: no carriage returns, no progress lines, `~` for the folder, one port, no token.
fn shown(folder: &Folder, output: &str) -> String {
    let output = output.replace("\r\n", "\n");
    let lines = output.split('\n').map(|line| line.rsplit("\r\u{1b}[K").next().unwrap_or(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    let home = folder.path("").display().to_string();
    let text = text.replace(home.trim_end_matches('/'), "~");
    // The token of a link is another one each time.
    let (before, after) = text.split_once("#token=").unwrap_or((&text, ""));
    let after = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    let text = if after.is_empty() { text.clone() } else { format!("{before}#token=…{after}") };
    let mut out = String::new();
    for (at, part) in text.split("127.0.0.1:").enumerate() {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        // Ports that the system picked have five digits.
        let is_picked = part.len() - rest.len() == 5;
        match (at, is_picked) {
            (0, _) => out.push_str(part),
            (_, true) => out.push_str(&format!("127.0.0.1:4141{rest}")),
            (_, false) => out.push_str(&format!("127.0.0.1:{part}")),
        }
    }
    out
}

/// The same document with the outputs of its `console` blocks as they are now.
fn rerun(folder: &Folder, document: &str) -> String {
    let mut out = String::new();
    let mut in_console = false;
    for line in document.lines() {
        if line.starts_with("```") {
            in_console = line == "```console";
        }
        let command = line.strip_prefix("$ ").filter(|_| in_console);
        if !in_console || command.is_some() || line.starts_with("```") {
            out.push_str(&format!("{line}\n"));
        }
        if let Some(command) = command {
            let (output, _) = run(folder, command);
            let lines = output.trim_end().lines().map(str::trim_end);
            out.extend(lines.map(|line| format!("{line}\n")));
        }
    }
    out
}

/// Compares a document with what its commands print now, or writes it anew.
fn check(path: &str) {
    let server = server();
    let file = root().join(path);
    let document = fs::read_to_string(&file).unwrap();
    let now = rerun(&folder(&server), &document);
    if std::env::var_os("LONGHAND_BLESS").is_some() {
        fs::write(&file, now).unwrap();
        return;
    }
    for (at, (written, now)) in document.lines().zip(now.lines()).enumerate() {
        assert_eq!(written, now, "{path}:{}; `cargo xtask tour` writes it anew", at + 1);
    }
    assert_eq!(
        document.lines().count(),
        now.lines().count(),
        "{path}; `cargo xtask tour` writes it anew"
    );
}

#[test]
fn the_transcript_of_the_readme_is_real() {
    check("README.md");
}

#[test]
fn the_tour_is_real() {
    check("docs/TOUR.md");
}

#[test]
fn the_systemd_unit_in_the_docs_is_the_one_that_is_packaged() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(read("docs/OPERATIONS.md").contains(&read("packaging/longhand.service")));
}

/// The commands of `sh` blocks, without comments.
fn commands(document: &str) -> Vec<String> {
    let mut in_block = false;
    let mut commands = Vec::new();
    for line in document.lines() {
        if line.starts_with("```") {
            in_block = line == "```sh";
        } else if in_block {
            let command =
                line.split("   #").next().unwrap_or(line).split("  #").next().unwrap_or(line);
            commands.push(command.trim().to_owned());
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

#[test]
fn every_command_of_the_readme_and_the_docs_works_as_printed() {
    for (path, least) in [("README.md", 10), ("docs/PROXY.md", 3), ("docs/OPERATIONS.md", 5)] {
        let server = server();
        let folder = folder(&server);
        // What the documents speak of as being there already.
        run(
            &folder,
            "echo '{\"user\": \"Where is the lock file?\", \"assistant\": \"In var.\"}' | longhand record work",
        );
        let document = fs::read_to_string(root().join(path)).unwrap();
        let commands = commands(&document);
        assert!(commands.len() >= least, "{path}: {commands:?}");
        for command in commands {
            if NOT_RUN.iter().any(|words| command.contains(words)) {
                continue;
            }
            let (output, status) = run(&folder, &as_typed_here(&command));
            assert_eq!(status, 0, "{path}: `{command}`\n{output}");
        }
    }
}

/// A command with what differs here: the binary that is tested, a proxy that ends, and a question for `chat`.
fn as_typed_here(command: &str) -> String {
    let command = command.replace("cargo run --release -- ", "longhand ");
    if command.starts_with("longhand serve ") {
        return format!("timeout --preserve-status 3 {command} --listen 127.0.0.1:0");
    }
    if command.starts_with("longhand chat ") {
        return format!("echo 'Where is the log?' | {command}");
    }
    command
}
