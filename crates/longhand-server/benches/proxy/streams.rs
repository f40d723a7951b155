//! Many streams at once, for a long time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::bodies;
use crate::load::Connection;
use crate::process::Server;

const STREAMS: usize = 500;

pub(crate) async fn measure(upstream: &Server, seconds: u64) {
    let longhand = Server::start("longhand", Some(upstream), 128_000);
    let mut warm = Connection::open(&longhand).await;
    warm.post(bodies::small(STREAMS)[0].clone(), true).await.unwrap();
    let before = longhand.memory_mib();
    let begun = (longhand.cpu(), Instant::now());
    let end = begun.1 + Duration::from_secs(seconds);
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for stream in 0..STREAMS {
        let (done, mut connection) = (Arc::clone(&done), Connection::open(&longhand).await);
        tasks.push(tokio::spawn(async move {
            // A session is at its end after some turns; then the next one begins.
            for session in 0.. {
                for body in bodies::small(stream + session * STREAMS) {
                    if Instant::now() >= end {
                        return Ok(());
                    }
                    connection.post(body, true).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok::<(), String>(())
        }));
    }
    let mut most = before;
    while tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        most = most.max(longhand.memory_mib());
    }
    let mut errors = Vec::new();
    for task in tasks {
        errors.extend(task.await.unwrap().err());
    }
    let cpu = (longhand.cpu() - begun.0) / begun.1.elapsed().as_secs_f64();
    // Threads that were for blocking work end after a while.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let after = longhand.memory_mib();
    println!(
        "\n{STREAMS} streams at once for {seconds} s: {} in all",
        done.load(Ordering::Relaxed)
    );
    println!("errors {}, CPU {:.0}%", errors.len(), cpu * 100.0);
    println!("memory before {before:.0} MiB, at most {most:.0} MiB, after {after:.0} MiB");
    if let Some(error) = errors.first() {
        println!("the first error: {error}");
    }
}
