//! Marks for a provider's cache come through every edit.

use crate::common::{
    Operation, check_contract, compact, count, graves, o200k, parse, remove, render, replace,
};
use longhand_core::{Budget, PlanSettings, Tokens};
use longhand_dialect::Dialect;
use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What stands for a fold or a stub in the tests below.
const TEXT: &str = "[longhand x]";

fn fold(ranges: &[(usize, usize)]) -> Operation {
    crate::common::fold(ranges, TEXT)
}

fn stub(message: usize, part: usize) -> Operation {
    replace(message, part, TEXT)
}

/// Writes out the short forms that the tests use.
fn long(json: &str) -> String {
    json.replace("$5m", r#""cache_control":{"type":"ephemeral"}"#)
        .replace("$1h", r#""cache_control":{"ttl":"1h","type":"ephemeral"}"#)
        .replace("$gpt", r#""prompt_cache_breakpoint":{"mode":"explicit"}"#)
        .replace("$fold", r#"{"type":"text","text":"[longhand x]""#)
        .replace("$u", r#""role":"user","content":"#)
        .replace("$a", r#""role":"assistant","content":"#)
        .replace("$t", r#""type":"text","text":"#)
}

fn check(dialect: Dialect, before: &str, edits: &[Operation], after: &str) {
    let conversation = parse(&long(before), Some(dialect));
    assert_eq!(graves(&conversation), Vec::<String>::new(), "{before}");
    let edited = render(&conversation, edits);
    assert_eq!(edited, long(after), "{before}");
    assert_eq!(graves(&parse(&edited, Some(dialect))), Vec::<String>::new(), "{edited}");
}

#[test]
fn a_fold_takes_over_the_newest_mark_in_it() {
    let check = |before: &str, ranges: &[(usize, usize)], after: &str| {
        check(Dialect::Anthropic, before, &[fold(ranges)], after);
    };
    check(
        r#"[{$u[{$t"a",$1h}]},{$a[{$t"b",$5m}]},{$u "c"},{$a "d"},{$u[{$t"e",$5m}]}]"#,
        &[(0, 2)],
        r#"[{$u [$fold,$5m},{$t"c"}]},{$a "d"},{$u[{$t"e",$5m}]}]"#,
    );
    // Nothing marked, nothing to mark.
    check(
        r#"[{$u "a"},{$a "b"},{$u "c"},{$a "d"},{$u[{$t"e",$5m}]}]"#,
        &[(0, 2)],
        r#"[{$u [$fold},{$t"c"}]},{$a "d"},{$u[{$t"e",$5m}]}]"#,
    );
    // Between two turns, of which the first takes all in; its own mark stays.
    check(
        r#"[{$u[{$t"a",$1h}]},{$a[{$t"b",$1h}]},{$u "c"},{$a "d"}]"#,
        &[(1, 2)],
        r#"[{$u[{$t"a",$1h},$fold,$1h},{$t"c"}]},{$a "d"}]"#,
    );
    // The mark of a result, and one inside it.
    check(
        r#"[{$u "a"},{$a[{"type":"tool_use","id":"i","name":"f","input":{},$1h}]},{$u[{"type":"tool_result","tool_use_id":"i","content":[{$t"r",$5m}]}]},{$a "d"}]"#,
        &[(1, 3)],
        r#"[{$u [{$t"a"},$fold,$5m}]},{$a "d"}]"#,
    );
}

#[test]
fn marks_for_an_hour_stay_before_the_others() {
    let check = |before: &str, after: &str| {
        check(Dialect::Anthropic, before, &[fold(&[(1, 2), (3, 4)])], after);
    };
    // The newest of the folded ones may not stand before the hour that is kept.
    check(
        r#"[{$u "a"},{$a "b"},{$u[{$t"c",$1h}]},{$a[{$t"d",$5m}]},{$u "e"}]"#,
        r#"[{$u [{$t"a"},$fold},{$t"c",$1h},{$t"e"}]}]"#,
    );
    check(
        r#"[{$u "a"},{$a[{$t"b",$1h}]},{$u[{$t"c",$1h}]},{$a[{$t"d",$5m}]},{$u "e"}]"#,
        r#"[{$u [{$t"a"},$fold,$1h},{$t"c",$1h},{$t"e"}]}]"#,
    );
    check(
        r#"[{$u "a"},{$a[{$t"b",$1h}]},{$u[{$t"c",$5m}]},{$a[{$t"d",$5m}]},{$u "e"}]"#,
        r#"[{$u [{$t"a"},$fold,$5m},{$t"c",$5m},{$t"e"}]}]"#,
    );
}

#[test]
fn no_fifth_mark_is_made() {
    // Five are one too many as they come; the fold does not keep it so.
    let marked = "{$t\"x\",$5m}";
    let before =
        format!(r"[{{$u[{marked}]}},{{$a[{marked}]}},{{$u[{marked},{marked},{marked},{marked}]}}]");
    let conversation = parse(&long(&before), Some(Dialect::Anthropic));
    let edited = render(&conversation, &[fold(&[(0, 2)])]);
    assert_eq!(edited.matches("cache_control").count(), 4);
    assert!(edited.contains(&long("[$fold},")), "{edited}");
}

#[test]
fn a_stub_keeps_the_mark_of_what_it_stands_for() {
    check(
        Dialect::Anthropic,
        r#"[{$u "a"},{$a[{"type":"tool_use","id":"i","name":"f","input":{"a":1},$1h}]},{$u[{"type":"tool_result","tool_use_id":"i","content":[{$t"r",$1h},{$t"s",$5m}],$5m}]},{$a[{$t"d"}]}]"#,
        &[replace(1, 0, "{}"), stub(2, 0), stub(3, 0)],
        r#"[{$u "a"},{$a[{"type":"tool_use","id":"i","name":"f","input":{},$1h}]},{$u[{"type":"tool_result","tool_use_id":"i","content":[$fold,$5m}],$5m}]},{$a[{$t"[longhand x]"}]}]"#,
    );
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    check(
        Dialect::Chat,
        &format!(
            r#"[{{$u "a"}},{calls},{{"role":"tool","tool_call_id":"i","content":[{{$t"r",$5m}}]}}]"#
        ),
        &[stub(2, 0)],
        &format!(
            r#"[{{$u "a"}},{calls},{{"role":"tool","tool_call_id":"i","content":[$fold,$5m}}]}}]"#
        ),
    );
    let call = r#"{"type":"function_call","call_id":"i","name":"f","arguments":"{}"}"#;
    check(
        Dialect::Responses,
        &format!(
            r#"[{call},{{"type":"function_call_output","call_id":"i","output":[{{"type":"input_text","text":"r",$gpt}}]}}]"#
        ),
        &[stub(1, 0)],
        &format!(
            r#"[{call},{{"type":"function_call_output","call_id":"i","output":[{{"type":"input_text","text":"[longhand x]",$gpt}}]}}]"#
        ),
    );
}

#[test]
fn a_fold_is_a_list_of_parts_only_if_it_is_marked() {
    check(
        Dialect::Chat,
        r#"[{$u[{$t"a",$5m}]},{$a "b"},{$u "c"}]"#,
        &[fold(&[(0, 2)])],
        r#"[{"role":"user","content":[$fold,$5m}]},{$u "c"}]"#,
    );
    check(
        Dialect::Chat,
        r#"[{$u "a"},{$a "b"},{$u[{$t"c",$5m}]}]"#,
        &[fold(&[(0, 2)])],
        r#"[{"role":"user","content":"[longhand x]"},{$u[{$t"c",$5m}]}]"#,
    );
    check(
        Dialect::Responses,
        r#"[{$u[{"type":"input_text","text":"a",$gpt}]},{$a "b"},{$u "c"}]"#,
        &[fold(&[(0, 2)])],
        r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"[longhand x]",$gpt}]},{$u "c"}]"#,
    );
}

#[test]
fn a_mark_beside_thinking_stays_where_it_is() {
    check(
        Dialect::Anthropic,
        r#"[{$u "a"},{$a[{"type":"thinking","thinking":"t","signature":"s"},{$t"b",$5m},{"type":"redacted_thinking","data":"s"}]},{$u "c"}]"#,
        &[remove(1, 0), remove(1, 2)],
        r#"[{$u "a"},{$a[{$t"b",$5m}]},{$u "c"}]"#,
    );
}

/// The pointers of what can be marked, in the order in which the provider reads it.
fn markable(value: &Value, at: &str, found: &mut Vec<String>) {
    for key in ["tools", "system", "messages", "input", "content", "output"] {
        let list = value[key].as_array().into_iter().flatten().enumerate();
        list.for_each(|(index, element)| markable(element, &format!("{at}/{key}/{index}"), found));
    }
    let kind = value["type"].as_str().unwrap_or_default();
    let is_message = value.get("role").is_some() || kind.contains("call");
    if !is_message && !at.is_empty() && !kind.contains("thinking") && !kind.contains("reasoning") {
        found.push(at.to_owned());
    }
}

fn text_kind(message: &Value, dialect: Dialect) -> &'static str {
    match (dialect, message["role"].as_str()) {
        (Dialect::Responses, Some("assistant")) => "output_text",
        (Dialect::Responses, _) => "input_text",
        _ => "text",
    }
}

/// Puts marks on a conversation: at most four, those for an hour first.
fn mark(json: &str, dialect: Dialect, wide: bool, at: &[usize], hours: usize) -> Option<String> {
    let parsed: Value = serde_json::from_str(json).ok()?;
    let list = if dialect == Dialect::Responses { "input" } else { "messages" };
    let mut request =
        if parsed.is_array() { json!({ "model": "m", list: parsed }) } else { parsed };
    let key =
        if dialect == Dialect::Responses { "prompt_cache_breakpoint" } else { "cache_control" };
    for message in request[list].as_array_mut()? {
        let kind = text_kind(message, dialect);
        for field in ["content", "output"] {
            if let Some(text) = message[field].as_str().filter(|text| wide && !text.is_empty()) {
                message[field] = json!([{ "type": kind, "text": text }]);
            } else if message[field].is_null() && field == "output" {
                message.as_object_mut()?.remove(field);
            }
        }
    }
    let mut places = Vec::new();
    markable(&request, "", &mut places);
    for place in &places {
        request.pointer_mut(place)?.as_object_mut()?.remove("cache_control");
    }
    let mut chosen: Vec<usize> = at.iter().map(|at| at % places.len().max(1)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    for (index, place) in chosen.iter().filter_map(|at| places.get(*at)).enumerate() {
        let value = match (dialect, index < hours, index % 2) {
            (Dialect::Responses, ..) => json!({ "mode": "explicit" }),
            (_, true, _) => json!({ "type": "ephemeral", "ttl": "1h" }),
            (_, false, 0) => json!({ "type": "ephemeral", "ttl": "5m" }),
            (_, false, _) => json!({ "type": "ephemeral" }),
        };
        request.pointer_mut(place)?[key] = value;
    }
    Some(request.to_string())
}

/// How many values are marked.
fn marks(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(marks).sum(),
        Value::Object(fields) => {
            let is_mark = |key: &str| key == "cache_control" || key == "prompt_cache_breakpoint";
            fields.iter().map(|(key, value)| usize::from(is_mark(key)) + marks(value)).sum()
        }
        _ => 0,
    }
}

proptest! {
    #![proptest_config(crate::common::cases(300))]

    #[test]
    fn there_are_never_more_marks_than_there_were(
        (json, dialect) in prop_oneof![
            3 => anthropic_json().prop_map(|json| (json, Dialect::Anthropic)),
            1 => chat_json().prop_map(|json| (json, Dialect::Chat)),
            1 => responses_json().prop_map(|json| (json, Dialect::Responses)),
        ],
        wide in any::<bool>(),
        at in prop::collection::vec(0..400usize, 0..=4),
        hours in 0..=4usize,
        percent in 1..110u64,
        policy in 0..crate::common::POLICIES.len(),
    ) {
        let marked = mark(&json, dialect, wide, &at, hours);
        prop_assume!(marked.is_some());
        let json = marked.unwrap_or_default();
        let before = parse(&json, Some(dialect));
        prop_assert_eq!(graves(&before), Vec::<String>::new());
        let settings = PlanSettings { policy: crate::common::POLICIES[policy], ..PlanSettings::default() };
        let limit = Tokens((count(&before, o200k()).0 * percent / 100).max(1));
        let compacted = compact(&json, Some(dialect), &Budget::of(limit), &settings, o200k());
        check_contract(&compacted, &Budget::of(limit), &settings, o200k());
        let counted = |text: &str| serde_json::from_str::<Value>(text).map(|value| marks(&value));
        let (had, has) = (counted(&json).unwrap(), counted(&compacted.text).unwrap());
        prop_assert!(has <= had && has <= 4, "{} marks of {}", has, had);
        prop_assert!(had == 0 || has > 0, "the last mark is not lost");
    }
}
