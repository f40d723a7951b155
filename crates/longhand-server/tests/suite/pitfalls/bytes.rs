//! Byte fidelity.

use longhand_testkit::arbitrary;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::common::raw::{RawServer, whole};
use crate::common::{PATHS, Stage, answers, faults, messages, request, user};

/// What a parser and a writer would not give back as it was.
const ODD: &str =
    r#""odd" : {"z":1.0,"a":1e5,"a":1152921504606846976,"f":-0.0, "e":"é \u00e9 🦀 \/","n":[ ]}"#;

/// A request with odd things before and after its messages.
fn odd(path: &str, steps: usize) -> String {
    let body = request(path, &messages(path, steps), false);
    let open = body.find('{').unwrap() + 1;
    let close = body.rfind('}').unwrap();
    format!("{}{ODD},{}\t,\r\n{ODD}{}", &body[..open], &body[open..close], &body[close..])
}

#[tokio::test]
async fn p01_nothing_to_change_leaves_every_byte() {
    let mut runner = TestRunner::deterministic();
    for path in PATHS {
        let strategy = match path {
            "/v1/messages" => arbitrary::anthropic_json().boxed(),
            "/v1/responses" => arbitrary::responses_json().boxed(),
            _ => arbitrary::chat_json().boxed(),
        };
        let mut bodies: Vec<String> =
            (0..40).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        bodies.push(odd(path, 3));
        let stage = Stage::new(Some(1_000_000), answers(bodies.len())).await;
        for body in &bodies {
            stage.post(path, body).await.text().await.unwrap();
        }
        assert_eq!(stage.sent(), bodies, "{path}");
    }
}

#[tokio::test]
async fn p02_odd_numbers_and_keys_survive_edits_elsewhere() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), answers(1)).await;
        let body = odd(path, 20);
        stage.post(path, &body).await.text().await.unwrap();
        let sent = stage.sent().remove(0);
        assert!(sent.len() < body.len() / 2, "{path}");
        assert_eq!(sent.matches(ODD).count(), 2, "{path}: {sent:.400}");
        assert!(sent.ends_with(&format!("\t,\r\n{ODD}}}\n")), "{path}");
    }
}

#[tokio::test]
async fn p03_one_edit_leaves_every_byte_outside_it() {
    for path in PATHS {
        let body = odd(path, 20);
        let stage = Stage::new(Some(1), answers(2)).await;
        let whole = stage.post(path, &body).await;
        let tokens: u64 =
            whole.headers()["x-longhand-tokens-before"].to_str().unwrap().parse().unwrap();
        let stage = Stage::with(answers(1), |settings| {
            settings.budget = Some(longhand::Tokens(tokens - 50));
            settings.low_water_percent = 100;
        })
        .await;
        let answer = stage.post(path, &body).await;
        assert_eq!(answer.headers()["x-longhand-edits"], "1", "{path}");
        let sent = stage.sent().remove(0);
        let same = |pair: &(u8, u8)| pair.0 == pair.1;
        let start = body.bytes().zip(sent.bytes()).take_while(same).count();
        let end = body.bytes().rev().zip(sent.bytes().rev()).take_while(same).count();
        let gone = &body[start..body.len() - end];
        assert!(gone.len() > 500 && gone.len() < 1_500, "{path}: {gone}");
        assert!(!gone.contains('"') && gone.matches("all is well here").count() > 20, "{gone}");
    }
}

/// The newest messages of a conversation, of kinds that nobody has told us of.
fn strange(path: &str) -> Vec<Value> {
    match path {
        "/v1/messages" => vec![json!({"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": 1.0}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "web_search_result", "encrypted_content": "c3Ryb25n"}]},
            {"type": "compaction", "content": "what was before"},
            {"type": "hologram", "phase": 3},
            {"type": "text", "text": "Found."},
        ]})],
        "/v1/responses" => vec![
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c3Ryb25n"}),
            json!({"type": "message", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Found.", "annotations": []}]}),
            json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "d2Vhaw"}),
            json!({"type": "hologram", "phase": 3}),
        ],
        _ => vec![
            json!({"role": "assistant", "content": [{"type": "hologram", "phase": 3}, {"type": "text", "text": "Found."}], "reasoning_details": [{"type": "reasoning.encrypted", "data": "c3Ryb25n"}], "audio": {"id": "a"}}),
        ],
    }
}

#[tokio::test]
async fn p04_unknown_kinds_are_copied_as_they_are() {
    for path in PATHS {
        for (steps, budget) in [(1, 8_000), (20, 4_000)] {
            let mut asked = messages(path, steps);
            let strange = strange(path);
            asked.extend(strange.clone());
            asked.push(user("And then?"));
            let stage = Stage::new(Some(budget), answers(1)).await;
            let heads = stage.ask(path, &asked).await;
            assert_eq!(heads.status, 200, "{path}");
            let expected = if steps == 1 { "passed" } else { "compacted" };
            assert_eq!(heads.get("x-longhand"), expected, "{path}");
            let sent = stage.sent().remove(0);
            for item in strange {
                // Reasoning is void once what it is bound to is edited.
                let is_bound = item["type"] == "reasoning" && steps > 1;
                assert!(is_bound || sent.contains(&item.to_string()), "{path} {steps}: {item}");
            }
        }
    }
}

#[tokio::test]
async fn p05_signatures_are_never_touched_not_even_in_a_fork() {
    let path = "/v1/messages";
    let thought = |at: usize| json!({"type": "thinking", "thinking": format!("Hm {at}. é"), "signature": format!("c2ln{at}+/==")});
    let hidden = |at: usize| json!({"type": "redacted_thinking", "data": format!("ZGF0YQ{at}==")});
    let mut asked = messages(path, 20);
    for (at, message) in asked.iter_mut().enumerate().filter(|(at, _)| at % 2 == 1) {
        let content = message["content"].as_array_mut().unwrap();
        content.insert(0, thought(at));
        content.insert(1, hidden(at));
    }
    let reply = |at: usize, text: &str| json!({"role": "assistant", "content": [thought(at), hidden(at), {"type": "text", "text": text}]});
    // Another question in the place of the last result's step, and what came then.
    let mut fork = asked[..asked.len() - 2].to_vec();
    fork.extend([reply(1_000, "Well."), user("And then?")]);
    let mut later = fork.clone();
    later.extend([reply(2_000, "So."), user("And now?")]);
    let stage = Stage::new(Some(3_000), answers(3)).await;
    let turns = [
        (&asked, 2..=usize::MAX, "an open tool loop keeps its own"),
        (&fork, 2..=usize::MAX, "what was thought since the edits stays"),
        (&later, 4..=usize::MAX, "and goes on to"),
    ];
    for (asked, expected, why) in turns {
        stage.ask(path, asked).await;
        let body = &stage.sent().pop().unwrap();
        assert!(faults(path, body).is_empty());
        let body: Value = serde_json::from_str(body).unwrap();
        let given: Vec<&Value> = blocks(asked).collect();
        let mut thoughts = 0;
        for block in blocks(body["messages"].as_array().unwrap()) {
            let kind = block["type"].as_str().unwrap();
            if kind.contains("thinking") {
                thoughts += 1;
                assert!(given.contains(&block), "{block}");
            }
        }
        assert!(expected.contains(&thoughts), "{why}: {thoughts}");
    }
    assert_eq!(stage.proxy.counts().batches, 1);
}

fn blocks(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages.iter().filter_map(|message| message["content"].as_array()).flatten()
}

#[tokio::test]
async fn p06_a_compressed_body_goes_on_as_it_is_or_decoded() {
    const GZIP: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 171, 86, 202, 205, 79, 73, 205, 81, 178, 82, 202, 85, 210,
        81, 202, 77, 45, 46, 78, 76, 79, 45, 86, 178, 138, 174, 86, 42, 202, 207, 73, 5, 138, 151,
        22, 167, 22, 1, 165, 146, 243, 243, 74, 82, 243, 74, 128, 2, 25, 153, 74, 181, 177, 181, 0,
        239, 53, 194, 84, 57, 0, 0, 0,
    ];
    const ZSTD: &[u8] = &[
        40, 181, 47, 253, 4, 88, 201, 1, 0, 123, 34, 109, 111, 100, 101, 108, 34, 58, 34, 109, 34,
        44, 34, 109, 101, 115, 115, 97, 103, 101, 115, 34, 58, 91, 123, 34, 114, 111, 108, 101, 34,
        58, 34, 117, 115, 101, 114, 34, 44, 34, 99, 111, 110, 116, 101, 110, 116, 34, 58, 34, 104,
        105, 34, 125, 93, 125, 36, 180, 135, 134,
    ];
    const PLAIN: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let upstream = RawServer::start(|_| whole("application/json", "{}"));
    let stage = Stage::with([], |settings| {
        settings.upstream_openai = Some(upstream.url());
        settings.budget = Some(longhand::Tokens(1_000));
    })
    .await;
    let cases =
        [("gzip", GZIP), ("zstd", ZSTD), ("zstd", b"garbage".as_slice()), ("br", b"\xff\0")];
    for (at, (coding, bytes)) in cases.into_iter().enumerate() {
        let request = stage.client.post(stage.url(PATHS[0])).header("content-encoding", coding);
        let answer = request.body(bytes.to_vec()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{coding}");
        let got = &upstream.got()[at];
        if got.head.to_lowercase().contains("content-encoding") {
            assert_eq!(got.body, bytes, "{coding}");
        } else {
            assert_eq!(got.body, PLAIN.as_bytes(), "{coding}");
        }
    }
}

#[tokio::test]
async fn p07_tools_come_neither_from_nowhere_nor_in_another_order() {
    let tools = r#""tools": [ {"name":"zebra"}, {"name":"ant", "b":1, "a":2}]"#;
    for path in PATHS {
        for steps in [1, 20] {
            let stage = Stage::new(Some(3_000), answers(2)).await;
            let body = request(path, &messages(path, steps), false);
            stage.post(path, &body).await.text().await.unwrap();
            let with = body.replacen('{', &format!("{{{tools},"), 1);
            stage.post(path, &with).await.text().await.unwrap();
            let sent = stage.sent();
            assert!(!sent[0].contains("\"tools\""), "{path} {steps}");
            assert_eq!(sent[1].matches(tools).count(), 1, "{path} {steps}");
        }
    }
}
