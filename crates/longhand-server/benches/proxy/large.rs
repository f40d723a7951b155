//! Requests of a megabyte whose session is known.

use std::time::Duration;

use serde_json::Value;

use crate::bodies::Large;
use crate::load::{Connection, median};
use crate::process::{Server, own_cpu};

/// The requests that are measured, after some that fill caches.
const REQUESTS: usize = 140;
const FIRST: usize = 10;

pub(crate) async fn measure(upstream: &Server) {
    println!("\n1 MB requests of a known session");
    println!("             mean bytes   CPU ms/request   p50 ms");
    let bare = Server::start("bare", Some(upstream), 0);
    way("bare", &bare).await;
    let fits = Server::start("longhand", Some(upstream), 2_000_000);
    way("fits", &fits).await;
    let over = Server::start("longhand", Some(upstream), 100_000);
    way("over budget", &over).await;
    let body = Large::new().body();
    let before = own_cpu();
    for _ in 0..REQUESTS {
        let value: Value = serde_json::from_slice(&body).unwrap();
        std::hint::black_box(value.to_string());
    }
    let time = (own_cpu() - before) * 1e3 / REQUESTS as f64;
    println!("{:<12} {:>10} {time:>16.2}", "serde_json", body.len());
    println!(
        "serde_json only reads and writes the body; the goal is 3 ms for all that longhand does"
    );
}

async fn way(name: &str, server: &Server) {
    let mut large = Large::new();
    let mut connection = Connection::open(server).await;
    let (mut times, mut bytes, mut before) = (Vec::new(), 0, 0.0);
    for request in 0..FIRST + REQUESTS {
        if request == FIRST {
            settle().await;
            before = server.cpu();
        }
        let body = large.body();
        large.grow();
        let length = body.len();
        let (time, _) = connection.post(body, false).await.unwrap();
        if request >= FIRST {
            times.push(time);
            bytes += length / REQUESTS;
        }
    }
    settle().await;
    let cpu = (server.cpu() - before) * 1e3 / REQUESTS as f64;
    let p50 = median(times).as_secs_f64() * 1e3;
    println!("{name:<12} {bytes:>10} {cpu:>16.2} {p50:>8.2}");
}

/// What is done after an answer counts too.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}
