//! Running the fuzz targets, one after the other.

use std::fs;

use crate::failure::Failure;
use crate::run::{cargo_with, has_cargo_command, root};

/// Runs every target for the given number of seconds.
pub(crate) fn fuzz(seconds: &str) -> Result<(), Failure> {
    if seconds.parse::<u32>().is_err() {
        return Err(Failure::usage(format!("`{seconds}` is not a number of seconds")));
    }
    let targets = targets()?;
    if !has_cargo_command("fuzz") {
        return Err(Failure::new("cargo-fuzz is not installed")
            .with_hint("`cargo install --locked cargo-fuzz` installs it"));
    }
    let limit = format!("-max_total_time={seconds}");
    for target in targets {
        println!("xtask: fuzz {target} for {seconds} s");
        // The sanitiser is a nightly option; this lets the stable compiler take it.
        let words = format!("-dict=fuzz/dictionaries/{target}.dict");
        let mut line = vec!["fuzz", "run", "-s", "none", &target, "--", &limit];
        if root().join("fuzz/dictionaries").join(format!("{target}.dict")).exists() {
            line.push(&words);
        }
        cargo_with(&[("RUSTC_BOOTSTRAP", "1")], &line)?;
    }
    Ok(())
}

/// The targets are the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, Failure> {
    let directory = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    let mut targets: Vec<String> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    targets.sort();
    if targets.is_empty() {
        return Err(Failure::new("there are no fuzz targets in fuzz/fuzz_targets"));
    }
    Ok(targets)
}
