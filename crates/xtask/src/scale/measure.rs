//! What a process costs.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::failure::Failure;

/// How often a running process is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// What one run of a command has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) cpu_ms: f64,
    /// The most memory that it had, as far as it was seen.
    pub(super) memory_mb: f64,
    /// What it gave to the disk.
    pub(super) written_mb: f64,
}

/// The median of the runs, figure by figure.
pub(super) fn median(costs: &[Cost]) -> Cost {
    let middle = |of: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    Cost {
        cpu_ms: middle(|cost| cost.cpu_ms),
        memory_mb: middle(|cost| cost.memory_mb),
        written_mb: middle(|cost| cost.written_mb),
    }
}

/// Runs a command to its end; what it prints goes to a file.
pub(super) fn run(mut command: Command, output: &Path) -> Result<(Cost, i32), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("{command:?}: {error}"));
    let out = fs::File::create(output).map_err(failed)?;
    let failed = |error: std::io::Error| Failure::new(format!("a command did not run: {error}"));
    let before = children_ms();
    command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let mut cost = Cost::default();
    while !has_ended(&child) {
        cost.look(&child);
        thread::sleep(LOOK);
    }
    // It is not forgotten yet, so the kernel still knows what it wrote.
    cost.look(&child);
    let status = child.wait().map_err(failed)?;
    cost.cpu_ms = children_ms() - before;
    Ok((cost, status.code().unwrap_or(-1)))
}

impl Cost {
    fn look(&mut self, child: &Child) {
        let process = format!("/proc/{}", child.id());
        if let Some(memory) = number(&format!("{process}/status"), "VmHWM:") {
            self.memory_mb = memory / 1e3;
        }
        if let Some(written) = number(&format!("{process}/io"), "write_bytes:") {
            self.written_mb = written / 1e6;
        }
    }
}

/// The number after a name in a file of the kernel.
fn number(path: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Whether a process has ended and waits for us to ask how.
fn has_ended(child: &Child) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// Asks a process to end, and waits for that.
#[cfg(unix)]
pub(super) fn end(child: &mut Child) {
    use nix::sys::signal::{Signal, kill};
    let _ = kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    let _ = child.wait();
}

#[cfg(not(unix))]
pub(super) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Processor time of all processes that were started here and have ended.
#[cfg(unix)]
pub(super) fn children_ms() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0.0 };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    micros as f64 / 1e3
}

#[cfg(not(unix))]
pub(super) fn children_ms() -> f64 {
    0.0
}
