//! The server's process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::install::InstalledModel;
use super::progress;
use crate::failure::Failure;

const SCRIPT: &str = include_str!("serve.py");

const GGUF: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const GGUF_SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// All that the model was trained for.
const CONTEXT_TOKENS: &str = "8192";

/// The longest time until the server can be asked.
const START_MAX: Duration = Duration::from_mins(3);

/// A server that ends with this value, and with this process however that ends.
pub(crate) struct ModelServer {
    child: Child,
    /// Open for as long as the server is wanted.
    lifeline: Option<ChildStdin>,
    url: String,
    /// The cache folder.
    folder: PathBuf,
}

impl ModelServer {
    /// Starts the server and waits until it can be asked.
    pub(crate) fn start(installed: InstalledModel) -> Result<Self, Failure> {
        let InstalledModel { folder, python } = installed;
        let threads = threads().to_string();
        progress(&format!("loading SmolLM2-135M, threads: {threads}"));
        let start = Instant::now();
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT, GGUF, GGUF_SHA256, CONTEXT_TOKENS, &threads])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| {
                Failure::new(format!("{} did not start: {error}", python.display()))
            })?;
        let lines = child.stdout.take().map(lines);
        let lifeline = child.stdin.take();
        let mut server = Self { child, lifeline, url: String::new(), folder };
        let address = server.address(lines, start)?;
        server.url = format!("http://{address}/v1");
        while !is_ready(&address) {
            server.wait_more(start)?;
            thread::sleep(Duration::from_millis(200));
        }
        progress(&format!("ready after {:.1} s", start.elapsed().as_secs_f64()));
        Ok(server)
    }

    /// Its address, up to `/v1`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Fails if the server has ended.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let hint = format!("when {} is gone, all is fetched anew", self.folder.display());
                Err(Failure::new(format!("the model server ended ({status})")).with_hint(hint))
            }
            Err(error) => Err(Failure::new(format!("the model server: {error}"))),
        }
    }

    /// Host and port, as the script prints them.
    fn address(
        &mut self,
        lines: Option<Receiver<String>>,
        start: Instant,
    ) -> Result<String, Failure> {
        let lines = lines.ok_or_else(|| Failure::new("the model server says nothing"))?;
        loop {
            match lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) => {
                    if let Some(address) = line.trim().strip_prefix("http://") {
                        return Ok(address.trim_end_matches('/').to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.wait_more(start)?,
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(Duration::from_millis(200));
                    self.wait_more(start)?;
                }
            }
        }
    }

    fn wait_more(&mut self, start: Instant) -> Result<(), Failure> {
        self.check()?;
        let waited = start.elapsed();
        if waited > START_MAX {
            return Err(Failure::new(format!("no model after {} s", START_MAX.as_secs())));
        }
        if waited.as_secs() > 0 && waited.as_secs().is_multiple_of(10) {
            progress(&format!("still loading, {} s", waited.as_secs()));
        }
        Ok(())
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.lifeline = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Half of the cores, as the threads wait for each other in busy loops: with one for each core, any other
/// program at work makes the model write ten times slower.
fn threads() -> usize {
    thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 8))
}

fn lines(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// Whether the server says that it is well; while the model is loading it answers 503.
fn is_ready(address: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let request =
            format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(&status == b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}
