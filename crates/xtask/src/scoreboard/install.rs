//! The peers' packages, each in an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::failure::Failure;

/// The packages for pip; `# [NAME]` begins those of one environment.
const REQUIREMENTS: &str = include_str!("../../../../bench/requirements.txt");

/// The packages for npm.
const PACKAGE: &str = include_str!("../../../../bench/package.json");

/// Where the peers are.
pub(crate) struct Peers {
    pub(crate) folder: PathBuf,
}

impl Peers {
    /// The Python of an environment, if that could be had.
    pub(crate) fn python(&self, name: &str) -> Option<PathBuf> {
        let python = cache::python(&self.folder.join(name).join("venv"));
        python.exists().then_some(python)
    }

    /// The folder of the vocabularies that a package brings along.
    pub(crate) fn vocabulary(&self, name: &str) -> PathBuf {
        let libraries = self.folder.join(name).join("venv/lib");
        let versions = fs::read_dir(&libraries).into_iter().flatten().flatten();
        let tokenizers = "site-packages/litellm/litellm_core_utils/tokenizers";
        let mut found = versions.map(|version| version.path().join(tokenizers));
        found.find(|path| path.exists()).unwrap_or_default()
    }
}

/// Installs what is not there yet. Why one cannot be had goes into its `error.txt`, which the page quotes;
/// the others are not held up.
pub(crate) fn install() -> Result<Peers, Failure> {
    let folder = cache::folder("LONGHAND_PEERS_CACHE", "peers")?;
    let _lock = cache::lock(&folder)?;
    for (name, packages) in sections(REQUIREMENTS) {
        let place = folder.join(name);
        note(&place, install_python(&place, name, &packages))?;
    }
    let place = folder.join("node");
    note(&place, install_node(&place))?;
    Ok(Peers { folder })
}

/// The environments of a requirements file with their packages.
fn sections(text: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        let name = line.strip_prefix("# [").and_then(|rest| rest.strip_suffix(']'));
        match (name, sections.last_mut()) {
            (Some(name), _) => sections.push((name, String::new())),
            (None, Some((_, packages))) if !line.is_empty() && !line.starts_with('#') => {
                packages.push_str(line);
                packages.push('\n');
            }
            _ => {}
        }
    }
    sections
}

fn install_python(place: &Path, name: &str, packages: &str) -> Result<(), Failure> {
    let python = cache::python(&place.join("venv"));
    cache::once(place, packages, &python, || {
        progress(&format!("installing {name}"));
        let requirements = place.join("requirements.txt");
        fs::write(&requirements, packages).map_err(|error| cache::in_folder(place, &error))?;
        cache::make_venv(&place.join("venv"))?;
        let mut command = cache::pip_install(&python);
        command.args(["--only-binary", ":all:", "--requirement"]).arg(&requirements);
        cache::run_quoting(command, "pip install", &place.join("log.txt"))
    })
}

fn install_node(place: &Path) -> Result<(), Failure> {
    cache::once(place, PACKAGE, &place.join("node_modules"), || {
        progress("installing the peers for Node");
        fs::write(place.join("package.json"), PACKAGE)
            .map_err(|error| cache::in_folder(place, &error))?;
        cache::run_quoting(cache::npm_install(place), "npm install", &place.join("log.txt"))
    })
}

/// Notes why a peer cannot be had, or that it can.
fn note(place: &Path, installed: Result<(), Failure>) -> Result<(), Failure> {
    let error = place.join("error.txt");
    let Err(failure) = installed else {
        let _ = fs::remove_file(&error);
        return Ok(());
    };
    progress(&format!("{}: {failure}", place.display()));
    fs::write(&error, failure.message()).map_err(|error| cache::in_folder(place, &error))
}

fn progress(message: &str) {
    eprintln!("xtask: scoreboard: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_told_apart() {
        let text = "# about\n\n# [one]\na==1\nb==2\n\n# [two]\n# why\nc==3\n";
        assert_eq!(
            sections(text),
            [("one", "a==1\nb==2\n".to_owned()), ("two", "c==3\n".to_owned())]
        );
    }

    #[test]
    fn every_package_is_pinned() {
        let sections = sections(REQUIREMENTS);
        assert!(sections.iter().any(|(name, _)| *name == super::super::RUNNER));
        for (name, packages) in sections {
            assert!(!packages.is_empty(), "{name}");
            assert!(packages.lines().all(|line| line.contains("==")), "{name}");
        }
    }
}
