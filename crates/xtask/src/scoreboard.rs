//! The scoreboard: other libraries on the same work as Longhand. `bench/` has the scripts.

mod install;

use std::path::Path;
use std::process::Command;

use self::install::install;
use crate::failure::Failure;
use crate::run::{cargo, root, target_folder};

/// The environment whose Python runs the scripts: it has a counter of tokens, and its vocabulary.
const RUNNER: &str = "litellm";

/// What shows folds as they are tested.
const PAGE: &str = "docs/BENCHMARKS.md";
const FOLDS: &[&str] =
    &["crates/longhand/tests/folds/coding.txt", "crates/longhand/tests/folds/service.txt"];

/// Measures some parts, or all, and writes docs/BENCHMARKS.md.
pub(crate) fn scoreboard(parts: &[&str]) -> Result<(), Failure> {
    if parts == ["render"] {
        return script(Path::new("python3"), parts, &[]);
    }
    let peers = install()?;
    let python = peers.python(RUNNER).ok_or_else(|| {
        Failure::unavailable(format!("`{RUNNER}` is not there, and it counts tokens for all"))
    })?;
    cargo(&["build", "--release", "--package", "longhand-cli"])?;
    cargo(&["build", "--release", "--package", "longhand", "--example", "scoreboard"])?;
    let testkit =
        ["--package", "longhand-testkit", "--example", "made_session", "--example", "history"];
    cargo(&[&["build", "--release"][..], &testkit].concat())?;
    let release = target_folder().join("release");
    let vocabulary = peers.vocabulary(RUNNER);
    let variables = [
        ("LONGHAND_PEERS", peers.folder.as_path()),
        ("LONGHAND_RELEASE", release.as_path()),
        ("TIKTOKEN_CACHE_DIR", vocabulary.as_path()),
    ];
    script(&python, parts, &variables)
}

fn script(python: &Path, parts: &[&str], variables: &[(&str, &Path)]) -> Result<(), Failure> {
    let mut command = Command::new(python);
    command.arg(root().join("bench/scoreboard.py")).args(parts);
    command.envs(variables.iter().copied()).current_dir(root());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("bench/scoreboard.py failed ({status})"))),
        Err(error) => {
            Err(Failure::unavailable(format!("{} does not run: {error}", python.display())))
        }
    }
}

/// Returns complaints if the page does not show the folds as they are.
pub(crate) fn complaints() -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let page = read(PAGE);
    let stale = FOLDS.iter().filter(|path| !shows(&page, &read(path)));
    stale
        .map(|path| format!("{PAGE} does not show {path}: `cargo xtask scoreboard render` does"))
        .collect()
}

fn shows(page: &str, fold: &str) -> bool {
    page.contains(&format!("````text\n{}\n````", fold.trim_end_matches('\n')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_a_fold_whole_or_not_at_all() {
        let page = "### A\n\n````text\none\ntwo\n````\n";
        assert!(shows(page, "one\ntwo\n"));
        assert!(!shows(page, "one\n"));
        assert!(!shows(page, "one\ntwo\nthree\n"));
    }
}
