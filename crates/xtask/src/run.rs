//! Running cargo at the root of the workspace.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}

/// Where cargo builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// Runs cargo and lets it speak for itself.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Failure> {
    cargo_with(&[], arguments)
}

/// Runs cargo with some environment variables set.
pub(crate) fn cargo_with(variables: &[(&str, &str)], arguments: &[&str]) -> Result<(), Failure> {
    let shown = format!("cargo {}", arguments.join(" "));
    let status = command(arguments).envs(variables.iter().copied()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("`{shown}` failed ({status})"))),
        Err(error) => Err(Failure::new(format!("`{shown}` did not start: {error}"))),
    }
}

/// Says whether cargo knows a command, such as `fuzz`.
pub(crate) fn has_cargo_command(name: &str) -> bool {
    let status = command(&[name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A cargo that is about to run.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    command
}
