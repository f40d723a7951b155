//! The packages of the clients, in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::progress;
use crate::cache::{self, run};
use crate::failure::Failure;

/// What is installed, for pip.
const REQUIREMENTS: &str = include_str!("../../../../clients/python/requirements.txt");

/// What is installed, for npm.
const PACKAGE: &str = include_str!("../../../../clients/node/package.json");

/// Where the clients are, as far as they could be had.
pub(crate) struct InstalledClients {
    /// The Python that has the packages.
    pub(crate) python: Option<PathBuf>,
    /// The folder that has the packages for Node.
    pub(crate) node: Option<PathBuf>,
}

/// Makes sure that the clients of one language at least are there.
pub(crate) fn install() -> Result<InstalledClients, Failure> {
    let folder = cache::folder("LONGHAND_CLIENTS_CACHE", "clients")?;
    let _lock = cache::lock(&folder)?;
    let found = |language: &str, installed: Result<PathBuf, Failure>| {
        installed.inspect_err(|failure| progress(&format!("skipping {language}: {failure}"))).ok()
    };
    let python = found("Python", install_python(&folder.join("python")));
    let node = found("Node", install_node(&folder.join("node")));
    if python.is_none() && node.is_none() {
        return Err(Failure::unavailable("the clients can be had neither for Python nor for Node"));
    }
    Ok(InstalledClients { python, node })
}

fn install_python(folder: &Path) -> Result<PathBuf, Failure> {
    let python = cache::python(&folder.join("venv"));
    cache::once(folder, REQUIREMENTS, &python, || {
        progress("installing openai, anthropic and mcp for Python");
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, REQUIREMENTS).map_err(|error| cache::in_folder(folder, &error))?;
        cache::make_venv(&folder.join("venv"))?;
        let mut command = cache::pip_install(&python);
        command.args(["--no-deps", "--only-binary", ":all:", "--requirement"]).arg(&requirements);
        run(command, "pip install")
    })?;
    Ok(python)
}

/// The packages say that they want Node 22; all that is used of them runs with 20.
const NODE_MAJOR_MIN: u32 = 20;

fn install_node(folder: &Path) -> Result<PathBuf, Failure> {
    let output = Command::new("node").arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let major = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    if !major.parse().is_ok_and(|major: u32| major >= NODE_MAJOR_MIN) {
        return Err(Failure::unavailable(format!("there is no Node {NODE_MAJOR_MIN} or later")));
    }
    cache::once(folder, PACKAGE, &folder.join("node_modules"), || {
        progress("installing openai, @anthropic-ai/sdk and @modelcontextprotocol/sdk for Node");
        fs::write(folder.join("package.json"), PACKAGE)
            .map_err(|error| cache::in_folder(folder, &error))?;
        run(cache::npm_install(folder), "npm install")
    })?;
    Ok(folder.to_owned())
}
