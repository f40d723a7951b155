//! What commands cost in an archive of thousands of sessions, and how that grows with the archive.
//!
//! Commands run as people run them, each a process of its own, and what counts is the processor time of the process.

mod measure;
mod operations;
mod proxy;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::operations::Stage;
use self::table::{Figure, Table};
use crate::failure::Failure;
use crate::run::{cargo, command, root, target_folder};

/// Sessions of the archive if nothing else is said.
const SESSIONS: u64 = 2_000;
/// The archive is measured with one session of so many, and with all of them.
const GROWTH: u64 = 10;
/// Rounds of the long session.
const ROUNDS: u64 = 100_000;

/// What is asked for.
struct ScaleSettings {
    sessions: u64,
    rounds: u64,
    /// Only operations whose name contains this.
    only: Option<String>,
    binary: Option<PathBuf>,
    is_json: bool,
    is_strict: bool,
    is_kept: bool,
}

/// Builds an archive, measures what commands cost in it, and prints a table.
pub(crate) fn scale(arguments: &[&str]) -> Result<(), Failure> {
    let settings = ScaleSettings::parse(arguments)?;
    let binary = if let Some(binary) = &settings.binary {
        root().join(binary)
    } else {
        cargo(&["build", "--quiet", "--release", "--workspace", "--bins"])?;
        target_folder().join("release/longhand")
    };
    let folder = target_folder().join("scale");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let maker = ArchiveMaker::build()?;
    let mut table = Table::default();
    let stage = Stage::new(binary, folder.clone(), settings.only.as_deref(), &maker);
    let small = (settings.sessions / GROWTH).max(1);
    let mut first = 0;
    for sessions in [small, settings.sessions] {
        let before = size(&stage.archive);
        let range = [first, sessions].map(|number| number.to_string());
        let bytes = maker.make(&stage.archive, &["sessions", &range[0], &range[1]])?;
        first = sessions;
        table.text_bytes += bytes.trim().parse::<u64>().unwrap_or(0);
        table.file_bytes += size(&stage.archive).saturating_sub(before);
        table.add(sessions, stage.measure_many(sessions)?);
    }
    if settings.rounds > 0 {
        let rounds = settings.rounds;
        let path = folder.join("long.db");
        maker.make(&path, &["rounds", &rounds.to_string()])?;
        table.add(settings.sessions, stage.measure_long(&path, rounds)?);
    }
    if settings.is_kept {
        eprintln!("xtask: the archives are in {}", folder.display());
    } else {
        let _ = fs::remove_dir_all(&folder);
    }
    print!("{}", if settings.is_json { table.json() } else { table.text() });
    let missed = table.missed();
    if settings.is_strict && missed > 0 {
        return Err(Failure::new(format!("{missed} figures are above their goals")));
    }
    Ok(())
}

impl ScaleSettings {
    fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let mut settings = Self {
            sessions: SESSIONS,
            rounds: ROUNDS,
            only: None,
            binary: None,
            is_json: false,
            is_strict: false,
            is_kept: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let missing = || Failure::usage(format!("`{word}` needs a value"));
                words.next().copied().ok_or_else(missing)
            };
            let number = |text: &str| {
                text.parse::<u64>().map_err(|_| Failure::usage(format!("`{text}` is not a number")))
            };
            match *word {
                "--sessions" => settings.sessions = number(value()?)?.max(GROWTH),
                "--rounds" => settings.rounds = number(value()?)?,
                "--only" => settings.only = Some(value()?.to_owned()),
                "--binary" => settings.binary = Some(PathBuf::from(value()?)),
                "--json" => settings.is_json = true,
                "--strict" => settings.is_strict = true,
                "--keep" => settings.is_kept = true,
                other => return Err(Failure::usage(format!("`scale` does not take `{other}`"))),
            }
        }
        Ok(settings)
    }
}

/// The program that makes archives.
pub(crate) struct ArchiveMaker {
    program: PathBuf,
}

impl ArchiveMaker {
    /// Builds the program.
    pub(crate) fn build() -> Result<Self, Failure> {
        Ok(Self { program: maker()? })
    }

    /// Makes something, and returns what the program says about it.
    pub(crate) fn make(&self, path: &Path, what: &[&str]) -> Result<String, Failure> {
        let made = Command::new(&self.program).arg(path).args(what).output();
        let made = made.map_err(|error| failed(&self.program, &error))?;
        if !made.status.success() {
            let told = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(Failure::new(format!("could not make {}: {told}", path.display())));
        }
        Ok(String::from_utf8_lossy(&made.stdout).into_owned())
    }
}

/// Builds the program that makes archives, and finds it.
fn maker() -> Result<PathBuf, Failure> {
    let arguments = [
        "build",
        "--quiet",
        "--release",
        "--workspace",
        "--bench",
        "many",
        "--message-format=json",
    ];
    let built = command(&arguments).stderr(std::process::Stdio::inherit()).output();
    let built = built.map_err(|error| Failure::new(format!("cargo did not start: {error}")))?;
    let told = String::from_utf8_lossy(&built.stdout);
    let executable =
        told.lines().filter(|line| line.contains(r#""name":"many""#)).find_map(|line| {
            let (_, rest) = line.split_once(r#""executable":""#)?;
            rest.split_once('"').map(|(path, _)| PathBuf::from(path))
        });
    executable.ok_or_else(|| Failure::new("the bench `many` could not be built"))
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |file| file.len())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// A figure for the table.
fn figure(name: &str, unit: &'static str, value: f64, goal: Option<f64>) -> Figure {
    Figure { name: name.to_owned(), unit, value, goal }
}
