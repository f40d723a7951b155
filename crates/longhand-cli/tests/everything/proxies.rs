//! Two proxies on one archive, which are ended and started again, and all else that happens to an archive.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The folder of an archive, and how commands are run on it.
pub(crate) struct ArchiveFolder {
    pub(crate) folder: PathBuf,
    /// Stands between programs and their disk, if it could be built.
    shim: Option<PathBuf>,
}

impl ArchiveFolder {
    pub(crate) fn new(folder: &Path) -> Self {
        let shim = folder.join("full.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/everything/full.c");
        let mut cc = Command::new("cc");
        let built = cc.args(["-shared", "-fPIC", "-O1", "-o"]).args([&shim, &source]).status();
        let shim = built.is_ok_and(|status| status.success()).then_some(shim);
        if shim.is_none() {
            println!(
                "skipped: no disk is full, since there is no C compiler to build the shim with"
            );
        }
        fs::create_dir(folder.join("disk")).unwrap();
        Self { folder: folder.to_owned(), shim }
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.folder.join("disk/a.db")
    }

    /// While this file exists, the disk is full.
    pub(crate) fn full_sign(&self) -> PathBuf {
        self.folder.join("full")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
        command
            .args(line.split_whitespace())
            .arg("--archive")
            .arg(self.archive())
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .env("XDG_DATA_HOME", self.folder.join("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(shim) = &self.shim {
            command
                .env("LD_PRELOAD", shim)
                .env("LONGHAND_FULL", self.full_sign())
                .env("LONGHAND_FULL_FOLDER", self.folder.join("disk"));
        }
        command
    }

    /// Runs a command; returns whether it was done, and what it said.
    pub(crate) fn run(&self, line: &str, input: &str) -> (bool, String) {
        let mut child = self.command(line).spawn().unwrap();
        // Who refuses its input early closes the pipe.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{line}: {said}");
        let status = output.status.code();
        assert!(matches!(status, Some(0..=3)), "{line}: {status:?} {said}");
        (status == Some(0), said)
    }
}

/// A proxy that is started again where it was.
pub(crate) struct RestartedProxy {
    pub(crate) address: SocketAddr,
    options: String,
    child: Child,
    errors: Option<JoinHandle<String>>,
    /// All that it ever said on standard error.
    pub(crate) said: String,
}

impl RestartedProxy {
    pub(crate) fn start(place: &ArchiveFolder, upstream: SocketAddr, options: &str) -> Self {
        let options = format!("serve --upstream http://{upstream} --budget 4000 {options}");
        let (child, address, errors) = Self::spawn(place, &options, "127.0.0.1:0").unwrap();
        Self { address, options, child, errors: Some(errors), said: String::new() }
    }

    fn spawn(
        place: &ArchiveFolder,
        options: &str,
        listen: &str,
    ) -> Option<(Child, SocketAddr, JoinHandle<String>)> {
        let mut child = place.command(&format!("{options} --listen {listen}")).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let errors = thread::spawn(move || {
            let mut said = Vec::new();
            drop(stderr.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if let Some(address) = line.trim().strip_prefix("listening http://") {
            return Some((child, address.parse().unwrap(), errors));
        }
        child.wait().unwrap();
        let said = errors.join().unwrap();
        assert!(!said.contains("panicked"), "{said}");
        None
    }

    /// Ends it, with a word or by force; returns what it said.
    pub(crate) fn end(&mut self, by_force: bool) -> String {
        if by_force {
            self.child.kill().unwrap();
        } else {
            let pid = self.child.id().to_string();
            assert!(Command::new("kill").arg(pid).status().unwrap().success());
        }
        let status = self.child.wait().unwrap();
        let said = self.errors.take().unwrap().join().unwrap();
        assert!(!said.contains("panicked"), "{said}");
        assert!(by_force || status.code().is_some(), "{status:?} {said}");
        self.said.push_str(&said);
        said
    }

    /// Starts it again at the same address, as soon as that can be done.
    pub(crate) fn again(&mut self, place: &ArchiveFolder) {
        let listen = self.address.to_string();
        for _ in 0..600 {
            if let Some((child, address, errors)) = Self::spawn(place, &self.options, &listen) {
                (self.child, self.address, self.errors) = (child, address, Some(errors));
                return;
            }
            // A disk that is full or locked: it says so and ends.
            thread::sleep(Duration::from_millis(100));
        }
        panic!("it does not start again");
    }
}
