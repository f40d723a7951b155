//! What is made of conversations that do not fit.

use crate::common::{PATHS, Stage, messages, opened, request, sessions};
use longhand::{Archive, Tokens};
use longhand_archive::{Page, Scope};
use longhand_core::Handle;
use longhand_dialect::{Dialect, read};
use longhand_testkit::scripted::ScriptStep;
use serde_json::json;

fn answers(count: usize) -> Vec<ScriptStep> {
    vec![ScriptStep::Answer("Go on.".to_owned()); count]
}

fn dialect(path: &str) -> Dialect {
    match path {
        "/v1/messages" => Dialect::Anthropic,
        "/v1/responses" => Dialect::Responses,
        _ => Dialect::Chat,
    }
}

#[tokio::test]
async fn what_does_not_fit_is_made_to() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), answers(1)).await;
        let answer = stage.post(path, &request(path, &messages(path, 20), true)).await;
        assert_eq!(answer.headers()["x-longhand"], "compacted");
        let after: u64 =
            answer.headers()["x-longhand-tokens-after"].to_str().unwrap().parse().unwrap();
        assert!(after <= 1_200, "{after}");
        answer.text().await.unwrap();
        let sent = stage.sent().remove(0);
        let conversation = read(sent.into_bytes(), Some(dialect(path))).unwrap();
        assert!(conversation.check().iter().all(|finding| !finding.is_fault()));
        // All that was said is kept, and what was left out can be brought back.
        let archive = std::sync::Arc::clone(&stage.archive);
        let archived = stage.archived().await;
        assert_eq!(archived.len(), 1);
        assert_eq!(archived[0].1.len(), 42);
        assert!(!archive.search(&Scope::All, "file_7", 10).unwrap().is_empty());
    }
}

/// How much of two requests is the same, up to the messages' end.
fn is_prefix(one: &str, other: &str) -> bool {
    let shared = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    // After the last message there are only brackets and settings.
    let end = one.rfind(']').unwrap_or(one.len());
    shared >= end
}

#[tokio::test]
async fn windows_share_their_prefix_until_the_budget_is_reached_again() {
    for path in PATHS {
        let stage = Stage::new(Some(4_000), answers(40)).await;
        for steps in 1..=40 {
            let answer = stage.post(path, &request(path, &messages(path, steps), false)).await;
            assert_eq!(answer.status(), 200);
            answer.text().await.unwrap();
        }
        let sent = stage.sent();
        let breaks = sent.windows(2).filter(|pair| !is_prefix(&pair[0], &pair[1])).count();
        let counts = stage.proxy.counts();
        assert_eq!(counts.bypassed, 0);
        assert_eq!(breaks as u64, counts.batches, "{path}");
        assert!((2..=8).contains(&breaks), "{path}: {breaks} breaks");
        for body in sent {
            let conversation = read(body.into_bytes(), Some(dialect(path))).unwrap();
            assert!(conversation.check().iter().all(|finding| !finding.is_fault()));
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_goes_on_as_it_is() {
    let deep = format!(r#"{{"messages":{}"#, "[".repeat(50_000));
    for body in ["", "not { json", r#"{"messages":[]}"#, r#"{"messages":5}"#, &deep] {
        let stage = Stage::new(Some(100), answers(1)).await;
        let answer = stage.post(PATHS[0], body).await;
        assert_eq!(answer.status(), 200, "{body:.40}");
        assert_eq!(answer.headers()["x-longhand"], "bypassed");
        assert_eq!(stage.sent(), [body]);
        assert_eq!(stage.proxy.counts().bypassed, 1);
    }
}

#[tokio::test]
async fn what_is_too_large_to_look_into_goes_on_as_it_is() {
    let stage = Stage::with(answers(1), |settings| settings.request_bytes_max = 1_000).await;
    let body = request(PATHS[0], &messages(PATHS[0], 200), false);
    let answer = stage.post(PATHS[0], &body).await;
    assert_eq!(answer.headers()["x-longhand"], "bypassed");
    assert_eq!(stage.sent(), [body]);
}

#[tokio::test]
async fn a_request_that_is_too_long_for_the_upstream_is_sent_again_shorter() {
    for path in PATHS {
        for stream in [false, true] {
            let too_long = ScriptStep::TooLong { limit: 3_000, asked: 9_000 };
            let stage = Stage::new(None, [too_long, ScriptStep::Answer("Here.".to_owned())]).await;
            let body = request(path, &messages(path, 20), stream);
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["x-longhand"], "compacted");
            assert!(answer.text().await.unwrap().contains("Here."));
            let sent = stage.sent();
            assert_eq!(sent[0], body);
            assert!(sent[1].len() < body.len() / 3);
            assert_eq!(stage.proxy.counts().recovered, 1);
        }
    }
}

#[tokio::test]
async fn too_long_with_status_200_is_found() {
    for path in PATHS {
        for stream in [false, true] {
            let words = "prompt is too long: 9000 tokens > 3000 maximum".to_owned();
            let stage = Stage::new(
                None,
                [ScriptStep::ErrorBody(words), ScriptStep::Answer("Here.".to_owned())],
            )
            .await;
            let answer = stage.post(path, &request(path, &messages(path, 20), stream)).await;
            assert!(answer.text().await.unwrap().contains("Here."), "{path} {stream}");
            assert_eq!(stage.sent().len(), 2);
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_word_since_the_window_was_full_is_asked_for_again() {
    let usage = json!({"input_tokens": 9000, "output_tokens": 0});
    let empty = json!({
        "type": "message", "role": "assistant", "content": [], "usage": usage,
        "stop_reason": "model_context_window_exceeded",
    });
    let json = ("content-type", "application/json".to_owned());
    let full = ScriptStep::Raw(200, vec![json], empty.to_string());
    let stage = Stage::new(None, [full, ScriptStep::Answer("Here.".to_owned())]).await;
    let path = PATHS[2];
    let answer = stage.post(path, &request(path, &messages(path, 20), false)).await;
    assert!(answer.text().await.unwrap().contains("Here."));
    let sent = stage.sent();
    assert!(sent[1].len() < sent[0].len());
}

#[tokio::test]
async fn after_two_attempts_the_provider_s_own_error_is_given() {
    let too_long = |asked| ScriptStep::TooLong { limit: 3_000, asked };
    let steps = [too_long(9_000), too_long(8_000), too_long(7_000), too_long(6_000)];
    let stage = Stage::new(None, steps).await;
    let path = PATHS[2];
    let answer = stage.post(path, &request(path, &messages(path, 20), false)).await;
    assert_eq!(answer.status(), 400);
    assert!(answer.text().await.unwrap().contains("7000"));
    assert_eq!(stage.sent().len(), 3);
}

#[tokio::test]
async fn a_rate_limit_is_passed_on() {
    let stage = Stage::new(None, [ScriptStep::Limited(Some("7".to_owned()))]).await;
    let answer = stage.post(PATHS[0], &request(PATHS[0], &messages(PATHS[0], 2), false)).await;
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "7");
    assert_eq!(stage.sent().len(), 1);
}

#[tokio::test]
async fn every_message_is_archived_once() {
    for path in PATHS {
        for stream in [false, true] {
            let stage = Stage::new(Some(4_000), answers(4)).await;
            let mut messages = messages(path, 1);
            for turn in 0..4 {
                let answer = stage.post(path, &request(path, &messages, stream)).await;
                answer.text().await.unwrap();
                messages.push(json!({"role": "assistant", "content": "Go on."}));
                messages.push(json!({"role": "user", "content": format!("Turn {turn}.")}));
            }
            let archived = stage.archived().await;
            let [(_, raws)] = archived.as_slice() else { panic!("{path} {archived:?}") };
            // The last two messages were never sent, but the answer came.
            assert_eq!(raws.len(), messages.len() - 1, "{path} {stream}: {raws:#?}");
        }
    }
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart() {
    let path = PATHS[0];
    let stage = Stage::new(Some(8_000), answers(1)).await;
    let mut messages = messages(path, 2);
    stage.post(path, &request(path, &messages, false)).await.text().await.unwrap();
    let archive = std::sync::Arc::clone(&stage.archive);
    stage.archived().await;

    let stage = Stage::with(answers(1), |settings| {
        settings.archive = std::sync::Arc::clone(&archive) as std::sync::Arc<dyn Archive>;
    })
    .await;
    messages.push(json!({"role": "assistant", "content": "Go on."}));
    messages.push(json!({"role": "user", "content": "Then do."}));
    stage.post(path, &request(path, &messages, false)).await.text().await.unwrap();
    stage.proxy.stop().await;
    let sessions = sessions(&*archive);
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].entries, messages.len() as u64 + 1);
    assert_eq!(sessions[0].rounds, 2);
}

#[tokio::test]
async fn sessions_of_different_keys_are_apart_and_names_are_obeyed() {
    let stage = Stage::new(Some(8_000), answers(4)).await;
    let path = PATHS[0];
    let body = request(path, &messages(path, 1), false);
    let mut found = Vec::new();
    let work = Some("work");
    for (key, session) in [("one", None), ("two", None), ("one", work), ("two", work)] {
        let mut request = stage.client.post(stage.url(path)).bearer_auth(key).body(body.clone());
        if let Some(session) = session {
            request = request.header("x-longhand-session", session);
        }
        let answer = request.send().await.unwrap();
        found.push(answer.headers()["x-longhand-session"].to_str().unwrap().to_owned());
        answer.text().await.unwrap();
    }
    assert_ne!(found[0], found[1]);
    assert_eq!(found[2..], ["work", "work"]);
    assert_eq!(stage.archived().await.len(), 4);
}

#[tokio::test]
async fn what_would_be_sent_is_what_is_counted() {
    let path = "/v1/messages";
    let count = ScriptStep::Raw(200, vec![], r#"{"input_tokens":7}"#.to_owned());
    let stage = Stage::new(Some(3_000), [count, ScriptStep::Answer("Go on.".to_owned())]).await;
    let body = request(path, &messages(path, 20), false);
    let counted = stage.post("/v1/messages/count_tokens", &body).await;
    assert_eq!(counted.text().await.unwrap(), r#"{"input_tokens":7}"#);
    assert_eq!(stage.archive.sessions(None, Page::ALL).unwrap().items, []);
    stage.post(path, &body).await.text().await.unwrap();
    let sent = stage.sent();
    assert_eq!(sent[0], sent[1]);
    assert!(sent[0].len() < body.len() / 2);
    assert_eq!(stage.archived().await[0].1.len(), 42);
}

#[tokio::test]
async fn a_new_result_is_clipped_as_it_enters_if_that_is_asked_for() {
    for path in PATHS {
        for percent in [None, Some(1)] {
            // All of it fits by its bytes alone, so that nothing else is a reason to look at it.
            let stage = Stage::with(answers(6), |settings| {
                settings.budget = Some(Tokens(20_000));
                settings.clip_new_percent = percent;
            });
            let stage = stage.await;
            let asked: Vec<String> =
                (1..=6).map(|steps| request(path, &messages(path, steps), false)).collect();
            for body in &asked {
                let answer = stage.post(path, body).await;
                assert_eq!(answer.status(), 200);
                answer.text().await.unwrap();
            }
            let sent = stage.sent();
            let counts = stage.proxy.counts();
            if percent.is_none() {
                assert_eq!((sent, counts.batches), (asked, 0), "{path}");
                continue;
            }
            assert_eq!((counts.batches, counts.bypassed), (6, 0), "{path}");
            let is_whole_prefix = |pair: &[String]| is_prefix(&pair[0], &pair[1]);
            assert!(sent.windows(2).all(is_whole_prefix), "{path}");
            for (number, body) in (1..).zip(&sent) {
                assert_eq!(body.matches("[longhand clip h:").count(), number, "{path}");
                let conversation = read(body.clone().into_bytes(), Some(dialect(path))).unwrap();
                assert!(conversation.check().iter().all(|finding| !finding.is_fault()));
            }
            let archive = std::sync::Arc::clone(&stage.archive);
            stage.archived().await;
            let newest = sent.last().unwrap();
            for (at, _) in newest.match_indices("clip h:") {
                let handle = Handle::parse(&newest[at + 5..at + 19]).unwrap();
                let opened = opened(&*archive, handle).unwrap();
                assert!(opened.contains("all is well here"), "{path} {handle}");
            }
        }
    }
}
