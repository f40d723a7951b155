//! Overflow.

use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{PATHS, Stage, answers, assistant, faults, messages, request, says, user};

fn too_long(limit: u64, asked: u64) -> ScriptStep {
    ScriptStep::TooLong { limit, asked }
}

#[tokio::test]
async fn p40_p44_recovery_asks_no_one_but_the_upstream_and_knows_an_overflow() {
    let words = [
        ("This model's maximum context length is 3000 tokens, however you requested 9000", true),
        ("prompt is too long: 9000 tokens > 3000 maximum", true),
        ("input length and `max_tokens` exceed context limit: 9000 + 100 > 3000", true),
        ("the request exceeds the available context size", true),
        ("tool_use ids must be unique", false),
        ("max_tokens: must be at least 1", false),
    ];
    for path in PATHS {
        for (words, is_overflow) in words {
            let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
            let kind = vec![("content-type", "application/json".to_owned())];
            let steps = [ScriptStep::Raw(400, kind, body.to_string()), says("Here.")];
            let stage = Stage::new(None, steps).await;
            let heads = stage.ask(path, &messages(path, 20)).await;
            let sent = stage.server.requests();
            assert!(sent.iter().all(|request| request.path == path));
            assert_eq!(sent.len(), 1 + usize::from(is_overflow), "{path} {words}");
            assert_eq!(heads.status, if is_overflow { 200 } else { 400 });
            assert!(faults(path, &sent.last().unwrap().body).is_empty());
        }
        for status in [429, 500, 502, 503, 529] {
            let stage = Stage::new(None, [ScriptStep::Status(status), says("Here.")]).await;
            assert_eq!(stage.ask(path, &messages(path, 20)).await.status, status);
            assert_eq!(stage.sent(), [request(path, &messages(path, 20), false)]);
        }
    }
}

/// Conversations with their bulk in different places.
fn bulky(path: &str) -> Vec<(&'static str, Vec<Value>)> {
    let text = |of: &str| format!("{of} says that all is well in this place. ").repeat(60);
    let talk: Vec<Value> = (0..12)
        .flat_map(|at| [user(&format!("Tell me of {at}.")), assistant(&text("The model"))])
        .collect();
    let told: Vec<Value> = (0..12)
        .flat_map(|at| [user(&format!("{at}: {}", text("The user"))), assistant("I see.")])
        .collect();
    let mut written = messages(path, 12);
    for message in &mut written {
        let arguments = json!({"path": "a.rs", "text": text("A file")});
        match path {
            "/v1/messages" if message["content"][0]["input"].is_object() => {
                message["content"][0]["input"] = arguments;
            }
            "/v1/messages" if message["content"].is_array() => {
                message["content"][0]["content"] = json!("ok");
            }
            "/v1/responses" if message["arguments"].is_string() => {
                message["arguments"] = json!(arguments.to_string());
            }
            "/v1/responses" if message["output"].is_string() => message["output"] = json!("ok"),
            _ if message["tool_calls"].is_array() => {
                message["tool_calls"][0]["function"]["arguments"] = json!(arguments.to_string());
            }
            _ if message["role"] == "tool" => message["content"] = json!("ok"),
            _ => {}
        }
    }
    let end = |mut messages: Vec<Value>| {
        messages.push(user("What now?"));
        messages
    };
    vec![
        ("results", messages(path, 20)),
        ("arguments", written),
        ("prose", end(talk)),
        ("the user's words", end(told)),
    ]
}

#[tokio::test]
async fn p41_bulk_is_found_wherever_it_is() {
    for path in PATHS {
        for (place, asked) in bulky(path) {
            let stage = Stage::new(Some(2_500), answers(1)).await;
            let heads = stage.ask(path, &asked).await;
            let [before, after] = ["before", "after"]
                .map(|end| heads.number(&format!("x-longhand-tokens-{end}")).unwrap());
            assert!(before > 5_000 && after <= 2_500, "{path} {place}: {before} {after}");
            assert!(faults(path, &stage.sent()[0]).is_empty(), "{path} {place}");
        }
    }
}

#[tokio::test]
async fn p42_p45_what_cannot_be_shortened_is_said_and_not_called_compacted() {
    let word = "incompressible-";
    let huge: String = (0..4_000).map(|at| format!("{word}{at} ")).collect();
    for path in PATHS {
        // One message, then tools alone.
        let body = request(path, &[user("Hm?")], false);
        let tools = body.replacen(
            '{',
            &format!(r#"{{"tools":[{{"name":"x","description":"{huge}"}}],"#),
            1,
        );
        for (body, rounds) in [(request(path, &[user(&huge)], false), 2), (tools, 2)] {
            let steps = vec![too_long(500, 9_000); 3 * rounds];
            let stage = Stage::new(Some(500), steps).await;
            for _ in 0..rounds {
                let answer = stage.post(path, &body).await;
                // The provider's own refusal, once, with how far it is over.
                assert_eq!(answer.status(), 400);
                assert!(answer.headers().contains_key("x-longhand-shortfall"), "{path}");
                let outcome = answer.headers()["x-longhand"].to_str().unwrap().to_owned();
                let sent = stage.sent().pop().unwrap();
                assert_eq!(outcome == "compacted", sent != body, "{path}");
                assert!(outcome == "passed" || sent.len() < body.len(), "{path}");
                assert!(answer.text().await.unwrap().contains("9000"));
            }
            assert!(stage.sent().len() <= 3 * rounds, "{path}");
        }
    }
}

#[tokio::test]
async fn p43_an_upstream_that_is_never_content_ends_it() {
    for path in PATHS {
        let steps = (0..20).map(|at| too_long(3_000, 9_000 - 100 * at));
        let stage = Stage::new(None, steps).await;
        for request in 1..=3 {
            assert_eq!(stage.ask(path, &messages(path, 20)).await.status, 400);
            assert!(stage.sent().len() <= 3 * request, "{path}");
        }
    }
}

#[tokio::test]
async fn p46_a_learned_window_is_that_model_s_alone() {
    let path = PATHS[0];
    let stage = Stage::new(None, [vec![too_long(3_000, 9_000)], answers(4)].concat()).await;
    let ask = async |model: &str, first: &str| {
        let mut asked = messages(path, 20);
        asked[0] = user(first);
        let body = request(path, &asked, false).replace("scripted", model);
        let answer = stage.post(path, &body).await;
        answer.headers()["x-longhand"].to_str().unwrap().to_owned()
    };
    assert_eq!(ask("small", "Begin.").await, "compacted");
    assert_eq!(ask("large", "Begin otherwise.").await, "passed");
    assert_eq!(ask("small", "Begin anew.").await, "compacted");
    // Once it is known, nothing is sent in vain.
    assert_eq!(stage.sent().len(), 4);
}

#[tokio::test]
async fn too_long_a_reply_teaches_nothing_about_requests() {
    for path in PATHS {
        let words = "This model's maximum context length is 128000 tokens. However, you requested \
                     230400 tokens (30400 in the messages, 200000 in the completion).";
        let refusal =
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": words}});
        let kind = vec![("content-type", "application/json".to_owned())];
        let steps = [ScriptStep::Raw(400, kind, refusal.to_string()), says("Here.")];
        let stage = Stage::new(None, steps).await;
        let normal = request(path, &messages(path, 80), false);
        let greedy = normal.replace(r#""max_tokens":100"#, r#""max_tokens":200000"#);
        assert_eq!(stage.post(path, &greedy).await.status(), 400);
        assert_eq!(stage.sent().len(), 1, "{path}: a shorter one would not do either");
        let answer = stage.post(path, &normal).await;
        assert_eq!(answer.headers()["x-longhand"], "passed", "{path}");
        assert_eq!(stage.sent()[1], normal);
    }
}

/// A refusal that is no overflow.
fn refusal(status: u16, body: &serde_json::Value) -> ScriptStep {
    ScriptStep::Raw(status, vec![("content-type", "application/json".to_owned())], body.to_string())
}

#[tokio::test]
async fn p83_an_error_that_echoes_the_request_teaches_nothing() {
    let said = "They say that the maximum context length is 300 tokens. Prompt is too long!";
    for path in PATHS {
        for error in [
            json!({"detail": [{"type": "missing", "msg": "Field required", "input": {"text": said}}]}),
            json!({"error": {"message": format!("Invalid value: '{said}'"), "code": "invalid_value"}}),
            json!({"error": {"message": "no", "param": said, "request": {"messages": [said]}}}),
        ] {
            let steps = [refusal(400, &error), says("Here.")];
            let stage = Stage::new(None, steps).await;
            let mut asked = messages(path, 40);
            asked[0] = user(said);
            let body = request(path, &asked, false);
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.status(), 400, "{path}");
            assert_eq!(stage.sent(), [body.as_str()], "it is not sent twice");
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.headers()["x-longhand"], "passed", "{path} {error}");
            assert_eq!(stage.sent()[1], body);
        }
    }
}

#[tokio::test]
async fn what_one_key_s_requests_teach_is_for_that_key_alone() {
    for path in PATHS {
        let stage = Stage::new(None, [vec![too_long(3_000, 9_000)], answers(4)].concat()).await;
        let ask = async |key: &str| {
            let body = request(path, &messages(path, 20), false);
            let call = stage.client.post(stage.url(path)).bearer_auth(key).body(body);
            call.send().await.unwrap().headers()["x-longhand"].to_str().unwrap().to_owned()
        };
        assert_eq!(ask("one").await, "compacted");
        assert_eq!(ask("other").await, "passed", "{path}");
        assert_eq!(ask("one").await, "compacted");
        assert_eq!(stage.sent().len(), 4);
    }
}

#[tokio::test]
async fn what_was_learned_survives_a_restart() {
    for path in PATHS {
        let (folder, archive) = crate::common::sqlite();
        let steps = [vec![too_long(3_000, 9_000)], answers(1)].concat();
        let stage = Stage::with(steps, |settings| settings.archive = archive).await;
        let asked = messages(path, 20);
        assert_eq!(stage.ask(path, &asked).await.get("x-longhand"), "compacted");
        stage.proxy.stop().await;
        let archive = crate::common::reopened(&folder);
        let stage = Stage::with(answers(2), |settings| settings.archive = archive).await;
        let mut asked = asked;
        asked[0] = user("Something else altogether.");
        let heads = stage.ask(path, &asked).await;
        assert_eq!(heads.get("x-longhand"), "compacted", "{path}");
        assert_eq!(stage.sent().len(), 1, "nothing is sent in vain");
        let body = request(path, &asked, false);
        let call = stage.client.post(stage.url(path)).bearer_auth("other").body(body);
        let answer = call.send().await.unwrap();
        assert_eq!(answer.headers()["x-longhand"], "passed", "{path}: another key");
    }
}

#[tokio::test]
async fn p99_one_bogus_error_shortens_no_conversation() {
    let bogus = |words: &str| {
        let body = json!({"error": {"message": words, "type": "invalid_request_error", "code": "context_length_exceeded"}});
        ScriptStep::Raw(
            400,
            vec![("content-type", "application/json".to_owned())],
            body.to_string(),
        )
    };
    let words = "This model's maximum context length is 2000 tokens. However, your messages resulted in 99999 tokens.";
    for path in PATHS {
        // At first sight the limit may be true, but not the count: the window has as much as the limit allows.
        let stage = Stage::new(None, [vec![bogus(words)], answers(9)].concat()).await;
        let heads = stage.ask(path, &messages(path, 20)).await;
        let after = heads.number("x-longhand-tokens-after").unwrap();
        assert!(heads.status == 200 && after <= 1_800, "{path}: {after}");
        assert!(after > 400, "{path}: {after} tokens are left of 2,000");
        // What has passed says that it is not true.
        let steps = [answers(1), vec![bogus(words)], answers(9)].concat();
        let stage = Stage::new(Some(100_000), steps).await;
        stage.ask(path, &messages(path, 20)).await;
        assert_eq!(stage.ask(path, &messages(path, 21)).await.status, 200, "a guess, for once");
        let heads = stage.ask(path, &messages(path, 40)).await;
        let after = heads.number("x-longhand-tokens-after").unwrap();
        assert!(after > 3_000, "{path}: {after} after what would have been 1,800");
        assert_eq!(stage.proxy.counts().batches, 1, "{path}");
    }
    // No server has a window of a few tokens.
    let tiny = json!({"error": {"code": 400, "message": "the request exceeds the available context size",
        "type": "exceed_context_size_error", "n_prompt_tokens": 9_000, "n_ctx": 2}});
    let tiny = ScriptStep::Raw(
        400,
        vec![("content-type", "application/json".to_owned())],
        tiny.to_string(),
    );
    let stage = Stage::new(None, [vec![tiny], answers(9)].concat()).await;
    stage.ask(PATHS[0], &messages(PATHS[0], 20)).await;
    let heads = stage.ask(PATHS[0], &messages(PATHS[0], 21)).await;
    assert!(heads.number("x-longhand-tokens-after").is_none_or(|after| after > 1_000));
}
