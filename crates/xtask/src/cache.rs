//! What is installed for tests, in the user's cache.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// The longest time for one step of an installation.
const STEP_MAX: Duration = Duration::from_mins(10);

/// The folder that a variable names, or one of that name in the user's cache; it may be removed at any
/// time.
pub(crate) fn folder(variable: &str, name: &str) -> Result<PathBuf, Failure> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder = set(variable).or_else(|| Some(base()?.join("longhand").join(name)));
    let folder = folder.ok_or_else(|| {
        Failure::unavailable("there is no folder for packages")
            .with_hint(format!("{variable} names one"))
    })?;
    fs::create_dir_all(&folder).map_err(|error| in_folder(&folder, &error))?;
    Ok(folder)
}

/// Waits for others that install: two at the same time would take each other's files away.
pub(crate) fn lock(folder: &Path) -> Result<File, Failure> {
    let lock = File::create(folder.join("lock")).map_err(|error| in_folder(folder, &error))?;
    lock.lock().map_err(|error| in_folder(folder, &error))?;
    Ok(lock)
}

/// Installs what is not there yet; `needed` is a part of it.
///
/// A mark is written last and names what is installed, so that an installation which was cut off, or is
/// of another version, is made anew.
pub(crate) fn once(
    folder: &Path,
    what: &str,
    needed: &Path,
    install: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mark = folder.join("installed.txt");
    if needed.exists() && fs::read_to_string(&mark).is_ok_and(|mark| mark == what) {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| in_folder(folder, &error))?;
    let _ = fs::remove_file(&mark);
    install()?;
    fs::write(&mark, what).map_err(|error| in_folder(folder, &error))
}

/// The interpreter of a Python environment.
pub(crate) fn python(venv: &Path) -> PathBuf {
    venv.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" })
}

/// Makes a Python environment.
pub(crate) fn make_venv(venv: &Path) -> Result<(), Failure> {
    let mut command = Command::new(if cfg!(windows) { "python" } else { "python3" });
    command.args(["-m", "venv", "--clear"]).arg(venv);
    run(command, "python3 -m venv").map_err(|failure| {
        failure.with_hint(
            "it takes Python 3.10 or later with venv and pip; on Debian, \
             `apt-get install python3-venv` installs them",
        )
    })
}

/// The command that installs packages, without what to install.
pub(crate) fn pip_install(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]).args([
        "--timeout",
        "20",
        "--retries",
        "2",
    ]);
    command
}

/// The command that installs the packages of a folder's package.json.
pub(crate) fn npm_install(folder: &Path) -> Command {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command
        .args(["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(["--loglevel", "error"])
        .current_dir(folder);
    command
}

/// Runs a step of an installation within its time; what it prints goes to standard error.
pub(crate) fn run(mut command: Command, shown: &str) -> Result<(), Failure> {
    command.stdout(std::io::stderr());
    supervise(command, shown)
}

/// Runs a step of an installation within its time. What it prints goes into a file; if it fails, the failure
/// quotes the line that tells why.
pub(crate) fn run_quoting(mut command: Command, shown: &str, log: &Path) -> Result<(), Failure> {
    let file = File::create(log).map_err(|error| in_folder(log, &error))?;
    command.stderr(file.try_clone().map_err(|error| in_folder(log, &error))?).stdout(file);
    supervise(command, shown).map_err(|failure| {
        let said = fs::read_to_string(log).unwrap_or_default();
        match telling(&said) {
            Some(line) => Failure::unavailable(format!("{}: {line}", failure.message())),
            None => failure,
        }
    })
}

/// The last line that names an error, or the last one.
fn telling(said: &str) -> Option<&str> {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    lines().find(|line| line.to_lowercase().contains("error")).or_else(|| lines().next())
}

fn supervise(mut command: Command, shown: &str) -> Result<(), Failure> {
    command.stdin(Stdio::null());
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

/// A folder that cannot be used.
pub(crate) fn in_folder(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::unavailable(format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_names_an_error() {
        let pip =
            "looking\nERROR: No matching distribution found for x==9\n\n[notice] a new release\n";
        assert_eq!(telling(pip), Some("ERROR: No matching distribution found for x==9"));
        assert_eq!(telling("one\ntwo\n\n"), Some("two"));
        assert_eq!(telling("\n"), None);
    }
}
