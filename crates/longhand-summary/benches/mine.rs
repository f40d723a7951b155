//! How fast anchors are mined from the text of agents.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use longhand_core::Role;
use longhand_core::anchor::{Miner, identifiers, sentences, statements};
use longhand_testkit::session::coding_session;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let texts = texts();
    let miner =
        Miner::new(vec!["ACME-#".parse().expect("a pattern"), "run_@".parse().expect("a pattern")]);
    bench(&mut criterion, "names", &texts, |text, _| identifiers(text).count());
    bench(&mut criterion, "ids", &texts, |text, _| miner.ids(text).count());
    bench(&mut criterion, "statements", &texts, |text, role| statements(text, role).count());
    bench(&mut criterion, "all", &texts, |text, role| {
        identifiers(text).count() + statements(text, role).count()
    });
    bench(&mut criterion, "sentences", &texts, |text, _| sentences(text).count());
    criterion.final_summary();
}

fn bench(
    criterion: &mut Criterion,
    name: &str,
    texts: &[(Role, String)],
    count: impl Fn(&str, Role) -> usize,
) {
    let mut group = criterion.benchmark_group("mine");
    group.throughput(Throughput::Bytes(texts.iter().map(|(_, text)| text.len() as u64).sum()));
    group.bench_function(name, |bencher| {
        bencher
            .iter(|| texts.iter().map(|(role, text)| count(black_box(text), *role)).sum::<usize>());
    });
    group.finish();
}

/// What users, models and tools say in a few made-up sessions.
fn texts() -> Vec<(Role, String)> {
    let mut texts = Vec::new();
    for seed in 1..=6 {
        let session = coding_session(seed, 60_000);
        for message in session["messages"].as_array().into_iter().flatten() {
            let role = match message["role"].as_str() {
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                Some("tool") => Role::Tool,
                _ => continue,
            };
            if let Some(text) = message["content"].as_str() {
                texts.push((role, text.to_owned()));
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                if let Some(arguments) = call["function"]["arguments"].as_str() {
                    texts.push((role, arguments.to_owned()));
                }
            }
        }
    }
    texts
}
