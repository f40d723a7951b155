//! Requests of a megabyte whose session is known.

use hyper::body::Bytes;
use serde_json::Value;

use crate::bodies::Large;
use crate::load::{Connection, median};
use crate::process::{Server, own_cpu};

/// The requests that are measured, after some that fill caches.
const REQUESTS: usize = 140;
const FIRST: usize = 10;

pub(crate) async fn measure(upstream: &Server) {
    println!("\n1 MB requests of a known session");
    println!("             mean bytes   CPU ms/request   p50 ms   of serde_json");
    let read_and_written = serde_json();
    let bare = Server::start("bare", Some(upstream), 0);
    way("bare", &bare, read_and_written).await;
    let fits = Server::start("longhand", Some(upstream), 2_000_000);
    way("fits", &fits, read_and_written).await;
    let over = Server::start("longhand", Some(upstream), 100_000);
    way("over budget", &over, read_and_written).await;
    println!("the goal is 0.60 of what serde_json takes where it fits, 0.80 where it does not");
}

/// What it takes to read and write bodies of the same sizes as values, on the processor, in ms.
fn serde_json() -> f64 {
    let mut large = Large::new();
    let mut bodies = Vec::new();
    for request in 0..FIRST + REQUESTS {
        if request >= FIRST && request % FIRST == 0 {
            bodies.push(large.body());
        }
        large.grow();
    }
    let before = own_cpu();
    for _ in 0..FIRST {
        for body in &bodies {
            let value: Value = serde_json::from_slice(body).unwrap();
            std::hint::black_box(value.to_string());
        }
    }
    let time = (own_cpu() - before) * 1e3 / (FIRST * bodies.len()) as f64;
    let bytes = bodies.iter().map(Bytes::len).sum::<usize>() / bodies.len();
    println!("{:<12} {bytes:>10} {time:>16.2}", "serde_json");
    time
}

async fn way(name: &str, server: &Server, read_and_written: f64) {
    let mut large = Large::new();
    let mut connection = Connection::open(server).await;
    let (mut times, mut bytes, mut before) = (Vec::new(), 0, 0.0);
    for request in 0..FIRST + REQUESTS {
        if request == FIRST {
            before = server.cpu_at_rest().await;
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
    let cpu = (server.cpu_at_rest().await - before) * 1e3 / REQUESTS as f64;
    let p50 = median(times).as_secs_f64() * 1e3;
    let share = cpu / read_and_written;
    println!("{name:<12} {bytes:>10} {cpu:>16.2} {p50:>8.2} {share:>15.2}");
}
