//! Which settings of folders are trusted: a file that came with a checkout must not decide where messages go.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::args::TrustArgs;
use crate::config::{self, FILE};
use crate::{CommandOutcome, hinted, output};

/// The files that the user trusts, each with a hash of what it said then.
#[derive(Debug, Default)]
pub(crate) struct Trusted(Vec<(String, PathBuf)>);

impl Trusted {
    /// Reads the list; without one, nothing is trusted.
    pub(crate) fn load() -> Self {
        let text = list().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        Self(lines.map(|(hash, path)| (hash.to_owned(), PathBuf::from(path))).collect())
    }

    /// Whether a file is trusted with this very content.
    pub(crate) fn has(&self, path: &Path, content: &str) -> bool {
        let hash = hash(content);
        self.0.iter().any(|(known, file)| *known == hash && file == path)
    }

    fn save(&self) -> Result<()> {
        let path = list().context("cannot find your settings folder: HOME is not set")?;
        let lines = self.0.iter().map(|(hash, file)| format!("{hash} {}\n", file.display()));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        output::write_file(&path, &lines.collect::<String>())
    }
}

/// Where the list is: beside the user's own settings.
pub(crate) fn list() -> Option<PathBuf> {
    Some(config::own_file()?.with_file_name("trusted"))
}

fn hash(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

pub(crate) fn run(args: &TrustArgs) -> Result<CommandOutcome> {
    let mut trusted = Trusted::load();
    if args.list {
        if trusted.0.is_empty() {
            output::say("no file is trusted");
            return Ok(CommandOutcome::Done);
        }
        let lines = trusted.0.iter().map(|(_, path)| format!("{}\n", path.display()));
        output::print(&lines.collect::<String>())?;
        return Ok(CommandOutcome::Done);
    }
    let path = file(&args.folder)?;
    trusted.0.retain(|(_, file)| *file != path);
    if args.forget {
        trusted.save()?;
        output::say(&format!("{} is no longer trusted", path.display()));
        return Ok(CommandOutcome::Done);
    }
    let content =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let held_back = config::held_back(&path, &content)?;
    trusted.0.push((hash(&content), path.clone()));
    trusted.save()?;
    output::say(&format!("{} is trusted until it changes", path.display()));
    for (key, value) in held_back {
        output::say(&format!("  {key} = {value}"));
    }
    Ok(CommandOutcome::Done)
}

/// The settings of a folder, by the folder or the file.
fn file(folder: &Path) -> Result<PathBuf> {
    let path = if folder.is_dir() { folder.join(FILE) } else { folder.to_owned() };
    if path.file_name().is_none_or(|name| name != FILE) {
        bail!("{} is not a {FILE}", path.display());
    }
    path.canonicalize().map_err(|_| {
        hinted(
            format!("there is no {}", path.display()),
            "give the folder that has the longhand.toml",
        )
    })
}
