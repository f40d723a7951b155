//! The scripts in `clients/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use longhand_dialect::Dialect;
use serde_json::Value;
use tempfile::TempDir;

/// A language whose clients are installed.
pub(crate) enum ClientLanguage {
    /// With the interpreter that has the packages.
    Python(PathBuf),
    /// With a folder that has the scripts and the packages.
    Node(TempDir),
}

/// The clients of both languages, or of those that are there.
pub(crate) fn clients() -> Vec<ClientLanguage> {
    let set = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        if value.is_none() {
            println!("skipped: {name} is not set; `cargo xtask test-clients` sets it");
        }
        value.map(PathBuf::from)
    };
    let python = set("LONGHAND_CLIENTS_PYTHON").map(ClientLanguage::Python);
    let node = set("LONGHAND_CLIENTS_NODE").map(|packages| ClientLanguage::node(&packages));
    python.into_iter().chain(node).collect()
}

impl ClientLanguage {
    /// Packages are looked for beside the script, so both are brought together.
    fn node(packages: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for script in ["agent.mjs", "features.mjs", "mcp_calls.mjs"] {
            std::fs::copy(scripts().join("node").join(script), folder.path().join(script)).unwrap();
        }
        let modules = packages.join("node_modules");
        std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
        Self::Node(folder)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Python(_) => "python",
            Self::Node(_) => "node",
        }
    }

    /// Runs a script, which must not fail, and gives what it saw.
    pub(crate) fn run(&self, script: &str, arguments: &str) -> Value {
        let mut command = match self {
            Self::Python(python) => {
                let mut command = Command::new(python);
                command.arg(scripts().join("python").join(format!("{script}.py")));
                command
            }
            Self::Node(folder) => {
                let mut command = Command::new("node");
                command.arg(folder.path().join(format!("{script}.mjs")));
                command
            }
        };
        let output = command.args(arguments.split_whitespace()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {script} {arguments}\n{said}", self.name());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// A provider's way to hold a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientApi {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
}

pub(crate) const APIS: [ClientApi; 3] = [
    ClientApi { name: "chat", dialect: Dialect::Chat },
    ClientApi { name: "responses", dialect: Dialect::Responses },
    ClientApi { name: "messages", dialect: Dialect::Anthropic },
];
