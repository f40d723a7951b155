//! Faults that were found once.
use crate::common::{POLICIES, check_contract, compact, o200k, parse};
use longhand_core::{Budget, Edit, Handle, Original, PlanSettings, Policy, Tokens, original};
use longhand_dialect::{Dialect, Finding, read};

/// Compacts to every size up to that of the conversation, under every policy.
fn check(json: &str, dialect: Dialect) {
    let most = crate::common::count(&parse(json, Some(dialect)), o200k()).0;
    for policy in POLICIES {
        for keep_tail in [None, Some(0)] {
            for limit in (1..=most).step_by((most as usize / 40).max(1)) {
                let budget = Budget::of(Tokens(limit));
                let settings = PlanSettings { policy, keep_tail, ..PlanSettings::default() };
                let made = compact(json, Some(dialect), &budget, &settings, o200k());
                check_contract(&made, &budget, &settings, o200k());
            }
        }
    }
}

#[test]
fn a_request_whose_input_is_a_string_can_be_folded() {
    let json = format!(r#"{{"input":"{}"}}"#, "word ".repeat(200));
    check(&json, Dialect::Responses);
    let settings = PlanSettings { policy: Policy::Trim, ..PlanSettings::default() };
    let made = compact(&json, None, &Budget::of(Tokens(60)), &settings, o200k());
    assert!(made.plan.fits() && made.text.contains("[longhand fold "), "{}", made.text);
}

#[test]
fn a_string_beside_a_list_of_items_means_nothing() {
    check(r#"{"input":"m","input":[{"role":"user","content":"hello there"}]}"#, Dialect::Responses);
}

#[test]
fn a_floor_is_reached_whatever_the_handle() {
    for seed in 0..60 {
        let words = longhand_testkit::filler::words(120, seed);
        let turns: Vec<String> = (0..6)
            .map(|at| {
                format!(
                    r#"{{"role":"{}","content":"{at} {words}"}}"#,
                    if at % 2 == 0 { "user" } else { "assistant" }
                )
            })
            .collect();
        let json = format!("[{}]", turns.join(","));
        for dialect in [Dialect::Chat, Dialect::Anthropic] {
            let settings = PlanSettings { keep_tail: Some(1), ..PlanSettings::default() };
            let floor = compact(&json, Some(dialect), &Budget::of(Tokens(1)), &settings, o200k())
                .plan
                .floor;
            let made = compact(&json, Some(dialect), &Budget::of(floor), &settings, o200k());
            assert!(made.plan.fits(), "seed {seed}, {dialect}: {}", made.plan);
        }
    }
}

#[test]
fn a_window_that_fits_is_said_to_fit() {
    let words = "word ".repeat(60);
    let json = format!(
        r#"{{"system":"be brief","messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":"{words}"}},{{"role":"user","content":"on"}},{{"role":"assistant","content":"{words}"}},{{"role":"user","content":"end"}}]}}"#
    );
    let settings = PlanSettings { keep_tail: Some(1), ..PlanSettings::default() };
    for limit in 20..200 {
        let made = compact(&json, None, &Budget::of(Tokens(limit)), &settings, o200k());
        assert_eq!(
            made.plan.fits(),
            made.tokens <= Tokens(limit),
            "{limit}: {} and {}",
            made.plan,
            made.tokens
        );
    }
}

#[test]
fn turns_without_words_are_not_joined() {
    for (turn, last) in [
        (r#"{"role":"user","content":"."}"#, r#"{"role":"user"}"#),
        (r#"{"role":"user"}"#, r#"{"role":"user","content":"."}"#),
        (r#"{"role":"user","content":[]}"#, r#"{"role":"user","content":null}"#),
        (r#"{"role":"user","content":5}"#, r#"{"role":"user","content":{}}"#),
    ] {
        let json = format!(
            r#"{{"messages":[{turn},{{"role":"assistant","content":"{}"}},{last}]}}"#,
            "word ".repeat(90)
        );
        let conversation = parse(&json, Some(Dialect::Anthropic));
        let settings = PlanSettings { keep_tail: Some(0), ..PlanSettings::default() };
        let plan = longhand_core::plan(
            &conversation.history(Tokens(0)),
            &Budget::of(Tokens(50)),
            &settings,
            o200k(),
        );
        let text = conversation.apply(std::slice::from_ref(&plan.batch));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        let tokens = crate::common::count(&parse(&text, Some(Dialect::Anthropic)), o200k());
        assert!(tokens <= plan.tokens(), "the plan says {} and it is {tokens}", plan.tokens());
    }
}

#[test]
fn parts_of_a_system_prompt_are_never_edited() {
    let bulk = "word ".repeat(120);
    let turns = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}"#;
    for part in [
        format!(r#"{{"type":"tool_result","tool_use_id":"a","content":"{bulk}"}}"#),
        format!(
            r#"{{"type":"thinking","thinking":"{bulk}","signature":"s"}},{{"type":"text","text":"t"}}"#
        ),
    ] {
        let json = format!(r#"{{"system":[{part}],"messages":[{turns}]}}"#);
        for limit in [10, 60, 140] {
            let made = compact(
                &json,
                Some(Dialect::Anthropic),
                &Budget::of(Tokens(limit)),
                &PlanSettings::default(),
                o200k(),
            );
            assert!(made.tokens <= made.plan.tokens() && made.text.contains(&part), "{limit}");
        }
    }
}

#[test]
fn a_line_that_is_its_own_parent_is_read_once() {
    let line =
        r#"{"type":"message","id":"a","parentId":"a","message":{"role":"user","content":"x"}}"#;
    let json = format!("{{\"type\":\"session\"}}\n{}", [line; 3].join("\n"));
    assert_eq!(parse(&json, Some(Dialect::Pi)).messages.len(), 1);
}

#[test]
fn every_frame_of_a_compressed_file_is_read() {
    let line = "{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\",\"content\":\"hi\"}}\n";
    let frame = ruzstd::encoding::compress_to_vec(
        line.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    let conversation = read([frame.clone(), frame].concat(), None).unwrap();
    assert_eq!(conversation.messages.len(), 2);
}

#[test]
fn the_last_of_two_lists_of_messages_counts() {
    let json = r#"{"messages":[{"role":"user","content":"old"}],"messages":[{"role":"user","content":"new"}]}"#;
    let conversation = parse(json, None);
    assert_eq!(conversation.messages.len(), 1);
    assert!(conversation.messages[0].raw.raw().contains("new"));
}

#[test]
fn a_list_that_is_none_is_named() {
    let error = read(br#"{"messages":5}"#.to_vec(), None).err().unwrap().to_string();
    assert!(error.contains("`messages` must be a list, and it is a number"), "{error}");
}

#[test]
fn limits_on_size_are_no_faults() {
    let text = "x".repeat(10_485_761);
    let size = |json: String, dialect| {
        let findings = parse(&json, Some(dialect)).check();
        assert!(findings.iter().all(|finding| finding.grave), "{findings:?}");
        findings.iter().map(Finding::is_fault).collect::<Vec<_>>()
    };
    let list = |content: &str| format!(r#"[{{"role":"user","content":"{content}"}}]"#);
    assert_eq!(size(list(&text), Dialect::Responses), [false]);
    assert_eq!(size(list(&text.repeat(4)), Dialect::Anthropic), [false]);
    assert_eq!(size(list(""), Dialect::Anthropic), [true]);
}

#[test]
fn half_a_character_comes_back_as_it_was() {
    let long = format!(r"{}\ud83d half", "word ".repeat(90));
    let calls = format!(
        r#"[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{\"a\":\"{long}\"}}"}}}}]"#
    );
    let turns = [
        r#"{"role":"user","content":"go"}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":"{long}\n```\nls\n```"}}"#),
        format!(r#"{{"role":"user","content":"Observation: {long}{long}"}}"#),
        format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#),
        format!(r#"{{"role":"tool","tool_call_id":"c","content":"{long}"}}"#),
        format!(
            r#"{{"role":"tool","tool_call_id":"d","content":[{{"type":"text","text":"{long}"}}]}}"#
        ),
        r#"{"role":"user","content":"on"}"#.to_owned(),
    ];
    let json = format!("[{}]", turns.join(","));
    let settings = PlanSettings { keep_tail: Some(1), ..PlanSettings::default() };
    let mut seen = 0;
    for limit in (50..900).step_by(10) {
        let budget = Budget::of(Tokens(limit));
        let made = compact(&json, Some(Dialect::Chat), &budget, &settings, o200k());
        for edit in &made.plan.batch.edits {
            let kept = original(&made.before.path(), edit).unwrap();
            let Original::Json(kept) = kept else { panic!("{kept:?} is not exact") };
            if let Edit::Stub { handle, .. } | Edit::Clip { handle, .. } = edit {
                assert_eq!(Handle::of([kept.as_str()]), *handle);
            }
            assert!(json.contains(kept.trim_matches('"').lines().next().unwrap()), "{kept}");
            seen += usize::from(kept.starts_with('"'));
        }
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let line = r#"{"type":"message","id":"ID","message":{"role":"user","content":"x"}}"#;
    let of = |id: &str| line.replace("ID", id);
    let json =
        format!("\n{{\"type\":\"session\"}}\n\r\n{}\n\n{{\n}} {}\n{}", of("a"), of("b"), of("a"));
    let findings = parse(&json, Some(Dialect::Pi)).check();
    assert_eq!(findings[0].to_string(), "line 8.id: the id \"a\" is used in line 4 already");
    let conversation = parse(&json.replace(&of("b"), ""), Some(Dialect::Pi));
    assert_eq!(conversation.name_of(0), "line 8");
    let error = read(b"{\"type\":\"session\"}\n\n{\"a\":\n?}".to_vec(), None).err().unwrap();
    assert_eq!(error.to_string(), "line 4, column 1 (in line 3): this is not a JSON value");
}

#[test]
fn fields_of_a_request_that_are_not_what_they_should_be_are_named() {
    let check = |field: &str, dialect, expected: &str| {
        let list = if dialect == Dialect::Responses { "input" } else { "messages" };
        let json = format!(r#"{{{field},"{list}":[{{"role":"user","content":"go"}}]}}"#);
        assert_eq!(crate::common::graves(&parse(&json, Some(dialect))), [expected], "{json}");
    };
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        check(r#""tools":5"#, dialect, "tools: expected an array, found a number");
        check(r#""tools":{"a":1}"#, dialect, "tools: expected an array, found an object");
        check(r#""tools":[{},"f"]"#, dialect, "tools[1]: expected an object, found a string");
    }
    check(r#""functions":true"#, Dialect::Chat, "functions: expected an array, found a boolean");
    check(r#""text":"x""#, Dialect::Responses, "text: expected an object, found a string");
    let none = r#"{"tools":null,"messages":[{"role":"user","content":"go"}]}"#;
    assert_eq!(parse(none, None).check(), []);
}

#[test]
fn a_line_of_a_session_file_is_an_object() {
    let error = read(b"{\"type\":\"session\"}\n\n \"s\"\n".to_vec(), None).err().unwrap();
    assert_eq!(error.to_string(), "line 3, column 2 (in line 3): a line holds an object");
}

#[test]
fn a_server_tool_that_waits_for_the_client_moves_as_a_whole() {
    let user = r#"{"role":"user","content":"go"}"#;
    let search = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#;
    let hits = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#;
    let call = r#"{"type":"tool_use","id":"t1","name":"f","input":{}}"#;
    let result =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}"#;
    let text = format!(r#"{{"type":"text","text":"{}"}}"#, "word ".repeat(60));
    let json = format!(
        r#"[{user},{{"role":"assistant","content":[{text},{search},{call}]}},{result},{{"role":"assistant","content":[{hits},{text}]}},{user},{{"role":"assistant","content":[{text}]}},{user}]"#
    );
    check(&json, Dialect::Anthropic);
    // It answers once.
    let twice = format!(
        r#"[{user},{{"role":"assistant","content":[{search},{hits}]}},{user},{{"role":"assistant","content":[{hits},{text}]}},{user}]"#
    );
    let graves = crate::common::graves(&parse(&twice, Some(Dialect::Anthropic)));
    assert_eq!(graves, [r#"[3].content[0]: the result of "s1" has no call in its message"#]);
}

#[test]
fn a_result_stays_with_the_reference_that_may_be_its_call() {
    let user = format!(r#"{{"role":"user","content":"{}"}}"#, "word ".repeat(40));
    let reply = format!(r#"{{"role":"assistant","content":"{}"}}"#, "word ".repeat(40));
    let reference = r#"{"type":"item_reference","id":"fc_1"}"#;
    let output =
        |id| format!(r#"{{"type":"function_call_output","call_id":"{id}","output":"ok"}}"#);
    let (one, two) = (output("c1"), output("c2"));
    let json =
        format!("[{user},{reply},{reference},{{\"id\":\"fc_2\"}},{one},{two},{reply},{user}]");
    check(&json, Dialect::Responses);
    // What comes before a reference is not answered by it.
    let late = format!("[{user},{one},{reference},{two}]");
    assert_eq!(
        crate::common::graves(&parse(&late, Some(Dialect::Responses))),
        [r#"[1].call_id: the result of "c1" has no call before it"#]
    );
    let untyped = format!(r#"[{user},{{"type":{{}},"id":"fc_1"}},{one}]"#);
    assert_eq!(
        crate::common::graves(&parse(&untyped, Some(Dialect::Responses))),
        ["[1].type: expected a string"]
    );
}
