//! Real agent sessions, replayed call by call, when they are there.
use std::path::PathBuf;

use crate::common::{PATHS, Stage};
use longhand_core::{Scale, Tokens};
use longhand_dialect::{Dialect, read, write};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

/// The recorded sessions: in `LONGHAND_SHARED`, or `shared` beside the project.
fn traces() -> Vec<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("LONGHAND_SHARED").map_or(beside, PathBuf::from);
    let Ok(files) = std::fs::read_dir(folder.join("data/traces")) else {
        println!("no recorded sessions here: nothing to check");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| !path.ends_with("MANIFEST.json"));
    paths.sort();
    paths
}

/// A trace in a wire format: the fields of its request, and its messages.
fn convert(path: &PathBuf, dialect: Dialect) -> (Value, Vec<Value>) {
    let whole = read(std::fs::read(path).unwrap(), None).unwrap();
    let sourced: Vec<_> = whole.messages.iter().map(|message| (whole.dialect, message)).collect();
    let written: Value = serde_json::from_str(&write(&sourced, dialect)).unwrap();
    match written {
        Value::Array(messages) => (json!({}), messages),
        mut request => {
            let messages = request["messages"].take();
            let Value::Array(messages) = messages else { panic!("no messages") };
            (request, messages)
        }
    }
}

fn whole_answer(dialect: Dialect, message: &Value) -> ScriptStep {
    let body = match dialect {
        Dialect::Anthropic => {
            json!({"type": "message", "role": "assistant", "model": "scripted", "content": message["content"],
                "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}})
        }
        _ => {
            json!({"model": "scripted", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        }
    };
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

async fn replay(path: &PathBuf, route: &str, dialect: Dialect) {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let (fields, messages) = convert(path, dialect);
    let meter = MeterSpec::O200k.open(ImageRule::OpenAiDearer).unwrap();
    let scale = Scale::new(&*meter);
    let count = |body: &str| -> Tokens {
        let shown = read(body.as_bytes().to_vec(), Some(dialect)).unwrap();
        let faults: Vec<_> =
            shown.check().into_iter().filter(longhand_dialect::Finding::is_fault).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}");
        let counted: Tokens =
            shown.messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
        counted + scale.framing().reply
    };
    let body = |messages: &[Value]| {
        let mut body = fields.clone();
        body["model"] = json!("scripted");
        body["messages"] = json!(messages);
        body.to_string()
    };
    let calls: Vec<usize> =
        (1..messages.len()).filter(|at| messages[*at]["role"] == "assistant").collect();
    // Less than this is less than some first messages have.
    let budget = (count(&body(&messages)).0 / 2).max(2_000);
    let steps = calls.iter().map(|at| whole_answer(dialect, &messages[*at]));
    let stage = Stage::new(Some(budget), steps).await;
    let mut short = 0;
    for at in &calls {
        let answer = stage.post(route, &body(&messages[..*at])).await;
        assert_eq!(answer.status(), 200, "{name}");
        assert_ne!(answer.headers()["x-longhand"], "bypassed", "{name}");
        short += usize::from(answer.headers().contains_key("x-longhand-shortfall"));
        answer.text().await.unwrap();
    }
    let sent = stage.sent();
    let over = sent.iter().filter(|body| count(body).0 > budget).count();
    let same = |one: &str, other: &str| {
        one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
            >= one.rfind(']').unwrap()
    };
    let breaks = sent.windows(2).filter(|pair| !same(&pair[0], &pair[1])).count();
    let counts = stage.proxy.counts();
    let archived = stage.archived().await;
    let entries: usize = archived.iter().map(|(_, raws)| raws.len()).sum();
    println!(
        "{name} {dialect}: {} calls, {breaks} breaks, {} batches, {over} over {budget} ({short} said), {} sessions, {entries} of {} entries",
        calls.len(),
        counts.batches,
        archived.len(),
        messages.len(),
    );
    // A batch that only touches what is new breaks nothing.
    assert!(breaks as u64 <= counts.batches, "{name}");
    assert!(over <= short, "{name}");
    let system = messages.iter().take_while(|message| message["role"] == "system").count();
    let last = calls.last().map_or(0, |last| last + 1);
    assert_eq!(entries, last.saturating_sub(system), "{name} {:?}", archived.len());
}

#[tokio::test]
async fn chat_traces_fit_stay_valid_and_are_archived() {
    for path in traces() {
        replay(&path, PATHS[0], Dialect::Chat).await;
    }
}

#[tokio::test]
async fn anthropic_traces_fit_stay_valid_and_are_archived() {
    for path in traces() {
        replay(&path, PATHS[2], Dialect::Anthropic).await;
    }
}
