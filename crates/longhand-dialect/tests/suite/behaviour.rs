//! What the planner and the elider must do, one test for each line of their description.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Compacted, chars, compact, count, o200k, parse, show};
use longhand_core::{
    Budget, CachePrices, Economy, Edit, Fold, Original, PlanSettings, Policy, Tokens, original,
};
use longhand_dialect::Dialect;
use longhand_testkit::notation::chat;

fn trim(notation: &str, limit: u64, reserve: u64) -> Compacted {
    let budget = Budget { reserve: Tokens(reserve), ..Budget::of(Tokens(limit)) };
    compact(
        &chat(notation),
        None,
        &budget,
        &PlanSettings { policy: Policy::Trim, ..PlanSettings::default() },
        o200k(),
    )
}

fn elide(notation: &str, limit: u64) -> Compacted {
    let settings = PlanSettings { policy: Policy::Elide, ..PlanSettings::default() };
    compact(&chat(notation), None, &Budget::of(Tokens(limit)), &settings, &*chars())
}

fn auto(notation: &str, limit: u64) -> Compacted {
    compact(&chat(notation), None, &Budget::of(Tokens(limit)), &PlanSettings::default(), o200k())
}

// B: the planner.

#[test]
fn b_keeps_newest_messages_while_they_fit_in_budget_less_reserve() {
    let made = trim("u 100tk | a 100tk | u 100tk | a 100tk", 340, 80);
    assert_eq!(made.folded(), [0, 1]);
    assert!(made.tokens <= Tokens(260));
    assert!(made.after.messages[0].raw.raw().contains("[longhand fold "));
}

#[test]
fn b_a_reserve_above_the_budget_saturates() {
    let made = longhand_core::partition(3, |_, _| Tokens(1), Tokens(10), Tokens(11));
    assert_eq!(made, 3);
}

#[test]
fn b_copies_nothing_and_asks_no_further_than_needed() {
    let mut asked = Vec::new();
    let first = longhand_core::partition(
        1_000,
        |at, _| {
            asked.push(at);
            Tokens(10)
        },
        Tokens(35),
        Tokens(0),
    );
    assert_eq!(first, 997);
    assert_eq!(asked, [999, 998, 997, 996]);
}

#[test]
fn b_no_op_exactly_when_the_whole_history_fits() {
    let whole = count(&parse(&chat("u 50tk | a 50tk"), None), o200k()).0;
    assert!(trim("u 50tk | a 50tk", whole, 0).plan.is_noop());
    assert!(!trim("u 50tk | a 50tk", whole - 1, 0).plan.is_noop());
}

#[test]
fn b_a_single_message_too_big_for_the_budget_is_summarised() {
    let made = trim("u 500tk", 100, 0);
    assert_eq!(made.folded(), [0]);
    assert!(made.plan.fits());
}

#[test]
fn b_empty_history_is_a_no_op() {
    assert!(trim("", 10, 0).plan.is_noop());
    assert_eq!(longhand_core::partition(0, |_, _| unreachable!(), Tokens(10), Tokens(0)), 0);
}

#[test]
fn b_an_unchanged_prefix_has_the_same_handle() {
    let handle = |made: &Compacted| made.plan.batch.fold().map(Fold::handle);
    let one = trim("u 100tk | a 100tk | u 100tk | a 100tk", 300, 80);
    let two = trim("u 100tk | a 100tk | u 100tk | a 100tk", 310, 80);
    assert!(handle(&one).is_some());
    assert_eq!(handle(&one), handle(&two), "a summary can be cached under it");
}

#[test]
fn b_better_never_cuts_between_a_call_and_its_results() {
    let notation = "u go | a call:read#1 call:read#2 | t #1 100tk | t #2 100tk | a done | u next";
    for limit in 40..320 {
        let made = trim(notation, limit, 0);
        let gone = made.folded();
        let inside = [1, 2, 3].iter().filter(|at| gone.contains(at)).count();
        assert!(inside == 0 || inside == 3, "{limit}: {gone:?}");
        assert_eq!(crate::common::graves(&made.after), Vec::<String>::new());
    }
}

// C: the elider.

const SESSION: &str = "s 300ch | u 300ch | a 400ch call:read#1 | t #1 2000ch | a 900ch call:run#2 | t #2 3000ch | \
                       a 500ch | u 400ch | a call:read#3 | t #3 1000ch | a 350ch";

#[test]
fn c_system_prompt_user_messages_and_the_last_four_are_protected() {
    let made = elide(SESSION, 10);
    assert_eq!(made.stubbed(), [2, 3, 4, 5, 6]);
    for at in [0, 1, 7, 8, 9, 10] {
        assert!(made.text.contains(made.before.messages[at].raw.raw()), "{at}");
    }
}

#[test]
fn c_pass_one_elides_tool_results_oldest_first() {
    let whole = elide(SESSION, 100_000).tokens.0;
    assert_eq!(elide(SESSION, whole - 1).stubbed(), [3]);
    assert_eq!(elide(SESSION, whole - 700).stubbed(), [3, 5]);
}

#[test]
fn c_pass_two_elides_assistant_prose_oldest_first_beside_calls_too() {
    let less = |made: &Compacted| elide(SESSION, made.tokens.0 - 1);
    let results = elide(SESSION, elide(SESSION, 100_000).tokens.0 - 700);
    let one = less(&results);
    assert_eq!(one.stubbed(), [2, 3, 5]);
    assert_eq!(less(&one).stubbed(), [2, 3, 4, 5]);
}

#[test]
fn c_stops_as_soon_as_it_fits() {
    let whole = elide(SESSION, 100_000).tokens.0;
    for limit in (whole / 3)..whole {
        let made = elide(SESSION, limit);
        if !made.plan.fits() {
            continue;
        }
        // Without its last stub it would not fit.
        let mut batch = made.plan.batch.clone();
        let stubbed = made.stubbed();
        let prose = stubbed.iter().rposition(|at| ![3, 5].contains(at));
        batch.edits.remove(prose.unwrap_or(stubbed.len() - 1));
        let more = parse(&made.before.apply(&[batch]), None);
        assert!(count(&more, &*chars()) > Tokens(limit), "{limit}");
    }
}

#[test]
fn c_payloads_under_256_characters_stay() {
    let made = elide(
        "u go | a 255ch call:x#1 | t #1 255ch | a 256ch call:x#2 | t #2 256ch | u a | a b | u c | a d",
        10,
    );
    assert_eq!(made.stubbed(), [3, 4]);
}

#[test]
fn c_a_payload_becomes_a_one_line_marker_with_its_size() {
    let made = elide(SESSION, 10);
    for edit in &made.plan.batch.edits {
        let Edit::Stub { text, .. } = edit else { panic!("{edit:?}") };
        assert!(!text.contains('\n') && text.contains(" chars of "), "{text}");
    }
    assert!(made.text.contains(": 2,000 chars of read"), "{}", show(&made.after));
}

#[test]
fn c_ids_names_and_arguments_stay_untouched() {
    let made = elide(
        r#"u go | a call:read#1{"path":"a.rs","note":"400ch"} | t #1 900ch | u b | a c | u d | a e"#,
        10,
    );
    let before: serde_json::Value = serde_json::from_str(made.before.bytes()).unwrap();
    let after: serde_json::Value = serde_json::from_str(&made.text).unwrap();
    assert_eq!(before[1]["tool_calls"], after[1]["tool_calls"]);
    assert_eq!(before[2]["tool_call_id"], after[2]["tool_call_id"]);
    assert_ne!(before[2]["content"], after[2]["content"]);
}

#[test]
fn c_fits_already_is_an_unchanged_copy() {
    let made = elide(SESSION, 100_000);
    assert!(made.plan.is_noop());
    assert_eq!(made.text, made.before.bytes());
}

#[test]
fn c_cannot_fit_is_the_best_effort_and_the_figures_say_so() {
    let made = elide(SESSION, 10);
    assert!(!made.plan.fits());
    assert_eq!(made.plan.tokens(), made.tokens);
    assert_eq!(made.plan.floor, made.tokens);
    assert_eq!(made.plan.shortfall, made.tokens - Tokens(10));
}

#[test]
fn c_estimates_characters_over_3_5_plus_8_a_message_and_512_an_image() {
    let message = |content: &str| format!(r#"[{{"role":"user","content":{content}}}]"#);
    let image = r#"[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]"#;
    for (content, tokens) in
        [("\"1234567\"", 2 + 8), ("\"12345678\"", 3 + 8), ("\"ééé\"", 1 + 8), (image, 512 + 8)]
    {
        assert_eq!(count(&parse(&message(content), None), &*chars()), Tokens(tokens), "{content}");
    }
}

#[test]
fn c_better_the_marker_carries_a_handle_that_brings_the_original_back() {
    let made = elide(SESSION, 10);
    for edit in &made.plan.batch.edits {
        let Edit::Stub { handle, .. } = edit else { panic!("{edit:?}") };
        assert!(made.text.contains(&handle.to_string()));
        let Some(Original::Text(text)) = original(&made.before.path(), edit) else { panic!() };
        assert!(text.chars().count() >= 256);
    }
}

#[test]
fn c_better_time_is_linear_in_the_number_of_messages() {
    // Work is counted, not time: every body is weighed a bounded number of times.
    struct Counting(AtomicU64);
    impl longhand_core::Meter for Counting {
        fn weigh(&self, text: &str, _: u64) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed);
            text.len() as u64 / 4
        }
        fn image(&self, _: &longhand_core::Image) -> Tokens {
            Tokens(512)
        }
        fn framing(&self) -> longhand_core::Framing {
            longhand_core::Framing {
                message: Tokens(4),
                name: Tokens(1),
                reply: Tokens(3),
                ids: true,
            }
        }
    }
    for policy in crate::common::POLICIES {
        let work = |messages: usize| {
            let meter = Counting(AtomicU64::new(0));
            let json = longhand_testkit::history::history(1, messages);
            let conversation = parse(&json, None);
            let limit = Tokens(json.len() as u64 / 10);
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            longhand_core::plan(
                &conversation.history(Tokens(0)),
                &Budget::of(limit),
                &settings,
                &meter,
            );
            meter.0.into_inner()
        };
        let (one, four) = (work(250), work(1_000));
        assert!(four < one * 6, "{policy:?}: {one} -> {four}");
    }
}

// The default policy.

#[test]
fn auto_stubs_results_then_arguments_then_prose() {
    let patch = "x".repeat(2_000);
    let notation = format!(
        "u go | a 300tk call:patch#1{{\"patch\":\"{patch}\"}} | t #1 600tk | a 200tk | u b | a 10tk | u c | a 10tk"
    );
    let whole = auto(&notation, 100_000).tokens.0;
    let what = |limit: u64| -> Vec<(usize, usize)> {
        let made = auto(&notation, limit);
        assert!(made.plan.fits(), "{limit}");
        assert_eq!(made.folded(), Vec::<usize>::new(), "{limit}");
        let place = |edit: &Edit| match edit {
            Edit::Stub { at, .. } => (made.before.path().message(at.entry).unwrap(), at.part),
            other => panic!("{other:?}"),
        };
        made.plan.batch.edits.iter().map(place).collect()
    };
    assert_eq!(what(whole - 100), [(2, 0)]);
    assert_eq!(what(whole - 700), [(1, 1), (2, 0)]);
    assert_eq!(what(whole - 900), [(1, 0), (1, 1), (2, 0)]);
}

#[test]
fn auto_folds_whole_steps_into_one_block() {
    let steps: Vec<String> =
        (0..40).map(|at| format!("a 60tk call:read#{at} | t #{at} 200tk")).collect();
    let made =
        auto(&format!("s 20tk | u fix it | {} | a done | u thanks", steps.join(" | ")), 1_500);
    assert!(made.plan.fits());
    let text = show(&made.after);
    assert!(text.lines().nth(2).unwrap().contains("[longhand fold "), "{text}");
    assert!(made.tokens > Tokens(1_200), "the room is used: {}", made.tokens);
}

#[test]
fn auto_clips_the_largest_results_of_the_tail_as_the_last_resort() {
    let made = auto("u go | a call:read#1 call:read#2 | t #1 3000tk | t #2 100tk", 1_000);
    assert!(made.plan.fits(), "{}", made.plan);
    assert_eq!(made.clipped(), [2]);
    assert_eq!(made.plan.batch.edits.len(), 1);
    assert!(made.tokens > Tokens(900), "no more than needed: {}", made.tokens);
}

#[test]
fn auto_reports_the_smallest_reachable_size_when_users_alone_are_too_big() {
    let made = auto("s 50tk | u 500tk | a 100tk | u 500tk | a 100tk | u 500tk", 200);
    assert!(!made.plan.fits());
    assert!(
        auto("s 50tk | u 500tk | a 100tk | u 500tk | a 100tk | u 500tk", made.plan.floor.0)
            .plan
            .fits()
    );
}

#[test]
fn auto_clips_old_observations_of_text_action_agents_but_not_people() {
    let observation =
        format!("[File: /src/a.rs (90 lines total)]\n{}", "1: let x = 1;\n".repeat(120));
    let person = "Please keep this in mind. ".repeat(60);
    let messages = serde_json::json!([
        {"role": "system", "content": "You act in a shell."},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "Look.\n```\nopen a.rs\n```"},
        {"role": "user", "content": observation},
        {"role": "assistant", "content": "What do you say?"},
        {"role": "user", "content": person},
        {"role": "assistant", "content": "Again.\n```\nopen a.rs\n```"},
        {"role": "user", "content": observation},
        {"role": "assistant", "content": "Good.\n```\nls\n```"},
        {"role": "user", "content": "a.rs\nb.rs"},
    ]);
    let settings = PlanSettings { keep_tail: Some(1), ..PlanSettings::default() };
    let whole = count(&parse(&messages.to_string(), None), o200k());
    let made = compact(
        &messages.to_string(),
        None,
        &Budget::of(Tokens(whole.0 * 6 / 10)),
        &settings,
        o200k(),
    );
    assert_eq!(made.clipped(), [3, 7]);
    assert_eq!(made.plan.batch.edits.len(), 2);
    assert!(made.text.contains(person.trim()));
}

#[test]
fn a_target_is_gone_down_to_only_when_the_room_is_used_up() {
    let notation = "u go | a call:read#1 | t #1 900tk | a call:read#2 | t #2 900tk | a 10tk | u b | a c | u d | a e";
    let budget = |limit| Budget { target: Some(Tokens(400)), ..Budget::of(Tokens(limit)) };
    let run =
        |limit| compact(&chat(notation), None, &budget(limit), &PlanSettings::default(), o200k());
    assert!(run(5_000).plan.is_noop());
    assert!(run(1_500).tokens <= Tokens(400));
}

/// With a large tail a batch would free little, and the next one would be due at once.
#[test]
fn a_batch_that_buys_no_peace_goes_deeper() {
    let words = |number: usize| format!("output {number} ").repeat(1_000);
    let mut messages = vec![r#"{"role":"user","content":"Go."}"#.to_owned()];
    for number in 0..12 {
        messages.push(format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{number}","type":"function","function":{{"name":"run","arguments":"{{}}"}}}}]}}"#
        ));
        messages.push(format!(
            r#"{{"role":"tool","tool_call_id":"c{number}","content":"{}"}}"#,
            words(number)
        ));
    }
    let json = format!("[{}]", messages.join(","));
    let budget = Budget::of(Tokens(8_000)).with_low_water(40, Tokens::ZERO);
    let compacted = compact(&json, Some(Dialect::Chat), &budget, &PlanSettings::default(), o200k());
    assert!(compacted.tokens <= Tokens(5_000), "{}", compacted.plan);
    let newest = compacted.after.messages.last().unwrap();
    assert!(newest.raw.raw().contains(&words(11)), "the newest result is as it was");
}

/// A reading of `path` in so many words, as a call and its result.
fn reading(id: &str, path: &str, words: &str) -> [String; 2] {
    let arguments = format!(r#"{{\"path\":\"{path}\"}}"#);
    [
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"read_file","arguments":"{arguments}"}}}}]}}"#
        ),
        format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{words}"}}"#),
    ]
}

#[test]
fn what_something_newer_replaces_makes_way_first() {
    let words = |name: &str| format!("{name} holds so many words ").repeat(60);
    let mut messages = vec![r#"{"role":"user","content":"Go."}"#.to_owned()];
    for (id, path, text) in [
        ("1", "old.rs", words("old")),
        ("2", "twice.rs", words("twice as it was")),
        ("3", "same.rs", words("same")),
        ("4", "twice.rs", words("twice as it is")),
        ("5", "copy.rs", words("same")),
        ("6", "new.rs", words("new")),
    ] {
        messages.extend(reading(id, path, &text));
    }
    messages.extend(
        ["assistant", "user", "assistant", "user"]
            .map(|role| format!(r#"{{"role":"{role}","content":"Go on."}}"#)),
    );
    let json = format!("[{}]", messages.join(","));
    let whole = count(&parse(&json, None), o200k());
    let budget = Budget::of(Tokens(whole.0 * 73 / 100));
    let compacted = compact(&json, None, &budget, &PlanSettings::default(), o200k());
    let reasons = longhand_core::reasons(&compacted.before.path(), &compacted.plan.batch);
    let reasons: Vec<&str> = reasons.into_iter().map(longhand_core::Reason::as_str).collect();
    assert_eq!(reasons, ["superseded", "duplicate"]);
    assert!(compacted.text.contains("path=twice.rs, superseded by a newer call, not shown"));
    assert!(compacted.text.contains("path=same.rs, the same as a newer result, not shown"));
    for kept in [words("old"), words("twice as it is"), words("new")] {
        assert!(compacted.text.contains(&kept), "{}", compacted.text);
    }
}

#[test]
fn a_window_comes_down_before_it_is_full_only_if_that_pays() {
    let notation = "u go | a call:read#1 | t #1 900tk | a call:read#2 | t #2 900tk | a 10tk | u b | a c | u d | a e";
    let run = |cached: u64, requests: u64| {
        let prices = CachePrices { cached, uncached: 100 };
        let economy = Economy { requests, ..Economy::of(prices, Tokens(100), 10) };
        let budget = Budget::of(Tokens(5_000)).with_low_water(10, Tokens::ZERO);
        let budget = budget.with_economy(economy);
        compact(&chat(notation), None, &budget, &PlanSettings::default(), o200k()).plan
    };
    assert!(
        run(10, 100).tokens() <= Tokens(500),
        "1,800 tokens are more than 500 + 2 × √(18 × 10 × 500)"
    );
    assert!(run(10, 0).is_noop(), "nothing is to come that would be cheaper");
    assert!(run(0, 100).is_noop(), "what is cached costs nothing");
    assert!(run(1, 100).is_noop(), "a break is dear");
}
