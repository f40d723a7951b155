use super::*;
use crate::sse::SseReader;

const TOOL: &str = "longhand_recall";

/// What a client sees of answers that follow one another, as the data of each event.
fn seen(dialect: Dialect, answers: &[&[&str]]) -> Vec<String> {
    let mut filter = ReplyFilter::new(dialect, TOOL);
    let mut seen = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        let stream: String = answer.iter().map(|data| format!("data: {data}\n\n")).collect();
        seen.extend(filter.push(stream.as_bytes()));
        if at + 1 < answers.len() {
            assert!(filter.hides());
            filter.go_on(&filter.reply().unwrap());
        } else {
            seen.extend(filter.end());
        }
    }
    let events = SseReader::default().push(&seen).unwrap();
    events.into_iter().map(|event| event.data).collect()
}

fn check(dialect: Dialect, answers: &[&[&str]], expected: &[&str]) {
    let seen = seen(dialect, answers);
    assert_eq!(seen, expected, "{seen:#?}");
}

#[test]
fn chunks_with_all_in_one_are_parted() {
    check(
        Dialect::Chat,
        &[
            &[
                r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"Look.","tool_calls":[{"index":0,"id":"x","function":{"name":"longhand_recall","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#,
                "[DONE]",
            ],
            &[
                r#"{"id":"b","choices":[{"index":0,"delta":{"role":"assistant","content":"So."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#,
                "[DONE]",
            ],
        ],
        &[
            r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":"Look."},"finish_reason":null}],"usage":null}"#,
            r#"{"id":"a","choices":[{"index":0,"delta":{"content":"\n\nSo."},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":5}}"#,
            "[DONE]",
        ],
    );
}

#[test]
fn a_call_without_a_name_waits_for_it() {
    let unnamed = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x"}]}}]}"#;
    let more = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#;
    let named = |name: &str| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"function":{{"name":"{name}"}}}}]}}}}]}}"#
        )
    };
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let theirs = named("read");
    check(
        Dialect::Chat,
        &[&[unnamed, &theirs, more, end, "[DONE]"]],
        &[unnamed, &theirs, more, end, "[DONE]"],
    );
    let stopped = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    check(
        Dialect::Chat,
        &[&[unnamed, &named("longhand_recall"), more, end, "[DONE]"]],
        &[stopped, "[DONE]"],
    );
}

#[test]
fn a_name_in_pieces_is_never_seen() {
    let piece = |name: &str, arguments: &str| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"x","function":{{"name":"{name}","arguments":"{arguments}"}}}}]}}}}]}}"#
        )
    };
    let words = r#"{"choices":[{"index":0,"delta":{"content":"Hm."}}]}"#;
    let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    let stopped = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let ours = "longhand_recall";
    for cut in 1..ours.len() {
        let (one, other) = ours.split_at(cut);
        let answer = [&piece(one, ""), words, &piece(other, ""), &piece("", "{}"), end, "[DONE]"];
        check(Dialect::Chat, &[&answer], &[words, stopped, "[DONE]"]);
    }
    let letters: Vec<String> = ours.chars().map(|c| piece(&c.to_string(), "")).collect();
    let mut answer: Vec<&str> = letters.iter().map(String::as_str).collect();
    let last = piece("", "{}");
    answer.extend([last.as_str(), end, "[DONE]"]);
    check(Dialect::Chat, &[&answer], &[stopped, "[DONE]"]);
    // A name that only begins as ours does is the client's.
    for (one, other) in [("longhand_", "read"), ("long", ""), ("l", "s")] {
        let (one, other, last) = (piece(one, ""), piece(other, ""), piece("", "{}"));
        let answer = [&one, &other, &last, end, "[DONE]"].map(|event: &str| event);
        check(Dialect::Chat, &[&answer], &answer);
    }
}

#[test]
fn choices_are_told_apart() {
    let call = |choice: u64, name: &str| {
        format!(
            r#"{{"choices":[{{"index":{choice},"delta":{{"tool_calls":[{{"index":0,"id":"i{choice}","function":{{"name":"{name}"}}}}]}}}}]}}"#
        )
    };
    let (ours, theirs) = (call(0, "longhand_recall"), call(1, "read"));
    let end = |choice: u64, why: &str| {
        format!(r#"{{"choices":[{{"index":{choice},"delta":{{}},"finish_reason":"{why}"}}]}}"#)
    };
    check(
        Dialect::Chat,
        &[&[&ours, &theirs, &end(0, "tool_calls"), &end(1, "tool_calls"), "[DONE]"]],
        &[&theirs, &end(0, "stop"), &end(1, "tool_calls"), "[DONE]"],
    );
}

#[test]
fn reasoning_goes_with_what_it_led_to() {
    let item = |kind: &str, at: u64, item: &str| {
        format!(r#"{{"type":"response.output_item.{kind}","output_index":{at},"item":{item}}}"#)
    };
    let thought = r#"{"type":"reasoning","id":"rs"}"#;
    let ours =
        r#"{"type":"function_call","call_id":"c","name":"longhand_recall","arguments":"{}"}"#;
    let theirs = r#"{"type":"function_call","call_id":"d","name":"read","arguments":"{}"}"#;
    let ended = |items: &[&str]| {
        format!(
            r#"{{"type":"response.completed","response":{{"id":"r","output":[{}]}}}}"#,
            items.join(",")
        )
    };
    for (before, after) in [
        (vec![thought, ours], vec![]),
        (vec![thought, theirs], vec![thought, theirs]),
        (vec![thought, ours, theirs], vec![thought, theirs]),
        (vec![theirs, thought, ours], vec![theirs]),
        (vec![thought], vec![thought]),
    ] {
        let events = |items: &[&str]| -> Vec<String> {
            let mut events: Vec<String> = Vec::new();
            for (at, listed) in items.iter().enumerate() {
                events.push(item("added", at as u64, listed));
                events.push(item("done", at as u64, listed));
            }
            events.push(ended(items));
            events
        };
        let (sent, expected) = (events(&before), events(&after));
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(Dialect::Responses, &[&sent], &expected);
    }
}

#[test]
fn what_is_told_of_a_request_does_not_name_the_tool() {
    let created = r#"{"type":"response.created","response":{"id":"r", "tools":[ {"type":"function","name":"read"} ]}}"#;
    check(Dialect::Responses, &[&[created]], &[created]);
    check(
        Dialect::Responses,
        &[&[
            r#"{"type":"response.created","response":{"id":"r", "tools":[{"name":"read"},{"name":"longhand_recall"}],"x":1.0}}"#,
        ]],
        &[
            r#"{"type":"response.created","response":{"id":"r", "tools":[{"name":"read"}],"x":1.0}}"#,
        ],
    );
}

#[test]
fn thinking_before_a_hidden_call_is_shown() {
    let start = |at: u64, block: &str| {
        format!(r#"{{"type":"content_block_start","index":{at},"content_block":{block}}}"#)
    };
    let stop = |at: u64| format!(r#"{{"type":"content_block_stop","index":{at}}}"#);
    let (thought, said) =
        (r#"{"type":"thinking","thinking":"","signature":"s"}"#, r#"{"type":"text","text":"So."}"#);
    let ours = r#"{"type":"tool_use","id":"c","name":"longhand_recall","input":{}}"#;
    let begin = r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":5,"output_tokens":1}}}"#;
    let end = |why: &str, tokens: u64| {
        format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{why}"}},"usage":{{"output_tokens":{tokens}}}}}"#
        )
    };
    let last = r#"{"type":"message_stop"}"#;
    check(
        Dialect::Anthropic,
        &[
            &[
                begin,
                &start(0, thought),
                &stop(0),
                &start(1, ours),
                &stop(1),
                &end("tool_use", 7),
                last,
            ],
            &[begin, &start(0, said), &stop(0), &end("end_turn", 4), last],
        ],
        &[
            begin,
            &start(0, thought),
            &stop(0),
            &start(1, said),
            &stop(1),
            &end("end_turn", 11),
            last,
        ],
    );
}

/// Answers that have all that a format can have: words, calls of the tool and others, usage.
fn answers(dialect: Dialect) -> [Vec<String>; 2] {
    let of = |events: &[&str]| events.iter().map(|event| (*event).to_owned()).collect();
    match dialect {
        Dialect::Chat => [
            of(&[
                r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"Löok"}}]}"#,
                r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"content":"."}}]}"#,
                r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"longhand_recall","arguments":""}}]}}]}"#,
                r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
                r#"{"id":"a","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
                r#"{"id":"a","created":1,"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}"#,
                "[DONE]",
            ]),
            of(&[
                r#"{"id":"b","created":2,"choices":[{"index":0,"delta":{"role":"assistant","content":"So"}}]}"#,
                r#"{"id":"b","created":2,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"read","arguments":"{}"}}]}}]}"#,
                r#"{"id":"b","created":2,"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
                r#"{"id":"b","created":2,"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":5,"total_tokens":95}}"#,
                "[DONE]",
            ]),
        ],
        Dialect::Anthropic => [
            of(&[
                r#"{"type":"message_start","message":{"id":"a","content":[],"usage":{"input_tokens":9,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Löok."}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"x","name":"longhand_recall","input":{}}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
            of(&[
                r#"{"type":"message_start","message":{"id":"b","content":[],"usage":{"input_tokens":90,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"So"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"y","name":"read","input":{}}}"#,
                r#"{"type":"content_block_stop","index":1}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}"#,
                r#"{"type":"message_stop"}"#,
            ]),
        ],
        _ => {
            let response = |id: &str, items: &[&str], read: u64, wrote: u64| {
                let (items, total) = (items.join(","), read + wrote);
                let usage = format!(
                    r#"{{"input_tokens":{read},"output_tokens":{wrote},"total_tokens":{total}}}"#
                );
                format!(
                    r#"{{"id":"{id}","status":"completed","output":[{items}],"usage":{usage}}}"#
                )
            };
            let said = |text: &str| {
                format!(
                    r#"{{"type":"message","content":[{{"type":"output_text","text":"{text}"}}]}}"#
                )
            };
            let call = |id: &str, name: &str| {
                format!(
                    r#"{{"type":"function_call","call_id":"{id}","name":"{name}","arguments":"{{}}"}}"#
                )
            };
            let stream = |id: &str, items: &[&str], read: u64, wrote: u64| {
                let mut events =
                    vec![format!(r#"{{"type":"response.created","response":{{"id":"{id}"}}"#)];
                for (at, item) in items.iter().enumerate() {
                    for kind in ["added", "done"] {
                        events.push(format!(
                            r#"{{"type":"response.output_item.{kind}","output_index":{at},"item":{item}"#
                        ));
                    }
                }
                let response = response(id, items, read, wrote);
                events.push(format!(r#"{{"type":"response.completed","response":{response}"#));
                let numbered = events.into_iter().enumerate();
                numbered.map(|(at, event)| format!(r#"{event},"sequence_number":{at}}}"#)).collect()
            };
            let (look, so) = (said("Löok."), said("So"));
            let (ours, theirs) = (call("x", TOOL), call("y", "read"));
            [stream("a", &[&look, &ours], 9, 4), stream("b", &[&so, &theirs], 90, 5)]
        }
    }
}

/// The bytes of a stream.
fn bytes(events: &[String]) -> Vec<u8> {
    let events = events.iter().map(|data| format!("event: x\ndata: {data}\n\n"));
    events.collect::<String>().into_bytes()
}

fn read(dialect: Dialect, stream: &[u8]) -> Reply {
    let mut reader = crate::ReplyReader::new(dialect);
    for event in SseReader::default().push(stream).unwrap() {
        reader.push(&event).unwrap();
    }
    assert!(reader.is_done());
    reader.finish().unwrap()
}

/// A whole answer that has the same in it.
fn whole_of(dialect: Dialect, events: &[String], reply: &Reply) -> String {
    let usage = reply.usage.unwrap();
    let (message, input, output) = (&reply.message, usage.input, usage.output);
    match dialect {
        Dialect::Chat => format!(
            r#"{{"id":"a","choices":[ {{"index":0,"message":{message},"finish_reason":"tool_calls"}} ],"usage":{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{}}}}}"#,
            input + output
        ),
        Dialect::Anthropic => format!(
            r#"{{"id":"a",{},"stop_reason":"tool_use","usage":{{"input_tokens":{input},"output_tokens":{output}}}}}"#,
            message.trim_matches(['{', '}'])
        ),
        _ => {
            let last = View::parse(events.last().unwrap()).unwrap();
            last.get("response").unwrap().raw().to_owned()
        }
    }
}

const WIRES: [Dialect; 3] = [Dialect::Chat, Dialect::Anthropic, Dialect::Responses];

#[test]
fn a_whole_answer_says_what_a_stream_says() {
    for dialect in WIRES {
        let [first, last] = answers(dialect);
        let (mut stream, mut whole) =
            (ReplyFilter::new(dialect, TOOL), ReplyFilter::new(dialect, TOOL));
        let mut seen = stream.push(&bytes(&first));
        assert!(stream.is_done() && stream.hides());
        let asked = stream.reply().unwrap();
        assert_eq!(asked.calls(dialect)[0].name, TOOL);
        stream.go_on(&asked);
        whole.go_on(&asked);
        seen.extend(stream.push(&bytes(&last)));
        assert!(stream.is_done() && !stream.hides());
        let streamed = read(dialect, &seen);
        let body = whole_of(dialect, &last, &read(dialect, &bytes(&last)));
        let mut told = Reply::read(dialect, &whole.whole(&body)).unwrap();
        assert_eq!(
            (streamed.text.as_str(), streamed.stop.clone()),
            match dialect {
                Dialect::Chat => ("Löok.\n\nSo", super::super::Stop::Tools),
                _ => ("Löok.So", super::super::Stop::Tools),
            }
        );
        let usage = streamed.usage.unwrap();
        assert_eq!((usage.input, usage.output), (9, 9), "{dialect}");
        assert_eq!(streamed.calls(dialect), told.calls(dialect));
        assert_eq!(streamed.calls(dialect).len(), 1);
        told.id.clone_from(&streamed.id);
        assert_eq!(told, streamed, "{dialect}");
        assert!(!String::from_utf8(seen).unwrap().contains(TOOL));
    }
}

#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    for dialect in WIRES {
        let [first, last] = answers(dialect);
        let through = |size: usize| {
            let mut filter = ReplyFilter::new(dialect, TOOL);
            let mut seen = Vec::new();
            for answer in [&first, &last] {
                for piece in bytes(answer).chunks(size) {
                    seen.extend(filter.push(piece));
                }
                if filter.hides() {
                    filter.go_on(&filter.reply().unwrap());
                }
            }
            seen
        };
        let seen = through(usize::MAX);
        for size in 1..40 {
            assert_eq!(through(size), seen, "{dialect} {size}");
        }
    }
}

#[test]
fn where_nothing_is_hidden_nothing_changes() {
    for dialect in WIRES {
        let [_, last] = answers(dialect);
        // Some servers count from another number.
        let odd: Vec<String> =
            last.iter().map(|event| event.replace("index\":0", "index\":3")).collect();
        for events in [last, odd] {
            let mut filter = ReplyFilter::new(dialect, TOOL);
            let stream =
                [b": hi\r\n\r\n".to_vec(), bytes(&events), b"data: {half".to_vec()].concat();
            let seen = [filter.push(&stream), filter.close(), filter.end()].concat();
            assert_eq!(String::from_utf8(seen), String::from_utf8(stream), "{dialect}");
        }
        let body = r#" {"choices": [ {"message":{"tool_calls":[ ]},"finish_reason":"tool_calls"} ],
            "content": [ {"type":"text"} , {"type":"thinking"} ], "stop_reason": "tool_use",
            "output": [ {"type":"reasoning"} , {"type":"x"} ], "usage": {"output_tokens": 1} } "#;
        assert_eq!(ReplyFilter::new(dialect, TOOL).whole(body), body);
        assert_eq!(ReplyFilter::new(dialect, TOOL).whole("no json"), "no json");
    }
}

#[test]
fn words_in_a_whole_answer_take_the_place_of_hidden_calls() {
    let ours = r#"{"id":"x","function":{"name":"longhand_recall","arguments":"{}"}}"#;
    let theirs = r#"{"id":"y","function":{"name":"read","arguments":"{}"}}"#;
    for (message, before, after) in [
        (format!(r#"{{"content":null,"tool_calls":[{ours}]}}"#), "", r#"{"content":""}"#),
        (format!(r#"{{"tool_calls":[{ours}]}}"#), "", r#"{"content":""}"#),
        (format!(r#"{{"tool_calls":[{ours}], "a":1}}"#), "Hm.", r#"{"content":"Hm.", "a":1}"#),
        (format!(r#"{{"content":[1],"tool_calls":[{ours}]}}"#), "Hm.", r#"{"content":[1]}"#),
        (r#"{"content":"So."}"#.to_owned(), "Hm.", r#"{"content":"Hm.\n\nSo."}"#),
        (r#"{"content":"So."}"#.to_owned(), "Hm.\n", r#"{"content":"Hm.\nSo."}"#),
    ] {
        let mut filter = ReplyFilter::new(Dialect::Chat, TOOL);
        filter.before.text = before.to_owned();
        let body = |message: &str, why: &str| {
            format!(r#"{{"choices":[{{"message":{message},"finish_reason":"{why}"}}]}}"#)
        };
        let why = if message.contains(TOOL) { "tool_calls" } else { "stop" };
        assert_eq!(filter.whole(&body(&message, why)), body(after, "stop"));
    }
    let both = format!(r#"{{"content":null,"tool_calls":[{ours}, {theirs}]}}"#);
    let body = |message: &str| {
        format!(r#"{{"choices":[{{"message":{message},"finish_reason":"tool_calls"}}]}}"#)
    };
    assert_eq!(
        ReplyFilter::new(Dialect::Chat, TOOL).whole(&body(&both)),
        body(&format!(r#"{{"content":null,"tool_calls":[{theirs}]}}"#))
    );
}

#[test]
fn an_error_after_a_name_that_is_still_coming_arrives() {
    let call = |name: &str| {
        format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,"id":"x","function":{{"name":"{name}"}}}}]}}}}]}}"#
        )
    };
    let words = r#"{"choices":[{"index":0,"delta":{"content":"Hm."}}]}"#;
    let error = r#"{"error":{"message":"Overloaded"}}"#;
    for (name, is_shown) in [("", false), ("longhand_rec", false), ("read", true)] {
        let mut filter = ReplyFilter::new(Dialect::Chat, TOOL);
        let mut events = vec![call(name), words.to_owned(), error.to_owned()];
        let seen = [filter.push(&bytes(&events)), filter.close(), filter.end()].concat();
        if !is_shown {
            events.remove(0);
        }
        assert_eq!(String::from_utf8(seen), String::from_utf8(bytes(&events)), "{name}");
        assert!(filter.reply().is_none());
    }
}

#[test]
fn an_error_in_between_is_one_of_the_format() {
    let check = |dialect, body: &str, expected: &str| {
        let event = ReplyFilter::new(dialect, TOOL).error(body);
        assert_eq!(String::from_utf8(event).unwrap(), expected);
    };
    let body = r#"{"type":"error","error":{"type":"overloaded","message":"Busy"}}"#;
    check(
        Dialect::Chat,
        body,
        "data: {\"error\":{\"type\":\"overloaded\",\"message\":\"Busy\"}}\n\n",
    );
    check(Dialect::Anthropic, body, &format!("event: error\ndata: {body}\n\n"));
    check(
        Dialect::Responses,
        body,
        "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"Busy\",\"param\":null}\n\n",
    );
    let other = "the upstream failed in the middle of an answer";
    let unknown =
        format!("data: {{\"error\":{{\"type\":\"api_error\",\"message\":\"{other}\"}}}}\n\n");
    check(Dialect::Chat, "<html>", &unknown);
    check(Dialect::Chat, r#"{"error":"no"}"#, &unknown);
}

#[test]
fn a_piece_of_an_event_that_names_the_tool_is_not_shown() {
    for (rest, is_shown) in
        [("data: {\"x\":\"longhand_recall", false), ("data: {\"x\":\"read", true)]
    {
        let mut filter = ReplyFilter::new(Dialect::Chat, TOOL);
        let seen = [filter.push(rest.as_bytes()), filter.close(), filter.end()].concat();
        assert_eq!(!seen.is_empty(), is_shown);
    }
}

#[test]
fn reasoning_arrives_even_if_nothing_follows_it() {
    let thought =
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}"#;
    let stream = bytes(&[thought.to_owned()]);
    let mut filter = ReplyFilter::new(Dialect::Responses, TOOL);
    assert_eq!(filter.push(&stream), b"");
    assert_eq!([filter.close(), filter.end()].concat(), stream);
}
