//! Real agents, as they are published, through `longhand run`.

mod install;

use std::process::{Command, Stdio};

use self::install::{AGENTS, InstalledAgents, install};
use crate::failure::Failure;
use crate::run::{cargo, root};

/// The tests that want agents.
const TESTS: &[&str] = &["test", "--workspace", "--test", "agents"];

/// Runs some agents, or all of them, against a scripted model.
pub(crate) fn test(names: &[&str]) -> Result<(), Failure> {
    let known = || AGENTS.iter().map(|agent| agent.name).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| AGENTS.iter().all(|agent| agent.name != **name))
    {
        return Err(Failure::usage(format!("`{unknown}` is none of {}", known())));
    }
    let wanted = AGENTS.iter().filter(|agent| names.is_empty() || names.contains(&agent.name));
    let InstalledAgents { folder, names } = install(wanted)?;
    cargo(&[TESTS, &["--no-run"]].concat())?;
    let mut arguments = [TESTS, &["--", "--nocapture", "--test-threads", "1", "--exact"]].concat();
    let test = |name: &&str| {
        let name = name.replace('-', "_");
        // A name that no test has runs nothing: not every agent has MCP servers or session files.
        ["tests", "mcp", "resume", "compact", "deferred"].map(|module| format!("{module}::{name}"))
    };
    let tests: Vec<String> = names.iter().flat_map(test).collect();
    arguments.extend(tests.iter().map(String::as_str));
    let mut command = apart(&arguments);
    let status = command.env("LONGHAND_AGENTS", &folder).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("the agents' tests failed ({status})"))),
        Err(error) => Err(Failure::new(format!("the agents' tests did not start: {error}"))),
    }
}

/// Cargo in a network that has nothing but loopback, where the machine allows that: agents phone home.
fn apart(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for options in [&["--net"][..], &["--map-root-user", "--net"]] {
        let mut unshare = Command::new("unshare");
        unshare.args(options).args(["sh", "-c", "ip link set lo up"]);
        let made =
            unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if made.is_ok_and(|status| status.success()) {
            let mut command = Command::new("unshare");
            command.args(options).args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
            command.arg(cargo).arg("--offline").args(arguments);
            return command;
        }
    }
    progress("there is no network namespace here: the agents could reach other hosts");
    let mut command = Command::new(cargo);
    command.args(arguments);
    command
}

fn progress(message: &str) {
    eprintln!("xtask: agents: {message}");
}
