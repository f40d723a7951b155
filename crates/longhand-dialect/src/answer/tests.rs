//! Answers with what does not belong there, and in shapes that nobody asked for.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Stop;

const DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic];

/// A stream as providers send it: thinking, words and a call, event by event.
fn events(dialect: Dialect) -> Vec<String> {
    let words = ["w0x Grüße", " w1x 🦀", " w2x\n", " w3x"];
    let pieces = [r#"{"path":"#, r#" "w4x.rs","#, r#" "lines": "w5x"}"#];
    let mut number = 0;
    let named = |mut event: Value| {
        if dialect == Dialect::Responses {
            event["sequence_number"] = json!(number);
            number += 1;
        }
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
    };
    match dialect {
        Dialect::Anthropic => {
            let usage =
                json!({"input_tokens": 25, "cache_read_input_tokens": 5, "output_tokens": 1});
            let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
            let mut events = vec![
                json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null, "usage": usage}}),
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                json!({"type": "ping"}),
                delta(0, json!({"type": "thinking_delta", "thinking": "w6x"})),
                delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
                stop(0),
                start(1, json!({"type": "text", "text": ""})),
            ];
            let text = |piece: &&str| delta(1, json!({"type": "text_delta", "text": piece}));
            events.extend(words.iter().map(text));
            events.extend([
                stop(1),
                start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
            ]);
            let json =
                |piece: &&str| delta(2, json!({"type": "input_json_delta", "partial_json": piece}));
            events.extend(pieces.iter().map(json));
            events.extend([
                stop(2),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 15}}),
                json!({"type": "message_stop"}),
            ]);
            events.into_iter().map(named).collect()
        }
        Dialect::Responses => {
            let text = words.concat();
            let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]});
            let call = json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": pieces.concat(), "status": "completed"});
            let response = |status: &str, output: Value| json!({"id": "resp_1", "object": "response", "status": status, "error": null, "model": "m", "output": output, "usage": {"input_tokens": 30, "output_tokens": 15}});
            let mut events = vec![
                json!({"type": "response.created", "response": response("in_progress", json!([]))}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1", "type": "message", "content": []}}),
            ];
            events.extend(words.iter().map(|piece| json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece, "obfuscation": "xYz"})));
            events.push(
                json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
            );
            events.push(json!({"type": "response.output_item.added", "output_index": 1, "item": {"id": "fc_1", "type": "function_call", "arguments": "", "name": "read"}}));
            events.extend(pieces.iter().map(|piece| json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": piece})));
            events.push(
                json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
            );
            events.push(json!({"type": "response.completed", "response": response("completed", json!([message, call]))}));
            events.into_iter().map(named).collect()
        }
        _ => {
            let chunk = |delta: Value, finish: Value| {
                let chunk = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "m",
                    "service_tier": "default", "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "usage": null});
                format!("data: {chunk}\n\n")
            };
            let mut events = vec![": OPENROUTER PROCESSING\n\n".to_owned()];
            events.push(chunk(
                json!({"role": "assistant", "content": "", "refusal": null}),
                json!(null),
            ));
            events.push(chunk(json!({"reasoning_content": "w6x"}), json!(null)));
            events.extend(words.iter().map(|piece| chunk(json!({"content": piece}), json!(null))));
            events.push(chunk(json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}]}), json!(null)));
            events.extend(pieces.iter().map(|piece| {
                chunk(
                    json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
                    json!(null),
                )
            }));
            events.push(chunk(json!({}), json!("tool_calls")));
            events.push("data: {\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":15}}\n\n".to_owned());
            events.push("data: [DONE]\n\n".to_owned());
            events
        }
    }
}

/// A whole answer with these words.
fn whole(dialect: Dialect, text: &str) -> String {
    match dialect {
        Dialect::Anthropic => json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}),
        Dialect::Responses => json!({"id": "resp_1", "status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]}),
        _ => json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}),
    }
    .to_string()
}

fn read(dialect: Dialect, in_events: bool, bytes: &[u8]) -> ReadAnswer {
    read_in(dialect, in_events, bytes, usize::MAX)
}

fn read_in(dialect: Dialect, in_events: bool, bytes: &[u8], size: usize) -> ReadAnswer {
    let mut reader = AnswerReader::new(dialect, in_events);
    for piece in bytes.chunks(size) {
        reader.push(piece);
    }
    reader.finish()
}

const FOREIGN: [&[u8]; 16] = [
    b"data: [PING]\n\n",
    b"event: ping\ndata: {}\n\n",
    b"event: keepalive\ndata:\n\n",
    b": a comment\n\n",
    b"data: not json\n\n",
    b"data: {\"half\": \"a thing\n\n",
    b"data: {\"type\":\"weather\",\"delta\":\"words\",\"output_index\":0}\n\n",
    b"data: \"words\"\r\n\r\n",
    b"data: 17\n\n",
    b"data: null\n\n",
    b"id: 4\nretry: 10\n\n",
    b"a line of nothing\n\n",
    b"{\"choices\":[{\"delta\":{\"content\":\"no\"}}]}\n\n",
    b"data: \xff\xfe\n\n",
    b"event: weird\n\n",
    b"data: one\ndata: two\n\n",
];

proptest! {
    #[test]
    fn foreign_events_change_nothing_wherever_they_stand(
        at in 0usize..3,
        inserted in proptest::collection::vec((0usize..40, 0usize..FOREIGN.len()), 0..6),
        size in prop_oneof![Just(1usize), Just(7), Just(usize::MAX)],
    ) {
        let dialect = DIALECTS[at];
        let events = events(dialect);
        let plain = read(dialect, true, events.concat().as_bytes());
        prop_assert_eq!(plain.unread, None);
        let mut pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
        for (place, foreign) in &inserted {
            // After the end nobody listens.
            pieces.insert(place % (pieces.len() - 1), FOREIGN[*foreign]);
        }
        let mixed = read_in(dialect, true, &pieces.concat(), size);
        prop_assert_eq!(&mixed.reply, &plain.reply);
        for (_, foreign) in &inserted {
            let words = ["not json", "half", "words", "nothing"];
            let text = String::from_utf8_lossy(FOREIGN[*foreign]).into_owned();
            let rest = String::from_utf8_lossy(&mixed.rest).into_owned();
            let found = words.iter().all(|word| !text.contains(word) || rest.contains(word));
            prop_assert!(found, "{text:?} in {rest:?}");
        }
    }

    #[test]
    fn whatever_comes_is_read_or_kept_and_never_a_panic(
        at in 0usize..3,
        in_events: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        size in 1usize..50,
    ) {
        let read = read_in(DIALECTS[at], in_events, &bytes, size);
        prop_assert!(read.reply.is_none());
        let is_blank = bytes.trim_ascii().is_empty();
        prop_assert!(is_blank || !read.rest.is_empty() || read.failed || read.unread.is_none());
    }
}

/// The words of a text, each of which it has once.
fn words(text: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.len() == 3 && word.starts_with('w') && word.ends_with('x');
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(is_word).collect()
}

#[test]
fn a_stream_that_breaks_off_anywhere_loses_no_word() {
    for dialect in DIALECTS {
        let stream = events(dialect).concat();
        for cut in 0..stream.len() {
            let came = &stream.as_bytes()[..cut];
            let read = read(dialect, true, came);
            let message = read.reply.map_or_else(String::new, |reply| reply.message);
            let kept = message + &String::from_utf8_lossy(&read.rest);
            // One whose last letter may still be coming is none.
            let came = String::from_utf8_lossy(came).into_owned();
            for word in words(&came) {
                assert!(kept.contains(word), "{dialect:?} at {cut}: {word} in {kept}");
            }
        }
        let read = read(dialect, true, stream.as_bytes());
        assert_eq!((read.unread, read.rest.len(), read.failed), (None, 0, false), "{dialect:?}");
        let reply = read.reply.unwrap();
        assert_eq!(reply.stop, Stop::Tools);
        assert_eq!(reply.text, "w0x Grüße w1x 🦀 w2x\n w3x");
        assert_eq!(
            words(&reply.message).len(),
            words(&stream).len().min(if dialect == Dialect::Responses { 6 } else { 7 })
        );
    }
}

#[test]
fn the_shape_is_that_of_the_bytes_and_not_of_their_head() {
    for dialect in DIALECTS {
        let body = whole(dialect, "Hello.");
        for (in_events, sent) in
            [(false, body.clone()), (true, body.clone()), (true, format!("\u{feff}\n {body}\n"))]
        {
            for size in [1, usize::MAX] {
                let read = read_in(dialect, in_events, sent.as_bytes(), size);
                assert_eq!((read.reply.unwrap().text.as_str(), read.unread), ("Hello.", None));
            }
        }
        for lead in ["", "\n\n", ": hi\n\n", "id: 1\n", "retry: 3\n\n"] {
            let stream = format!("{lead}{}", events(dialect).concat());
            for size in [1, usize::MAX] {
                let read = read_in(dialect, false, stream.as_bytes(), size);
                assert!(read.reply.unwrap().text.contains("w3x"), "{dialect:?} {lead:?}");
                assert_eq!(read.unread, None);
            }
        }
        for (in_events, other) in [
            (true, "Service Unavailable"),
            (false, "<html>no</html>"),
            (true, "data: plain\n\ndata: words\n\ndata: [DONE]\n\n"),
            (false, r#"{"answer": 42}"#),
            (true, "[1, 2]"),
        ] {
            let read = read(dialect, in_events, other.as_bytes());
            assert_eq!(
                (read.reply, read.unread),
                (None, Some(Unread::Format)),
                "{dialect:?} {other}"
            );
            assert_eq!(read.rest, other.as_bytes(), "{dialect:?}");
        }
        for nothing in ["", " \n", ": only comments\n\n"] {
            assert_eq!(
                read(dialect, false, nothing.as_bytes())
                    .unread
                    .filter(|_| !nothing.starts_with(':')),
                None
            );
        }
    }
}

#[test]
fn what_follows_a_body_and_what_is_no_text_costs_nothing_of_it() {
    for dialect in DIALECTS {
        let body = whole(dialect, "Hello w1x.");
        let read_it = |bytes: &[u8]| read(dialect, false, bytes);
        let read = read_it(format!("{body}\n}}garbage w2x").as_bytes());
        assert_eq!(
            (read.unread, read.rest.as_slice()),
            (Some(Unread::Trailing), &b"}garbage w2x"[..])
        );
        assert_eq!(read.reply.unwrap().text, "Hello w1x.");
        let broken = body.replace("w1x", "\u{1}").into_bytes();
        let broken: Vec<u8> =
            broken.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        let read = read_it(&broken);
        assert_eq!(read.unread, Some(Unread::Encoding));
        assert_eq!(read.reply.unwrap().text, "Hello \u{fffd}.");
        let stream = events(dialect).concat().replace(" w1x", "\u{1}").into_bytes();
        let stream: Vec<u8> =
            stream.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        let read = AnswerReader::new(dialect, true);
        let read = {
            let mut reader = read;
            reader.push(&stream);
            reader.finish()
        };
        assert_eq!(read.unread, Some(Unread::Encoding));
        assert!(read.reply.unwrap().text.contains("w2x"), "{dialect:?}");
    }
}

#[test]
fn an_error_beside_words_leaves_the_words() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"Half"},"finish_reason":"error","error":{"code":502,"message":"gone"}}]}"#;
    let read_it = read(Dialect::Chat, false, body.as_bytes());
    assert!(read_it.failed && read_it.reply.unwrap().text == "Half");
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"Half\"},\"finish_reason\":\"error\"}],\"error\":{\"message\":\"gone\"}}\n\n";
    let read_it = read(Dialect::Chat, true, stream.as_bytes());
    let reply = read_it.reply.unwrap();
    assert!(read_it.failed && reply.text == "Half" && reply.stop == Stop::Other("cut".to_owned()));
    // A field that is always there is no error.
    for none in ["\"\"", "false", "{}", "null"] {
        let body = format!(
            r#"{{"error":{none},"choices":[{{"message":{{"role":"assistant","content":"All"}},"finish_reason":"stop"}}]}}"#
        );
        let read = read(Dialect::Chat, false, body.as_bytes());
        assert!(!read.failed && read.reply.unwrap().text == "All", "{none}");
    }
    for dialect in DIALECTS {
        let read = read(dialect, false, br#"{"type":"error","error":{"message":"busy"}}"#);
        assert!(read.failed && read.reply.is_none() && read.unread.is_none());
    }
}

#[test]
fn other_choices_are_kept_aside() {
    let choice = |index: u64, text: &str| json!({"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let body = json!({"choices": [choice(0, "one"), choice(1, "two")]}).to_string();
    let read_it = read(Dialect::Chat, false, body.as_bytes());
    assert_eq!(
        (read_it.reply.unwrap().text.as_str(), read_it.unread),
        ("one", Some(Unread::Choices))
    );
    assert_eq!(read_it.rest, body.as_bytes());
    let chunk = |index: u64, text: &str| {
        format!("data: {}\n\n", json!({"choices": [{"index": index, "delta": {"content": text}}]}))
    };
    let stream = [chunk(0, "one"), chunk(1, "two"), "data: [DONE]\n\n".to_owned()].concat();
    let read_it = read(Dialect::Chat, true, stream.as_bytes());
    assert_eq!(
        (read_it.reply.unwrap().text.as_str(), read_it.unread),
        ("one", Some(Unread::Events))
    );
    assert!(String::from_utf8(read_it.rest).unwrap().contains("two"));
}

/// Probabilities as a provider sends them for one token with twenty alternatives.
fn logprobs(token: &str) -> Value {
    let one = |token: &str| json!({"token": token, "logprob": -12.345_678_9, "bytes": [32, 97, 108, 116, 101, 114, 110, 97, 116, 105, 118, 101]});
    let mut entry = one(token);
    entry["top_logprobs"] = json!(vec![one(" alternative"); 20]);
    entry
}

/// A stream of so many tokens with probabilities; the end lists all of them once more where the format does so.
fn with_logprobs(dialect: Dialect, tokens: usize, mut push: impl FnMut(&[u8])) {
    let list = |count: usize| format!("[{}]", vec![logprobs("word ").to_string(); count].join(","));
    let one = list(1);
    if dialect == Dialect::Responses {
        push(b"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n");
        for _ in 0..tokens {
            push(format!("data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"word \",\"logprobs\":{one}}}\n\n").as_bytes());
        }
        let text = "word ".repeat(tokens);
        let all = list(tokens);
        let item = format!(
            r#"{{"id":"m","type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}","annotations":[],"logprobs":{all}}}]}}"#
        );
        let events = [
            format!(
                "data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{item}}}\n\n"
            ),
            format!(
                "data: {{\"type\":\"response.completed\",\"response\":{{\"id\":\"r\",\"status\":\"completed\",\"output\":[{item}]}}}}\n\n"
            ),
        ];
        events.concat().as_bytes().chunks(16 << 10).for_each(push);
    } else {
        for _ in 0..tokens {
            push(format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"word \"}},\"logprobs\":{{\"content\":{one}}}}}]}}\n\n").as_bytes());
        }
        push(b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    }
}

#[test]
fn what_is_kept_is_limited_and_not_what_passes() {
    let tokens = 16_000;
    for (dialect, tokens) in [(Dialect::Chat, tokens), (Dialect::Responses, tokens / 3)] {
        let mut reader = AnswerReader::new(dialect, true);
        let mut held = 0;
        with_logprobs(dialect, tokens, |bytes| {
            reader.push(bytes);
            held = held.max(reader.held());
        });
        let read = reader.finish();
        assert!(read.bytes > 32 << 20, "{dialect:?}: {}", read.bytes);
        assert!(held < 2 << 20, "{dialect:?} held {held}");
        let reply = read.reply.unwrap();
        assert_eq!((reply.text.len(), reply.stop, read.unread), (5 * tokens, Stop::End, None));
        assert!(reply.message.len() < 6 * tokens);
    }
    // The same in one piece.
    let all = vec![logprobs("word ").to_string(); tokens].join(",");
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"words"}},"logprobs":{{"content":[{all}]}},"finish_reason":"stop"}}]}}"#
    );
    let mut reader = AnswerReader::new(Dialect::Chat, false);
    for piece in body.as_bytes().chunks(16 << 10) {
        reader.push(piece);
        assert!(reader.held() < 1 << 20);
    }
    assert!(body.len() > 32 << 20);
    assert_eq!(reader.finish().reply.unwrap().text, "words");
}

#[test]
fn what_is_too_large_is_kept_as_far_as_there_is_room() {
    for dialect in DIALECTS {
        let mut reader = AnswerReader::within(dialect, true, 200_000);
        let all = events(dialect);
        let first = all.iter().position(|event| event.contains("w0x")).unwrap();
        all[..first].iter().for_each(|event| reader.push(event.as_bytes()));
        for _ in 0..4_000 {
            reader.push(all[first].replace("w0x", &"long ".repeat(30)).as_bytes());
            assert!(reader.held() < 300_000);
        }
        let read = reader.finish();
        assert_eq!(read.unread, Some(Unread::Size), "{dialect:?}");
        let reply = read.reply.unwrap();
        assert!(reply.text.len() > 100_000 && reply.stop == Stop::Other("cut".to_owned()));
        let mut reader = AnswerReader::within(dialect, false, 200_000);
        let body = whole(dialect, &"long ".repeat(100_000));
        body.as_bytes().chunks(1_000).for_each(|piece| reader.push(piece));
        let read = reader.finish();
        assert_eq!((read.unread, read.reply), (Some(Unread::Size), None));
        assert!(body.as_bytes().starts_with(&read.rest) && read.rest.len() > 190_000);
    }
}
