//! Times a plan of each policy over a long conversation that is read already:
//! `cargo run --release -p longhand-dialect --example plan_time [MESSAGES]`.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use longhand_core::{Budget, Policy, Rolling, Settings, Tokens, plan};
use longhand_dialect::read;
use longhand_meter::{ImageRule, MeterSpec};

fn main() {
    let messages = std::env::args().nth(1).map_or(10_000, |count| count.parse().unwrap());
    let json = longhand_testkit::history::history(1, messages);
    let bytes = json.len();
    let conversation = read(json.into_bytes(), None).unwrap();
    let meter = MeterSpec::O200k.open(ImageRule::OpenAiTiles).unwrap();
    println!("{messages} messages, {} MB", bytes / 1_000_000);
    let half = bytes as u64 / 8;
    for (policy, limit) in [
        (Policy::Auto, 32_000),
        (Policy::Elide, 32_000),
        (Policy::Elide, half),
        (Policy::Trim, 32_000),
        (Policy::Rolling(Rolling::default()), 32_000),
    ] {
        let settings = Settings { policy, ..Settings::default() };
        let budget = Budget::of(Tokens(limit));
        let mut times = Vec::new();
        let mut shown = String::new();
        for _ in 0..5 {
            let start = Instant::now();
            let made = plan(&conversation.history(Tokens::ZERO), &budget, &settings, &*meter);
            times.push(start.elapsed());
            shown = made.to_string();
        }
        times.sort_unstable();
        println!("{policy:?} to {limit}: {:?} of {times:?}; {shown}", times[0]);
    }
}
