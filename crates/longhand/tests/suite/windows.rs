//! Windows of a session: stable, cheap, and nothing lost.

use std::sync::Arc;

use longhand::{Archive, MemoryArchive, Prompt, Round, Session, SessionSettings, Tokens, recall};
use longhand_archive::{After, NewSession, Page, Scope};
use longhand_core::{Handle, Scale, Seq};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::faulty::{Fault, Faulty};
use longhand_testkit::filler;
use serde_json::{Value, json};

fn memory() -> Arc<dyn Archive> {
    Arc::new(MemoryArchive::default())
}

fn open(archive: &Arc<dyn Archive>, budget: u64) -> Session {
    let settings = SessionSettings { budget: Tokens(budget), ..SessionSettings::new().unwrap() };
    Session::open_with(Arc::clone(archive), "x", settings).unwrap()
}

/// All handles that a text shows.
fn handles(text: &str) -> Vec<Handle> {
    let at = text.match_indices("h:").map(|(at, _)| at);
    let mut found: Vec<Handle> =
        at.filter_map(|at| Handle::parse(text.get(at..at + 14)?)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_handle_in_a_window_of_long_results_opens() {
    let archive = memory();
    let mut session = open(&archive, 12_000);
    let mut bodies = Vec::new();
    for number in 0..9 {
        let body = filler::words(4_000, number);
        let id = format!("call_{number}");
        let messages = json!([
            {"role": "user", "content": format!("Read file {number}.")},
            {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                "function": {"name": "read", "arguments": format!("{{\"path\":\"f{number}\"}}")}}]},
            {"role": "tool", "tool_call_id": id, "content": body},
            {"role": "assistant", "content": format!("File {number} is fine.")},
        ]);
        let line = json!({ "messages": messages }).to_string();
        session.record(&Round::parse(&line, 0).unwrap()).unwrap();
        bodies.push(body);
    }
    let window = session.window("And now?", &Prompt::default(), 0).unwrap();
    assert_eq!(window.shortfall, Tokens::ZERO);
    let shown = handles(&window.json);
    assert!(!shown.is_empty());
    let batches = archive.batches(session.id(), Page::ALL).unwrap().items;
    for batch in &batches {
        let receipt: Value = serde_json::from_str(&batch.receipt).unwrap();
        let edits = receipt["edits"].as_array().unwrap();
        assert_eq!(edits.len(), batch.batch.edits.len());
        let reasons = ["old result", "old steps", "old prose", "recalled"];
        let has_reason = |edit: &Value| reasons.contains(&edit["why"].as_str().unwrap());
        assert!(edits.iter().all(has_reason), "{receipt}");
    }
    for handle in shown {
        let opened = recall::open(&*archive, &Scope::Session(session.id()), handle).unwrap();
        let opened = opened.unwrap_or_else(|| panic!("{handle} does not open"));
        let is_body = bodies.iter().any(|body| body == opened.original.as_str());
        assert!(is_body || !opened.entries.is_empty(), "{handle}");
    }
}

#[test]
fn a_chat_of_short_rounds_costs_less_than_sending_everything_and_forgets_no_user() {
    let archive = memory();
    let round = |number: u64| {
        let user = format!("Question {number}: {}", filler::words(30, number));
        let answer = filler::words(60, number + 1_000);
        (user, answer)
    };
    let meter = SessionSettings::new().unwrap().meter;
    let scale = Scale::new(&*meter);
    let whole: u64 = (0..120)
        .map(|number| {
            let (user, answer) = round(number);
            (scale.text(&user) + scale.text(&answer)).0 + 8
        })
        .sum();
    let mut session = open(&archive, whole / 2);
    let (mut cost, mut everything, mut breaks) = (0.0, 0.0, 0);
    let (mut last, mut sent_before, mut all) = (String::new(), 0.0, 0.0);
    for number in 0..120 {
        let (user, answer) = round(number);
        let window = session.window(&user, &Prompt::default(), 0).unwrap();
        assert_eq!(window.shortfall, Tokens::ZERO);
        let json = window.json.trim_end_matches(']').to_owned();
        let is_prefix = json.starts_with(&last);
        breaks += u32::from(!is_prefix);
        let tokens = window.tokens.0 as f64;
        let common = json.bytes().zip(last.bytes()).take_while(|(one, two)| one == two).count();
        let cached = sent_before * common as f64 / last.len().max(1) as f64;
        cost += tokens - cached * 0.9;
        let now = all + scale.text(&user).0 as f64 + 4.0;
        everything += now - all * 0.9;
        all = now + scale.text(&answer).0 as f64 + 4.0;
        (last, sent_before) = (json, tokens);
        session.record(&Round::new(&user, &answer, 0)).unwrap();
    }
    let ratio = cost / everything;
    println!("cost {ratio:.2} of sending everything, {breaks} breaks");
    assert!(ratio <= 0.9, "{ratio}");
    assert!(breaks <= 10, "{breaks}");
    for number in 0..10 {
        let (user, _) = round(number);
        let start: String = user.chars().take(50).collect();
        assert!(last.contains(&start), "round {number} is not told: {last}");
    }
}

#[test]
fn nothing_is_folded_while_there_is_room() {
    let archive = memory();
    let mut session = open(&archive, 24_000);
    let first = "I am allergic to nuts. Write a poem on rain.";
    session.record(&Round::new(first, "Rain falls.", 0)).unwrap();
    for _ in 0..10 {
        assert_eq!(session.record(&Round::new("hi", "ok", 0)).unwrap().folded, 0);
    }
    let window = session.window("What may I eat?", &Prompt::default(), 0).unwrap();
    assert!(window.json.contains("allergic to nuts"));
    assert!(!window.json.contains("[longhand"));
    let messages: Vec<Value> = serde_json::from_str(&window.json).unwrap();
    assert_eq!(messages.len(), 2 + 20 + 1);
}

#[test]
fn what_goes_wrong_after_a_round_is_durable_is_no_failure_to_record_it() {
    let archive = Arc::new(Faulty::new(memory(), Fault::None));
    let settings = SessionSettings { budget: Tokens(400), ..SessionSettings::new().unwrap() };
    let settings =
        settings.rolling(longhand::Rolling { rounds_max: 1, ..longhand::Rolling::default() });
    let mut session = Session::open_with(archive.clone(), "x", settings).unwrap();
    for number in 0..3 {
        archive.set(if number > 0 { Fault::NoBatches } else { Fault::None });
        let round = Round::new(&filler::words(60, number), &filler::words(90, number), 0);
        let recorded = session.record(&round).unwrap();
        assert_eq!(recorded.round, number);
        assert_eq!(recorded.problem.is_some(), number > 0);
    }
    let head = archive.head(session.id()).unwrap().unwrap();
    assert_eq!(head.rounds, 3, "each round is there once");
}

#[test]
fn a_session_counts_as_its_model_does() {
    let mut session = open(&memory(), 3_000);
    for number in 0..8 {
        let round = Round::new("Go on.", &filler::words(300, number), 0);
        session.record(&round).unwrap();
    }
    let plain = session.window("And now?", &Prompt::default(), 0).unwrap();
    assert_eq!((plain.shortfall, session.verbatim()), (Tokens::ZERO, 0..8));
    let meter = MeterSpec::for_model("claude-opus-5-5").open(ImageRule::CLAUDE_FROM_4_7).unwrap();
    session.set_meter(Arc::from(meter));
    let window = session.window("And now?", &Prompt::default(), 0).unwrap();
    assert!(window.tokens <= Tokens(3_000) && window.json != plain.json, "{}", window.tokens);
    assert!(session.verbatim().start > 0, "what a model counts for more is too much sooner");
}

#[test]
fn what_a_round_adds_is_all_that_is_counted_and_the_sum_is_right() {
    let archive = memory();
    let mut session = open(&archive, 2_000);
    let mut other = open(&archive, 2_000);
    for number in 0..60 {
        let line =
            json!({"user": filler::words(30, number), "assistant": filler::words(40, number)});
        let round = Round::parse(&line.to_string(), 0).unwrap();
        // Another process records into the same session now and then.
        let by = if number % 7 == 3 { &mut other } else { &mut session };
        let recorded = by.record(&round).unwrap();
        assert_eq!(recorded.tokens, by.tokens().unwrap(), "round {number}");
        if number % 10 == 9 {
            session.window("And now?", &Prompt::default(), 0).unwrap();
        }
        if number == 35 {
            session.undo().unwrap();
        }
    }
    assert!(archive.head(session.id()).unwrap().unwrap().batches > 1);
}

#[test]
fn a_new_result_is_clipped_as_it_enters_if_that_is_asked_for() {
    let body = filler::words(4_000, 7);
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let open_loop = json!({"messages": [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": body},
    ]});
    let round = Round::parse(&open_loop.to_string(), 0).unwrap();
    let shown = |percent: Option<u64>| {
        let archive = memory();
        let mut settings =
            SessionSettings { budget: Tokens(12_000), ..SessionSettings::new().unwrap() };
        settings.plan.clip_new_percent = percent;
        let mut session = Session::open_with(Arc::clone(&archive), "x", settings).unwrap();
        session.record(&round).unwrap();
        let first = session.window("", &Prompt::default(), 0).unwrap().json;
        session.record(&Round::new("And now?", "It is long.", 0)).unwrap();
        let second = session.window("Go on.", &Prompt::default(), 0).unwrap().json;
        assert!(second.starts_with(first.trim_end_matches(']')), "{percent:?}");
        (archive, session.id(), first)
    };
    assert!(shown(None).2.contains(&body));
    let (archive, session, window) = shown(Some(25));
    assert!(window.contains("[longhand clip h:") && !window.contains(&body));
    let [handle] = handles(&window)[..] else { panic!("{window}") };
    let opened = recall::open(&*archive, &Scope::Session(session), handle).unwrap().unwrap();
    assert_eq!(opened.original.as_str(), body);
}

/// What was recorded without a window is folded a portion at a time, and nothing of it is left out or read twice.
#[test]
fn a_long_record_is_folded_in_portions() {
    let archive = memory();
    let entries: Vec<_> = (0..4_000u64)
        .flat_map(|number| {
            let said = filler::words(900, number);
            Round::new(&format!("Step {number}: go on."), &said, number.cast_signed()).entries()
        })
        .collect();
    let text: usize = entries.iter().map(|entry| entry.raw.len()).sum();
    assert!(text > 2 * (8 << 20), "there are several portions");
    let id = open(&archive, 12_000).id();
    let new = NewSession { name: "x".to_owned(), ..NewSession::default() };
    archive.begin(id, &new).unwrap();
    archive.append(id, After::Newest, &entries).unwrap();

    let mut session = open(&archive, 12_000);
    assert_eq!(session.verbatim(), 0..4_000);
    let window = session.window("And now?", &Prompt::default(), 9).unwrap();
    assert_eq!(window.shortfall, Tokens::ZERO);
    assert!(window.json.contains("Step 3999: go on."));
    let mut batches = archive.batches(id, Page::ALL).unwrap().items;
    batches.sort_by_key(|batch| batch.number);
    assert!(batches.len() >= 2);
    let heads: Vec<_> = batches.iter().map(|batch| batch.batch.head).collect();
    assert!(heads.is_sorted());
    let fold = batches.iter().rev().find_map(|batch| batch.batch.fold()).unwrap();
    assert_eq!(fold.spans.first().unwrap().first, Seq(1), "the task stays");
    assert!(fold.spans.windows(2).all(|pair| pair[0].last < pair[1].first));

    // Whoever opens it later shows the same, and an undo brings back a part of it that can be folded again.
    let mut again = open(&archive, 12_000);
    assert_eq!(again.verbatim(), session.verbatim());
    assert_eq!(again.window("And now?", &Prompt::default(), 9).unwrap().json, window.json);
    again.undo().unwrap();
    assert!(again.verbatim().start < session.verbatim().start);
    assert_eq!(again.window("And now?", &Prompt::default(), 9).unwrap().shortfall, Tokens::ZERO);
}
