use super::*;
use crate::sse::SseReader;

const CHAT: &str = r#"{"id":"c","model":"gpt-x","choices":[{"index":0,"message":{"role":"assistant","content":"Grüße.","reasoning_content":"hm","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":64}}}"#;

const CHAT_STREAM: &[&str] = &[
    r#"{"id":"c","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"Grü"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"ße.","reasoning_content":"h"}},{"index":1,"delta":{"content":"other"}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"m","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":64}}}"#,
    "[DONE]",
];

const ANTHROPIC: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"hm so","signature":"c2ln"},{"type":"text","text":"Grüße.","citations":[{"cited":1}]},{"type":"new_thing","content":"abc","deep":{"x":[1.0]}},{"type":"tool_use","id":"toolu_1","name":"read","input":{"a":1.50}}],"stop_reason":"tool_use","usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":85,"output_tokens":20}}"#;

const ANTHROPIC_STREAM: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":85,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" so"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grü"}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ße."}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"cited":1}}}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"new_thing","content":"a","deep":{"x":[1.0]}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"new_delta","content":"bc"}}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1.50}"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":20}}"#,
    r#"{"type":"message_stop"}"#,
];

const RESPONSES: &str = r#"{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Grüße.","annotations":[]}]},{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"a\":1}"}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":7},"output_tokens":20}}"#;

const RESPONSES_STREAM: &[&str] = &[
    r#"{"type":"response.created","response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1"}}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"delta":"Grü"}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"delta":"ße."}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"Grüße.","annotations":[]}]}}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"a\":1}"}}"#,
    r#"{"type":"response.completed","response":{"status":"completed","error":null,"model":"gpt-x","output":[{"type":"reasoning","id":"rs_1","summary":[]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":7},"output_tokens":20}}}"#,
];

const ALL: [(Dialect, &str, &[&str]); 3] = [
    (Dialect::Chat, CHAT, CHAT_STREAM),
    (Dialect::Anthropic, ANTHROPIC, ANTHROPIC_STREAM),
    (Dialect::Responses, RESPONSES, RESPONSES_STREAM),
];

fn stream(dialect: Dialect, events: &[&str]) -> Result<(Reply, String), ReplyError> {
    let mut reader = ReplyReader::new(dialect);
    let mut said = String::new();
    for data in events {
        let event = SseEvent { data: (*data).to_owned(), ..SseEvent::default() };
        said.extend(reader.push(&event)?);
    }
    Ok((reader.finish()?, said))
}

#[test]
fn a_stream_gives_what_the_whole_answer_gives() {
    for (dialect, body, events) in ALL {
        let reply = Reply::read(dialect, body).unwrap();
        let (streamed, said) = stream(dialect, events).unwrap();
        assert_eq!(streamed, reply, "{dialect}");
        assert_eq!(said, "Grüße.", "{dialect}");
        assert_eq!(reply.text, said, "{dialect}");
        assert_eq!(reply.stop, Stop::Tools, "{dialect}");
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input, usage.output), (100, 20), "{dialect}");
        assert!(reply.has_more && !reply.is_empty());
        assert!(reply.model.unwrap().ends_with("-x"));
        let id = match dialect {
            Dialect::Chat => "c",
            Dialect::Anthropic => "msg_1",
            _ => "resp_1",
        };
        assert_eq!(reply.id.as_deref(), Some(id));
    }
}

#[test]
fn counts_beyond_all_measure_do_not_wrap() {
    let most = u64::MAX;
    let usage = format!(r#"{{"input_tokens":{most},"cache_read_input_tokens":{most}}}"#);
    let body = format!(r#"{{"content":[{{"type":"text","text":"Hi."}}],"usage":{usage}}}"#);
    let reply = Reply::read(Dialect::Anthropic, &body).unwrap();
    assert_eq!(reply.usage.unwrap().input, most);
}

#[test]
fn the_bytes_of_a_whole_answer_are_kept() {
    for (dialect, body, _) in ALL {
        let reply = Reply::read(dialect, body).unwrap();
        let blocks = reply.message.strip_prefix(r#"{"role":"assistant","content":"#);
        let blocks = blocks
            .filter(|_| dialect == Dialect::Anthropic)
            .map(|blocks| &blocks[..blocks.len() - 1]);
        assert!(body.contains(blocks.unwrap_or(&reply.message)), "{dialect}");
    }
}

#[test]
fn an_answer_can_be_appended_and_read_again() {
    for (dialect, body, events) in ALL {
        for reply in [Reply::read(dialect, body).unwrap(), stream(dialect, events).unwrap().0] {
            let json = match dialect {
                Dialect::Responses => {
                    let items = &reply.message[1..reply.message.len() - 1];
                    format!(r#"[{{"role":"user","content":"hi"}},{items}]"#)
                }
                _ => format!(r#"[{{"role":"user","content":"hi"}},{}]"#, reply.message),
            };
            let conversation = crate::read(json.into(), Some(dialect)).unwrap();
            let calls = conversation.messages.iter().flat_map(longhand_core::Message::calls);
            let names: Vec<_> = calls.map(|call| call.name.decode().into_owned()).collect();
            assert_eq!(names[0], "read", "{dialect}");
        }
    }
}

#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    for (dialect, body, events) in ALL {
        let bytes: String = events.iter().map(|data| format!("data: {data}\r\n\r\n")).collect();
        for size in [1, 2, 3, 7, 64, bytes.len()] {
            let mut sse = SseReader::default();
            let mut reader = ReplyReader::new(dialect);
            for chunk in bytes.as_bytes().chunks(size) {
                for event in sse.push(chunk).unwrap() {
                    assert!(!reader.is_done());
                    reader.push(&event).unwrap();
                }
            }
            assert!(reader.is_done());
            assert_eq!(reader.finish().unwrap(), Reply::read(dialect, body).unwrap());
        }
    }
}

#[test]
fn a_stream_that_ends_early_is_cut() {
    for (dialect, _, events) in ALL {
        let end = events
            .iter()
            .position(|data| data.contains("\"finish_reason\":\"") || data.contains("stop_reason"))
            .unwrap_or(events.len() - 1);
        for cut in 0..end {
            assert_eq!(stream(dialect, &events[..cut]), Err(ReplyError::Cut), "{dialect} {cut}");
        }
    }
}

#[test]
fn a_server_that_forgets_the_last_event_is_forgiven() {
    let (reply, _) = stream(Dialect::Chat, &CHAT_STREAM[..8]).unwrap();
    assert_eq!((reply.text.as_str(), reply.usage), ("Grüße.", None));
    let (reply, _) = stream(Dialect::Anthropic, &ANTHROPIC_STREAM[..18]).unwrap();
    assert_eq!(reply.stop, Stop::Tools);
}

#[test]
fn errors_are_told_from_answers() {
    let provider = |code: &str, message: &str| ReplyError::Provider {
        code: (!code.is_empty()).then(|| code.to_owned()),
        message: message.to_owned(),
        overflow: None,
    };
    for (dialect, data, expected) in [
        (
            Dialect::Chat,
            r#"{"error":{"code":502,"message":"upstream"}}"#,
            provider("502", "upstream"),
        ),
        (Dialect::Chat, r#"{"error":"down"}"#, provider("", "down")),
        (Dialect::Chat, r#"[{"error":{"code":500,"message":"down"}}]"#, provider("500", "down")),
        (
            Dialect::Chat,
            r#"{"object":"error","message":"flat","type":"BadRequest","code":400}"#,
            provider("400", "flat"),
        ),
        (
            Dialect::Chat,
            r#"{"choices":[{"delta":{},"finish_reason":"error","error":{"code":"x","message":"y"}}]}"#,
            provider("x", "y"),
        ),
        (
            Dialect::Anthropic,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            provider("overloaded_error", "Overloaded"),
        ),
        (
            Dialect::Responses,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"sorry"}}}"#,
            provider("server_error", "sorry"),
        ),
        (
            Dialect::Responses,
            r#"{"type":"error","code":"server_error","message":"sorry","param":null}"#,
            provider("server_error", "sorry"),
        ),
    ] {
        assert_eq!(Reply::read(dialect, data), Err(expected.clone()), "{data}");
        assert_eq!(stream(dialect, &[data]), Err(expected), "{data}");
    }
    let mut reader = ReplyReader::new(Dialect::Chat);
    let event = SseEvent { name: "error".into(), data: "out of order".into() };
    assert_eq!(reader.push(&event), Err(provider("", "out of order")));
}

#[test]
fn an_overflow_in_the_answer_is_known_as_one() {
    let data = r#"{"error":{"code":400,"message":"prompt is too long: 300 tokens > 256 maximum"}}"#;
    let Err(ReplyError::Provider { overflow, .. }) = Reply::read(Dialect::Chat, data) else {
        panic!("it is an error");
    };
    assert_eq!(overflow, Some(Overflow { limit: Some(256), asked: Some(300), bytes: false }));
}

#[test]
fn what_is_no_answer_is_refused() {
    for (dialect, _, _) in ALL {
        assert_eq!(Reply::read(dialect, "<html>"), Err(ReplyError::NotJson));
        assert_eq!(Reply::read(dialect, ""), Err(ReplyError::NotJson));
        for body in ["{}", "[]", "3", r#"{"choices":[]}"#, r#"{"hello":"world"}"#] {
            assert_eq!(Reply::read(dialect, body), Err(ReplyError::NotAnAnswer(dialect)), "{body}");
        }
        assert_eq!(stream(dialect, &["<html>"]), Err(ReplyError::NotJson));
    }
}

#[test]
fn every_end_has_its_reason() {
    let chat = |message: &str, reason: &str| {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"{reason}"}}]}}"#);
        Reply::read(Dialect::Chat, &body).unwrap()
    };
    let text = r#"{"role":"assistant","content":"x"}"#;
    assert_eq!(chat(text, "stop").stop, Stop::End);
    assert_eq!(chat(text, "length").stop, Stop::Length);
    assert_eq!(chat(text, "content_filter").stop, Stop::Refused);
    assert_eq!(chat(text, "model_context_window_exceeded").stop, Stop::Window);
    assert_eq!(chat(text, "odd").stop, Stop::Other("odd".into()));
    let refusal = chat(r#"{"role":"assistant","content":null,"refusal":"I cannot."}"#, "stop");
    assert_eq!((refusal.stop, refusal.text.as_str()), (Stop::Refused, "I cannot."));
    assert!(chat(r#"{"role":"assistant","content":""}"#, "stop").is_empty());
    let anthropic = |reason: &str| {
        let body = format!(
            r#"{{"content":[{{"type":"thinking","thinking":"x"}}],"stop_reason":"{reason}"}}"#
        );
        Reply::read(Dialect::Anthropic, &body).unwrap()
    };
    assert_eq!(anthropic("max_tokens").stop, Stop::Length);
    assert_eq!(anthropic("refusal").stop, Stop::Refused);
    assert_eq!(anthropic("model_context_window_exceeded").stop, Stop::Window);
    assert!(anthropic("end_turn").is_empty(), "thinking says nothing");
    let body = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#;
    assert_eq!(Reply::read(Dialect::Responses, body).unwrap().stop, Stop::Length);
}

#[test]
fn a_full_window_ends_a_stream() {
    let reason = "model_context_window_exceeded";
    let chat =
        format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#);
    assert_eq!(stream(Dialect::Chat, &[&chat]).unwrap().0.stop, Stop::Window);
    let end = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
    assert_eq!(stream(Dialect::Anthropic, &[&end]).unwrap().0.stop, Stop::Window);
}

/// What there is of an answer after so many events.
fn cut(dialect: Dialect, events: &[&str]) -> Option<Reply> {
    let mut reader = ReplyReader::new(dialect);
    for data in events {
        let _ = reader.push(&SseEvent { data: (*data).to_owned(), ..SseEvent::default() });
    }
    reader.partial()
}

#[test]
fn what_came_before_the_cut_can_be_had() {
    let check = |dialect: Dialect, events: usize, message: Option<&str>| {
        let events = &ALL.iter().find(|(known, ..)| *known == dialect).unwrap().2[..events];
        let reply = cut(dialect, events);
        assert_eq!(
            reply.as_ref().map(|reply| reply.message.as_str()),
            message,
            "{dialect} {events:?}"
        );
        assert!(
            reply.is_none_or(|reply| reply.stop == Stop::Other("cut".into()) && reply.id.is_some())
        );
    };
    let call = r#"{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}"#;
    check(Dialect::Chat, 1, None);
    check(Dialect::Chat, 2, Some(r#"{"role":"assistant","content":"Grü"}"#));
    let words = r#"{"role":"assistant","content":"Grüße.","reasoning_content":"hm""#;
    check(Dialect::Chat, 4, Some(&format!("{words}}}")));
    // The second call is complete before the first.
    check(Dialect::Chat, 6, Some(&format!(r#"{words},"tool_calls":[{call}]}}"#)));
    // Thinking without its seal is refused, and a call may lack arguments.
    let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm so","signature":"c2ln"}"#;
    check(Dialect::Anthropic, 5, None);
    check(Dialect::Anthropic, 8, None);
    check(Dialect::Anthropic, 9, Some(&format!(r#"{thought},{{"type":"text","text":"Grü"}}]}}"#)));
    check(
        Dialect::Anthropic,
        16,
        Some(&format!(
            r#"{thought},{{"type":"text","text":"Grüße.","citations":[{{"cited":1}}]}},{{"type":"new_thing","content":"abc","deep":{{"x":[1.0]}}}}]}}"#
        )),
    );
    check(Dialect::Responses, 3, None);
    let reasoning = r#"[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#;
    check(
        Dialect::Responses,
        4,
        Some(&format!(
            r#"{reasoning},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"Grü"}}]}}]"#
        )),
    );
    check(
        Dialect::Responses,
        6,
        Some(&format!(
            r#"{reasoning},{{"type":"message","id":"msg_1","role":"assistant","content":[{{"type":"output_text","text":"Grüße.","annotations":[]}}]}}]"#
        )),
    );
    for (dialect, body, events) in ALL {
        assert_eq!(cut(dialect, events), Reply::read(dialect, body).ok(), "nothing is missing");
    }
}

#[test]
fn calls_of_the_provider_stay_with_their_results() {
    let events = [
        r#"{"type":"message_start","message":{"id":"m"}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"s2","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"text","text":"So"}}"#,
    ];
    let message = cut(Dialect::Anthropic, &events).unwrap().message;
    assert!(message.contains("s1") && !message.contains("s2"), "{message}");
    assert_eq!(cut(Dialect::Anthropic, &events[..3]), None, "the result may go on");
}

/// Whatever came can be appended and read again.
#[test]
fn a_stream_can_be_cut_at_every_byte() {
    for (dialect, _, events) in ALL {
        let bytes: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
        let mut said = String::new();
        for end in 0..=bytes.len() {
            let mut sse = SseReader::default();
            let mut reader = ReplyReader::new(dialect);
            for event in sse.push(&bytes.as_bytes()[..end]).unwrap() {
                reader.push(&event).unwrap();
            }
            let Some(reply) = reader.partial() else { continue };
            assert!(reply.text.starts_with(&said), "{dialect} at {end}");
            said.clone_from(&reply.text);
            let list = reply.message.trim_start_matches('[').trim_end_matches(']');
            let json = match dialect {
                Dialect::Responses => format!(r#"[{{"role":"user","content":"hi"}},{list}]"#),
                _ => format!(r#"[{{"role":"user","content":"hi"}},{}]"#, reply.message),
            };
            let conversation = crate::read(json.into(), Some(dialect)).unwrap();
            let faults: Vec<_> = conversation
                .check()
                .into_iter()
                .filter(|finding| !finding.what.contains("no result"))
                .collect();
            assert!(faults.iter().all(|fault| !fault.grave), "{dialect} at {end}: {faults:?}");
        }
        assert_eq!(said, "Grüße.");
    }
}

#[test]
fn a_call_that_was_cut_short_keeps_its_words() {
    let (reply, _) = stream(
        Dialect::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"rm","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        ],
    )
    .unwrap();
    assert!(reply.message.contains(r#""input":{"truncated":"{\"a\":"}"#), "{}", reply.message);
}

#[test]
fn calls_without_an_index_are_told_apart_by_id() {
    let (reply, _) = stream(
        Dialect::Chat,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":{"x":1}},"extra_content":{"sig":"s"}}]}}]}"#,
            "[DONE]",
        ],
    )
    .unwrap();
    assert_eq!(
        reply.message,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{\"x\":1}"},"extra_content":{"sig":"s"}}]}"#
    );
    assert_eq!(reply.stop, Stop::Tools);
}

#[test]
fn content_in_parts_keeps_them() {
    let (reply, said) = stream(
        Dialect::Chat,
        &[
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"So."},"finish_reason":"stop"}]}"#,
        ],
    )
    .unwrap();
    assert_eq!((reply.text.as_str(), said.as_str()), ("So.", "So."));
    assert_eq!(
        reply.message,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":[]},{"type":"text","text":"So."}]}"#
    );
}

proptest::proptest! {
    #[test]
    fn no_stream_is_too_odd_to_be_read(
        dialect in 0usize..3,
        picks in proptest::collection::vec((0usize..3, 0usize..19, 0usize..400, 0u8..4), 0..30),
    ) {
        let mut reader = ReplyReader::new(ALL[dialect].0);
        for (format, at, cut, act) in picks {
            let events = ALL[format].2;
            let data = events[at % events.len()];
            let cut = longhand_core::cut::head(data, cut).len();
            let data = match act {
                0 => data[..cut].to_owned(),
                1 => data.replacen(':', ":[", 1),
                2 => data.replace("\"index\":0", "\"index\":7"),
                _ => data.to_owned(),
            };
            let _ = recognise(200, &data);
            let _ = recognise(400, &data);
            let _ = Reply::read(ALL[dialect].0, &data);
            let _ = reader.push(&SseEvent { data, ..SseEvent::default() });
        }
        if let Some(reply) = reader.partial() {
            proptest::prop_assert!(View::parse(&reply.message).is_some(), "{}", reply.message);
        }
    }

    #[test]
    fn no_body_is_too_odd_to_be_judged(body in "\\PC{0,200}", status in 100u16..600) {
        let _ = recognise(status, &body);
        let quoted = longhand_core::json::quote(&body);
        let _ = recognise(status, &format!(r#"{{"error":{{"message":{quoted},"code":{quoted}}}}}"#));
    }
}

/// What llama.cpp sends: the first delta is null, items have no `output_index`, an answer that was
/// stopped is called complete in Responses, and cached input is counted apart in Anthropic's format.
#[test]
fn the_streams_of_llama_cpp_are_read() {
    let chat = &[
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1794785150,"id":"chatcmpl-S","model":"m.gguf","system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}"#,
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],"created":1794785150,"id":"chatcmpl-S","model":"m.gguf","object":"chat.completion.chunk"}"#,
        r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" there"}}],"created":1794785160,"id":"chatcmpl-S","model":"m.gguf","object":"chat.completion.chunk"}"#,
        r#"{"choices":[{"finish_reason":"length","index":0,"delta":{}}],"created":1794785164,"id":"chatcmpl-S","model":"m.gguf","object":"chat.completion.chunk"}"#,
        r#"{"choices":[],"created":1794785164,"id":"chatcmpl-S","model":"m.gguf","object":"chat.completion.chunk","usage":{"completion_tokens":8,"prompt_tokens":16,"total_tokens":24,"prompt_tokens_details":{"cached_tokens":15}},"timings":{"cache_n":0,"prompt_n":33,"prompt_ms":7552.178}}"#,
        "[DONE]",
    ];
    let responses = &[
        r#"{"type":"response.created","response":{"id":"resp_6","object":"response","status":"in_progress"}}"#,
        r#"{"type":"response.in_progress","response":{"id":"resp_6","object":"response","status":"in_progress"}}"#,
        r#"{"type":"response.output_item.added","item":{"content":[],"id":"msg_J","role":"assistant","status":"in_progress","type":"message"}}"#,
        r#"{"type":"response.content_part.added","item_id":"msg_J","part":{"type":"output_text","text":""}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_J","delta":"Hello"}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_J","delta":" there"}"#,
        r#"{"type":"response.output_text.done","item_id":"msg_J","text":"Hello there"}"#,
        r#"{"type":"response.content_part.done","item_id":"msg_J","part":{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello there"}}"#,
        r#"{"type":"response.output_item.done","item":{"type":"message","status":"completed","id":"msg_J","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello there"}],"role":"assistant"}}"#,
        r#"{"type":"response.completed","response":{"id":"resp_6","object":"response","created_at":1794785180,"status":"completed","model":"m.gguf","output":[{"type":"message","status":"completed","id":"msg_J","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello there"}],"role":"assistant"}],"usage":{"input_tokens":16,"output_tokens":8,"total_tokens":24,"input_tokens_details":{"cached_tokens":15}}},"timings":{"cache_n":3,"prompt_n":13}}"#,
    ];
    let anthropic = &[
        r#"{"type":"message_start","message":{"id":"chatcmpl-p","type":"message","role":"assistant","content":[],"model":"m.gguf","stop_reason":null,"stop_sequence":null,"usage":{"cache_read_input_tokens":15,"input_tokens":1,"output_tokens":0}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":8}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let all: [(Dialect, &[&str], Stop); 3] = [
        (Dialect::Chat, chat, Stop::Length),
        (Dialect::Responses, responses, Stop::End),
        (Dialect::Anthropic, anthropic, Stop::Length),
    ];
    for (dialect, events, stop) in all {
        let (reply, said) = stream(dialect, events).unwrap();
        assert_eq!(
            (reply.text.as_str(), said.as_str()),
            ("Hello there", "Hello there"),
            "{dialect}"
        );
        assert_eq!(reply.stop, stop, "{dialect}");
        assert_eq!(reply.model.as_deref(), Some("m.gguf"), "{dialect}");
        let usage = Usage { input: 16, cached_input: 15, cache_write: 0, output: 8 };
        assert_eq!(reply.usage, Some(usage), "{dialect}");
    }
}

#[test]
fn calls_that_wait_for_the_client_are_told() {
    for (dialect, body, expected) in [
        (
            Dialect::Chat,
            r#"{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{}"}},{"id":"b","type":"custom","custom":{"name":"x","input":"y"}}]}}]}"#,
            vec![("look", "{}"), ("x", "y")],
        ),
        (
            Dialect::Anthropic,
            r#"{"content":[{"type":"text"},{"type":"tool_use","id":"a","name":"look","input":{ }},{"type":"server_tool_use","id":"b","name":"x"}]}"#,
            vec![("look", "{ }")],
        ),
        (
            Dialect::Responses,
            r#"{"output":[{"type":"reasoning"},{"type":"function_call","call_id":"a","name":"look","arguments":"{}"},{"type":"web_search_call"},{"type":"local_shell_call","call_id":"b"},{"type":"mcp_approval_request","name":"x","arguments":"1"}]}"#,
            vec![("look", "{}"), ("", ""), ("", "1")],
        ),
    ] {
        let calls = Reply::read(dialect, body).unwrap().calls(dialect);
        let calls: Vec<_> =
            calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, expected, "{dialect}");
    }
}
