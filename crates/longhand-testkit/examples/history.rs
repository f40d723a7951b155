//! Prints a long conversation of an agent, for measurements:
//! `cargo run --release -p longhand-testkit --example history [MESSAGES]`.
#![allow(clippy::unwrap_used)]

fn main() {
    let messages = std::env::args().nth(1).map_or(10_000, |count| count.parse().unwrap());
    println!("{}", longhand_testkit::history::history(1, messages));
}
