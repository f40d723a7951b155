//! A proxy that is killed and started again where it was.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::client::KEYS;
use super::upstream::WRITER;
use crate::server::PASSWORD;

/// The command, and a folder that its nodes run in.
pub(crate) struct NodePlace {
    command: String,
    pub(crate) folder: tempfile::TempDir,
}

impl NodePlace {
    /// `None` where there is no command to run, which is said.
    pub(crate) fn find() -> Option<Self> {
        let Ok(command) = std::env::var("LONGHAND_COMMAND") else {
            eprintln!("SKIPPED: LONGHAND_COMMAND does not name the command");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("keys"), KEYS.join("\n")).unwrap();
        Some(Self { command, folder })
    }
}

impl NodePlace {
    /// Has the nodes ask a model of this server for summaries.
    pub(crate) fn set_writer(&self, server: SocketAddr) {
        let folder = self.folder.path().join(".config/longhand");
        std::fs::create_dir_all(&folder).unwrap();
        let settings = format!(
            "[models]\nsummary = [\"stub/{WRITER}\"]\n\
             [endpoints.stub]\nurl = \"http://{server}/v1\"\napi = \"chat\"\n\
             [prices.\"stub/{WRITER}\"]\ninput = 0.001\noutput = 0.001\n"
        );
        std::fs::write(folder.join("longhand.toml"), settings).unwrap();
    }
}

pub(crate) struct Node {
    pub(crate) address: String,
    arguments: Vec<String>,
    child: Child,
}

impl Node {
    pub(crate) fn start(
        place: &NodePlace,
        archive: &str,
        upstream: SocketAddr,
        options: &str,
    ) -> Self {
        let archive = archive.replace(&format!(":{PASSWORD}"), "");
        let mut arguments = vec!["serve".to_owned(), "--archive".to_owned(), archive];
        arguments.extend(["--upstream".to_owned(), format!("http://{upstream}")]);
        arguments.extend(options.split_whitespace().map(str::to_owned));
        let (child, address) = spawn(place, &arguments, "127.0.0.1:0").unwrap();
        Self { address, arguments, child }
    }

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it with a word.
    pub(crate) fn end(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Starts it again at the same address, as soon as the database is there.
    pub(crate) fn again(&mut self, place: &NodePlace) {
        for _ in 0..300 {
            if let Some((child, _)) = spawn(place, &self.arguments, &self.address) {
                self.child = child;
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("it does not start again");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(place: &NodePlace, arguments: &[String], listen: &str) -> Option<(Child, String)> {
    let mut command = Command::new(&place.command);
    command
        .args(arguments)
        .args(["--quiet", "--api-key-file", "keys", "--listen", listen])
        .env_clear();
    command.current_dir(place.folder.path()).env("HOME", place.folder.path());
    command.env("PGPASSWORD", PASSWORD).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    match line.trim().strip_prefix("listening http://") {
        Some(address) => Some((child, address.to_owned())),
        None => {
            child.wait().unwrap();
            None
        }
    }
}
