//! Windows of a session: stable, cheap, and nothing lost.

use std::sync::{Arc, LazyLock};

use longhand::driver::keep_logs;
use longhand::{Archive, MemoryArchive, Prompt, Round, Session, SessionSettings, Tokens, recall};
use longhand_archive::{After, NewEntry, NewSession, Page, Scope, SessionId};
use longhand_core::{Handle, Scale, Seq, grouped};
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

/// Rounds of some kilobytes each.
fn long_rounds(range: std::ops::Range<u64>) -> Vec<NewEntry> {
    let round = |number: u64| {
        let said = filler::words(900, number);
        Round::new(&format!("Step {number}: go on."), &said, number.cast_signed()).entries()
    };
    range.flat_map(round).collect()
}

/// A session of 14 MB that nobody has seen a window of.
fn long_record() -> (Arc<dyn Archive>, SessionId) {
    static ENTRIES: LazyLock<Vec<NewEntry>> = LazyLock::new(|| long_rounds(0..2_500));
    let archive = memory();
    let entries = &*ENTRIES;
    assert!(entries.iter().map(|entry| entry.raw.len()).sum::<usize>() > 3 * (4 << 20));
    let id = open(&archive, 12_000).id();
    let new = NewSession { name: "x".to_owned(), ..NewSession::default() };
    archive.begin(id, &new).unwrap();
    archive.append(id, After::Newest, entries).unwrap();
    (archive, id)
}

/// The window that whoever opens the session is shown.
fn first_window(archive: &Arc<dyn Archive>) -> String {
    let window = open(archive, 12_000).window("And now?", &Prompt::default(), 9).unwrap();
    assert_eq!(window.shortfall, Tokens::ZERO);
    window.json
}

#[test]
fn a_long_record_is_folded_in_one_batch_and_nothing_of_it_is_left_out() {
    let (archive, id) = long_record();
    let mut session = open(&archive, 12_000);
    assert_eq!(session.verbatim(), 0..2_500);
    let preview = session.preview("And now?", &Prompt::default()).unwrap();
    assert_eq!(session.verbatim(), 0..2_500, "a preview folds nothing");
    assert_eq!(session.plain_rounds().unwrap().len(), 2_500);
    let window = first_window(&archive);
    assert_eq!(window, preview.json);
    assert!(window.contains("Step 2499: go on."));
    let batches = archive.batches(id, Page::ALL).unwrap().items;
    let [batch] = &*batches else { panic!("{} batches", batches.len()) };
    let fold = batch.batch.fold().unwrap();
    let [span] = *fold.spans else { panic!("{:?}", fold.spans) };
    assert_eq!(span.first, Seq(1), "the task stays");
    let receipt: Value = serde_json::from_str(&batch.receipt).unwrap();
    assert!(receipt["tokens_before"].as_u64().unwrap() > 2_000_000, "{receipt}");
    let folded = span.last.0 - span.first.0 + 1;
    assert!(window.contains(&format!("{} earlier messages", grouped(folded as usize))));

    // All of it comes back by its handle.
    let opened = recall::open(&*archive, &Scope::Session(id), fold.handle()).unwrap().unwrap();
    let original = opened.original.as_str();
    assert_eq!(original.lines().count() as u64, folded);
    assert!(original.contains("Step 1: go on.") && original.contains("Step 1500: go on."));

    // Whoever opens it later shows the same, and after an undo all of it is there and can be folded again.
    let mut again = open(&archive, 12_000);
    assert_eq!(again.window("And now?", &Prompt::default(), 9).unwrap().json, window);
    again.undo().unwrap();
    assert_eq!(again.verbatim(), 0..2_500);
    assert!(archive.verify(None).unwrap().is_empty());
    assert!(first_window(&archive).contains("Step 2499: go on."));
}

#[test]
fn a_kept_log_changes_no_window() {
    let (archive, id) = long_record();
    let without = first_window(&archive);
    let (archive, same) = long_record();
    assert_eq!(same, id);
    keep_logs(&archive, id).unwrap();
    let keys = archive.derived_keys(id, "log").unwrap();
    assert!(keys.len() >= 3 && keys.contains(&"logs".to_owned()), "{keys:?}");
    assert_eq!(open(&archive, 12_000).verbatim(), 0..2_500, "it takes nothing out of sight");
    let preview = open(&archive, 12_000).preview("And now?", &Prompt::default()).unwrap();
    assert_eq!(preview.json, without);
    // Values that cannot be read, or are of another session, are passed over.
    for key in keys.iter().filter(|key| *key != "logs").rev().take(2) {
        let value = archive.derived(id, key).unwrap().unwrap();
        let other = value.replacen(' ', " 9", 1);
        archive.put_derived(id, key, &other).unwrap();
    }
    assert_eq!(first_window(&archive), without);
}

#[test]
fn a_kept_log_hides_no_pin_and_tells_of_no_other_branch() {
    let (archive, id) = long_record();
    keep_logs(&archive, id).unwrap();
    archive.pin(id, Seq(2_001), true).unwrap();
    let pinned = &archive.entries(id, 2_001..2_002).unwrap()[0].raw;
    let said: Value = serde_json::from_str(pinned).unwrap();
    assert!(first_window(&archive).contains(said["content"].as_str().unwrap()));

    let (archive, id) = long_record();
    keep_logs(&archive, id).unwrap();
    let other = long_rounds(10_000..11_500);
    archive.append(id, After::Entry(Some(Seq(199))), &other).unwrap();
    let window = first_window(&archive);
    assert!(window.contains("Step 11499: go on."));
    let batch = archive.batches(id, Page::ALL).unwrap().items.remove(0).batch;
    let opened = recall::open(&*archive, &Scope::Session(id), batch.fold().unwrap().handle());
    let original = opened.unwrap().unwrap();
    let original = original.original.as_str();
    assert!(original.contains("Step 99: go on.") && original.contains("Step 10000: go on."));
    assert!(!original.contains("Step 100: go on.") && !window.contains("Step 2499"));
}

#[test]
fn logs_are_kept_while_rounds_are_recorded() {
    let archive = memory();
    let mut session = open(&archive, 12_000);
    for number in 0..1_200 {
        let round = Round::new(&format!("Step {number}."), &filler::words(900, number), 0);
        assert!(session.record(&round).unwrap().problem.is_none());
    }
    let id = session.id();
    assert!(archive.derived_keys(id, "log").unwrap().len() >= 2);
    assert_eq!(archive.batches(id, Page::ALL).unwrap().items.len(), 0);
    // One round more, by another process, is counted with what the log covers.
    let before = session.tokens().unwrap();
    let recorded = open(&archive, 12_000).record(&Round::new("Go on.", "Gladly.", 0)).unwrap();
    let ratio = recorded.tokens.0 as f64 / before.0 as f64;
    assert!((0.95..1.05).contains(&ratio), "{} {before}", recorded.tokens);
}
