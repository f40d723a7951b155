//! Times a plan of each policy over a long conversation that is read already, in time on the processor
//! (Linux), so that other work on the machine does not count:
//! `cargo run --release -p longhand-dialect --example plan_time [MESSAGES [POLICY]]`.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use longhand_core::{Budget, PlanSettings, Policy, Rolling, Tokens, plan};
use longhand_dialect::read;
use longhand_meter::{ImageRule, MeterSpec};

fn main() {
    let messages = std::env::args().nth(1).map_or(10_000, |count| count.parse().unwrap());
    let json = longhand_testkit::history::history(1, messages);
    let bytes = json.len();
    let conversation = read(json.into_bytes(), None).unwrap();
    let meter = MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap();
    println!("{messages} messages, {} MB", bytes / 1_000_000);
    let half = bytes as u64 / 8;
    let only = std::env::args().nth(2);
    for (policy, limit) in [
        (Policy::Auto, 32_000),
        (Policy::Elide, 32_000),
        (Policy::Elide, half),
        (Policy::Trim, 32_000),
        (Policy::Rolling(Rolling::default()), 32_000),
    ] {
        if only.as_ref().is_some_and(|only| !format!("{policy:?} {limit}").contains(only)) {
            continue;
        }
        let settings = PlanSettings { policy, ..PlanSettings::default() };
        let budget = Budget::of(Tokens(limit));
        let mut times = Vec::new();
        let mut shown = String::new();
        for _ in 0..5 {
            let start = on_cpu();
            let made = plan(&conversation.history(Tokens::ZERO), &budget, &settings, &*meter);
            times.push(on_cpu().saturating_sub(start));
            shown = made.to_string();
        }
        times.sort_unstable();
        println!("{policy:?} to {limit}: {:?} of {times:?}; {shown}", times[0]);
    }
}

/// The time that this thread has been on a processor.
fn on_cpu() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = times.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
