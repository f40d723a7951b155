//! Every function that takes text, called with texts of every kind.

use std::sync::Arc;

use longhand_core::{Budget, PlanSettings, Tokens, json};
use longhand_dialect::{
    Dialect, Options, Reply, ReplyFilter, ReplyReader, Sourced, SseReader, ToolOffer, common,
    decode, items_of, keep_thinking, read, read_after, recognise, recognise_for, unpack,
    with_history, with_tool, without_options, write,
};
use longhand_testkit::texts::{Taker, call_all, seen};

use crate::common::{POLICIES, chars, compact, parse};

const DIALECTS: [Dialect; 6] = [
    Dialect::Chat,
    Dialect::Responses,
    Dialect::Anthropic,
    Dialect::ClaudeCode,
    Dialect::Codex,
    Dialect::Pi,
];

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

const TAKERS: &[Taker] = &[
    ("common", |text| assert_eq!(common(text, text), text.len())),
    ("decode", |text| {
        for coding in ["gzip", "zstd", "identity", text] {
            seen(decode(text.as_bytes(), coding, 1 << 16));
        }
        seen(unpack(text.as_bytes().to_vec(), 1 << 16));
    }),
    ("items_of", |text| {
        for dialect in DIALECTS {
            seen(items_of(dialect, text));
        }
    }),
    ("options", |text| {
        for dialect in DIALECTS {
            seen((Options::of(dialect, text), without_options(dialect, text)));
        }
        seen(keep_thinking(text));
    }),
    ("read", |text| {
        for dialect in DIALECTS.map(Some).into_iter().chain([None]) {
            if let Ok(conversation) = read(text.as_bytes().to_vec(), dialect) {
                seen(conversation.check());
            }
        }
    }),
    ("read, as words", |text| {
        for request in requests(&json::quote(text)) {
            window_of(&request);
        }
    }),
    ("read, as an escape that is half a character", |text| {
        let quoted = json::quote(text);
        let halves = format!("\"\\ud800{}\\udc00\\ud83e\"", &quoted[1..quoted.len() - 1]);
        for request in requests(&halves) {
            window_of(&request);
        }
    }),
    ("recognise", |text| {
        for status in [200, 400, 413, 429, 500] {
            seen(recognise(status, text));
            seen(recognise_for(status, &format!("{{\"error\":{}}}", json::quote(text)), text));
        }
    }),
    ("Reply", |text| {
        for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
            seen(Reply::read(dialect, text));
            let stream = format!(
                "data: {{\"choices\":[{{\"delta\":{{\"content\":{}}}}}]}}\n\n{text}\n\n",
                json::quote(text)
            );
            let (mut filter, mut reader) =
                (ReplyFilter::new(dialect, "recall"), ReplyReader::new(dialect));
            let mut events = SseReader::new(1 << 20);
            // Pieces of 7 bytes end inside characters.
            for piece in stream.as_bytes()[..stream.len().min(4_000)].chunks(7) {
                seen(filter.push(piece));
                for event in events.push(piece).unwrap() {
                    seen(reader.push(&event));
                }
            }
            seen((filter.close(), events.finish(), reader.partial()));
        }
    }),
    ("with_history", |text| {
        seen(with_history(text, &[]));
        let request = format!("{{\"previous_response_id\":\"r\",\"input\":{}}}", json::quote(text));
        seen(with_history(&request, &[text.to_owned()]));
    }),
    ("with_tool", |text| {
        let tool = ToolOffer { name: "recall", description: text, parameters: "{}" };
        for dialect in DIALECTS {
            seen(with_tool(dialect, text, &tool));
        }
    }),
];

/// A conversation in each format with a string of JSON wherever one can stand.
fn requests(quoted: &str) -> Vec<String> {
    let turn = |n: usize| {
        format!(
            r#"{{"role":"user","content":{quoted}}},{{"role":"assistant","content":{quoted},"tool_calls":[{{"id":"c{n}","type":"function","function":{{"name":"f","arguments":{quoted}}}}}]}},{{"role":"tool","tool_call_id":"c{n}","content":{quoted}}},"#
        )
    };
    let chat = (0..3).map(turn).collect::<String>();
    let turn = |n: usize| {
        format!(
            r#"{{"role":"user","content":{quoted}}},{{"type":"function_call","call_id":"c{n}","name":"f","arguments":{quoted}}},{{"type":"function_call_output","call_id":"c{n}","output":{quoted}}},"#
        )
    };
    let responses = (0..3).map(turn).collect::<String>();
    let turn = |n: usize| {
        format!(
            r#"{{"role":"user","content":{quoted}}},{{"role":"assistant","content":[{{"type":"text","text":{quoted}}},{{"type":"tool_use","id":"c{n}","name":"f","input":{{"path":{quoted}}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{n}","content":{quoted}}}]}},"#
        )
    };
    let anthropic = (0..3).map(turn).collect::<String>();
    let last = format!(r#"{{"role":"user","content":{quoted}}}"#);
    vec![
        format!(r#"{{"model":{quoted},"messages":[{chat}{last}]}}"#),
        format!(r#"{{"model":{quoted},"instructions":{quoted},"input":[{responses}{last}]}}"#),
        format!(
            r#"{{"model":"claude-opus-4","max_tokens":9,"system":{quoted},"messages":[{anthropic}{last}]}}"#
        ),
    ]
}

/// Makes a window of a request, and reads it again.
fn window_of(request: &str) {
    let conversation = parse(request, None);
    seen((conversation.check(), conversation.repair().is_ok(), conversation.name_of(0)));
    let sourced = |message| (conversation.dialect, message);
    let sourced: Vec<Sourced> = conversation.messages.iter().map(sourced).collect();
    seen(write(&sourced, Dialect::Anthropic));
    let again = read_after(Arc::new(request.to_owned()), &conversation).unwrap();
    assert_eq!(again.messages.len(), conversation.messages.len());
    let settings = PlanSettings {
        policy: POLICIES[request.len() % POLICIES.len()],
        ..PlanSettings::default()
    };
    for budget in [60, 2_000] {
        compact(request, None, &Budget::of(Tokens(budget)), &settings, &*chars());
    }
}
