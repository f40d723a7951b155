//! What clients ask of their providers: history that is held, options, thinking, compressed bodies.
use std::sync::Arc;

use crate::common::{PATHS, Stage, messages, request};
use longhand::{Archive, Tokens};
use longhand_dialect::{Dialect, read};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

/// An answer of Responses with an id.
fn responded(id: &str, text: &str) -> ScriptStep {
    let message = json!({
        "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    });
    let body = json!({
        "id": id, "object": "response", "status": "completed", "model": "scripted",
        "output": [message], "usage": {"input_tokens": 10, "output_tokens": 5},
    });
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

fn going_on(previous: &str, words: &str) -> String {
    json!({"model": "scripted", "previous_response_id": previous, "input": words}).to_string()
}

#[tokio::test]
async fn history_that_a_provider_holds_is_sent_whole_and_shorter_when_it_is_too_long() {
    let path = "/v1/responses";
    let words = "a sentence about the work at hand ".repeat(80);
    for restarts in [false, true] {
        let steps = (0..12).map(|at| responded(&format!("resp_{at}"), &format!("Answer {at}.")));
        let mut steps: Vec<ScriptStep> = steps.collect();
        let mut stage = Stage::new(Some(3_000), steps.drain(..6)).await;
        let mut sent = Vec::new();
        let first = json!({"model": "scripted", "input": format!("Question 0: {words}")});
        stage.post(path, &first.to_string()).await.text().await.unwrap();
        for at in 1..12 {
            if at == 6 && !restarts {
                break;
            }
            if at == 6 {
                sent.append(&mut stage.sent());
                let archive = Arc::clone(&stage.archive);
                stage.archived().await;
                stage = Stage::with(steps.drain(..), |settings| {
                    settings.budget = Some(Tokens(3_000));
                    settings.archive = Arc::clone(&archive) as Arc<dyn Archive>;
                })
                .await;
                stage.archive = archive;
            }
            let body = going_on(&format!("resp_{}", at - 1), &format!("Question {at}: {words}"));
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.status(), 200);
            assert!(!answer.headers().contains_key("x-longhand-shortfall"), "{at}");
            assert!(answer.text().await.unwrap().contains(&format!("Answer {at}.")));
            let last = stage.sent().pop().unwrap();
            let whole: Value = serde_json::from_str(&last).unwrap();
            if whole["previous_response_id"].is_null() {
                assert!(whole["input"].as_array().unwrap().len() > 2, "{last:.500}");
                let shown = read(last.into_bytes(), Some(Dialect::Responses)).unwrap();
                assert!(shown.check().iter().all(|finding| !finding.is_fault()));
            } else {
                assert_eq!(last, body, "what fits goes on as it is");
            }
        }
        sent.append(&mut stage.sent());
        let rebuilt = sent.iter().skip(1).filter(|body| !body.contains("\"resp_")).count();
        assert!((1..sent.len() - 2).contains(&rebuilt), "{rebuilt} of {}", sent.len());
        let archived = stage.archived().await;
        assert_eq!(archived.len(), 1, "{archived:?}");
        assert_eq!(archived[0].1.len(), 2 * sent.len());
    }
}

#[tokio::test]
async fn an_answer_that_we_do_not_know_goes_on_as_it_is() {
    let stage = Stage::new(Some(1_000), [responded("resp_b", "Yes.")]).await;
    let body = going_on("resp_a", "Go on.");
    stage.post("/v1/responses", &body).await.text().await.unwrap();
    assert_eq!(stage.sent(), [body]);
}

#[tokio::test]
async fn what_an_upstream_does_not_know_is_done_for_it() {
    let clear = json!({"edits": [{
        "type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 3000},
        "keep": {"type": "tool_uses", "value": 4},
    }]});
    let compact = json!({"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}]});
    let threshold = json!([{"type": "compaction", "compact_threshold": 2000}]);
    for (path, key, option, left) in [
        (PATHS[2], "context_management", &clear, 4),
        (PATHS[2], "context_management", &compact, 20),
        (PATHS[1], "context_management", &threshold, 1),
        (PATHS[1], "truncation", &json!("auto"), 20),
    ] {
        let stage =
            Stage::new(Some(100_000), vec![ScriptStep::Answer("Go on.".to_owned()); 2]).await;
        let mut body: Value =
            serde_json::from_str(&request(path, &messages(path, 20), false)).unwrap();
        body[key] = option.clone();
        stage.post(path, &body.to_string()).await.text().await.unwrap();
        let sent = stage.sent().remove(0);
        assert!(!sent.contains(key), "{sent:.300}");
        let whole = sent.matches(": all is well here").count() / 25;
        if left == 1 {
            assert!((1..20).contains(&whole), "{path} {option}: {whole}");
        } else {
            assert_eq!(whole, left, "{path} {option}");
        }
        // Once made, the edits stay.
        stage.post(path, &body.to_string()).await.text().await.unwrap();
        assert_eq!(stage.sent()[1], sent);
    }
}

#[tokio::test]
async fn thinking_that_an_edit_voids_is_dropped_by_the_provider_s_own_switch() {
    let path = PATHS[2];
    for (model, is_switched) in [("claude-opus-5-5", true), ("claude-opus-4-5", false)] {
        let stage = Stage::new(Some(3_000), vec![ScriptStep::Answer("Go on.".to_owned()); 2]).await;
        let mut messages = messages(path, 20);
        for message in messages.iter_mut().filter(|message| message["role"] == "assistant") {
            let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "x"});
            message["content"].as_array_mut().unwrap().insert(0, thinking);
        }
        for steps in [2, 20] {
            let mut body: Value =
                serde_json::from_str(&request(path, &messages[..=2 * steps], false)).unwrap();
            body["model"] = json!(model);
            body["thinking"] = json!({"type": "adaptive"});
            stage.post(path, &body.to_string()).await.text().await.unwrap();
        }
        let requests = stage.server.requests();
        assert!(requests[0].header("anthropic-beta").is_none(), "nothing was edited");
        let beta = requests[1].header("anthropic-beta").unwrap_or_default().to_owned();
        assert_eq!(beta.contains("thinking-binding-controls"), is_switched);
        assert_eq!(requests[1].body.contains("drop_block"), is_switched);
        assert!(requests[1].body.contains(r#""signature":"x""#), "the newest stays");
    }
}

#[tokio::test]
async fn compressed_requests_are_read_and_go_on_compressed_unless_they_are_shortened() {
    let path = PATHS[0];
    for (steps, is_compacted) in [(2, false), (20, true)] {
        let stage = Stage::new(Some(3_000), [ScriptStep::Answer("Go on.".to_owned())]).await;
        let body = request(path, &messages(path, steps), false);
        let packed = gzip(body.as_bytes());
        let request = stage.client.post(stage.url(path)).header("content-encoding", "gzip");
        let answer = request.body(packed.clone()).send().await.unwrap();
        let outcome = if is_compacted { "compacted" } else { "passed" };
        assert_eq!(answer.headers()["x-longhand"], outcome);
        answer.text().await.unwrap();
        let sent = stage.server.requests().remove(0);
        assert_eq!(sent.header("content-encoding").is_some(), !is_compacted);
        assert_eq!(
            sent.header("content-length").unwrap() == packed.len().to_string(),
            !is_compacted
        );
        assert_eq!(stage.archived().await[0].1.len(), 2 * steps + 2);
    }
}

/// Stored blocks only: no compressor is needed for that.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = bytes.chunks(60_000).peekable();
    while let Some(block) = blocks.next() {
        out.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    out.extend((!crc).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}
