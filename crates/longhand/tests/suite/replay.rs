//! Figures of conversations that are small enough to be counted by hand.
use std::path::PathBuf;
use std::sync::Arc;

use longhand::replay::{
    BudgetShare, Figures, FoundShare, Measure, Method, ReplayRun, ReplaySettings, Trace, judge,
    replay,
};
use longhand::{Policy, Tokens};
use longhand_core::{Framing, Image, Meter};
use longhand_dialect::read;
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::notation;
use serde_json::{Value, json};

/// A token is a byte, and nothing else counts.
struct ByteMeter;

impl Meter for ByteMeter {
    fn weigh(&self, text: &str, _: u64) -> u64 {
        text.len() as u64
    }

    fn image(&self, _: &Image) -> Tokens {
        Tokens::ZERO
    }

    fn framing(&self) -> Framing {
        let (message, name, reply) = (Tokens::ZERO, Tokens::ZERO, Tokens::ZERO);
        Framing { message, name, reply, ids: false }
    }
}

fn settings(budget: u64) -> ReplaySettings {
    ReplaySettings::new(BudgetShare::Tokens(Tokens(budget)), Arc::new(ByteMeter))
}

fn trace(chat: &str) -> Trace {
    Trace::new(&read(chat.as_bytes().to_vec(), None).unwrap(), &ByteMeter).unwrap()
}

/// Judges windows that are the requests with some messages changed.
fn judged(notation: &str, budget: u64, change: impl Fn(usize, &mut Vec<Value>)) -> ReplayRun {
    let mut number = 0;
    let run = judge(&trace(&notation::chat(notation)), &settings(budget), |request| {
        let mut request: Value = serde_json::from_str(request).unwrap();
        change(number, request["messages"].as_array_mut().unwrap());
        number += 1;
        request.to_string()
    });
    run.unwrap()
}

fn share(kept: u64, all: u64) -> FoundShare {
    FoundShare { kept, all }
}

#[test]
fn sending_everything_is_billed_by_what_is_new() {
    let trace = trace(&notation::chat("s ssss | u aaaa | a bb | u cccccc | a dd"));
    assert_eq!((trace.tokens(), trace.requests()), (Tokens(18), 2));
    let run = replay(&trace, Method::Whole, &settings(15), |_| ()).unwrap();
    // The first request has 8 tokens; the second has 16, of which the first had 8.
    let Figures { requests, sent, cached, cost, over_budget, breaks, .. } = run.figures;
    assert_eq!((requests, sent, cached), (2, Tokens(24), Tokens(8)));
    assert_eq!((over_budget, breaks, run.figures.invalid), (1, 0, 0));
    assert!((cost - (8.0 + 0.8 + 8.0)).abs() < 1e-9, "{cost}");
    assert!((trace.cost_whole(&settings(15)) - cost).abs() < 1e-9);
    let dear = ReplaySettings { cached_price: 0.5, uncached_price: 2.0, ..settings(15) };
    let run = replay(&trace, Method::Whole, &dear, |_| ()).unwrap();
    assert!((run.figures.cost - (16.0 + 4.0 + 16.0)).abs() < 1e-9);
    assert!((trace.cost_whole(&dear) - run.figures.cost).abs() < 1e-9);
}

#[test]
fn a_changed_message_breaks_the_prefix_behind_it() {
    let run = judged("u aaaa | a bb | u cccc | a dd | u ee | a ff", 99, |number, messages| {
        if number == 1 {
            messages[1]["content"] = json!("BB");
        }
    });
    // 4; 4 + 2 + 4 of which 4 are cached; 4 + 2 + 4 + 2 + 2 of which 4 are.
    let cached: Vec<u64> = run.requests.iter().map(|sent| sent.cached.0).collect();
    assert_eq!((cached, run.figures.sent), (vec![0, 4, 4], Tokens(28)));
    let breaks: Vec<bool> = run.requests.iter().map(|sent| sent.is_break).collect();
    // The second begins with the first and goes on otherwise, which breaks nothing.
    assert_eq!(breaks, [false, false, true]);
    assert_eq!((run.figures.breaks, run.figures.batches), (1, 1));
}

#[test]
fn invalid_windows_and_those_over_budget_are_counted() {
    let run = judged("u go | a call:ls#1 | t #1 abc | a done", 6, |number, messages| {
        if number == 1 {
            messages.remove(1);
        }
    });
    assert_eq!((run.figures.requests, run.figures.invalid, run.figures.over_budget), (2, 1, 0));
    let run = judged("u go | a call:ls#1 | t #1 abc | a done", 6, |_, _| ());
    // 2, and then `go`, `ls{}`, `abc`.
    assert_eq!((run.figures.invalid, run.figures.over_budget), (0, 1));
}

/// The last reply needs `src/a.rs` and `TW-659`; `src/new.rs` is in the four newest messages, and nobody
/// has said `src/own.rs` before.
const NEEDS: &str = "u see src/a.rs and TW-659 and src/new.rs | a ok | u one | a two | u src/new.rs | a three | u now? | a open src/a.rs TW-659 src/new.rs src/own.rs plain";

#[test]
fn need_counts_names_that_are_used_next_and_not_in_the_newest_messages() {
    let run = judged(NEEDS, 999, |_, _| ());
    assert_eq!((run.figures.need, run.figures.ctx), (share(2, 2), share(2, 2)));
    // The window says the one in words of its own, the other not at all.
    let run =
        judged(NEEDS, 999, |_, messages| messages[0]["content"] = json!("[folded: src/a.rs]"));
    assert_eq!((run.figures.need, run.figures.ctx), (share(1, 2), share(0, 2)));
    let missing: Vec<_> = run.requests.iter().flat_map(|sent| sent.missing.clone()).collect();
    assert!(missing.contains(&(Measure::Need, "TW-659".to_owned())), "{missing:?}");
}

#[test]
fn dropping_the_oldest_messages_forgets_what_they_said() {
    let long = NEEDS.replacen("see", "see 400ch", 1);
    let trace = trace(&notation::chat(&long));
    let run = replay(&trace, Method::Stateless(Policy::Trim), &settings(300), |_| ()).unwrap();
    assert_eq!((run.figures.need, run.figures.ctx), (share(0, 2), share(0, 2)));
}

#[test]
fn state_is_what_happened_before_the_four_newest_messages() {
    let notation = r#"u Never push. | a call:write#1{"path":"src/a.rs","content":"x"} call:bash#2{"command":"cargo test"} | t #1 ok | t #2 test result: ok. 3 passed | a call:bash#3{"command":"git commit -m x"} call:TodoWrite#4{"todos":[{"content":"write docs","status":"pending"}]} | t #3 [main 1a2b3c4] x | t #4 ok | a one | u Go on. | a two | u More. | a end"#;
    let run = judged(notation, 999, |_, _| ());
    let state = run.figures.state;
    // Requests before messages 4, 7, 9 and 11 know of what lies before 0, 3, 5 and 7.
    assert_eq!((state.changed, state.outcome), (share(3, 3), share(2, 2)));
    assert_eq!((state.commit, state.task), (share(1, 1), share(2, 2)));
    assert_eq!((state.user, state.total()), (share(3, 3), share(11, 11)));
    // Only what the block says is left of the last window.
    let run = judged(notation, 999, |number, messages| {
        if number == 4 {
            messages.drain(..9);
            let block = r#"{"said": "Never\npush.", "files": "a.rs", "done": "1A2B3C4"}"#;
            messages.insert(0, json!({"role": "user", "content": block}));
        }
    });
    let lost = run.figures.state;
    assert_eq!((lost.changed, lost.outcome), (share(3, 3), share(1, 2)));
    assert_eq!((lost.commit, lost.task, lost.user), (share(0, 1), share(1, 2), share(3, 3)));
}

#[test]
fn a_standing_window_only_grows_between_batches() {
    let session = longhand_testkit::session::coding_session(5, 0).to_string();
    let meter: Arc<dyn Meter> = Arc::from(MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap());
    let trace = Trace::new(&read(session.into_bytes(), None).unwrap(), &*meter).unwrap();
    let settings = ReplaySettings::new(BudgetShare::Percent(50), meter);
    let run = replay(&trace, Method::Standing(Policy::Auto), &settings, |_| ()).unwrap();
    let Figures { over_budget, invalid, breaks, batches, cost, .. } = run.figures;
    assert_eq!((over_budget, invalid), (0, 0));
    assert!(batches > 0 && breaks <= batches, "{batches} batches, {breaks} breaks");
    assert!(cost < trace.cost_whole(&settings), "{cost}");
    let whole = replay(&trace, Method::Whole, &settings, |_| ()).unwrap();
    assert_eq!(whole.figures.need.kept, whole.figures.need.all);
    assert_eq!(whole.figures.ctx.kept, whole.figures.ctx.all);
    assert_eq!(whole.figures.state.total().kept, whole.figures.state.total().all);
}

#[test]
fn recorded_sessions_lose_nothing_when_all_is_sent() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LONGHAND_SHARED").map_or(beside, PathBuf::from);
    let Ok(files) = std::fs::read_dir(folder.join("data/traces")) else {
        println!("no recorded sessions here: nothing to check");
        return;
    };
    let meter: Arc<dyn Meter> = Arc::from(MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap());
    for path in files.map(|file| file.unwrap().path()) {
        let bytes = std::fs::read(&path).unwrap();
        // The large ones take their time without optimisation.
        if bytes.len() > 100_000 || path.ends_with("MANIFEST.json") {
            continue;
        }
        let trace = Trace::new(&read(bytes, None).unwrap(), &*meter).unwrap();
        let settings = ReplaySettings::new(BudgetShare::Percent(50), Arc::clone(&meter));
        let whole = replay(&trace, Method::Whole, &settings, |_| ()).unwrap().figures;
        assert_eq!(whole.need.kept, whole.need.all, "{path:?}");
        assert_eq!(whole.ctx.kept, whole.ctx.all, "{path:?}");
        assert_eq!(whole.state.total().kept, whole.state.total().all, "{path:?}");
        assert!((whole.cost - trace.cost_whole(&settings)).abs() < 1e-6, "{path:?}");
        let auto = replay(&trace, Method::Standing(Policy::Auto), &settings, |_| ()).unwrap();
        assert_eq!(auto.figures.invalid, 0, "{path:?}");
    }
}

#[test]
fn a_first_message_near_the_budget_does_not_break_the_cache_with_every_request() {
    let mut messages = vec![json!({"role": "user", "content": "rules of the house. ".repeat(60)})];
    for step in 0..12 {
        let said = format!("step {step}: {}", "done ".repeat(8));
        messages.push(json!({"role": "assistant", "content": said}));
        messages.push(json!({"role": "user", "content": format!("and then {step}?")}));
    }
    messages.push(json!({"role": "assistant", "content": "ready"}));
    let trace = trace(&Value::from(messages).to_string());
    let run = replay(&trace, Method::Standing(Policy::Auto), &settings(1_300), |_| ()).unwrap();
    assert_eq!((run.figures.over_budget, run.figures.invalid), (0, 0));
    let (breaks, requests) = (run.figures.breaks, run.figures.requests);
    assert!(breaks > 0 && breaks * 3 <= requests, "{breaks} breaks in {requests} requests");
}

#[test]
fn a_result_that_is_clipped_as_it_enters_breaks_no_prefix() {
    let meter: Arc<dyn Meter> = Arc::from(MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap());
    for seed in 1..=3 {
        let session = longhand_testkit::session::coding_session(seed, 20_000).to_string();
        let trace = Trace::new(&read(session.into_bytes(), None).unwrap(), &*meter).unwrap();
        // There is always room, so that nothing but clips can change a window.
        let roomy = ReplaySettings {
            low_water_percent: 100,
            ..ReplaySettings::new(BudgetShare::Percent(200), Arc::clone(&meter))
        };
        let clipping = ReplaySettings { clip_new_percent: Some(1), ..roomy.clone() };
        let figures = |settings: &ReplaySettings| {
            replay(&trace, Method::Standing(Policy::Auto), settings, |_| ()).unwrap().figures
        };
        let (whole, clipped) = (figures(&roomy), figures(&clipping));
        assert_eq!((whole.batches, whole.breaks), (0, 0));
        assert!(clipped.batches > 0, "{seed}");
        assert_eq!((clipped.breaks, clipped.invalid), (0, 0), "{seed}");
        assert!(clipped.sent < whole.sent, "{seed}");
    }
}
