//! What the proxy costs, beside a bare one, in front of an upstream that answers at once.
//!
//! `cargo bench -p longhand-server --bench proxy` takes about a minute; `-- small` or `-- large` at its
//! end asks for one half. With `LONGHAND_SECONDS=120` it
//! holds 500 streams open for so long instead. Each part is a process of its own, so that its time on
//! the processor can be told from that of the others.
#![allow(clippy::unwrap_used)]

mod bare;
mod bodies;
mod large;
mod load;
mod process;
mod proxied;
mod small;
mod streams;
mod upstream;

use process::{ROLE, Server};

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("upstream") => return upstream::run(),
        Ok("bare") => return bare::run(),
        Ok("longhand") => return proxied::run(),
        _ => {}
    }
    if !cfg!(target_os = "linux") {
        println!("skipped: time on the processor is read from /proc");
        return;
    }
    // Only `cargo bench` says what it is.
    if std::env::args().all(|argument| argument != "--bench") {
        return;
    }
    let upstream = Server::start("upstream", None, 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let seconds = std::env::var("LONGHAND_SECONDS").ok();
        if let Some(seconds) = seconds.and_then(|seconds| seconds.parse().ok()) {
            return streams::measure(&upstream, seconds).await;
        }
        if is_wanted("small") {
            small::measure(&upstream).await;
        }
        if is_wanted("large") {
            large::measure(&upstream).await;
        }
    });
}

/// Whether a part was asked for, or none was.
fn is_wanted(part: &str) -> bool {
    let parts: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    parts.is_empty() || parts.iter().any(|own| own == part)
}
