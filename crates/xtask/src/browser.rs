//! The console in a real browser: Debian's Chromium, driven by playwright-core.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{self, run};
use crate::failure::Failure;
use crate::run::{cargo, root, target_folder};
use crate::scale::ArchiveMaker;

/// What is installed, for npm.
const PACKAGE: &str = include_str!("../../../clients/browser/package.json");

const TESTS: &str = "crates/longhand-server/tests/browser/main.mjs";
const PICTURES: &str = "crates/longhand-server/tests/browser/pictures.mjs";
const PAGE: &str = "crates/longhand-server/src/console/page";

/// Sessions of the large archive, and rounds of the long session.
const SESSIONS: u64 = 10_000;
const ROUNDS: u64 = 100_000;

/// The programs that drive the console.
struct Browser {
    chromium: PathBuf,
    modules: PathBuf,
    longhand: PathBuf,
}

/// Runs the tests of the console; `arguments` are a binary and a part of the tests' names.
pub(crate) fn test(arguments: &[&str]) -> Result<(), Failure> {
    let is_large = arguments.contains(&"large");
    let words: Vec<&str> = arguments.iter().copied().filter(|word| *word != "large").collect();
    let (binary, filter) = parse(&words);
    let browser = Browser::find(binary)?;
    let folder = target_folder().join("browser");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| cache::in_folder(&folder, &error))?;
    let mut command = browser.node(TESTS);
    command.env("LONGHAND_FOLDER", &folder);
    if is_large {
        let (many, long) = (folder.join("many.db"), folder.join("long.db"));
        progress("making an archive of 10,000 sessions, and one of 100,000 rounds");
        let maker = ArchiveMaker::build()?;
        maker.make(&many, &["sessions", "0", &SESSIONS.to_string()])?;
        maker.make(&long, &["rounds", &ROUNDS.to_string()])?;
        command.env("LONGHAND_MANY", &many).env("LONGHAND_LONG", &long);
    }
    command.args(filter);
    let done = status(command, "the tests of the console");
    let _ = fs::remove_dir_all(&folder);
    done
}

/// Makes the pictures of the documents.
pub(crate) fn pictures(arguments: &[&str]) -> Result<(), Failure> {
    let (binary, _) = parse(arguments);
    let browser = Browser::find(binary)?;
    let folder = root().join("docs/pictures");
    fs::create_dir_all(&folder).map_err(|error| cache::in_folder(&folder, &error))?;
    let mut command = browser.node(PICTURES);
    command.arg(&folder);
    status(command, "making pictures")
}

fn parse<'a>(arguments: &[&'a str]) -> (Option<&'a str>, Option<&'a str>) {
    let binary = arguments.iter().find_map(|word| word.strip_prefix("binary="));
    let filter = arguments.iter().find(|word| !word.starts_with("binary=")).copied();
    (binary, filter)
}

impl Browser {
    fn find(binary: Option<&str>) -> Result<Self, Failure> {
        let chromium = match chromium() {
            Some(path) => path,
            None => install_chromium()?,
        };
        let modules = install_modules()?;
        let longhand = if let Some(binary) = binary {
            root().join(binary)
        } else {
            cargo(&["build", "--quiet", "--release", "-p", "longhand-cli"])?;
            target_folder().join("release/longhand")
        };
        Ok(Self { chromium, modules, longhand })
    }

    fn node(&self, script: &str) -> Command {
        let mut command = Command::new("node");
        command
            .arg(root().join(script))
            .env("LONGHAND_CHROMIUM", &self.chromium)
            .env("LONGHAND_BROWSER_MODULES", &self.modules)
            .env("LONGHAND_BINARY", &self.longhand)
            .env("LONGHAND_PAGE", root().join(PAGE));
        command
    }
}

/// Chromium, if it is on the path.
fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<PathBuf> =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.into_iter().find(|path| path.is_file())
}

fn install_chromium() -> Result<PathBuf, Failure> {
    progress("installing Debian's chromium");
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends", "chromium"]);
    run(command, "apt-get install chromium")?;
    chromium().ok_or_else(|| Failure::unavailable("there is no Chromium"))
}

fn install_modules() -> Result<PathBuf, Failure> {
    let folder = cache::folder("LONGHAND_BROWSER_CACHE", "browser")?;
    let _lock = cache::lock(&folder)?;
    cache::once(&folder, PACKAGE, &folder.join("node_modules"), || {
        progress("installing playwright-core and axe-core");
        fs::write(folder.join("package.json"), PACKAGE)
            .map_err(|error| cache::in_folder(&folder, &error))?;
        run(cache::npm_install(&folder), "npm install")
    })?;
    Ok(folder)
}

fn status(mut command: Command, what: &str) -> Result<(), Failure> {
    let program = Path::new(command.get_program()).display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("{what} failed ({status})"))),
        Err(error) => Err(Failure::unavailable(format!("`{program}` did not start: {error}"))),
    }
}

fn progress(message: &str) {
    eprintln!("xtask: browser: {message}");
}
