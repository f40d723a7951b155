use longhand_dialect::{ReplyReader, SseReader};

use super::super::frames::Frames;
use super::*;

/// What a client sees of answers that follow one another, as the data of each event.
fn seen(dialect: Dialect, answers: &[&[&str]]) -> Vec<String> {
    let mut sieve = sieve(dialect);
    let mut out = Vec::new();
    for (at, answer) in answers.iter().enumerate() {
        let mut reader = ReplyReader::new(dialect);
        let stream: String = answer.iter().map(|data| format!("data: {data}\n\n")).collect();
        for frame in Frames::default().push(stream.as_bytes()) {
            reader.push(frame.event.as_ref().unwrap()).unwrap();
            out.extend(sieve.take(frame));
        }
        if at + 1 < answers.len() {
            assert!(sieve.hides());
            sieve.go_on(&reader.finish().unwrap());
        } else {
            out.extend(sieve.end());
        }
    }
    let events = SseReader::default().push(&out.concat()).unwrap();
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
        let answer = [&one, &other, &last, end, "[DONE]"].map(|own: &str| own);
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
            for (at, own) in items.iter().enumerate() {
                events.push(item("added", at as u64, own));
                events.push(item("done", at as u64, own));
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
    let own = r#"{"type":"response.created","response":{"id":"r", "tools":[ {"type":"function","name":"read"} ]}}"#;
    check(Dialect::Responses, &[&[own]], &[own]);
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
