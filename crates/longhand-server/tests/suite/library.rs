//! `Session::fit` and the proxy are two drivers of one mechanism: they send the same bytes.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::common::{PATHS, Stage, reopened, reply, sqlite};
use longhand::{CachePrices, Owner, Session, SessionSettings, Tokens, meter_for};
use longhand_archive::Page;
use longhand_core::Role;
use longhand_dialect::{Dialect, read};
use longhand_model::Prices;
use longhand_testkit::WireFormat;
use longhand_testkit::arbitrary::{GrowingRequest, PieceSize};
use longhand_testkit::rng::Rng;
use longhand_testkit::scripted::ScriptStep;
use longhand_testkit::session::coding_session;
use serde_json::{Value, json};

/// A request, its path and the answer that the upstream gives.
struct Step {
    path: &'static str,
    body: String,
    answer: ScriptStep,
}

/// Sends requests through both, and opens both anew every few of them. Returns how many batches were made.
async fn check(name: &str, steps: Vec<Step>, limit: u64) -> usize {
    let dialect = match steps[0].path {
        "/v1/responses" => Dialect::Responses,
        "/v1/messages" => Dialect::Anthropic,
        _ => Dialect::Chat,
    };
    let model = read(steps[0].body.clone().into_bytes(), Some(dialect)).unwrap().model;
    let price = Prices::default().named(model.as_deref().unwrap_or_default());
    let settings = SessionSettings {
        budget: Tokens(limit),
        prices: price.map(|price| CachePrices {
            cached: price.cached_input,
            uncached: price.cache_write.max(price.input),
        }),
        meter: meter_for(dialect, model.as_deref()).unwrap(),
        ..SessionSettings::new().unwrap()
    };
    let (of_proxy, of_library) = (sqlite().0, sqlite().0);
    let mut number = 0;
    let mut steps = steps.into_iter().peekable();
    while steps.peek().is_some() {
        let part: Vec<Step> = steps.by_ref().take(7).collect();
        let archive = reopened(&of_proxy);
        let answers = part.iter().map(|step| step.answer.clone());
        let stage = Stage::with(answers, |settings| {
            settings.archive = Arc::clone(&archive);
            settings.budget = Some(Tokens(limit));
            settings.recall_percent = SessionSettings::RECALL_PERCENT;
            settings.owner = Some(Owner::LOCAL);
        })
        .await;
        let library = reopened(&of_library);
        let mut session = Session::open_with(library, "task", settings.clone()).unwrap();
        for step in part {
            // Quotes name their session, so both have one of the same name.
            let asked =
                stage.client.post(stage.url(step.path)).header("x-longhand-session", "task");
            let answer = asked.body(step.body.clone()).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{name}, request {number}");
            let answer = answer.text().await.unwrap();
            let sent = stage.sent().pop().unwrap();
            let now_ms = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
            let window = session.fit_async(&step.body, now_ms).await.unwrap();
            assert!(window.json == sent, "{name}, request {number}:\n{}\n\n{sent}", window.json);
            session.answered_async(&answer, now_ms).await.unwrap();
            number += 1;
        }
        stage.proxy.stop().await;
        drop(archive);
    }
    let logs = [of_proxy, of_library].map(|folder| {
        let archive = reopened(&folder);
        let sessions = archive.sessions(None, Page::ALL).unwrap().items;
        assert_eq!(sessions.len(), 1, "{name}");
        let entries = archive.entries(sessions[0].id, 0..u64::MAX).unwrap();
        let batches = archive.batches(sessions[0].id, Page::ALL).unwrap().items;
        let requests = archive.requests(sessions[0].id, Page::ALL).unwrap().items.len();
        assert_eq!(archive.verify(None).unwrap(), Vec::new(), "{name}");
        let said: Vec<String> = entries.into_iter().map(|entry| entry.raw).collect();
        let edits: Vec<_> = batches.into_iter().map(|batch| batch.batch).collect();
        (said, edits, requests)
    });
    assert!(logs[0] == logs[1], "{name}: the archives differ");
    logs[0].1.len()
}

fn grown(wire: WireFormat, seed: u64, turns: usize) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let mut request = GrowingRequest::new(wire, PieceSize::Light, seed);
    let (path, field, content) = match wire {
        WireFormat::Chat => ("/v1/chat/completions", "messages", json!("Go on.")),
        WireFormat::Responses => {
            ("/v1/responses", "input", json!([{"type": "output_text", "text": "Go on."}]))
        }
        WireFormat::Anthropic => {
            ("/v1/messages", "messages", json!([{"type": "text", "text": "Go on."}]))
        }
    };
    let message = json!({"type": "message", "role": "assistant", "content": content});
    let steps = (0..turns).map(|_| {
        request.append(&mut rng);
        let document: Value = serde_json::from_str(&request.json()).unwrap();
        let mut body = if document.is_object() { document } else { json!({field: document}) };
        // What its answers say of their tokens must not teach the proxy anything.
        body["model"] = "gpt-4o".into();
        let answer = reply(path, &message);
        Step { path, body: body.to_string(), answer }
    });
    steps.collect()
}

/// The requests of a recorded conversation, each with the answer that it got.
fn recorded(session: &Value) -> Vec<Step> {
    let conversation = read(session.to_string().into_bytes(), Some(Dialect::Chat)).unwrap();
    let lead = conversation.path().lead;
    let replies = (lead + 1..conversation.messages.len())
        .filter(|at| conversation.messages[*at].role == Role::Assistant);
    let steps = replies.map(|at| Step {
        path: PATHS[0],
        body: conversation.beginning(at).unwrap().bytes().to_owned(),
        answer: reply(PATHS[0], &session["messages"][at]),
    });
    steps.collect()
}

#[tokio::test]
async fn the_library_sends_what_the_proxy_sends() {
    for wire in WireFormat::ALL {
        for seed in 0..3 {
            let batches = check(&format!("{wire:?} {seed}"), grown(wire, seed, 24), 1_500).await;
            assert!(batches > 1, "{wire:?} {seed}: {batches}");
        }
    }
    assert!(check("made-up", recorded(&coding_session(7, 0)), 6_000).await > 1);
}

#[tokio::test]
async fn that_holds_for_recorded_sessions_too() {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LONGHAND_SHARED").map_or(beside, PathBuf::from);
    let Ok(files) = std::fs::read_dir(folder.join("data/traces")) else {
        println!("no recorded sessions here: nothing to check");
        return;
    };
    for path in files.map(|file| file.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        if path.ends_with("MANIFEST.json") || text.len() > 300_000 {
            continue;
        }
        let messages: Value = serde_json::from_str(&text).unwrap();
        let session = json!({"model": "gpt-4o", "messages": messages});
        let batches = check(&path.display().to_string(), recorded(&session), 8_000).await;
        println!("{}: {batches} batches", path.display());
    }
}
