//! Extracting takes time in proportion to the text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use longhand_core::{Scale, Tokens};
use longhand_meter::{ImageRule, Vocabulary};
use longhand_summary::{Facts, Input, Round, Trace, extract, settle};
use longhand_testkit::session::coding_session;

/// The summary cap of the rolling conversation.
const LIMIT: Tokens = Tokens(4_000);

/// Linear is 4; the rest is for noise and caches.
const RATIO_MAX: f64 = 5.0;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
    let scale = Scale::new(&meter);
    let texts = texts();
    let mut best = Vec::new();
    for copies in [1, 4, 16] {
        let rounds = rounds(&texts, copies);
        let bytes = rounds.iter().map(size).sum::<usize>();
        let mut least = Duration::MAX;
        let mut group = criterion.benchmark_group("extract");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(
            BenchmarkId::from_parameter(format!("{} KB", bytes / 1_000)),
            |bencher| {
                bencher.iter(|| {
                    let started = Instant::now();
                    let input = Input { earlier: None, rounds: black_box(&rounds) };
                    black_box(extract(&input, LIMIT, &scale));
                    least = least.min(started.elapsed());
                });
            },
        );
        group.finish();
        best.push(least.as_secs_f64());
    }
    fold(&mut criterion, &rounds(&texts, 1), &scale);
    for pair in best.windows(2) {
        let ratio = pair[1] / pair[0].max(f64::MIN_POSITIVE);
        let verdict = if ratio < RATIO_MAX { "linear" } else { "NOT LINEAR" };
        println!("time(4 n) / time(n) = {ratio:.2}  {verdict}");
    }
}

/// The usual case: one more round into a full summary, checked and settled.
fn fold(criterion: &mut Criterion, rounds: &[Round], scale: &Scale) {
    let earlier = extract(&Input { earlier: None, rounds }, LIMIT, scale);
    let next = &rounds[..1];
    criterion.bench_function("fold one round", |bencher| {
        bencher.iter(|| {
            let input = Input { earlier: Some(&earlier), rounds: next };
            let mut facts = Facts::default();
            facts.carry(&earlier);
            for round in next {
                facts.read(round);
            }
            settle(&extract(&input, LIMIT, scale), &facts, LIMIT, scale).text.len()
        });
    });
}

fn size(round: &Round) -> usize {
    round.assistant.len() + round.tools.iter().map(|trace| trace.summary.len()).sum::<usize>()
}

/// What models and tools say in a made-up session.
fn texts() -> Vec<(bool, String)> {
    let session = coding_session(3, 60_000);
    let messages = session["messages"].as_array().into_iter().flatten();
    messages
        .filter_map(|message| {
            Some((message["role"] == "assistant", message["content"].as_str()?.to_owned()))
        })
        .collect()
}

fn rounds(texts: &[(bool, String)], copies: usize) -> Vec<Round<'_>> {
    let mut rounds = Vec::new();
    for chunk in std::iter::repeat_n(texts, copies).flat_map(|texts| texts.chunks(8)) {
        let mut round = Round { number: rounds.len() as u64 + 1, ..Round::default() };
        for (assistant, text) in chunk {
            if *assistant {
                round.assistant = text;
            } else {
                round.tools.push(Trace { name: "run", summary: text });
            }
        }
        rounds.push(round);
    }
    rounds
}
