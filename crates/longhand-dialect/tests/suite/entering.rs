//! New tool results that are clipped as they enter a window.

use crate::common::{Compacted, check_contract, compact, fixed, o200k, parse};
use longhand_core::{Budget, Edit, History, Original, PlanSettings, Tokens, original, plan};
use longhand_testkit::notation::chat;
use serde_json::json;

const NEW_RESULT: &str = "u go | a call:read#1 | t #1 300tk | a call:read#2 | t #2 3000tk";

fn clipping(percent: u64) -> PlanSettings {
    PlanSettings { clip_new_percent: Some(percent), ..PlanSettings::default() }
}

fn made(json: &str, limit: u64, settings: &PlanSettings) -> Compacted {
    let budget = Budget::of(Tokens(limit));
    let made = compact(json, None, &budget, settings, o200k());
    check_contract(&made, &budget, settings, o200k());
    made
}

#[test]
fn a_new_result_beyond_its_share_is_clipped_and_nothing_else() {
    let json = chat(NEW_RESULT);
    let made = made(&json, 8_000, &clipping(25));
    assert_eq!(made.clipped(), [4]);
    let [edit @ Edit::Clip { .. }] = made.plan.batch.edits.as_slice() else {
        panic!("{:?}", made.plan.batch.edits)
    };
    // Half of its share is left of it, beside some 350 tokens of the rest.
    assert!((Tokens(1_200)..Tokens(1_500)).contains(&made.tokens), "{}", made.tokens);
    let result = made.before.messages[4].results().next().unwrap().single_text().unwrap();
    let opened = original(&made.before.path(), edit).unwrap();
    assert_eq!(opened, Original::Text(result.decode().into_owned()));
}

#[test]
fn by_default_new_results_stay_whole() {
    let made = made(&chat(NEW_RESULT), 8_000, &PlanSettings::default());
    assert!(made.plan.is_noop(), "{}", made.plan);
}

#[test]
fn a_result_that_is_known_or_small_or_pinned_stays_whole() {
    let answered = format!("{NEW_RESULT} | a I see | u and now?");
    for notation in [answered.as_str(), "u go | a call:read#1 | t #1 1900tk", "u go | a well"] {
        let made = made(&chat(notation), 8_000, &clipping(25));
        assert!(made.plan.is_noop(), "{notation}: {}", made.plan);
    }
    let conversation = parse(&chat(NEW_RESULT), None);
    let pins = [*conversation.path().seqs.last().unwrap()];
    let history = History { pins: &pins, ..conversation.history(fixed(&conversation, o200k())) };
    let plan = plan(&history, &Budget::of(Tokens(8_000)), &clipping(25), o200k());
    assert!(plan.is_noop(), "{plan}");
}

#[test]
fn what_was_clipped_is_not_clipped_again() {
    let conversation = parse(&chat(NEW_RESULT), None);
    let history = conversation.history(fixed(&conversation, o200k()));
    let budget = Budget::of(Tokens(8_000));
    let first = plan(&history, &budget, &clipping(25), o200k());
    let live = [first.batch];
    let again = plan(&History { live: &live, ..history }, &budget, &clipping(25), o200k());
    assert!(again.is_noop(), "{again}");
    assert_eq!(again.tokens(), first.size.tokens);
}

#[test]
fn a_full_window_comes_down_in_the_same_batch() {
    let steps: Vec<String> =
        (0..12).map(|number| format!("a call:read#{number} | t #{number} 300tk")).collect();
    let notation = format!("u go | {} | a call:read#99 | t #99 3000tk", steps.join(" | "));
    let budget = Budget { target: Some(Tokens(1_500)), ..Budget::of(Tokens(3_000)) };
    let made = compact(&chat(&notation), None, &budget, &clipping(25), o200k());
    check_contract(&made, &budget, &clipping(25), o200k());
    assert!(made.plan.fits(), "{}", made.plan);
    assert_eq!(made.clipped().last(), Some(&(made.before.messages.len() - 1)));
    assert!(made.plan.batch.edits.len() > 1);
    let mut places: Vec<_> =
        made.plan.batch.edits.iter().filter_map(|edit| edit.kind().place()).collect();
    let count = places.len();
    places.dedup();
    assert_eq!(places.len(), count, "no part is edited twice");
}

#[test]
fn a_clip_says_what_failed_in_what_it_leaves_out() {
    let line = |number: usize| format!("{number}: compiled one more file of the project\n");
    let log: String = (0..200).map(line).collect();
    let output = format!("{log}error[E0308]: mismatched types in src/wheel.rs\n{log}");
    let function = json!({"name": "run", "arguments": "{}"});
    let call = json!({"id": "c1", "type": "function", "function": function});
    let json = json!([
        {"role": "user", "content": "Build it."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": output},
    ]);
    let made = made(&json.to_string(), 8_000, &clipping(10));
    let [Edit::Clip { text, .. }] = made.plan.batch.edits.as_slice() else {
        panic!("{:?}", made.plan.batch.edits)
    };
    assert!(text.starts_with("0: compiled") && text.ends_with("the project\n"), "{text}");
    assert!(text.contains("; error(E0308): mismatched types in src/wheel.rs]\n"), "{text}");
}
