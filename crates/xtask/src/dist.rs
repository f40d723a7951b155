//! Packages of the command: a binary archive, a Debian package, a Python wheel and an npm package.

mod npm;
mod test;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use self::test::test;
use crate::failure::Failure;
use crate::run::{cargo, root, target_folder};

/// Counting with a model's tokenizer.json takes long to build, so that only released binaries have it.
const FEATURES: &str = "tokenizer-json";

/// How the binary is built.
pub(crate) struct Build {
    profile: String,
    /// The target it is built for, if it is not this machine's.
    target: Option<String>,
    features: Option<&'static str>,
    /// Cargo's folder, the one that has or gets the binary.
    folder: PathBuf,
}

/// A binary with what belongs to it, ready to be packed.
pub(crate) struct Staged {
    /// `bin/longhand`, `share/man`, `share/…` for completions, licences and README.
    pub(crate) folder: PathBuf,
    /// Where packages go.
    pub(crate) output: PathBuf,
    pub(crate) build: Build,
}

/// The version of the packages.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where the packages go.
pub(crate) fn packages() -> PathBuf {
    target_folder().join("packages")
}

/// Builds the binary and packs it in every way that can be had here.
pub(crate) fn dist(arguments: &[&str]) -> Result<(), Failure> {
    let (mut profile, mut target, mut binary) = ("dist", None, None);
    for argument in arguments {
        match argument.split_once('=') {
            Some(("profile", name)) => profile = name,
            Some(("target", name)) => target = Some(name.to_owned()),
            Some(("binary", path)) => binary = Some(root().join(path)),
            _ => {
                return Err(Failure::usage(format!(
                    "`{argument}` is none of profile=…, target=… and binary=…"
                )));
            }
        }
    }
    let build = match &binary {
        Some(binary) => Build::of(binary, target)?,
        None => Build {
            profile: profile.to_owned(),
            target,
            features: Some(FEATURES),
            folder: target_folder(),
        },
    };
    if binary.is_none() {
        build.run()?;
    }
    let staged = stage(build)?;
    made("binary archive", archive(&staged))?;
    if staged.build.target.as_ref().is_none_or(|target| target.contains("linux")) {
        made("Debian package", debian(&staged))?;
    }
    made("Python wheel", wheel::pack(&staged))?;
    made("npm package", npm::pack(&staged))
}

impl Build {
    /// The build that made a binary, told by where it is: `FOLDER/[TARGET/]PROFILE/longhand`.
    fn of(binary: &Path, target: Option<String>) -> Result<Self, Failure> {
        let mut folders = binary.ancestors().skip(1);
        let profile = folders.next().and_then(Path::file_name);
        let folder = folders.nth(usize::from(target.is_some()));
        let (Some(profile), Some(folder)) = (profile, folder) else {
            return Err(Failure::usage(format!(
                "{} is not in a folder of cargo, such as target/release",
                binary.display()
            )));
        };
        let profile = profile.to_string_lossy().replace("debug", "dev");
        Ok(Self { profile, target, features: None, folder: folder.to_owned() })
    }

    fn run(&self) -> Result<(), Failure> {
        let mut arguments = vec!["build", "--package", "longhand-cli", "--profile", &self.profile];
        if let Some(features) = self.features {
            arguments.extend(["--features", features]);
        }
        if let Some(target) = &self.target {
            arguments.extend(["--target", target]);
        }
        cargo(&arguments)
    }

    /// Where the binary is.
    fn binary(&self) -> PathBuf {
        let profile = if self.profile == "dev" { "debug" } else { &self.profile };
        let target = self.target.as_deref().unwrap_or_default();
        self.folder.join(target).join(profile).join("longhand")
    }
}

/// Says where a package is, or that it cannot be had here.
fn made(what: &str, packed: Result<PathBuf, Failure>) -> Result<(), Failure> {
    match packed {
        Ok(path) => println!("xtask: {what}: {}", path.display()),
        Err(failure) if failure.is_unavailable() => println!("xtask: no {what}: {failure}"),
        Err(failure) => return Err(failure),
    }
    Ok(())
}

fn stage(build: Build) -> Result<Staged, Failure> {
    let output = packages();
    let folder = output.join("stage");
    let _ = fs::remove_dir_all(&output);
    let binary = build.binary();
    let man = folder.join("share/man/man1");
    for folder in [&folder.join("bin"), &man] {
        fs::create_dir_all(folder).map_err(|error| in_folder(folder, &error))?;
    }
    copy(&binary, &folder.join("bin/longhand"))?;
    // What a binary for another machine would print, ours prints as well.
    let ours = if build.target.is_some() { host_binary()? } else { binary };
    run(Command::new(&ours).arg("man").arg(&man))?;
    for (shell, path) in [
        ("bash", "share/bash-completion/completions/longhand"),
        ("zsh", "share/zsh/site-functions/_longhand"),
        ("fish", "share/fish/vendor_completions.d/longhand.fish"),
    ] {
        write(&folder.join(path), &printed(Command::new(&ours).args(["completions", shell]))?)?;
    }
    for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
        copy(&root().join(name), &folder.join("share/doc/longhand").join(name))?;
    }
    copy(
        &root().join("packaging/longhand.service"),
        &folder.join("share/doc/longhand/longhand.service"),
    )?;
    Ok(Staged { folder, output, build })
}

/// The binary for this machine, for man pages and completions.
fn host_binary() -> Result<PathBuf, Failure> {
    cargo(&["build", "--package", "longhand-cli"])?;
    Ok(target_folder().join("debug/longhand"))
}

fn archive(staged: &Staged) -> Result<PathBuf, Failure> {
    let machine = staged
        .build
        .target
        .clone()
        .unwrap_or_else(|| format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS));
    let name = format!("longhand-{VERSION}-{machine}");
    let path = staged.output.join(format!("{name}.tar.gz"));
    run(Command::new("tar")
        .arg("--create")
        .arg("--gzip")
        .arg("--file")
        .arg(&path)
        .arg("--directory")
        .arg(&staged.folder)
        .args(["--owner=0", "--group=0"])
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg("."))?;
    Ok(path)
}

/// Packs a Debian package: the staged files under `/usr`.
fn debian(staged: &Staged) -> Result<PathBuf, Failure> {
    let package = staged.output.join("deb");
    run(Command::new("cp").arg("--recursive").arg(&staged.folder).arg({
        let usr = package.join("usr");
        fs::create_dir_all(&package).map_err(|error| in_folder(&package, &error))?;
        usr
    }))?;
    copy(
        &root().join("packaging/longhand.service"),
        &package.join("usr/lib/systemd/user/longhand.service"),
    )?;
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let glibc = glibc(&staged.folder.join("bin/longhand"))?;
    let control = format!(
        "Package: longhand\nVersion: {VERSION}\nArchitecture: {machine}\nMaintainer: The Longhand project\n\
         Section: utils\nPriority: optional\nDepends: libc6 (>= 2.{glibc})\nRecommends: ca-certificates\n\
         Description: An endless conversation for any LLM agent\n \
         Makes conversations fit the context window of a model, keeps every word in an\n \
         archive, and brings back what was left out; as a command and as a proxy.\n"
    );
    write(&package.join("DEBIAN/control"), &control)?;
    let path = staged.output.join(format!("longhand_{VERSION}_{machine}.deb"));
    run(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&package).arg(&path))?;
    Ok(path)
}

/// The version of glibc that a binary needs, after `2.`: the highest that its symbols name.
fn glibc(binary: &Path) -> Result<u32, Failure> {
    const MARK: &[u8] = b"GLIBC_2.";
    let bytes = fs::read(binary).map_err(|error| in_folder(binary, &error))?;
    let versions = bytes.windows(MARK.len() + 3).filter(|part| part.starts_with(MARK));
    let number = |part: &[u8]| {
        let digits = part[MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    Ok(versions.map(number).filter(|version| *version < 100).max().unwrap_or(17))
}

/// A file in a folder whose name ends so.
pub(crate) fn find(folder: &Path, ending: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.into_iter().find(|path| path.to_string_lossy().ends_with(ending))
}

/// Runs a program that must succeed; one that is not installed makes the package unavailable.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    printed(command).map(drop)
}

/// Runs a program and returns what it prints.
pub(crate) fn printed(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| Failure::unavailable(format!("`{name}` did not start: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(format!("`{name}` failed ({}): {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| in_folder(path, &error))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(from, to))
        .map(drop)
        .map_err(|error| in_folder(from, &error))
}

fn in_folder(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}
