//! The commands that are measured, with their goals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::measure::{Cost, median, run};
use super::table::Figure;
use super::{ArchiveMaker, figure, proxy};
use crate::failure::Failure;

/// How often each command is run.
const RUNS: usize = 5;
/// Words side by side in one session, each of them common.
const RARE_PHRASE: &str = "\"by queue are from lock that\"";
/// Sessions that are imported one by one for each archive.
const IMPORTS: u64 = 20;
/// The numbers of what is imported begin here: far from those that are made.
const IMPORTED_FIRST: u64 = 50_000_000;

/// Where commands run.
pub(super) struct Stage<'m> {
    binary: PathBuf,
    folder: PathBuf,
    pub(super) archive: PathBuf,
    only: Option<String>,
    maker: &'m ArchiveMaker,
}

impl<'m> Stage<'m> {
    pub(super) fn new(
        binary: PathBuf,
        folder: PathBuf,
        only: Option<&str>,
        maker: &'m ArchiveMaker,
    ) -> Self {
        let archive = folder.join("archive.db");
        Self { binary, folder, archive, only: only.map(str::to_owned), maker }
    }

    /// Measures what is done in an archive of so many sessions.
    pub(super) fn measure_many(&self, sessions: u64) -> Result<Vec<Figure>, Failure> {
        let mut figures = Vec::new();
        self.looked_at(sessions, &mut figures)?;
        self.searched(sessions, &mut figures)?;
        self.changed(sessions, &mut figures)?;
        for (name, size, goal) in [("565 KB", 565_000, 15.0), ("1.7 MB", 1_700_000, 40.0)] {
            let name = format!("first request after a restart, {name}");
            if self.is_wanted(&name) {
                let cost = proxy::first_request(self, size)?;
                figures.push(figure(&name, "ms", cost, Some(goal)));
            }
        }
        Ok(figures)
    }

    fn looked_at(&self, sessions: u64, figures: &mut Vec<Figure>) -> Result<(), Failure> {
        let one = format!("work-{:06}", sessions / 2);
        let id = self.short_id(&one)?;
        self.time(figures, "--version", None, &["--version"])?;
        for (name, goal, words) in [
            ("ls", 60.0, &["ls"][..]),
            ("ls --all", 60.0, &["ls", "--all"]),
            ("usage", 100.0, &["usage"]),
            ("usage --by session", 100.0, &["usage", "--by", "session"]),
            ("show, by short id", 20.0, &["show", &id]),
            ("log", 20.0, &["log", &one]),
            ("export", 20.0, &["export", &one]),
        ] {
            self.time(figures, name, Some(goal), &self.of_archive(words))?;
        }
        Ok(())
    }

    fn searched(&self, sessions: u64, figures: &mut Vec<Figure>) -> Result<(), Failure> {
        let one = format!("work-{:06}", sessions / 2);
        let long = "x".repeat(70);
        for (name, words) in [
            ("search, without a hit", &["qqzzunfindable"][..]),
            ("search, without a hit, two words", &["error", "qqzzunfindable"]),
            ("search, a word of 70 letters", &[&long]),
            ("search, a part of a word", &["ueueworkerloc"]),
            ("search --session", &["timeout", "--session", &one]),
            ("search --session, without a hit", &["qqzzunfindable", "--session", &one]),
            ("search, a rare phrase of common words", &[RARE_PHRASE]),
            ("search the", &["the"]),
            ("search the --since 1m", &["the", "--since", "1m"]),
            ("search the --role system", &["the", "--role", "system"]),
            ("search conf*", &["conf*"]),
        ] {
            let words = [&["search"], words].concat();
            self.time(figures, name, Some(50.0), &self.of_archive(&words))?;
        }
        Ok(())
    }

    fn changed(&self, sessions: u64, figures: &mut Vec<Figure>) -> Result<(), Failure> {
        let rounds = self.folder.join("rounds.jsonl");
        let round = "{\"user\":\"how long is the lease\",\"assistant\":\"it is ten minutes\"}\n";
        write(&rounds, round)?;
        let messages = self.folder.join("messages.json");
        let small = r#"{"messages":[{"role":"user","content":"what is it"},{"role":"assistant","content":"a lease"}]}"#;
        write(&messages, small)?;
        let (rounds, messages) = (shown(&rounds), shown(&messages));
        let is_wanted = |name: &str| self.is_wanted(name);
        let mut costs: [Vec<Cost>; 4] = Default::default();
        for at in 0..RUNS {
            let [one, other] =
                ["recorded", "imported"].map(|name| format!("{name}-{sessions}-{at}"));
            costs[0].push(self.run(&self.of_archive(&["record", &one, &rounds]))?);
            costs[1].push(self.run(&self.of_archive(&["import", &messages, "--id", &other]))?);
            if is_wanted("doctor, after an import") {
                costs[2].push(self.run(&self.of_archive(&["doctor"]))?);
            }
            costs[3].push(self.run(&self.of_archive(&["rm", &one, "--yes"]))?);
        }
        for (name, goal, costs) in [
            ("record, a new name", 20.0, &costs[0]),
            ("import, a new name", 20.0, &costs[1]),
            ("doctor, after an import", 50.0, &costs[2]),
            ("rm of a small session", 50.0, &costs[3]),
        ] {
            if is_wanted(name) {
                let cost = median(costs);
                figures.push(figure(name, "ms", cost.cpu_ms, Some(goal)));
                figures.push(figure(name, "MB written", cost.written_mb, Some(1.0)));
            }
        }
        self.imported(sessions, figures)
    }

    /// Imports sessions, each by a process of its own.
    fn imported(&self, sessions: u64, figures: &mut Vec<Figure>) -> Result<(), Failure> {
        let name = "import, one process per session";
        if !self.is_wanted(name) {
            return Ok(());
        }
        let file = self.folder.join("session.json");
        let (mut cpu_ms, mut bytes, mut written) = (0.0, 0, 0.0);
        for number in (0..IMPORTS).map(|number| IMPORTED_FIRST + sessions + number) {
            self.maker.make(&file, &["messages", &number.to_string()])?;
            bytes += fs::metadata(&file).map_or(0, |file| file.len());
            let id = format!("whole-{number}");
            let cost = self.run(&self.of_archive(&["import", &shown(&file), "--id", &id]))?;
            cpu_ms += cost.cpu_ms;
            written += cost.written_mb;
        }
        let megabytes = bytes as f64 / 1e6;
        figures.push(figure(name, "ms per MB", cpu_ms / megabytes, Some(50.0)));
        figures.push(figure(name, "MB written per MB", written / megabytes, None));
        Ok(())
    }

    /// Measures what is done with one session of so many rounds.
    pub(super) fn measure_long(&self, archive: &Path, rounds: u64) -> Result<Vec<Figure>, Failure> {
        let path = shown(archive);
        let context = |message: &str| {
            let words = ["context", "long", "--message", message, "--archive", &path];
            self.run(&words.map(str::to_owned))
        };
        let name = |what: &str| format!("{rounds} rounds: {what}");
        let mut figures = Vec::new();
        if !self.is_wanted(&name("")) {
            return Ok(figures);
        }
        let first = context("what is next")?;
        figures.push(figure(&name("first window"), "ms", first.cpu_ms, Some(1_500.0)));
        figures.push(figure(&name("first window"), "MB of memory", first.memory_mb, Some(100.0)));
        let window = fs::read_to_string(self.output()).unwrap_or_default();
        let later: Vec<Cost> =
            (0..RUNS).map(|at| context(&format!("and next {at}"))).collect::<Result<_, _>>()?;
        figures.push(figure(&name("later windows"), "ms", median(&later).cpu_ms, Some(20.0)));
        let Some(handle) = handle(&window) else {
            return Err(Failure::new("the window of the long session has no handle"));
        };
        let round = (rounds / 3).to_string();
        let words = ["expand", &handle, "--round", &round, "--archive", &path].map(str::to_owned);
        let expanded: Vec<Cost> = (0..RUNS).map(|_| self.run(&words)).collect::<Result<_, _>>()?;
        figures.push(figure(&name("expand --round"), "ms", median(&expanded).cpu_ms, Some(20.0)));
        Ok(figures)
    }

    /// Runs a command several times for one row.
    fn time(
        &self,
        figures: &mut Vec<Figure>,
        name: &str,
        goal: Option<f64>,
        words: &[impl AsRef<str>],
    ) -> Result<(), Failure> {
        if !self.is_wanted(name) {
            return Ok(());
        }
        let costs: Vec<Cost> = (0..RUNS).map(|_| self.run(words)).collect::<Result<_, _>>()?;
        figures.push(figure(name, "ms", median(&costs).cpu_ms, goal));
        Ok(())
    }

    fn run(&self, words: &[impl AsRef<str>]) -> Result<Cost, Failure> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let mut command = self.command();
        command.args(&words);
        let (cost, status) = run(command, &self.output())?;
        // Nothing found is an answer, too; so is a doctor's advice.
        if matches!(status, 0 | 1) {
            return Ok(cost);
        }
        Err(Failure::new(format!("`longhand {}` ended with {status}", words.join(" "))))
    }

    /// The program, in a home of its own.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(name, &self.folder);
        }
        command.current_dir(&self.folder);
        command
    }

    fn of_archive(&self, words: &[&str]) -> Vec<String> {
        let archive = shown(&self.archive);
        words.iter().copied().chain(["--archive", &archive]).map(str::to_owned).collect()
    }

    fn short_id(&self, name: &str) -> Result<String, Failure> {
        self.run(&self.of_archive(&[
            "search",
            "the",
            "--session",
            name,
            "--limit",
            "1",
            "--json",
        ]))?;
        let told = fs::read_to_string(self.output()).unwrap_or_default();
        let id = told.split_once(r#""id":"#).and_then(|(_, rest)| rest.split('"').nth(1));
        let missing = || Failure::new(format!("there is no session {name}"));
        Ok(id.ok_or_else(missing)?.chars().take(10).collect())
    }

    /// Where commands print to.
    fn output(&self) -> PathBuf {
        self.folder.join("output")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| super::failed(path, &error))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The first handle in a window.
fn handle(window: &str) -> Option<String> {
    let (_, rest) = window.split_once("h:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    (!digits.is_empty()).then(|| format!("h:{digits}"))
}
