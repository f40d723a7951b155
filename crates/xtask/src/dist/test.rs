//! Installs each package into a clean place and runs the first command of the README with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{VERSION, copy, find, run};
use crate::cache;
use crate::failure::Failure;
use crate::run::root;

/// Tests the packages that `cargo xtask dist` made.
pub(crate) fn test() -> Result<(), Failure> {
    let packages = super::packages();
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
        for (program, arguments) in
            RUNNERS.iter().filter(|(.., of)| *of == ending).map(|r| (r.0, r.1))
        {
            run_uninstalled(program, arguments, &package, &folder)?;
        }
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

/// Programs that run a package without installing it, and what they are told; `PACKAGE` is its path.
const RUNNERS: [(&str, &str, &str); 3] = [
    ("uvx", "--offline --from PACKAGE longhand --version", ".whl"),
    ("pipx", "run --spec PACKAGE longhand --version", ".whl"),
    ("npx", "--offline --yes --package=PACKAGE -- longhand --version", ".tgz"),
];

/// Runs a package without installing it, if the program for that is here.
fn run_uninstalled(
    program: &str,
    arguments: &str,
    package: &Path,
    folder: &Path,
) -> Result<(), Failure> {
    let home = folder.join(program);
    fs::create_dir_all(&home)
        .map_err(|error| Failure::new(format!("{}: {error}", home.display())))?;
    let package = package.to_string_lossy();
    let arguments = arguments.split(' ').map(|argument| argument.replace("PACKAGE", &package));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&home).env("HOME", &home).env("PIP_NO_INDEX", "1");
    command.env("npm_config_cache", home.join("cache"));
    match super::printed(&mut command) {
        Ok(version) if version.contains(VERSION) => {
            println!("xtask: {program}: ok, {}", version.trim());
        }
        Ok(version) => return Err(Failure::new(format!("`{program}` printed {version:?}"))),
        Err(failure) if failure.is_unavailable() => println!("xtask: {program}: not installed"),
        Err(failure) => return Err(failure),
    }
    Ok(())
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
    let binary = folder.join("usr/bin/longhand");
    verify_unit(&folder.join("usr/lib/systemd/user/longhand.service"), &binary, folder)?;
    Ok(binary)
}

/// Has systemd read the unit, if it is here; the unit names the binary where the package puts it.
fn verify_unit(unit: &Path, binary: &Path, folder: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(unit)
        .map_err(|error| Failure::new(format!("{}: {error}", unit.display())))?;
    let copy = folder.join("longhand.service");
    super::write(&copy, &text.replace("/usr/bin/longhand", &binary.to_string_lossy()))?;
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--user"]).arg(&copy).env("XDG_RUNTIME_DIR", folder);
    match run(&mut command) {
        Ok(()) => println!("xtask: systemd unit: ok"),
        Err(failure) if failure.is_unavailable() => {
            println!("xtask: systemd unit: not checked, {failure}");
        }
        Err(failure) => return Err(failure),
    }
    Ok(())
}

fn install_wheel(package: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let venv = folder.join("venv");
    cache::make_venv(&venv)?;
    let mut pip = cache::pip_install(&cache::python(&venv));
    pip.args(["--no-index", "--no-deps"]).arg(package);
    run(&mut pip)?;
    let binary = venv.join("bin/longhand");
    // maturin asked cargo for a binary: it must be the one in the other packages, not another build.
    let read = |path: &Path| {
        fs::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    };
    if read(&binary)? != read(&super::packages().join("stage/bin/longhand"))? {
        return Err(Failure::new("the wheel has another binary than the other packages"));
    }
    Ok(binary)
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
