//! What folds say: someone who takes over the work must be able to go on from them.
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use longhand::driver::Summarised;
use longhand::{
    Extractive, MemoryArchive, Miner, Prompt, Rolling, Round, Session, SessionSettings, Tokens,
};
use longhand_core::{Budget, Meter, Policy, Scale, plan_with};
use longhand_dialect::read;
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::session::{chat_session, coding_session, service_session};
use serde_json::Value;

fn meter() -> Arc<dyn Meter> {
    Arc::from(MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap())
}

/// The window of a conversation in so many tokens, and the block in it.
fn window(json: &str, limit: u64) -> (String, String) {
    let meter = meter();
    let digest = Summarised::new(vec![Arc::new(Extractive)], Arc::clone(&meter), Miner::default());
    let conversation = read(json.as_bytes().to_vec(), None).unwrap();
    let scale = Scale::new(&*meter);
    let fixed = conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum();
    let history = conversation.history(fixed);
    let settings = longhand_core::PlanSettings { policy: Policy::Auto, ..Default::default() };
    let plan = plan_with(&history, &Budget::of(Tokens(limit)), &settings, &*meter, &digest);
    assert!(plan.fits());
    let block = plan.batch.fold().map(|fold| fold.text.clone()).unwrap_or_default();
    (conversation.apply(std::slice::from_ref(&plan.batch)), block)
}

fn example() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/long-session.json");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_of_the_readme_answers_its_own_last_question() {
    let (window, _) = window(&example(), 8_000);
    for told in [
        // Every question that is open,
        "should a job that is submitted for a tick in the past run at once",
        "is a grace period of 50 ms right for nodes in two regions?",
        "should a job that is given up go to the dead-letter queue at once",
        "should the cursor be signed?",
        "do we keep the cut-off bytes in a side file for support?",
        // every decision with its reason,
        "keep the wheel at 512 slots, because the lateness comes from the order of cascade and drain",
        "a renewal that arrives within the grace period wins over the sweep, because",
        "truncate a torn tail at start and log its offset and length, because",
        "derive the jitter from job id and attempt number, because",
        "make the cursor the pair of tick and job id, because",
        "search in UTC and compare the local fields, because",
        // every rule of the user,
        "please do not change the slot count, whatever the benchmarks say",
        "the fix must not allocate inside `advance`",
        "No, not a second timer.",
        "version 0.8.4 nodes must be able to read it",
        // and every ticket.
        "TW-644",
        "TW-659",
        "TW-586",
        "TW-332",
        "TW-208",
    ] {
        assert!(window.contains(told), "{told}");
    }
    let lifted = "the fixture `tests/fixtures/journal-0.8.4.bin` is not in the tree";
    assert!(!window.contains(lifted), "a blocker that was lifted");
}

#[test]
fn what_a_user_said_first_outlives_ten_short_rounds() {
    let settings = SessionSettings { budget: Tokens(2_000), ..SessionSettings::new().unwrap() };
    let settings = settings.rolling(Rolling { rounds_max: 2, summary_max: Tokens(4_000) });
    let mut session =
        Session::open_with(Arc::new(MemoryArchive::default()), "x", settings).unwrap();
    let poem = "Rain falls on the roofs, and the gutters sing of it all night long.";
    session.record(&Round::new("I am allergic to nuts. Write a poem on rain.", poem, 0)).unwrap();
    for number in 0..16 {
        let ask = format!("Now one about ticket TW-{}, please, and a short one.", 500 + number);
        session.record(&Round::new(&ask, poem, 0)).unwrap();
    }
    let window = session.window("What may I eat?", &Prompt::default(), 0).unwrap();
    assert!(window.json.contains("I am allergic to nuts."), "{}", window.json);
    for number in 0..16 {
        assert!(window.json.contains(&format!("TW-{}", 500 + number)), "{number}: {}", window.json);
    }
}

/// Compares the fold of a session with the one on file; `LONGHAND_BLESS=1` writes it anew.
#[track_caller]
fn check(name: &str, session: &Value, limit: u64) {
    let (_, block) = window(&session.to_string(), limit);
    assert!(!block.is_empty(), "{name}: nothing is folded");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/folds/{name}.txt"));
    if std::env::var_os("LONGHAND_BLESS").is_some() {
        fs::write(&path, format!("{block}\n")).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(block, known.trim_end(), "{name}");
}

#[test]
fn the_fold_of_a_coding_session_is_a_hand_over() {
    check("coding", &coding_session(7, 30_000), 6_000);
}

#[test]
fn the_fold_of_a_service_desk_is_a_hand_over() {
    check("service", &service_session(3, 12), 3_000);
}

#[test]
fn the_fold_of_a_chat_is_a_hand_over() {
    check("chat", &chat_session(5, 40), 2_000);
}
