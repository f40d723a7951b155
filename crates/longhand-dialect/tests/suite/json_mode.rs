//! A request for JSON keeps the word that its provider looks for.

use longhand_core::{Budget, PlanSettings, Tokens};
use longhand_testkit::WireFormat;
use longhand_testkit::arbitrary::{PieceSize, rich};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{POLICIES, cases, chars, compact, parse};

/// A request for JSON in which only the messages that `says` names have the word.
fn request(wire: WireFormat, json: &str, says: &[usize]) -> String {
    let text = json.replace("JSON", "form").replace("json", "form");
    let mut request: Value = serde_json::from_str(&text).unwrap();
    let list = if wire == WireFormat::Chat { "messages" } else { "input" };
    if request.is_array() {
        request = json!({ list: request });
    }
    if let Some(messages) = request.get_mut(list).and_then(Value::as_array_mut) {
        for at in says {
            let count = messages.len();
            let said =
                format!("Turn {at}: answer as JsOn, please. {}", "More words. ".repeat(at % 90));
            messages.insert(at % (count + 1), json!({"role": "user", "content": said}));
        }
    }
    if wire == WireFormat::Chat {
        request["response_format"] = json!({"type": "json_object"});
    } else {
        request["text"] = json!({"format": {"type": "json_object"}});
    }
    request.to_string()
}

fn has_word(window: &str, wire: WireFormat) -> bool {
    let window: Value = serde_json::from_str(window).unwrap();
    let list = if wire == WireFormat::Chat { "messages" } else { "input" };
    window[list].to_string().to_lowercase().contains("json")
}

fn wires() -> impl Strategy<Value = (WireFormat, String)> {
    prop_oneof![
        rich(WireFormat::Chat, PieceSize::Light).prop_map(|json| (WireFormat::Chat, json)),
        rich(WireFormat::Responses, PieceSize::Light)
            .prop_map(|json| (WireFormat::Responses, json)),
    ]
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn the_word_stays_whatever_the_budget(
        (wire, json) in wires(), says in prop::collection::vec(0..60_usize, 1..4), budget in 1..4_000_u64,
    ) {
        let request = request(wire, &json, &says);
        prop_assume!(parse(&request, None).check().iter().all(|finding| !finding.is_fault()));
        for policy in POLICIES {
            let settings = PlanSettings { policy, last_resort: true, clip_new_percent: Some(5), ..PlanSettings::default() };
            let made = compact(&request, None, &Budget::of(Tokens(budget)), &settings, &*chars());
            prop_assert!(has_word(&made.text, wire), "{}: {}", policy.name(), made.text);
        }
    }
}

#[test]
fn without_the_mode_or_with_the_word_in_a_system_message_nothing_is_kept_for_it() {
    let words = "Plain words. ".repeat(300);
    let turns = |first: &str, format: &str| {
        let more: String = (0..12)
            .map(|n| {
                format!(
                    r#",{{"role":"assistant","content":"{n} {words}"}},{{"role":"user","content":"{n}"}}"#
                )
            })
            .collect();
        format!(
            r#"{{"messages":[{first}{{"role":"user","content":"x"}},{{"role":"assistant","content":"y"}},{{"role":"user","content":"As json"}}{more}]{format}}}"#
        )
    };
    let asked = r#","response_format":{"type":"json_object"}"#;
    let schema = r#","response_format":{"type":"json_schema"}"#;
    let system = r#"{"role":"system","content":"Answer in JSON."},"#;
    for (first, format, is_kept) in
        [("", asked, true), ("", "", false), ("", schema, false), (system, asked, false)]
    {
        let made = compact(
            &turns(first, format),
            None,
            &Budget::of(Tokens(200)),
            &PlanSettings::default(),
            &*chars(),
        );
        assert_eq!(made.text.contains("As json"), is_kept, "{}", made.text);
    }
}
