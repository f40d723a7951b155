//! Requests that fit.

use std::time::{Duration, Instant};

use hyper::body::Bytes;

use crate::bodies;
use crate::load::{Connection, median};
use crate::process::Server;

const ROUNDS: usize = 12;
/// The sessions of a round, with 17 requests each.
const SESSIONS: usize = 32;

/// What one way to the upstream has cost.
#[derive(Default)]
struct Cost {
    /// The median of each round.
    medians: Vec<Duration>,
    /// In seconds.
    cpu: f64,
    requests: usize,
    time: Duration,
}

pub(crate) async fn measure(upstream: &Server) {
    for connections in [1, 16] {
        let bare = Server::start("bare", Some(upstream), 0);
        let longhand = Server::start("longhand", Some(upstream), 128_000);
        let ways = [upstream, &bare, &longhand];
        let mut costs = [(); 3].map(|()| Cost::default());
        // The first round warms up.
        for round in 0..=ROUNDS {
            for (way, cost) in ways.into_iter().zip(&mut costs) {
                let sessions = (0..SESSIONS).map(|own| bodies::small(round * SESSIONS + own));
                let begun = (way.cpu_at_rest().await, Instant::now());
                let times = run(way, sessions.collect(), connections).await;
                if round > 0 {
                    cost.requests += times.len();
                    cost.time += begun.1.elapsed();
                    cost.medians.push(median(times));
                    cost.cpu += way.cpu_at_rest().await - begun.0;
                }
            }
        }
        report(connections, &costs);
    }
}

async fn run(way: &Server, sessions: Vec<Vec<Bytes>>, connections: usize) -> Vec<Duration> {
    let mut tasks = Vec::new();
    let share = sessions.len().div_ceil(connections);
    for sessions in sessions.chunks(share) {
        let (mut connection, sessions) = (Connection::open(way).await, sessions.to_vec());
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            for body in sessions.into_iter().flatten() {
                times.push(connection.post(body, false).await.unwrap().0);
            }
            times
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times
}

fn report(connections: usize, costs: &[Cost; 3]) {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let p50s = costs.each_ref().map(|cost| micros(median(cost.medians.clone())));
    let cpus = costs.each_ref().map(|cost| cost.cpu * 1e6 / cost.requests as f64);
    println!(
        "\n8 KB requests that fit, connections: {connections}, each way: {}",
        costs[0].requests
    );
    println!("            p50 µs   added µs   CPU µs/request   requests/s");
    for (at, name) in ["direct", "bare", "longhand"].into_iter().enumerate() {
        let rate = costs[at].requests as f64 / costs[at].time.as_secs_f64();
        let cpu = if at == 0 { "-".to_owned() } else { format!("{:.0}", cpus[at]) };
        println!(
            "{name:<10} {:>7.0} {:>10.0} {cpu:>16} {rate:>12.0}",
            p50s[at],
            p50s[at] - p50s[0]
        );
    }
    let added = (p50s[2] - p50s[0]) / (p50s[1] - p50s[0]);
    let goal = if connections == 1 { "3x and 4x" } else { "5x for the CPU" };
    let cpu = cpus[2] / cpus[1];
    println!("longhand / bare: added p50 {added:.2}x, CPU {cpu:.2}x; the goal is {goal}");
}
