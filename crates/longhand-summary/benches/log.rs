//! Reading messages into a log takes time in proportion to their text.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use longhand_core::{Message, Scale, Tokens};
use longhand_dialect::read;
use longhand_meter::{ImageRule, Vocabulary};
use longhand_summary::Log;
use longhand_testkit::session::coding_session;

/// Linear is 4; the rest is for noise and caches.
const RATIO_MAX: f64 = 5.0;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let session = coding_session(3, 60_000).to_string().into_bytes();
    let conversation = read(session, None).expect("a session that the testkit made");
    let messages: Vec<&Message> = conversation.messages.iter().collect();
    let mut best = Vec::new();
    for copies in [1, 4, 16] {
        let messages: Vec<&Message> =
            std::iter::repeat_n(messages.iter().copied(), copies).flatten().collect();
        let bytes: usize = messages.iter().map(|message| message.raw.raw_len()).sum();
        let mut least = Duration::MAX;
        let mut group = criterion.benchmark_group("read");
        group.throughput(Throughput::Bytes(bytes as u64));
        let name = BenchmarkId::from_parameter(format!("{} KB", bytes / 1_000));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let started = Instant::now();
                let mut log = Log::default();
                log.read(black_box(&messages));
                least = least.min(started.elapsed());
                log.rounds()
            });
        });
        group.finish();
        best.push(least.as_secs_f64());
    }
    fold(&mut criterion, &messages);
    for pair in best.windows(2) {
        let ratio = pair[1] / pair[0].max(f64::MIN_POSITIVE);
        let verdict = if ratio < RATIO_MAX { "linear" } else { "NOT LINEAR" };
        println!("time(4 n) / time(n) = {ratio:.2}  {verdict}");
    }
}

/// The usual case: a few more messages into a full log, and its page.
fn fold(criterion: &mut Criterion, messages: &[&Message]) {
    let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
    let scale = Scale::new(&meter);
    let (before, new) = messages.split_at(messages.len() - 8);
    let mut log = Log::default();
    log.read(before);
    let state = log.write();
    criterion.bench_function("fold eight messages", |bencher| {
        bencher.iter(|| {
            let mut log = Log::parse(black_box(&state));
            log.read(new);
            log.page(&[], &[], Tokens(4_000), &scale).text.len() + log.write().len()
        });
    });
}
