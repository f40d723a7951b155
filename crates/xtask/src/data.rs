//! All commands over recorded sessions and over made-up ones with texts of every kind: none may panic, hang or end
//! with a status that says nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhand_testkit::texts;

use crate::failure::Failure;
use crate::run::{cargo, root, target_folder};

/// How long one command may take.
const LIMIT: Duration = Duration::from_mins(1);

/// Done, no, used wrongly, over budget: all that a command may say.
const STATUSES: [i32; 4] = [0, 1, 2, 3];

/// Runs every command over the sessions in `LONGHAND_DATA` or `../shared/data`, if there are any, and over
/// generated ones.
pub(crate) fn data(arguments: &[&str]) -> Result<(), Failure> {
    let binary = match arguments {
        [] => {
            cargo(&["build", "--release", "--package", "longhand-cli"])?;
            target_folder().join("release/longhand")
        }
        [binary] if binary.starts_with("binary=") => root().join(&binary["binary=".len()..]),
        _ => return Err(Failure::usage("`data` takes only binary=PATH")),
    };
    let folder = target_folder().join("data-stage");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let mut sessions = generated(&folder)?;
    let made = sessions.len();
    let recorded = std::env::var_os("LONGHAND_DATA")
        .map_or_else(|| root().join("../shared/data"), PathBuf::from);
    find(&recorded, &mut sessions);
    println!(
        "{} recorded sessions in {}, {made} generated",
        sessions.len() - made,
        recorded.display()
    );
    let stage = DataStage { binary, folder, runs: AtomicUsize::new(0), faults: Mutex::default() };
    stage.try_all(&sessions);
    let faults = stage.faults.into_inner().unwrap_or_default();
    println!("{} runs, {} faults", stage.runs.into_inner(), faults.len());
    if faults.is_empty() {
        let _ = fs::remove_dir_all(&stage.folder);
        return Ok(());
    }
    Err(Failure::new(faults.join("\n")))
}

struct DataStage {
    binary: PathBuf,
    folder: PathBuf,
    runs: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

impl DataStage {
    fn try_all(&self, sessions: &[PathBuf]) {
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((number, session)) = {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        sessions.get(number).map(|session| (number, session))
                    } {
                        self.try_session(number, session);
                    }
                });
            }
        });
    }

    /// Runs all commands over a session, with an archive of its own.
    fn try_session(&self, number: usize, session: &Path) {
        let home = self.folder.join(format!("session-{number}"));
        let file = session.to_string_lossy();
        let run = |arguments: &[&str]| self.run(&home, arguments);
        if let Err(error) = fs::create_dir_all(&home) {
            self.fault(failed(&home, &error).message().to_owned());
            return;
        }
        run(&["count", "--json", &file]);
        let is_valid = run(&["check", &file]).is_some_and(|run| run.status == 0);
        for (at, budget) in ["900", "4k", "20k", "80k"].iter().enumerate() {
            let policy = ["auto", "elide", "trim", "rolling"][(number + at) % 4];
            for (policy, summariser) in
                [("auto", "extractive"), ("auto", "none"), (policy, "extractive")]
            {
                let arguments = ["compact", &file, "--budget", budget];
                let how = ["--policy", policy, "--summariser", summariser];
                let window = run(&[&arguments[..], &how].concat());
                let Some(window) = window.filter(|run| run.status == 0 && is_valid) else {
                    continue;
                };
                let path = window.stdout.to_string_lossy().into_owned();
                let check = run(&["check", &path]);
                if check.is_some_and(|check| check.status != 0) {
                    self.fault(format!("{file}: the window of {budget} by {policy} is not valid"));
                }
            }
        }
        run(&["replay", &file, "--budget", "50%"]);
        run(&["replay", &file, "--budget", "8000", "--compare"]);
        let archive = home.join("archive.db");
        let archive = archive.to_string_lossy();
        let with_archive =
            |arguments: &[&str]| run(&[arguments, &["--archive", &archive]].concat());
        let imported = with_archive(&["import", &file, "--id", "all-commands"]);
        if imported.is_none_or(|run| run.status != 0) {
            return;
        }
        with_archive(&["ls", "--all"]);
        with_archive(&["show", "all-commands"]);
        with_archive(&["context", "all-commands", "--budget", "4k"]);
        with_archive(&["show", "all-commands", "--budget", "4k"]);
        with_archive(&["log", "all-commands"]);
        for query in ["error", "the", "→", "e\u{301}", "\"→ fn\"", "数据*"] {
            with_archive(&["search", query]);
        }
        for format in ["jsonl", "state"] {
            with_archive(&["export", "all-commands", "--format", format]);
        }
        let verified = with_archive(&["verify"]);
        if verified.is_some_and(|run| run.status != 0) {
            self.fault(format!("{file}: the archive of the imported session is not sound"));
        }
    }

    /// Runs a command; `None` if it is at fault.
    fn run(&self, home: &Path, arguments: &[&str]) -> Option<FinishedCommand> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let shown = format!("longhand {}", arguments.join(" "));
        let (stdout, stderr) =
            (home.join(format!("{number}.json")), home.join(format!("{number}.stderr")));
        let outputs = File::create(&stdout).and_then(|out| Ok((out, File::create(&stderr)?)));
        let child = outputs.and_then(|(out, err)| {
            Command::new(&self.binary)
                .args(arguments)
                .env_remove("XDG_CONFIG_HOME")
                .env_remove("XDG_DATA_HOME")
                .env("HOME", home)
                .current_dir(home)
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err)
                .spawn()
        });
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return self.fault(format!("{shown}: did not start: {error}")),
        };
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begun.elapsed() < LIMIT => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return self.fault(format!("{shown}: not done after {} s", LIMIT.as_secs()));
                }
            }
        };
        let said = fs::read_to_string(&stderr).unwrap_or_default();
        let panic = said.lines().find(|line| line.contains("panicked"));
        match (panic, status.code()) {
            (None, Some(status)) if STATUSES.contains(&status) => {
                Some(FinishedCommand { status, stdout })
            }
            (Some(line), _) => self.fault(format!("{shown}: {line}")),
            _ => self
                .fault(format!("{shown}: {status}: {}", said.lines().next().unwrap_or_default())),
        }
    }

    fn fault(&self, what: String) -> Option<FinishedCommand> {
        eprintln!("{what}");
        self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(what);
        None
    }
}

/// A command that ended as it may.
struct FinishedCommand {
    status: i32,
    stdout: PathBuf,
}

/// The sessions in a folder and all below it.
fn find(folder: &Path, sessions: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find(&path, sessions);
        } else if path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl") {
            sessions.push(path);
        }
    }
}

/// Conversations with a text of every kind wherever one can stand.
fn generated(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    (0..6)
        .map(|number: u64| {
            let path = folder.join(format!("generated-{number}.json"));
            fs::write(&path, texts::conversation(number)).map_err(|error| failed(&path, &error))?;
            Ok(path)
        })
        .collect()
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
