//! A real language model on loopback: llama.cpp's server with SmolLM2-135M.

mod install;
mod server;

use std::io::{self, IsTerminal};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(crate) use self::install::install;
pub(crate) use self::server::ModelServer;
use crate::failure::Failure;
use crate::run::{cargo, cargo_with};

/// The tests that want a model, built before the server starts: compiling would starve it.
const TESTS: &[&str] = &["test", "--workspace", "--test", "real"];

/// Serves the model until standard input ends or Ctrl-C is pressed.
pub(crate) fn serve() -> Result<(), Failure> {
    let mut server = ModelServer::start(install()?)?;
    println!("listening {}", server.url());
    let end = end_of_input();
    while let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(Duration::from_millis(200)) {
        server.check()?;
    }
    Ok(())
}

/// Runs the tests that ask a real model.
pub(crate) fn test() -> Result<(), Failure> {
    let installed = install()?;
    cargo(&[TESTS, &["--no-run"]].concat())?;
    let server = ModelServer::start(installed)?;
    let variables = [("LONGHAND_MODEL_URL", server.url())];
    cargo_with(&variables, &[TESTS, &["--", "--nocapture", "--test-threads=1"]].concat())
}

/// Hears when standard input ends. A terminal is not read: a program in the background may not.
fn end_of_input() -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        if io::stdin().is_terminal() {
            thread::park();
        }
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = sender.send(());
    });
    receiver
}

fn progress(message: &str) {
    eprintln!("xtask: model: {message}");
}
