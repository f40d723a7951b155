//! The Python wheel that carries the binary, for `pipx install` and `uvx`. maturin makes it, as `pyproject.toml` says.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Staged, run};
use crate::cache;
use crate::failure::Failure;
use crate::run::root;

/// What is installed where there is no maturin.
const MATURIN: &str = "maturin==1.16.0";

/// Has maturin pack the binary.
///
/// maturin runs cargo itself. With the profile, features and folder of the build before, cargo finds the binary there and
/// compiles nothing; `test-dist` compares the two.
pub(super) fn pack(staged: &Staged) -> Result<PathBuf, Failure> {
    let build = &staged.build;
    let mut command = Command::new(maturin()?);
    command
        .args(["build", "--quiet", "--profile", &build.profile, "--target-dir"])
        .arg(&build.folder)
        .arg("--out")
        .arg(&staged.output)
        .current_dir(root());
    if let Some(features) = build.features {
        command.args(["--features", features]);
    }
    if let Some(target) = &build.target {
        command.args(["--target", target]);
    }
    run(&mut command)?;
    super::find(&staged.output, ".whl").ok_or_else(|| Failure::new("maturin made no wheel"))
}

/// The maturin that is installed, or one in the user's cache.
fn maturin() -> Result<PathBuf, Failure> {
    let mut command = Command::new("maturin");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return Ok("maturin".into());
    }
    let folder = cache::folder("LONGHAND_MATURIN_CACHE", "maturin")?;
    let _lock = cache::lock(&folder)?;
    let venv = folder.join("venv");
    let python = cache::python(&venv);
    let maturin = python.with_file_name("maturin");
    cache::once(&folder, MATURIN, &maturin, || {
        println!("xtask: installing {MATURIN} in {}", folder.display());
        cache::make_venv(&venv)?;
        let mut pip = cache::pip_install(&python);
        pip.args(["--only-binary", ":all:", MATURIN]);
        cache::run(pip, "pip install maturin")
    })?;
    Ok(maturin)
}
