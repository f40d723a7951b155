//! The packages of the agents, each in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::progress;
use crate::cache::{self, run};
use crate::failure::Failure;
use crate::run::root;

/// Where the versions of what Python agents depend on are, as `pip freeze` writes them: with newer ones
/// mini-swe-agent does not start, and `langchain` cannot be installed.
const PINNED: &str = "clients/agents/pinned";

/// An agent, and the packages that it is.
pub(crate) struct AgentPackage {
    pub(crate) name: &'static str,
    /// The folder in the cache.
    folder: &'static str,
    registry: Registry,
    /// Pinned, so that a run can be repeated.
    packages: &'static [&'static str],
}

#[derive(Clone, Copy)]
enum Registry {
    Npm,
    PyPi,
}

/// All agents.
pub(crate) const AGENTS: &[AgentPackage] = &[
    npm("claude", "claude-code", &["@anthropic-ai/claude-code@2.1.325"]),
    npm("opencode", "opencode", &["opencode-ai@1.18.33"]),
    npm("codex", "codex", &["@openai/codex@0.166.0"]),
    npm("pi", "pi", &["@mariozechner/pi-coding-agent@0.73.1"]),
    pypi("aider", "aider", &["aider-chat==0.86.2"]),
    pypi("mini-swe-agent", "mini-swe-agent", &["mini-swe-agent==2.4.6"]),
    pypi("llm", "llm", &["llm==0.36"]),
    pypi("openai-agents", "openai-agents", &["openai-agents==0.24.0"]),
    pypi("langchain", "langchain", &["langchain==1.4.5", "langchain-openai==1.7.3"]),
    pypi("pydantic-ai", "pydantic-ai", &["pydantic-ai==2.62.0"]),
    npm("ai", "ai", &["ai@7.0.169", "@ai-sdk/openai@4.0.114", "zod@4.6.7"]),
];

const fn npm(
    name: &'static str,
    folder: &'static str,
    packages: &'static [&'static str],
) -> AgentPackage {
    AgentPackage { name, folder, registry: Registry::Npm, packages }
}

const fn pypi(
    name: &'static str,
    folder: &'static str,
    packages: &'static [&'static str],
) -> AgentPackage {
    AgentPackage { name, folder, registry: Registry::PyPi, packages }
}

/// What is there.
pub(crate) struct InstalledAgents {
    pub(crate) folder: PathBuf,
    pub(crate) names: Vec<&'static str>,
}

/// Makes sure that agents are there, as far as they can be had.
pub(crate) fn install(
    agents: impl Iterator<Item = &'static AgentPackage>,
) -> Result<InstalledAgents, Failure> {
    let folder = cache::folder("LONGHAND_AGENTS_CACHE", "agents")?;
    let _lock = cache::lock(&folder)?;
    let mut names = Vec::new();
    for agent in agents {
        match install_one(agent, &folder.join(agent.folder)) {
            Ok(()) => names.push(agent.name),
            Err(failure) => progress(&format!("skipping {}: {failure}", agent.name)),
        }
    }
    if names.is_empty() {
        return Err(Failure::unavailable("none of the agents can be had here"));
    }
    Ok(InstalledAgents { folder, names })
}

fn install_one(agent: &AgentPackage, folder: &Path) -> Result<(), Failure> {
    let packages = agent.packages.join(" ");
    match agent.registry {
        Registry::Npm => cache::once(folder, &packages, &folder.join("node_modules"), || {
            progress(&format!("installing {packages}"));
            fs::write(folder.join("package.json"), "{\"private\":true}")
                .map_err(|error| cache::in_folder(folder, &error))?;
            let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
            command
                .args([
                    "install",
                    "--no-package-lock",
                    "--no-audit",
                    "--no-fund",
                    "--loglevel",
                    "error",
                ])
                .args(agent.packages)
                .current_dir(folder);
            run(command, "npm install")
        }),
        Registry::PyPi => {
            let venv = folder.join("venv");
            let python = cache::python(&venv);
            let pinned = root().join(PINNED).join(agent.name).with_extension("txt");
            let versions = fs::read_to_string(&pinned)
                .map_err(|error| Failure::new(format!("{}: {error}", pinned.display())))?;
            cache::once(folder, &format!("{packages}\n{versions}"), &python, || {
                progress(&format!("installing {packages}"));
                cache::make_venv(&venv)?;
                let mut command = cache::pip_install(&python);
                command.args(agent.packages).arg("--constraint").arg(&pinned);
                run(command, "pip install")
            })
        }
    }
}
