//! The processes of a run.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Says what a process is to be.
pub(crate) const ROLE: &str = "LONGHAND_BENCH_ROLE";
/// Where a proxy sends requests.
pub(crate) const TARGET: &str = "LONGHAND_BENCH_TARGET";
/// The most tokens of a request.
pub(crate) const BUDGET: &str = "LONGHAND_BENCH_BUDGET";

/// How long nothing is done by a process that has nothing more to do: much longer than work gathers for
/// the archive.
const AT_REST: Duration = Duration::from_millis(150);

/// Another run of this program, which ends with this value.
pub(crate) struct Server {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(role: &str, target: Option<&Server>, budget: u64) -> Self {
        // Two connections for each of the streams are more than many systems allow at first.
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -n 8192 2>/dev/null; exec \"$0\""])
            .arg(std::env::current_exe().unwrap())
            .env(ROLE, role)
            .env(TARGET, target.map_or("", |target| &target.address))
            .env(BUDGET, budget.to_string());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().to_owned() }
    }

    /// The seconds on the processor so far, in steps of 10 ms.
    pub(crate) fn cpu(&self) -> f64 {
        cpu(&self.child.id().to_string())
    }

    /// The same once it has nothing more to do: what is done after an answer counts too.
    pub(crate) async fn cpu_at_rest(&self) -> f64 {
        let mut before = self.cpu();
        loop {
            tokio::time::sleep(AT_REST).await;
            let now = self.cpu();
            if now <= before {
                return now;
            }
            before = now;
        }
    }

    /// The memory in use, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
        kib / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Says where this process listens, and waits until it is not wanted any more.
pub(crate) fn stay(address: std::net::SocketAddr) {
    println!("{address}");
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
}

/// A runtime such as that of `longhand serve`.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .unwrap()
}

/// The seconds of this process on the processor so far.
pub(crate) fn own_cpu() -> f64 {
    cpu("self")
}

fn cpu(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name may have spaces; what follows it has none.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|own| own.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}
