//! Whatever fails, the request does not.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::faulty::{Fault, Faulty};
use common::{PATHS, Stage, messages, request};
use longhand::{MemoryArchive, Tokens};
use longhand_testkit::scripted::Step;
use serde_json::json;

async fn stage(fault: Fault, steps: Vec<Step>) -> Stage {
    Stage::with(steps, |settings| {
        settings.archive = Arc::new(Faulty::new(Arc::new(MemoryArchive::default()), fault));
        settings.budget = Some(Tokens(1_000));
        settings.deadline = Duration::from_millis(200);
    })
    .await
}

#[tokio::test]
async fn a_slow_or_broken_archive_costs_no_request() {
    for (fault, outcome) in [
        (Fault::Slow(Duration::from_secs(1)), "bypassed"),
        (Fault::Panic, "bypassed"),
        // What cannot be written can still be shortened.
        (Fault::Error, "compacted"),
    ] {
        for path in PATHS {
            let stage = stage(fault, vec![Step::Answer("Here.".to_owned()); 2]).await;
            let body = request(path, &messages(path, 20), true);
            for _ in 0..2 {
                let started = Instant::now();
                let answer = stage.post(path, &body).await;
                assert_eq!(answer.headers()["x-longhand"], outcome, "{fault:?}");
                assert!(answer.text().await.unwrap().contains("Here."));
                assert!(started.elapsed() < Duration::from_millis(900), "{fault:?}");
                if outcome == "compacted" {
                    break;
                }
            }
            if outcome == "bypassed" {
                assert_eq!(stage.sent(), [body.as_str(), body.as_str()]);
                assert_eq!(stage.proxy.counts().bypassed, 2);
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_ends_in_an_error_and_the_session_goes_on() {
    for path in PATHS {
        let cut = Step::Cut("one two three four five six".to_owned());
        let stage = Stage::new(Some(8_000), [cut, Step::Answer("Here.".to_owned())]).await;
        let mut messages = messages(path, 1);
        let answer = stage.post(path, &request(path, &messages, true)).await;
        assert_eq!(answer.status(), 200);
        assert!(answer.text().await.is_err());
        messages.push(json!({"role": "user", "content": "Again."}));
        stage.post(path, &request(path, &messages, true)).await.text().await.unwrap();
        let archived = stage.archived().await;
        assert_eq!(archived.len(), 1);
        // What came of the first answer is a path of its own.
        assert_eq!(archived[0].1.len(), messages.len() + 2, "{archived:#?}");
    }
}

#[tokio::test]
async fn garbage_is_passed_on_as_it_is() {
    for step in [Step::Garbage, Step::Empty, Step::Page] {
        for path in PATHS {
            let stage = Stage::new(Some(8_000), [step.clone()]).await;
            let answer = stage.post(path, &request(path, &messages(path, 1), true)).await;
            assert_eq!(answer.status(), 200);
            let text = answer.text().await.unwrap();
            assert_eq!(text.is_empty(), matches!(step, Step::Empty));
        }
    }
}

#[tokio::test]
async fn a_web_page_cannot_drive_it() {
    let stage = Stage::new(None, [Step::Answer("no".to_owned())]).await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let request = stage.client.get(stage.url("/v1/models")).header(name, value);
        assert_eq!(request.send().await.unwrap().status(), 403);
    }
    assert!(stage.server.requests().is_empty());
}

#[tokio::test]
async fn thinking_and_marks_do_not_break_the_chain() {
    let path = "/v1/messages";
    let stage = Stage::new(Some(3_000), vec![Step::Answer("Go on.".to_owned()); 30]).await;
    for steps in 1..=30 {
        let mut messages = messages(path, steps);
        for (at, message) in messages.iter_mut().enumerate() {
            if message["role"] == "assistant" {
                let thought = json!({"type": "thinking", "thinking": format!("Hm {at}."), "signature": "c2ln"});
                message["content"].as_array_mut().unwrap().insert(0, thought);
            }
        }
        // Clients move their mark to the newest message.
        let last = messages.last_mut().unwrap();
        last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
        let answer = stage.post(path, &request(path, &messages, false)).await;
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap();
    }
    let counts = stage.proxy.counts();
    assert_eq!(counts.bypassed, 0);
    assert!((1..=8).contains(&counts.batches), "{counts:?}");
    for body in stage.sent() {
        let conversation =
            longhand_dialect::read(body.into_bytes(), Some(longhand_dialect::Dialect::Anthropic))
                .unwrap();
        let faults: Vec<_> =
            conversation.check().into_iter().filter(longhand_dialect::Finding::is_fault).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
    // The answers between were never taken up: they are paths of the one session.
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].1.len(), 1 + 2 * 30 + 30);
}
