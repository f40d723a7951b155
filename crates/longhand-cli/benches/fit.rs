//! How long it takes to make a very long conversation fit.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use longhand_core::{Budget, PlanSettings, Policy, Tokens, plan};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::history::history;

const BUDGET: Tokens = Tokens(32_000);

/// Counts from nothing, as the first request of a session does; the vocabulary itself is loaded once.
fn fit(conversation: &Conversation, policy: Policy) -> longhand_core::Plan {
    let meter = MeterSpec::O200k.open(ImageRule::OPENAI_TILES).expect("the vocabulary is built in");
    let settings = PlanSettings { policy, ..PlanSettings::default() };
    plan(&conversation.history(Tokens(0)), &Budget::of(BUDGET), &settings, &*meter)
}

fn bytes_to_bytes(bytes: Vec<u8>) -> String {
    let conversation = read(bytes, Some(Dialect::Chat)).expect("the history is valid");
    conversation.apply(&[fit(&conversation, Policy::Auto).batch])
}

fn fits(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fit");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4));
    let mut medians = Vec::new();
    for messages in [1_000, 10_000, 100_000] {
        let json = history(7, messages);
        println!("{messages} messages, {:.1} MB", json.len() as f64 / 1e6);
        let conversation = read(json.clone().into_bytes(), None).expect("the history is valid");
        let made = fit(&conversation, Policy::Auto);
        assert!(made.fits());
        let window = read(conversation.apply(&[made.batch]).into_bytes(), None)
            .expect("it can be read back");
        assert!(window.check().is_empty());

        group.bench_function(format!("messages/{messages}"), |bencher| {
            bencher.iter(|| black_box(fit(&conversation, Policy::Auto)));
        });
        medians.push((messages, median(|| drop(black_box(fit(&conversation, Policy::Auto))))));
        if messages == 10_000 {
            for policy in [Policy::Elide, Policy::Trim] {
                group.bench_function(format!("messages/{messages}/{policy:?}"), |bencher| {
                    bencher.iter(|| black_box(fit(&conversation, policy)));
                });
            }
            group.throughput(Throughput::Bytes(json.len() as u64));
            group.bench_function(format!("bytes/{messages}"), |bencher| {
                bencher.iter_batched(
                    || json.clone().into_bytes(),
                    |bytes| black_box(bytes_to_bytes(bytes)),
                    BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
    for pair in medians.windows(2) {
        let ((fewer, short), (more, long)) = (pair[0], pair[1]);
        let exponent = (long / short).ln() / (more as f64 / fewer as f64).ln();
        println!(
            "{fewer} -> {more} messages: {:.2} ms -> {:.2} ms, growth exponent {exponent:.2}",
            short * 1e3,
            long * 1e3
        );
    }
}

/// The median of seven runs, in seconds.
fn median(mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[3]
}

criterion_group!(benches, fits);
criterion_main!(benches);
