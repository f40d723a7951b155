//! Installs each package into a clean place and runs the first command of the README with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{VERSION, copy, run};
use crate::cache;
use crate::failure::Failure;
use crate::run::root;

/// Tests the packages that `cargo xtask dist` made.
pub(crate) fn test() -> Result<(), Failure> {
    let packages = root().join("target/packages");
    let clean = packages.join("test");
    let _ = fs::remove_dir_all(&clean);
    let mut tested = 0;
    for (what, ending, install) in INSTALLS {
        let Some(package) = find(&packages, ending) else {
            println!("xtask: {what}: not made here");
            continue;
        };
        let folder = clean.join(what.replace(' ', "-"));
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        let binary = install(&package, &folder)?;
        first_command(&binary, &folder)?;
        println!("xtask: {what}: ok, {}", package.display());
        tested += 1;
    }
    if tested == 0 {
        return Err(Failure::new("there is no package").with_hint("`cargo xtask dist` makes them"));
    }
    Ok(())
}

/// Installs a package into a folder and returns the command.
type Install = fn(&Path, &Path) -> Result<PathBuf, Failure>;

const INSTALLS: [(&str, &str, Install); 4] = [
    ("binary archive", ".tar.gz", unpack),
    ("Debian package", ".deb", install_debian),
    ("Python wheel", ".whl", install_wheel),
    ("npm package", ".tgz", install_npm),
];

fn find(folder: &Path, ending: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(|path| path.to_string_lossy().ends_with(ending))
}

fn unpack(package: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    run(Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(package)
        .arg("--directory")
        .arg(folder))?;
    let inner =
        fs::read_dir(folder).ok().and_then(|mut entries| Some(entries.next()?.ok()?.path()));
    let inner = inner.ok_or_else(|| Failure::new("the archive is empty"))?;
    let man = inner.join("share/man/man1/longhand-compact.1");
    let completion = inner.join("share/bash-completion/completions/longhand");
    for path in [man, completion] {
        if fs::metadata(&path).map_or(0, |data| data.len()) < 500 {
            return Err(Failure::new(format!("{} is not there", path.display())));
        }
    }
    Ok(inner.join("bin/longhand"))
}

/// Installs below a root of its own, which has nothing else.
fn install_debian(package: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let state = folder.join("var/lib/dpkg");
    for name in ["updates", "info", "triggers"] {
        fs::create_dir_all(state.join(name))
            .map_err(|error| Failure::new(format!("{}: {error}", state.display())))?;
    }
    super::write(&state.join("status"), "")?;
    super::write(&state.join("available"), "")?;
    run(Command::new("dpkg")
        .arg(format!("--root={}", folder.display()))
        .args(["--force-not-root", "--force-depends", "--force-script-chrootless"])
        .arg(format!("--log={}", folder.join("dpkg.log").display()))
        .arg("--install")
        .arg(package))?;
    Ok(folder.join("usr/bin/longhand"))
}

fn install_wheel(package: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let venv = folder.join("venv");
    cache::make_venv(&venv)?;
    let mut pip = cache::pip_install(&cache::python(&venv));
    pip.args(["--no-index", "--no-deps"]).arg(package);
    run(&mut pip)?;
    Ok(venv.join("bin/longhand"))
}

fn install_npm(package: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    run(Command::new("npm")
        .args([
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
            "--prefix",
        ])
        .arg(folder)
        .arg(package)
        .env("npm_config_cache", folder.join("cache")))?;
    Ok(folder.join("node_modules/.bin/longhand"))
}

/// Runs the first command that the README shows, and checks what it wrote.
fn first_command(binary: &Path, folder: &Path) -> Result<(), Failure> {
    let readme = fs::read_to_string(root().join("README.md"))
        .map_err(|error| Failure::new(format!("README.md: {error}")))?;
    let command = readme.lines().find_map(|line| line.strip_prefix("$ longhand "));
    let command = command.ok_or_else(|| Failure::new("the README shows no command"))?;
    let place = folder.join("run");
    copy(&root().join("examples/long-session.json"), &place.join("examples/long-session.json"))?;
    let longhand = |arguments: &str| {
        let mut command = Command::new(binary);
        command.args(arguments.split_whitespace()).current_dir(&place).env("HOME", &place);
        command
    };
    run(&mut longhand(command))?;
    run(&mut longhand("check window.json"))?;
    let version = super::printed(&mut longhand("--version"))?;
    if !version.contains(VERSION) {
        return Err(Failure::new(format!("{} is {version}", binary.display())));
    }
    Ok(())
}
