//! Counting takes time in proportion to the text, whatever the text.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use longhand_core::Meter;
use longhand_meter::{ImageRule, Vocabulary};

const MEGABYTE: usize = 1_000_000;

/// Linear is 4; the rest is for noise and caches.
const RATIO_MAX: f64 = 5.0;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
    let mut ratios = Vec::new();
    for (name, text) in texts(4 * MEGABYTE) {
        let short = &text[..text.floor_char_boundary(MEGABYTE)];
        let times = [(1, short), (4, text.as_str())].map(|(megabytes, text)| {
            bench(&mut criterion, BenchmarkId::new(name, format!("{megabytes} MB")), &meter, text)
        });
        ratios.push((name, times[1].as_secs_f64() / times[0].as_secs_f64()));
    }
    for (name, ratio) in ratios {
        let verdict = if ratio < RATIO_MAX { "linear" } else { "NOT LINEAR" };
        println!("{name:12} time(4 MB) / time(1 MB) = {ratio:.2}  {verdict}");
    }
}

fn bench(criterion: &mut Criterion, id: BenchmarkId, meter: &Vocabulary, text: &str) -> Duration {
    let best = Cell::new(Duration::MAX);
    let mut group = criterion.benchmark_group("linear");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function(id, |bencher| {
        bencher.iter_custom(|iterations| {
            let started = Instant::now();
            for _ in 0..iterations {
                black_box(meter.weigh(black_box(text), u64::MAX));
            }
            let elapsed = started.elapsed();
            best.set(best.get().min(elapsed / iterations as u32));
            elapsed
        });
    });
    group.finish();
    best.get()
}

fn texts(bytes: usize) -> Vec<(&'static str, String)> {
    vec![
        ("letter", "a".repeat(bytes)),
        ("spaces", " ".repeat(bytes)),
        (
            "base64",
            random("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", bytes),
        ),
        ("emoji", random("😀😂🥹🎉🚀👍🏽👨👩👧❤✨🔥", bytes)),
        ("lowercase", random("abcdefghijklmnopqrstuvwxyz", bytes)),
        ("punctuation", random("!#$%&()*+,-./:;<=>?@[]^_`{|}~", bytes)),
        ("cjk", random("的一是不了人我在有他这中大来上国、。あいうえおかき한국어", bytes)),
        ("code", include_str!("../src/image.rs").repeat(bytes / 5_000)),
    ]
    .into_iter()
    .map(|(name, mut text)| {
        text.truncate(text.floor_char_boundary(bytes));
        (name, text)
    })
    .collect()
}

fn random(alphabet: &str, bytes: usize) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 1_u64;
    let mut text = String::with_capacity(bytes + 4);
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(alphabet[(state >> 33) as usize % alphabet.len()]);
    }
    text
}
