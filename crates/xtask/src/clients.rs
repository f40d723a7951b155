//! The providers' own clients, from Python and Node, through the proxy.

mod install;

use self::install::{InstalledClients, install};
use crate::failure::Failure;
use crate::model::{self, ModelServer};
use crate::run::{cargo, cargo_with};

/// The tests that want clients.
const TESTS: &[&str] = &["test", "--workspace", "--test", "clients"];

/// Runs the clients against a scripted server, and against a real model where that can be had.
pub(crate) fn test() -> Result<(), Failure> {
    let InstalledClients { python, node } = install()?;
    cargo(&[TESTS, &["--no-run"]].concat())?;
    let paths = [("LONGHAND_CLIENTS_PYTHON", python), ("LONGHAND_CLIENTS_NODE", node)];
    let mut variables: Vec<(&str, String)> = paths
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.to_string_lossy().into_owned())))
        .collect();
    run(&variables, &["--skip", "model::"])?;
    match model::install() {
        Ok(installed) => {
            let server = ModelServer::start(installed)?;
            variables.push(("LONGHAND_MODEL_URL", server.url().to_owned()));
            run(&variables, &["model::"])
        }
        Err(failure) => {
            progress(&format!("no real model here: {failure}"));
            Ok(())
        }
    }
}

fn run(variables: &[(&str, String)], which: &[&str]) -> Result<(), Failure> {
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    cargo_with(&variables, &[TESTS, &["--", "--nocapture"], which].concat())
}

fn progress(message: &str) {
    eprintln!("xtask: clients: {message}");
}
