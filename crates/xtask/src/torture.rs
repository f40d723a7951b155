//! Everything that tries to break the promises, for as long as there is time.
//!
//! The tests are those of `cargo test`; here they are told to go on for longer, from a seed that is printed, and what
//! they have reached is gathered in one table.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::Failure;
use crate::run::{command, root};

/// One row of the table.
struct TortureRow {
    promise: &'static str,
    package: &'static str,
    suite: &'static str,
    /// Which tests.
    filter: &'static [&'static str],
    variables: Vec<(&'static str, String)>,
}

/// Runs every row; `minutes` says how much each of them does.
pub(crate) fn torture(minutes: &str, seed: Option<&str>) -> Result<(), Failure> {
    let number = |text: &str, what: &str| {
        let wrong = || Failure::usage(format!("`{text}` is not a number of {what}"));
        text.parse::<u64>().map_err(|_| wrong())
    };
    let minutes = number(minutes, "minutes")?.max(1);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = seed.map_or(Ok(since.as_secs() % 1_000_000), |seed| number(seed, "a seed"))?;
    println!("xtask: torture for about {minutes} minutes, seed {seed}");
    let rows = rows(minutes, seed);
    let mut binaries: Vec<((&str, &str), PathBuf)> = Vec::new();
    for row in &rows {
        let key = (row.package, row.suite);
        if !binaries.iter().any(|(known, _)| *known == key) {
            binaries.push((key, build(row)?));
        }
    }
    let mut failed = 0;
    println!("\n| promise | tests | reached | seconds |\n|---|---|---|---|");
    for row in &rows {
        let key = (row.package, row.suite);
        let Some((_, binary)) = binaries.iter().find(|(known, _)| *known == key) else { continue };
        let outcome = run(row, binary)?;
        failed += usize::from(!outcome.is_well);
        println!(
            "| {} | `{}` {} | {} | {:.0} |",
            row.promise,
            row.package,
            row.filter.join(", "),
            outcome.told,
            outcome.time.as_secs_f64()
        );
        if !outcome.is_well {
            eprintln!("{}", outcome.output);
        }
    }
    if failed > 0 {
        let again = format!("`cargo xtask torture {minutes} {seed}` repeats it");
        return Err(Failure::new(format!("{failed} rows did not hold")).with_hint(again));
    }
    Ok(())
}

/// The table of what is tried, and how often in so many minutes.
fn rows(minutes: u64, seed: u64) -> Vec<TortureRow> {
    let first = || ("LONGHAND_SEED_FIRST", seed.to_string());
    let row = |promise, package, suite, filter, variables| TortureRow {
        promise,
        package,
        suite,
        filter,
        variables,
    };
    let count = |name, count: u64| vec![first(), (name, count.to_string())];
    let is_long = minutes >= 10;
    vec![
        row(
            "nothing lost: everything at once",
            "longhand-cli",
            "everything",
            &[],
            count("LONGHAND_TURNS", 2_000 * minutes),
        ),
        row(
            "nothing lost: saturation, full disks, locks, removed sessions, two proxies",
            "longhand-server",
            "suite",
            &["waiting::"],
            vec![],
        ),
        row(
            "nothing lost or twice: two writers of one session; conflicts, undo, forks, removal",
            "longhand-archive",
            "archive",
            &["writers::two_writers"],
            count("LONGHAND_HISTORIES", 2_000 * minutes),
        ),
        row(
            "nothing lost or twice: sessions that another process renumbers; a slow archive",
            "longhand-server",
            "suite",
            &["editions::", "slow::"],
            count("LONGHAND_SEEDS", 4 * minutes),
        ),
        row(
            "nothing lost: answers that cannot be read",
            "longhand-server",
            "suite",
            &["answers::"],
            vec![],
        ),
        row(
            "nothing lost: export and import",
            "longhand",
            "suite",
            &["transfer::"],
            vec![("LONGHAND_TIMES", minutes.to_string())],
        ),
        row(
            "nothing left, nobody held up: removal; backup",
            "longhand-archive",
            "archive",
            &["removal::", "backup::"],
            vec![],
        ),
        row(
            "nothing lost: a power cut at every sync",
            "longhand-archive",
            "archive",
            &["power::nothing"],
            count("LONGHAND_POWER_OPS", 200),
        ),
        row(
            "nothing lost: kill -9",
            "longhand-archive",
            "archive",
            &["crash::nothing"],
            count("LONGHAND_KILLS", 25 * minutes),
        ),
        row(
            "nothing lost: another file in its place",
            "longhand-archive",
            "archive",
            &["replaced::"],
            vec![],
        ),
        row(
            "faults survived: FULL, IOERR, BUSY at the nth call",
            "longhand-archive",
            "archive",
            &["power::a_disk"],
            count("LONGHAND_POWER_STRIDE", if is_long { 1 } else { 7 }),
        ),
        row(
            "faults survived: damaged and truncated files",
            "longhand-archive",
            "archive",
            &["faults::"],
            count("LONGHAND_FLIPS", 200 * minutes),
        ),
        row(
            "faults survived: by session and method",
            "longhand-server",
            "suite",
            &["failure::"],
            vec![],
        ),
        row(
            "right under any order",
            "longhand-server",
            "suite",
            &["seeded::whatever"],
            count("LONGHAND_SEEDS", 10 * minutes),
        ),
        row(
            "valid, fits, cheap",
            "longhand-server",
            "suite",
            &["laws::"],
            count("LONGHAND_SEEDS", 8 * minutes),
        ),
        row("byte fidelity", "longhand-server", "suite", &["pass::", "pitfalls::bytes"], vec![]),
        row(
            "streams: cut between any two bytes",
            "longhand-server",
            "suite",
            &["pitfalls::streams"],
            vec![],
        ),
        row(
            "streams: broken off at any byte",
            "longhand-server",
            "suite",
            &["cuts::"],
            count("LONGHAND_CUTS", if is_long { u64::from(u32::MAX) } else { 24 }),
        ),
        row("bounded: hostile HTTP", "longhand-server", "suite", &["pitfalls::hostile"], vec![]),
        row("bounded: memory", "longhand-server", "suite", &["memory::"], vec![]),
        row(
            "any text: no panic, and none that controls a terminal",
            "longhand-cli",
            "cli",
            &["hostile::"],
            vec![],
        ),
        row(
            "no guesses: names; who an owner is",
            "longhand-cli",
            "cli",
            &["names::", "owners::"],
            vec![],
        ),
        row("who an owner is", "longhand-server", "suite", &["owners::"], vec![]),
        row("limits that are wrong", "longhand-server", "suite", &["pitfalls::overflow"], vec![]),
        row(
            "money: usage that is wrong",
            "longhand-model",
            "scripted",
            &["summariser::the_cap_holds", "summariser::spending"],
            vec![],
        ),
        row("closed: other users of the machine", "longhand-cli", "cli", &["private::"], vec![]),
        row(
            "closed, no leaks",
            "longhand-server",
            "suite",
            &["pitfalls::secrets", "redaction::"],
            vec![],
        ),
    ]
}

struct TortureResult {
    is_well: bool,
    told: String,
    time: Duration,
    output: String,
}

/// Builds the tests of a row; returns the program.
///
/// As part of the workspace, which `cargo test --workspace` has built already: alone, a package has
/// fewer features of its dependencies and would be built again.
fn build(row: &TortureRow) -> Result<PathBuf, Failure> {
    let arguments =
        ["test", "--workspace", "--test", row.suite, "--no-run", "--message-format=json"];
    let shown = format!("cargo {}", arguments.join(" "));
    let output = command(&arguments)
        .output()
        .map_err(|error| Failure::new(format!("`{shown}` did not start: {error}")))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let messages = String::from_utf8_lossy(&output.stdout);
    // Each package has a suite of the same name, and some have a program.
    let manifest = format!("crates/{}/Cargo.toml\"", row.package);
    let is_test = |line: &&str| line.contains(&manifest) && line.contains(r#""kind":["test"]"#);
    let path = messages.lines().filter(is_test).find_map(|line| {
        let (_, path) = line.split_once("\"executable\":\"")?;
        Some(PathBuf::from(path.split('"').next()?))
    });
    match path {
        Some(path) if output.status.success() => Ok(path),
        _ => Err(Failure::new(format!("`{shown}` failed:\n{told}"))),
    }
}

/// Runs the tests of a row.
fn run(row: &TortureRow, binary: &PathBuf) -> Result<TortureResult, Failure> {
    let started = Instant::now();
    let wrong = |error: std::io::Error| Failure::new(format!("{}: {error}", binary.display()));
    let mut child = Command::new(binary)
        .args(row.filter)
        .arg("--nocapture")
        .envs(row.variables.iter().map(|(name, value)| (*name, value.as_str())))
        .current_dir(root().join("crates").join(row.package))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let out = thread::spawn(move || read(stdout));
    let err = thread::spawn(move || read(stderr));
    let status = child.wait().map_err(wrong)?;
    let output = out.join().unwrap_or_default() + &err.join().unwrap_or_default();
    let mut told: Vec<String> = figures(&output);
    let is_well = status.success();
    if !is_well {
        told.push("**failed**".to_owned());
    }
    Ok(TortureResult { is_well, told: told.join("; "), time: started.elapsed(), output })
}

fn read(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // What was read until it broke is shown.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What tests say of what they have reached: lines with a name, a colon and numbers, and how many passed.
fn figures(output: &str) -> Vec<String> {
    const NAMES: [&str; 11] = [
        "everything:",
        "saturation:",
        "power cuts:",
        "failing disk:",
        "cut answers:",
        "histories:",
        "laws:",
        "kill -9:",
        "five of ",
        "twenty of ",
        "twelve stalled ",
    ];
    let is_figure = |line: &&str| NAMES.iter().any(|name| line.starts_with(name));
    let mut told: Vec<String> = output.lines().filter(is_figure).map(str::to_owned).collect();
    let passed = output.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("test result: ")?;
        rest.split("; ").find(|part| part.ends_with("passed"))
    });
    told.extend(passed.map(|passed| {
        let passed = passed.trim_start_matches("ok. ").trim_start_matches("FAILED. ");
        format!("{passed} tests").replace(" passed tests", " tests passed")
    }));
    told
}
