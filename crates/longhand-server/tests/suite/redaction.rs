//! `--redact`: what the archive has is without secrets, what the provider gets is not.

use std::sync::Arc;

use longhand::{Redactor, Tokens};
use longhand_archive::Scope;
use longhand_core::Handle;
use longhand_server::RecallTool;
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{
    PATHS, Stage, answers, assistant, faults, is_prefix, legible, log, messages, opened, reopened,
    reply, request, sessions, sqlite, user,
};

/// Secrets of several kinds; every piece of them is looked for.
const PASSWORD: &str = "Hunter2Canary";
const BODY: &str = "K3v9Xq7Mz2W8r4Ty6PbDhJ5nLs1GaK3v9Xq7Mz2W8r4Ty6PbDhJ5nLs1Ga";

fn token() -> String {
    format!("ghp_{}", &BODY[..36])
}

fn pem() -> String {
    format!("-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----")
}

/// A conversation with secrets in words, arguments and results, old ones and new ones.
fn leaking(path: &str, steps: usize) -> Vec<Value> {
    let mut all = messages(path, steps);
    all[0] = user(&format!("Deploy it. The database is postgres://app:{PASSWORD}@db/app."));
    let text = serde_json::to_string(&all[2]).unwrap();
    let line = format!("export TOKEN={}\\n", token());
    let text = text.replacen("line 0", &format!("{line}line 0"), 1);
    all[2] = serde_json::from_str(&text).unwrap();
    all.push(assistant("I need the key."));
    all.push(user(&format!("Here:\n{}", pem())));
    all
}

fn assert_clean(what: &str, text: &str) {
    for secret in [PASSWORD, &token()[4..20], &BODY[20..50]] {
        let at = text.find(secret);
        assert_eq!(at, None, "{what}: {:?}", at.map(|at| &text[at.saturating_sub(80)..at]));
    }
}

#[tokio::test]
async fn the_archive_has_no_secret_and_the_provider_gets_them_all() {
    for path in PATHS {
        let (folder, archive) = sqlite();
        let (log, lines) = log();
        let answer = assistant(&format!("I set password={PASSWORD} and TOKEN={}.", token()));
        let steps: Vec<ScriptStep> = [vec![reply(path, &answer)], answers(30)].concat();
        let redactor = Arc::new(Redactor::new([3; 32]));
        let stage = Stage::with(steps, |settings| {
            settings.archive = Arc::clone(&archive);
            settings.log = Some(log);
            settings.budget = Some(Tokens(4_000));
            settings.redactor = Some(Arc::clone(&redactor));
        })
        .await;
        // It fits: every byte goes on, and the client gets every byte of the answer.
        let mut all = leaking(path, 4);
        let body = request(path, &all, false);
        let got = stage.post(path, &body).await.text().await.unwrap();
        assert!(got.contains(PASSWORD) && got.contains(&token()));
        assert_eq!(stage.sent()[0], body, "{path}");
        all.push(answer);
        // It grows beyond its budget, asks again, and goes on.
        let mut shown = Vec::new();
        for step in 0..24 {
            all.push(user(&format!("And step {step}? The new key is password={PASSWORD}{step}.")));
            let heads = stage.ask(path, &all).await;
            assert_eq!((heads.status, heads.number("x-longhand-shortfall")), (200, None), "{path}");
            let sent = stage.sent().pop().unwrap();
            assert!(
                sent.contains(&format!("{PASSWORD}{step}.")),
                "{path} {step}: the newest is whole"
            );
            assert!(faults(path, &sent).is_empty());
            shown.push(sent);
            all.push(assistant(&"Go on. ".repeat(60)));
        }
        let breaks = shown.windows(2).filter(|pair| !is_prefix(&pair[0], &pair[1])).count();
        assert!((1..8).contains(&breaks), "{path}: {breaks} breaks");
        assert!(shown.iter().any(|sent| sent.contains("[longhand")), "something was left out");
        stage.proxy.stop().await;
        assert_clean("the files", &legible(&folder));
        assert_clean("the log", &lines.lock().unwrap().join("\n"));
        let sessions = sessions(&*archive);
        assert_eq!(sessions.len(), 1, "{path}: one conversation is one session");
        for entry in archive.entries(sessions[0].id, 0..u64::MAX).unwrap() {
            assert_clean("an entry", &entry.raw);
        }
        assert!(archive.search(&Scope::All, PASSWORD, 9).unwrap().is_empty());
        assert!(archive.verify(None).unwrap().is_empty());
        // Every handle that a model was shown opens.
        let mut opens = 0;
        for sent in &shown {
            for (at, _) in sent.match_indices("h:") {
                let Some(handle) = sent.get(at..at + 14).and_then(Handle::parse) else { continue };
                assert_clean("an original", &opened(&*archive, handle).expect("it opens"));
                opens += 1;
            }
        }
        assert!(opens > 0, "{path}");
    }
}

#[tokio::test]
async fn a_restart_changes_no_window_and_two_secrets_are_two_paths() {
    let path = PATHS[0];
    let (folder, archive) = sqlite();
    drop(archive);
    let mut all = leaking(path, 12);
    let mut windows = Vec::new();
    for turn in 0..3 {
        let stage = Stage::with(answers(1), |settings| {
            settings.archive = reopened(&folder);
            settings.budget = Some(Tokens(3_000));
            settings.redactor = Some(Arc::new(Redactor::new([3; 32])));
        })
        .await;
        stage.ask(path, &all).await;
        windows.push(stage.sent().remove(0));
        stage.proxy.stop().await;
        all.push(assistant("Go on."));
        all.push(user(&format!("Turn {turn}.")));
    }
    assert!(windows.windows(2).all(|pair| is_prefix(&pair[0], &pair[1])), "{windows:#?}");
    let archive = reopened(&folder);
    let before = sessions(&*archive);
    assert_eq!(before.len(), 1);
    let entries = before[0].entries;
    drop(archive);
    // The same words with another password are no retry.
    let text = serde_json::to_string(&all).unwrap().replace(PASSWORD, "Other1Canary");
    let other: Vec<Value> = serde_json::from_str(&text).unwrap();
    let stage = Stage::with(answers(1), |settings| {
        settings.archive = reopened(&folder);
        settings.redactor = Some(Arc::new(Redactor::new([3; 32])));
    })
    .await;
    stage.ask(path, &other).await;
    stage.proxy.stop().await;
    let archive = reopened(&folder);
    let more: u64 = sessions(&*archive).iter().map(|session| session.entries).sum();
    assert!(more >= entries + other.len() as u64, "{more} after {entries}");
    assert!(!legible(&folder).contains("Other1Canary"));
}

#[tokio::test]
async fn history_that_a_provider_holds_is_rebuilt_redacted() {
    let path = "/v1/responses";
    let responded = |id: &str| {
        let message = json!({"type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Go on.", "annotations": []}]});
        let body = json!({"id": id, "object": "response", "status": "completed", "model": "scripted",
            "output": [message], "usage": {"input_tokens": 10, "output_tokens": 5}});
        ScriptStep::Raw(
            200,
            vec![("content-type", "application/json".to_owned())],
            body.to_string(),
        )
    };
    let steps = (0..9).map(|at| responded(&format!("resp_{at}")));
    let (folder, archive) = sqlite();
    let stage = Stage::with(steps, |settings| {
        settings.archive = Arc::clone(&archive);
        settings.budget = Some(Tokens(3_000));
        settings.redactor = Some(Arc::new(Redactor::new([3; 32])));
    })
    .await;
    let words = "a sentence about the work at hand ".repeat(80);
    let mut rebuilt = 0;
    for at in 0..9 {
        let input = format!("Question {at}: password={PASSWORD}{at} {words}");
        let mut body = json!({"model": "scripted", "input": input});
        if at > 0 {
            body["previous_response_id"] = json!(format!("resp_{}", at - 1));
        }
        stage.post(path, &body.to_string()).await.text().await.unwrap();
        let sent = stage.sent().pop().unwrap();
        assert!(sent.contains(&format!("{PASSWORD}{at} ")), "what is new is sent as it came");
        let secrets = sent.matches(PASSWORD).count();
        assert_eq!(secrets, 1, "of what is rebuilt, only marks are known");
        rebuilt += usize::from(sent.contains("[redacted password"));
    }
    assert!(rebuilt > 0);
    stage.proxy.stop().await;
    assert!(!legible(&folder).contains(PASSWORD));
    assert_eq!(sessions(&*archive).len(), 1);
    assert_eq!(sessions(&*archive)[0].entries, 18, "a rebuilt history is no second path");
}

/// A key as a provider gives it out, different for each place that it is planted in.
fn canary(place: &str) -> String {
    let hash =
        place.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("sk-ant-api03-CanarY{hash:020}xYz9Qw3Er7Ty1Ui5Op2As4Df6Gh8Jk0Lz")
}

#[tokio::test]
async fn a_key_is_written_nowhere_whatever_field_it_comes_in() {
    let (folder, archive) = sqlite();
    let ((log, lines), (warn, warnings)) = (log(), log());
    let redactor = Arc::new(Redactor::new([3; 32]));
    let at = |place: &str| canary(place);
    let json_type = || {
        vec![("content-type", "application/json".to_owned()), ("x-request-id", at("answer header"))]
    };
    let chat = |message: Value| {
        ScriptStep::Raw(
            200,
            json_type(),
            json!({
                "id": at("answer id"), "object": at("object"), "model": at("answer model"),
                "system_fingerprint": at("fingerprint"), "service_tier": at("tier"),
                "choices": [{"index": 0, "message": message, "finish_reason": at("finish")}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "note": at("usage")},
            })
            .to_string(),
        )
    };
    let call = json!({"role": "assistant", "content": at("answer"), "name": at("answer name"),
    "refusal": at("refusal"), "reasoning_content": at("reasoning"), "tool_calls": [{
        "id": at("call id"), "type": "function",
        "function": {"name": at("call name"), "arguments": json!({"key": at("argument")}).to_string()},
    }]});
    let recall = json!({"role": "assistant", "content": null, "tool_calls": [{
        "id": "call_1", "type": "function", "function": {"name": "longhand_recall",
            "arguments": json!({"query": at("recall")}).to_string()}}]});
    let recall = json!({"id": "c", "model": at("recall model"), "choices": [
        {"index": 0, "message": recall, "finish_reason": "tool_calls"}]});
    let responded = json!({"id": at("response id"), "object": "response", "status": "completed",
        "model": at("response model"), "output": [{"type": "message", "id": at("item id"), "role": "assistant",
        "status": "completed", "content": [{"type": "output_text", "text": at("output"), "annotations": []}]}],
        "usage": {"input_tokens": 10, "output_tokens": 5}});
    let stream = [
        json!({"type": "message_start", "message": {"id": at("stream id"), "type": "message",
            "role": "assistant", "model": at("stream model"), "content": [], "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": at("delta")}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": at("stop")}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ];
    let events: String = stream
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    let error =
        json!({"error": {"message": at("error"), "type": at("error type"), "code": at("code")}});
    let steps = vec![
        chat(call),
        ScriptStep::Raw(200, json_type(), recall.to_string()),
        chat(assistant(&at("second answer"))),
        ScriptStep::Raw(200, json_type(), responded.to_string()),
        ScriptStep::Raw(200, json_type(), responded.to_string()),
        ScriptStep::Raw(200, vec![("content-type", "text/event-stream".to_owned())], events),
        ScriptStep::Raw(400, json_type(), error.to_string()),
        ScriptStep::Raw(200, json_type(), "{}".to_owned()),
        ScriptStep::Raw(200, json_type(), "{}".to_owned()),
        ScriptStep::Drop,
    ];
    let stage = Stage::with(steps, |settings| {
        settings.archive = Arc::clone(&archive);
        settings.log = Some(log);
        settings.warn = Some(warn);
        settings.recall_tool = RecallTool::Always;
        settings.redactor = Some(redactor);
    })
    .await;
    let head = |name: &str| at(&format!("header {name}"));
    let ask = async |path: &str, session: bool, body: String| {
        let mut call = stage.client.post(stage.url(path)).bearer_auth(&at("bearer"));
        for name in [
            "x-api-key",
            "user-agent",
            "session_id",
            "conversation_id",
            "x-session-id",
            "x-parent-session-id",
            "x-claude-code-session-id",
            "cookie",
            "openai-organization",
            "anthropic-beta",
            "traceparent",
            "referer",
        ] {
            call = call.header(name, &head(name));
        }
        if session {
            // What is cut must be known as a key before.
            call = call.header(
                "x-longhand-session",
                &format!("{}{}", "work ".repeat(22), head("session")),
            );
        }
        let answer = call.body(body).send().await.unwrap();
        let told = format!("{:?}", answer.headers());
        let text = answer.text().await.unwrap_or_default();
        (told, text)
    };
    let tool = json!({"type": "function", "function": {"name": at("tool"), "description": at("description"),
        "parameters": {"type": "object", "properties": {at("property"): {"type": "string"}}}}});
    let mut fields = json!({"model": at("model"), "user": at("user"), "metadata": {"user_id": format!("user_session_{}", at("metadata"))},
        "prompt_cache_key": at("cache key"), "stop": [at("stop word")], "tools": [tool], "max_tokens": 100,
        "safety_identifier": at("safety"), at("field name"): at("field value")});
    fields["messages"] = json!([
        {"role": "system", "content": at("system")},
        {"role": "user", "name": at("name"), "content": [{"type": "text", "text": at("text")},
            {"type": "image_url", "image_url": {"url": format!("https://example.com/?token={}", at("image"))}}]},
    ]);
    let mut told = String::new();
    let mut answers = Vec::new();
    for session in [true, false] {
        let (headers, text) = ask(PATHS[0], session, fields.to_string()).await;
        told.push_str(&headers.replace(&at("answer header"), ""));
        answers.push(text);
    }
    assert!(answers[0].contains(&at("answer model")), "the client gets what the provider said");
    let plain = |previous: Option<&str>| {
        let mut body =
            json!({"model": at("model"), "input": at("input"), "instructions": at("instructions")});
        if let Some(id) = previous {
            body["previous_response_id"] = json!(id);
        }
        body.to_string()
    };
    ask(PATHS[1], false, plain(None)).await;
    ask(PATHS[1], false, plain(Some(&at("response id")))).await;
    let anthropic = json!({"model": at("model"), "max_tokens": 9, "stream": true, "system": at("anthropic system"),
        "messages": [user(&at("anthropic"))]});
    ask(PATHS[2], false, anthropic.to_string()).await;
    ask(PATHS[2], false, anthropic.to_string()).await;
    // What cannot be read, and a path with a key in it.
    ask(PATHS[0], false, format!("{{\"model\":{}", at("broken"))).await;
    let unknown = format!("/v1/models/{}:generateContent", at("path"));
    ask(&unknown, false, plain(None)).await;
    ask(&format!("/deployments/{}/chat/completions", at("deployment")), true, fields.to_string())
        .await;
    let sent = format!("{:?}", stage.server.requests());
    for place in ["model", "system", "text", "tool", "bearer", "header user-agent", "path"] {
        assert!(sent.contains(&at(place)), "the provider gets {place}");
    }
    for path in ["metrics", "ready", "health"] {
        let answer =
            stage.client.get(stage.url(&format!("/longhand/{path}"))).send().await.unwrap();
        told.push_str(&answer.text().await.unwrap());
    }
    told.push_str(&legible(&folder));
    stage.proxy.stop().await;
    told.push_str(&legible(&folder));
    told.push_str(&format!("{:?}", sessions(&*archive)));
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("[redacted ") && lines.contains("work work"), "{lines}");
    let warnings = warnings.lock().unwrap().join("\n");
    assert!(warnings.contains("[redacted ") && !warnings.contains("our part failed"), "{warnings}");
    told.push_str(&lines);
    told.push_str(&warnings);
    for piece in ["CanarY", "xYz9Qw3Er7", "sk-ant-api03-C"] {
        let found = told.find(piece).map(|at| {
            let begin = told.floor_char_boundary(at.saturating_sub(160));
            told[begin..told.floor_char_boundary(at + 80)].to_owned()
        });
        assert_eq!(found, None, "{piece}");
    }
    // Named by its redacted id, the answer is found again.
    let responses =
        sessions(&*archive).into_iter().filter(|session| session.dialect == "responses");
    assert_eq!(responses.count(), 1, "the second request goes on from the first");
}
