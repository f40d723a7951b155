//! How items and blocks are read as parts, beyond plain text, calls and results.
use crate::common::{POLICIES, compact, count, graves, o200k, parse};
use longhand_core::{Budget, MediaKind, Part, PlanSettings, Role, Tokens, ToolResult, steps};
use longhand_dialect::{Conversation, Dialect, write};

fn responses(items: &str) -> Conversation {
    parse(&format!("[{items}]"), Some(Dialect::Responses))
}

const USER: &str = r#"{"role":"user","content":"u"}"#;
const REQUEST: &str = r#"{"type":"mcp_approval_request","id":"mcpr_1","name":"n","arguments":"{}","server_label":"s"}"#;
const APPROVAL: &str =
    r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}"#;
const APPROVED: &str =
    r#"{"type":"mcp_call","id":"mcp_1","approval_request_id":"mcpr_1","name":"n","output":"o"}"#;

#[test]
fn a_request_for_approval_moves_with_its_answer_and_its_call() {
    let items = [USER, REQUEST, USER, APPROVAL, APPROVED, USER].join(",");
    let conversation = responses(&items);
    assert_eq!(graves(&conversation), Vec::<String>::new());
    assert_eq!(steps(&conversation.messages), [0..1, 1..5, 5..6]);
    assert_eq!(conversation.messages[3].role, Role::Tool);
    let reference = r#"{"type":"item_reference","id":"mcpr_1"}"#;
    let held = responses(&[USER, reference, USER, APPROVAL].join(","));
    assert_eq!(graves(&held), Vec::<String>::new());
    assert_eq!(steps(&held.messages), [0..1, 1..4]);
}

#[test]
fn an_approval_without_its_request_is_refused_and_mended() {
    let conversation = responses(&[USER, APPROVAL, REQUEST].join(","));
    assert_eq!(
        graves(&conversation),
        [r#"[1].approval_request_id: the approval of "mcpr_1" has no request before it"#]
    );
    let mended = conversation.repair().unwrap();
    assert_eq!(graves(&mended), Vec::<String>::new());
    assert!(!mended.bytes().contains("mcp_approval_response"));
    // The provider holds what came before, perhaps with the request.
    let held = format!(r#"{{"previous_response_id":"r","input":[{APPROVAL}]}}"#);
    assert_eq!(graves(&parse(&held, None)), Vec::<String>::new());
    // The call alone may well be all that is left of it.
    assert_eq!(graves(&responses(&[USER, APPROVED].join(","))), Vec::<String>::new());
}

#[test]
fn calls_of_server_tools_are_told_by_their_type() {
    let call =
        r#"{"type":"server_tool_use","id":"srvtoolu_\u0031","name":"web_search","input":{}}"#;
    let result = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
    let json = format!(
        r#"[{USER},{{"role":"assistant","content":[{call}]}},{USER},{{"role":"assistant","content":[{result}]}}]"#
    );
    let conversation = parse(&json, Some(Dialect::Anthropic));
    assert_eq!(steps(&conversation.messages), [0..1, 1..4]);
}

/// An answer that may not be edited, in each dialect, with `WORDS` for its text.
const FIXED: [(Dialect, &str); 5] = [
    (
        Dialect::Responses,
        r#"{"role":"assistant","content":[{"type":"output_text","text":"WORDS","annotations":[{"type":"url_citation"}]}]}"#,
    ),
    (
        Dialect::Responses,
        r#"{"role":"assistant","content":[{"type":"refusal","refusal":"WORDS"}]}"#,
    ),
    (
        Dialect::Anthropic,
        r#"{"role":"assistant","content":[{"type":"text","text":"WORDS","citations":[{"type":"char_location"}]}]}"#,
    ),
    (Dialect::Chat, r#"{"role":"assistant","content":null,"refusal":"WORDS"}"#),
    (Dialect::Chat, r#"{"role":"assistant","content":[{"type":"refusal","refusal":"WORDS"}]}"#),
];

#[test]
fn words_that_may_not_be_edited_are_read_and_never_edited() {
    let words = "The tide table of Brest is in data/tides/brest.csv now. ".repeat(60);
    for (dialect, answer) in FIXED {
        let answer = answer.replace("WORDS", &words);
        let json = format!("[{USER},{answer},{USER},{answer},{USER}]");
        let before = parse(&json, Some(dialect));
        assert_eq!(graves(&before), Vec::<String>::new(), "{answer}");
        let [Part::FixedText(text)] = before.messages[1].parts.as_slice() else {
            panic!("{:?}", before.messages[1].parts)
        };
        assert_eq!(text.decode(), words);
        for to in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            assert!(write(&[(dialect, &before.messages[1])], to).contains(&words));
        }
        for policy in POLICIES {
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            let budget = Budget::of(Tokens(600));
            let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
            assert_eq!(graves(&compacted.after), Vec::<String>::new());
            for message in &compacted.after.messages {
                let raw = message.raw.raw();
                assert!(
                    !raw.contains("[longhand stub") && !raw.contains("[longhand clip"),
                    "{raw}"
                );
            }
            let is_folded = compacted.text.contains("[longhand fold");
            assert!(!is_folded || compacted.text.contains("data/tides/brest.csv"), "{policy:?}");
        }
    }
}

#[test]
fn empty_lists_of_citations_leave_text_editable() {
    for citations in ["null", "[ ]", "[]"] {
        let json = format!(
            r#"[{USER},{{"role":"assistant","content":[{{"type":"text","text":"a","citations":{citations}}}]}}]"#
        );
        let conversation = parse(&json, Some(Dialect::Anthropic));
        assert!(matches!(conversation.messages[1].parts[0], Part::Text(_)), "{citations}");
    }
}

/// The header of a picture of 2 × 3 pixels, and much more than such a picture has.
fn png() -> String {
    format!("iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnW{}", "A".repeat(300_000))
}

fn result_of(conversation: &Conversation, message: usize) -> &ToolResult {
    conversation.messages[message].results().next().unwrap()
}

#[test]
fn recordings_are_priced_by_how_long_they_play() {
    // 750,000 bytes of mp3 at 64 kbit/s are 93.75 s, at 10 tokens a second.
    let data = "A".repeat(1_000_000);
    let audio =
        format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"mp3"}}}}"#);
    let video =
        format!(r#"{{"type":"video_url","video_url":{{"url":"data:video/mp4;base64,{data}"}}}}"#);
    let said = format!(
        r#"[{USER},{{"role":"assistant","content":null,"audio":{{"id":"a","data":"{data}","transcript":"Hello."}}}}]"#
    );
    let user = |part: &str| format!(r#"[{{"role":"user","content":[{part}]}}]"#);
    for (json, dialect, kind, range) in [
        (user(&audio), Dialect::Chat, MediaKind::Audio, 938..950),
        (user(&audio), Dialect::Responses, MediaKind::Audio, 938..950),
        (user(&video), Dialect::Chat, MediaKind::Video, 1_800..1_815),
        (said, Dialect::Chat, MediaKind::Audio, 938..960),
    ] {
        let conversation = parse(&json, Some(dialect));
        assert_eq!(graves(&conversation), Vec::<String>::new());
        let tokens = count(&conversation, o200k()).0;
        assert!(range.contains(&tokens), "{dialect} {tokens}");
        let part = conversation.messages.last().unwrap().parts.last().unwrap();
        assert!(matches!(part, Part::Media(media) if media.kind == kind), "{part:?}");
    }
    let id_only = format!(r#"[{USER},{{"role":"assistant","audio":{{"id":"a"}}}}]"#);
    let tokens = count(&parse(&id_only, Some(Dialect::Chat)), o200k()).0;
    assert!((300..320).contains(&tokens), "{tokens}");
}

#[test]
fn what_was_said_aloud_is_read() {
    let json = format!(
        r#"[{USER},{{"role":"assistant","audio":{{"id":"a","transcript":"High tide at five."}}}}]"#
    );
    let conversation = parse(&json, Some(Dialect::Chat));
    let said = &conversation.messages[1];
    assert_eq!(said.parts[0].text().unwrap().decode(), "High tide at five.");
    assert!(write(&[(Dialect::Chat, said)], Dialect::Anthropic).contains("High tide at five."));
}

#[test]
fn screenshots_and_generated_pictures_are_images() {
    let png = png();
    let call = r#"{"type":"computer_call","call_id":"c","action":{"type":"screenshot"}}"#;
    let output = format!(
        r#"{{"type":"computer_call_output","call_id":"c","output":{{"type":"computer_screenshot","image_url":"data:image/png;base64,{png}"}}}}"#
    );
    let generated = format!(
        r#"{{"type":"image_generation_call","id":"ig_1","status":"completed","result":"{png}"}}"#
    );
    let items = [USER, call, &output, &generated, USER, USER, USER, USER, USER].join(",");
    let conversation = responses(&items);
    assert_eq!(graves(&conversation), Vec::<String>::new());
    let result = result_of(&conversation, 2);
    assert!(result.is_binary() && result.fixed);
    let is_small = |part: &Part| matches!(part, Part::Image(image) if image.pixels == Some((2, 3)));
    assert!(is_small(&result.content[0]) && is_small(&conversation.messages[3].parts[0]));
    let tokens = count(&conversation, o200k()).0;
    assert!(tokens < 2_000, "{tokens}");
    // Nothing but another screenshot may stand in its place, so no policy puts text there.
    for policy in POLICIES {
        for limit in [20, 60, 200, 500] {
            let settings = PlanSettings { policy, keep_tail: Some(8), ..PlanSettings::default() };
            let budget = Budget::of(Tokens(limit));
            let compacted = compact(&format!("[{items}]"), None, &budget, &settings, o200k());
            assert_eq!(graves(&compacted.after), Vec::<String>::new());
            let kept = compacted.text.contains("computer_call_output");
            assert_eq!(kept, compacted.text.contains(&output), "{policy:?} {limit}");
        }
    }
    let by_id = r#"{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"f"}}"#;
    assert!(result_of(&responses(&[call, by_id].join(",")), 1).is_binary());
}

#[test]
fn results_with_pictures_are_binary_wherever_they_come_from() {
    let png = png();
    let escaped = png.replace('/', "\\/");
    let codex = |output: &str| {
        format!(
            r#"{{"timestamp":"t","type":"session_meta","payload":{{"id":"s"}}}}
{{"timestamp":"t","type":"response_item","payload":{{"type":"function_call_output","call_id":"c","output":{output}}}}}"#
        )
    };
    let url = format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{png}"}}"#);
    for (dialect, json) in [
        (
            Dialect::Chat,
            format!(
                r#"[{{"role":"tool","tool_call_id":"c","content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{png}"}}}}]}}]"#
            ),
        ),
        (
            Dialect::Responses,
            format!(r#"[{{"type":"function_call_output","call_id":"c","output":[{url}]}}]"#),
        ),
        (
            Dialect::Anthropic,
            format!(
                r#"[{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{escaped}"}}}}]}}]}}]"#
            ),
        ),
        (
            Dialect::ClaudeCode,
            format!(
                r#"{{"type":"user","uuid":"1","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{png}"}}}}]}}]}}}}"#
            ),
        ),
        (Dialect::Codex, codex(&format!("[{url}]"))),
        (
            Dialect::Codex,
            codex(&format!(r#"{{"content":"x","content_items":[{url}],"success":true}}"#)),
        ),
        (
            Dialect::Pi,
            format!(
                r#"{{"type":"message","message":{{"role":"toolResult","toolCallId":"c","content":[{{"type":"image","data":"{escaped}","mimeType":"image/png"}}]}}}}"#
            ),
        ),
    ] {
        let conversation = parse(&json, Some(dialect));
        let result = result_of(&conversation, 0);
        assert!(result.is_binary() && result.single_text().is_none(), "{dialect}");
        let [Part::Image(image)] = result.content.as_slice() else { panic!("{dialect}") };
        assert_eq!(image.pixels, Some((2, 3)), "{dialect}");
        assert!(count(&conversation, o200k()).0 < 2_000, "{dialect}");
    }
    let wrapped = parse(&codex(r#"{"content":"words","success":false}"#), Some(Dialect::Codex));
    assert_eq!(result_of(&wrapped, 0).single_text().unwrap().decode(), "words");
}

/// The least time of three that it takes to plan a conversation with nested arguments of so many bytes.
fn planning_time(dialect: Dialect, bytes: usize) -> std::time::Duration {
    let nested = format!(r#"{{"a":{}1{}}}"#, "[".repeat(bytes / 2), "]".repeat(bytes / 2));
    let json = match dialect {
        Dialect::Anthropic => format!(
            r#"[{USER},{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"f","input":{nested}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":"{}"}}]}},{USER}]"#,
            "words ".repeat(400)
        ),
        _ => format!(
            r#"[{USER},{{"role":"assistant","tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"{}"}},{USER}]"#,
            nested.replace('"', "\\\""),
            "words ".repeat(400)
        ),
    };
    let meter = crate::common::chars();
    let times = (0..3).map(|_| {
        let start = std::time::Instant::now();
        for policy in POLICIES {
            let settings = PlanSettings { policy, keep_tail: Some(0), ..PlanSettings::default() };
            compact(&json, Some(dialect), &Budget::of(Tokens(500)), &settings, &*meter);
        }
        start.elapsed()
    });
    times.min().unwrap()
}

#[test]
fn nested_arguments_take_time_in_proportion_to_their_size() {
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        let (small, large) = (planning_time(dialect, 1 << 20), planning_time(dialect, 4 << 20));
        assert!(large < small * 10, "{dialect}: {small:?} for 1 MB, {large:?} for 4 MB");
    }
}

#[test]
fn an_empty_list_is_empty_however_it_is_written() {
    for system in ["[]", "[ ]", "[\n\t]"] {
        let json = format!(r#"{{"system":{system},"messages":[{USER}]}}"#);
        let conversation = parse(&json, None);
        assert_eq!(graves(&conversation), Vec::<String>::new(), "{system:?}");
        assert_eq!(conversation.check()[0].to_string(), "system: the list of blocks is empty");
    }
}

#[test]
fn escaped_letters_mean_what_the_letters_mean() {
    let plain = format!(
        r#"[{USER},{{"role":"assistant","content":null,"function_call":{{"name":"f","arguments":"{{}}"}}}},{{"role":"function","name":"f","content":"r"}},{USER}]"#
    );
    let escaped = plain
        .replace(r#""role":"function""#, r#""role":"f\u0075nction""#)
        .replace(r#""function_call""#, r#""function_c\u0061ll""#);
    for json in [plain, escaped] {
        let conversation = parse(&json, Some(Dialect::Chat));
        assert_eq!(graves(&conversation), Vec::<String>::new(), "{json}");
        assert_eq!(conversation.repair().unwrap().bytes(), json);
    }
    // The fifth mark is one too many, and it is one.
    let mark = r#"{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}"#;
    let marks = [mark; 5].join(",");
    for marks in [marks.clone(), marks.replace("cache_control", "c\\u0061che_control")] {
        let json = format!(r#"[{{"role":"user","content":[{marks}]}}]"#);
        let conversation = parse(&json, Some(Dialect::Anthropic));
        assert_eq!(graves(&conversation).len(), 1, "{json}");
    }
}

fn steps_of(items: &str) -> Vec<std::ops::Range<usize>> {
    let json = format!(r#"{{"model":"gpt-5","input":[{items}]}}"#);
    steps(&parse(&json, Some(Dialect::Responses)).messages)
}

#[test]
fn reasoning_at_the_end_is_a_step_of_its_own() {
    let user = r#"{"role":"user","content":"go"}"#;
    let reasoning = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
    let reply =
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}"#;
    assert_eq!(steps_of(&format!("{user},{reasoning}")), [0..1, 1..2]);
    assert_eq!(steps_of(&format!("{user},{reasoning},{reply}")), [0..1, 1..3]);
    assert_eq!(steps_of(reasoning).len(), 1);
}

#[test]
fn references_in_a_row_stay_with_the_result_of_one_of_them() {
    let reference = |id: u8| format!(r#"{{"type":"item_reference","id":"fc_{id}"}}"#);
    let user = r#"{"role":"user","content":"go"}"#;
    let result = r#"{"type":"function_call_output","call_id":"c1","output":"x"}"#;
    let items =
        format!("{},{user},{},{},{result},{user}", reference(0), reference(1), reference(2));
    assert_eq!(steps_of(&items), [0..1, 1..2, 2..5, 5..6]);
}
