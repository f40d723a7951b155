//! What goes through a proxy untouched.

use std::time::Duration;

use crate::common::{PATHS, Stage, messages, request};
use futures_util::StreamExt;
use longhand_server::RecallTool;
use longhand_testkit::scripted::ScriptStep;

#[tokio::test]
async fn a_request_goes_as_it_is_where_that_is_asked_for() {
    for path in PATHS {
        let stage = Stage::with([ScriptStep::Answer("Well.".to_owned())], |settings| {
            settings.budget = Some(longhand::Tokens(1_000));
            settings.recall_tool = RecallTool::Always;
        })
        .await;
        let body = request(path, &messages(path, 20), false);
        let asked = stage.client.post(stage.url(path)).header("x-longhand-bypass", "1");
        let answer = asked.body(body.clone()).send().await.unwrap();
        assert_eq!(answer.headers()["x-longhand"], "passed");
        answer.text().await.unwrap();
        let requests = stage.server.requests();
        assert_eq!(requests[0].body, body);
        assert!(requests[0].headers.iter().all(|(name, _)| !name.starts_with("x-longhand")));
        assert_eq!(stage.archived().await[0].1.len(), 42);
    }
}

#[tokio::test]
async fn a_request_that_fits_goes_upstream_byte_for_byte() {
    for path in PATHS {
        for stream in [false, true] {
            let stage =
                Stage::new(Some(8_000), [ScriptStep::Answer("It is fine.".to_owned())]).await;
            let body = request(path, &messages(path, 3), stream);
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["x-longhand"], "passed");
            assert!(answer.text().await.unwrap().contains("fine"));
            let requests = stage.server.requests();
            assert_eq!(requests[0].body, body);
            assert_eq!(requests[0].path, path);
            assert_eq!(requests[0].header("authorization"), Some("Bearer k"));
            assert_eq!(requests[0].header("x-longhand-session"), None);
        }
    }
}

#[tokio::test]
async fn answers_come_back_byte_for_byte() {
    for (status, body) in [(200, "{\"a\" : 1}\n"), (404, "no"), (500, ""), (204, "")] {
        let kind = vec![("content-type", "x/y".to_owned()), ("x-own", "1, 2".to_owned())];
        let stage = Stage::new(None, [ScriptStep::Raw(status, kind, body.to_owned())]).await;
        let answer = stage.client.get(stage.url("/v1/models?after=x%20y")).send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["content-type"], "x/y");
        assert_eq!(answer.headers()["x-own"], "1, 2");
        assert_eq!(answer.text().await.unwrap(), body);
        assert_eq!(stage.server.requests()[0].path, "/v1/models?after=x%20y");
    }
}

#[tokio::test]
async fn a_stream_is_passed_on_as_it_comes() {
    let pause = Duration::from_millis(150);
    let stage =
        Stage::new(Some(8_000), [ScriptStep::Drip("one two three".to_owned(), pause)]).await;
    let path = PATHS[0];
    let answer = stage.post(path, &request(path, &messages(path, 1), true)).await;
    let mut chunks = answer.bytes_stream();
    let mut count = 0;
    while let Some(chunk) = chunks.next().await {
        chunk.unwrap();
        count += 1;
    }
    assert!(count >= 4, "{count} chunks");
}

#[tokio::test]
async fn redirects_are_passed_back_and_not_followed() {
    let elsewhere = Stage::new(None, []).await;
    let target = format!("{}/elsewhere", elsewhere.server.url());
    let stage = Stage::new(None, [ScriptStep::Redirect(target.clone())]).await;
    let path = PATHS[0];
    let answer = stage.post(path, &request(path, &messages(path, 1), false)).await;
    assert_eq!(answer.status(), 307);
    assert_eq!(answer.headers()["location"], target.as_str());
    assert!(elsewhere.server.requests().is_empty());
}

#[tokio::test]
async fn other_methods_and_paths_are_passed_on() {
    let steps = ["DELETE", "PUT", "POST"].map(|_| ScriptStep::Answer("ok".to_owned()));
    let stage = Stage::new(Some(10), steps).await;
    for method in ["DELETE", "PUT", "POST"] {
        let method = method.parse().unwrap();
        let request = stage.client.request(method, stage.url("/v1/files/1"));
        let answer = request.body("not { json").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers().get("x-longhand"), None);
    }
    assert_eq!(stage.sent(), ["not { json"; 3]);
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_a_provider_s_error() {
    for (path, kind) in [(PATHS[0], "/error/type"), (PATHS[2], "/error/type")] {
        let stage = Stage::with([], |settings| {
            settings.upstream_openai = Some("http://127.0.0.1:9".to_owned());
            settings.upstream_anthropic = Some("http://127.0.0.1:9".to_owned());
        })
        .await;
        let answer = stage.post(path, &request(path, &messages(path, 1), false)).await;
        assert_eq!(answer.status(), 502);
        let body: serde_json::Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(body.pointer(kind).unwrap(), "api_error");
    }
}

#[tokio::test]
async fn a_stop_finishes_what_is_under_way() {
    let step = ScriptStep::Drip("one two three".to_owned(), Duration::from_millis(50));
    let stage = Stage::new(Some(8_000), [step]).await;
    let path = PATHS[2];
    let answer = stage.post(path, &request(path, &messages(path, 1), true)).await;
    let read = tokio::spawn(answer.text());
    let archived = stage.archived().await;
    assert!(read.await.unwrap().unwrap().contains("message_stop"));
    assert_eq!(archived[0].1.len(), 4);
    assert!(archived[0].1[3].contains("one two three"));
}
