//! Prints a made-up session as a request of Chat Completions:
//! `cargo run --release -p longhand-testkit --example made_session coding|service|chat [SEED [SIZE]]`.
//!
//! The size is in tokens for `coding`, in customers for `service` and in rounds for `chat`.
#![allow(clippy::unwrap_used)]

use longhand_testkit::session::{chat_session, coding_session, service_session};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| words.get(at).map_or(default, |text| text.parse().unwrap());
    let seed = number(1, 1);
    let session = match words.first().map(String::as_str) {
        Some("service") => service_session(seed, number(2, 40) as usize),
        Some("chat") => chat_session(seed, number(2, 120) as usize),
        _ => coding_session(seed, number(2, 60_000) as usize),
    };
    println!("{session}");
}
