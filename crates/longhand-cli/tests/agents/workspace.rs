//! The folder that an agent works in, and its home.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::task::{LOGS, log_text, source, source_text};

/// A PNG of one pixel that every decoder takes.
const PICTURE: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0,
    0, 0, 31, 21, 196, 137, 0, 0, 0, 13, 73, 68, 65, 84, 120, 156, 99, 248, 207, 192, 240, 31, 0,
    5, 0, 1, 255, 137, 153, 61, 29, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

/// A project, and a home that is empty.
pub(crate) struct Workspace {
    folder: TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Self { folder };
        for name in ["src", "logs"] {
            std::fs::create_dir_all(workspace.project().join(name)).unwrap();
        }
        std::fs::create_dir_all(workspace.home()).unwrap();
        for file in 0..4 {
            workspace.write(&source(file), source_text(file).as_bytes());
        }
        for log in 0..=LOGS {
            workspace.write(&format!("logs/run-{log}.log"), log_text(log).as_bytes());
        }
        workspace.write("check.sh", b"cat \"$(dirname \"$0\")/logs/run-$1.log\"\n");
        workspace.write("LICENSE", b"none\n");
        workspace.write("diagram.png", PICTURE);
        workspace.git(&["init", "-q"]);
        workspace
    }

    /// What the model's calls name.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.folder.path().join("a.db")
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.project().join(name), content).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        // Some agents look for it, none needs it.
        let _ = Command::new("git").args(arguments).current_dir(self.project()).output();
    }

    /// Runs `longhand` on the archive, and gives what it prints.
    pub(crate) fn longhand(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(arguments)
            .arg("--archive")
            .arg(self.archive())
            .current_dir(self.home())
            .env("HOME", self.home())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
