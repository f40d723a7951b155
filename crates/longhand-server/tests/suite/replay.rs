//! `replay` and the proxy are two drivers of one mechanism: they send the same bytes.
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{PATHS, Stage, reply};
use longhand::Policy;
use longhand::replay::{BudgetShare, Method, ReplayRun, ReplaySettings, Trace, replay};
use longhand_core::{Meter, Role};
use longhand_dialect::{Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::session::coding_session;
use serde_json::{Value, json};

/// Sends a session through both, request by request.
async fn check(name: &str, session: &Value, percent: u64) -> ReplayRun {
    let conversation = read(session.to_string().into_bytes(), Some(Dialect::Chat)).unwrap();
    let meter: Arc<dyn Meter> = Arc::from(MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap());
    let trace = Trace::new(&conversation, &*meter).unwrap();
    let settings = ReplaySettings::new(BudgetShare::Percent(percent), meter);
    let mut expected = Vec::new();
    let method = Method::Standing(Policy::Auto);
    let run = replay(&trace, method, &settings, |window| expected.push(window.to_owned())).unwrap();

    let lead = conversation.path().lead;
    let replies: Vec<usize> = (lead + 1..conversation.messages.len())
        .filter(|at| conversation.messages[*at].role == Role::Assistant)
        .collect();
    let answers = replies.iter().map(|at| reply(PATHS[0], &session["messages"][*at]));
    let stage = Stage::new(Some(run.budget.0), answers).await;
    for at in &replies {
        let request = conversation.beginning(*at).unwrap();
        let answer = stage.post(PATHS[0], request.bytes()).await;
        assert_eq!(answer.status(), 200, "{name}");
        answer.text().await.unwrap();
    }
    let sent = stage.sent();
    assert_eq!(sent.len(), expected.len(), "{name}");
    for (number, (sent, expected)) in sent.iter().zip(&expected).enumerate() {
        assert!(sent == expected, "{name}, request {number}:\n{sent}\n\n{expected}");
    }
    run
}

#[tokio::test]
async fn the_proxy_sends_what_replay_shows() {
    for percent in [25, 50] {
        let run = check("made-up", &coding_session(7, 0), percent).await;
        assert!(run.figures.batches > 1, "{percent}%: {:?}", run.figures);
    }
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
        if path.ends_with("MANIFEST.json") {
            continue;
        }
        let messages: Value = serde_json::from_str(&text).unwrap();
        let session = json!({"model": "gpt-4o", "messages": messages});
        let run = check(&path.display().to_string(), &session, 25).await;
        println!("{}: {} batches", path.display(), run.figures.batches);
    }
}
