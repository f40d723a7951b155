//! `longhand serve` with an archive in a folder of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use longhand::{Archive, SessionId, SqliteArchive};
use longhand_archive::Page;
use longhand_dialect::Dialect;
use serde_json::Value;
use tempfile::TempDir;

use crate::facts::facts;

pub(crate) struct TestedProxy {
    child: Child,
    folder: TempDir,
    /// Its address, up to the port.
    pub(crate) url: String,
}

impl TestedProxy {
    pub(crate) fn start(upstream: &str, budget: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, &["--upstream", upstream, "--budget", &budget.to_string()])
    }

    /// Starts one over the archive `a.db` in a folder.
    pub(crate) fn start_in(folder: TempDir, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhand"))
            .args(["serve", "--listen", "127.0.0.1:0", "--archive", "a.db"])
            .args(options)
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening ").unwrap().to_owned();
        Self { child, folder, url }
    }

    /// Ends the proxy and gives what each archived session says.
    pub(crate) fn archived(mut self) -> Vec<Vec<String>> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(told.unwrap().success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "{said}");
        assert!(said.contains(" 0 passed on unchanged") && said.contains(" 0 not"), "{said}");
        let archive = SqliteArchive::open(self.folder.path().join("a.db")).unwrap();
        assert!(archive.verify(None).unwrap().is_empty());
        let sessions = archive.sessions(None, Page::ALL).unwrap().items;
        sessions.iter().map(|session| session_facts(&archive, session.id)).collect()
    }
}

fn session_facts(archive: &SqliteArchive, session: SessionId) -> Vec<String> {
    let entries = archive.entries(session, 0..u64::MAX).unwrap();
    // Not what the ledger says of itself.
    let said = entries.iter().filter_map(|entry| {
        let dialect = entry.form.parse::<Dialect>().ok()?;
        let message: Value = serde_json::from_str(&entry.raw).unwrap();
        Some(facts(dialect, &Value::Array(vec![message])))
    });
    said.flatten().collect()
}

impl Drop for TestedProxy {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
