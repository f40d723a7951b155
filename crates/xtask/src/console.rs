//! The API of the console against its description, by a program that tries what nobody thinks of.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{self, run};
use crate::failure::Failure;
use crate::run::cargo_with;

/// What is installed, for pip.
const REQUIREMENTS: &str = include_str!("../../../clients/schemathesis/requirements.txt");

/// The test that runs it against a console with a filled archive.
const TEST: &[&str] =
    &["test", "--workspace", "--test", "suite", "console::schemathesis", "--", "--nocapture"];

/// Runs schemathesis against a console.
pub(crate) fn test() -> Result<(), Failure> {
    let program = install()?;
    cargo_with(&[("LONGHAND_SCHEMATHESIS", &program.to_string_lossy())], TEST)
}

fn install() -> Result<PathBuf, Failure> {
    let folder = cache::folder("LONGHAND_SCHEMATHESIS_CACHE", "schemathesis")?;
    let _lock = cache::lock(&folder)?;
    let python = cache::python(&folder.join("venv"));
    let program =
        python.with_file_name(if cfg!(windows) { "schemathesis.exe" } else { "schemathesis" });
    cache::once(&folder, REQUIREMENTS, &program, || install_into(&folder, &python))?;
    Ok(program)
}

fn install_into(folder: &Path, python: &Path) -> Result<(), Failure> {
    eprintln!("xtask: test-console: installing schemathesis");
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(|error| cache::in_folder(folder, &error))?;
    cache::make_venv(&folder.join("venv"))?;
    let mut command = cache::pip_install(python);
    command.args(["--no-deps", "--only-binary", ":all:", "--requirement"]).arg(&requirements);
    run(command, "pip install")
}
