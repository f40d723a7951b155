//! The tests on a real `PostgreSQL`, directly and through `PgBouncer`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::run::{cargo, cargo_with};

/// The packages of Debian that have the programs.
const PACKAGES: &[&str] = &["postgresql", "pgbouncer"];

const TESTS: [&str; 7] =
    ["test", "-p", "longhand-archive", "--features", "postgres", "--test", "postgres"];

/// Runs the tests; installs what they need where we may do that.
pub(crate) fn test() -> Result<(), Failure> {
    run(&[], &[])
}

/// Runs three nodes on one database for so many seconds, while they are killed and it is restarted.
pub(crate) fn cluster(seconds: &str, seed: Option<&str>) -> Result<(), Failure> {
    for number in [Some(seconds), seed].into_iter().flatten() {
        if number.parse::<u32>().is_err() {
            return Err(Failure::usage(format!("`{number}` is not a number")));
        }
    }
    let mut variables = vec![("LONGHAND_CLUSTER_SECONDS", seconds)];
    variables.extend(seed.map(|seed| ("LONGHAND_SEED_FIRST", seed)));
    run(&variables, &["--", "--nocapture", "cluster::three_nodes"])
}

/// Records per second beside `pgbench`, and what a record costs in a long session.
pub(crate) fn bench() -> Result<(), Failure> {
    run(&[("LONGHAND_BENCH", "1")], &["--", "--nocapture", "bench::"])
}

fn run(variables: &[(&str, &str)], arguments: &[&str]) -> Result<(), Failure> {
    install()?;
    cargo(&[&TESTS[..], &["--no-run"]].concat())?;
    // What `cargo test` has built is used again.
    cargo(&["build", "--profile", "test", "-p", "longhand-cli"])?;
    let command = crate::run::target_folder().join("debug/longhand");
    let command = command.to_string_lossy().into_owned();
    let always = [("LONGHAND_POSTGRES", "required"), ("LONGHAND_COMMAND", command.as_str())];
    cargo_with(&[&always[..], variables].concat(), &[&TESTS[..], arguments].concat())
}

fn has_programs() -> bool {
    let releases = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let has_server = releases.into_iter().any(|release| release.path().join("bin/initdb").exists());
    (has_server || is_there("initdb")) && is_there("psql") && is_there("pgbouncer")
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/sbin").to_owned()]);
    folders.into_iter().any(|folder| folder.join(program).exists())
}

fn install() -> Result<(), Failure> {
    if has_programs() {
        return Ok(());
    }
    let missing = "there is no PostgreSQL with PgBouncer here, and apt-get could not install them";
    for arguments in [&["update"][..], &[&["install", "-y"], PACKAGES].concat()] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::unavailable(missing));
        }
    }
    if has_programs() { Ok(()) } else { Err(Failure::unavailable(missing)) }
}
