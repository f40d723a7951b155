//! Everything that must hold before a commit.

use std::time::Instant;

use crate::failure::Failure;
use crate::run::{cargo, cargo_with, has_cargo_command};
use crate::{deny, tidy};

/// All features but `embeddings`, which has a stage of its own: `test-embeddings`.
const FEATURES: &[&str] = &[
    "longhand-archive/postgres",
    "longhand-cli/tokenizer-json",
    "longhand-testkit/server",
    "longhand-testkit/storage",
];

/// Runs every step, the quick ones first, and stops at the first that fails.
pub(crate) fn check() -> Result<(), Failure> {
    lint()?;
    step("test", || cargo(&["test", "--workspace"]))
}

/// All but the tests.
pub(crate) fn lint() -> Result<(), Failure> {
    step("tidy", tidy::tidy)?;
    step("fmt", || cargo(&["fmt", "--all", "--check"]))?;
    step("clippy", || {
        let features = FEATURES.join(",");
        let packages = ["clippy", "--workspace", "--all-targets", "--features", &features];
        cargo(&[&packages[..], &["--", "-D", "warnings"]].concat())
    })?;
    step("doc", || {
        cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &["doc", "--workspace", "--no-deps"])
    })?;
    if has_cargo_command("deny") {
        step("deny", deny::deny)
    } else {
        println!("xtask: deny skipped, cargo-deny is not installed");
        Ok(())
    }
}

fn step(name: &str, action: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    println!("xtask: {name}");
    let start = Instant::now();
    let outcome = action();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("xtask: {name} {verdict}, {:.1} s", start.elapsed().as_secs_f64());
    outcome
}
