//! The laws of windows on the proxy, in all three formats.
use crate::common::{Stage, is_prefix, says, sessions, sqlite, until};
use futures_util::future::join_all;
use longhand::{Tokens, recall};
use longhand_archive::Scope;
use longhand_core::Handle;
use longhand_testkit::arbitrary::{GrowingRequest, PieceSize};
use longhand_testkit::rng::Rng;
use longhand_testkit::{WireFormat, validate};
use serde_json::{Value, json};

const TURNS: usize = 30;

/// All handles that a text shows in marks of ours.
fn handles(text: &str) -> Vec<Handle> {
    let marks = text.match_indices("[longhand ").filter_map(|(at, _)| {
        let rest = &text[at..];
        let handle = rest.find("h:").filter(|at| *at < 20)?;
        Handle::parse(rest.get(handle..handle + 14)?)
    });
    marks.collect()
}

fn path_of(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::Chat => "/v1/chat/completions",
        WireFormat::Responses => "/v1/responses",
        WireFormat::Anthropic => "/v1/messages",
    }
}

/// A whole request, whether it grows as one or as a list of messages.
fn body(wire: WireFormat, json: &str) -> String {
    let document: Value = serde_json::from_str(json).unwrap();
    if document.is_object() {
        return json.to_owned();
    }
    let field = if wire == WireFormat::Responses { "input" } else { "messages" };
    json!({"model": "scripted", "max_tokens": 100, field: document}).to_string()
}

async fn grow(wire: WireFormat, seed: u64, limit: u64) {
    let mut rng = Rng::new(seed);
    let (_folder, archive) = sqlite();
    let stage = Stage::with(vec![says("Go on."); TURNS], |settings| {
        settings.archive = archive.clone();
        settings.budget = Some(Tokens(limit));
    })
    .await;
    let path = path_of(wire);
    let mut request = GrowingRequest::new(wire, PieceSize::Light, seed);
    let (mut last, mut batches, mut late) = (String::new(), 0, 0);
    let mut session = String::new();
    for turn in 0..TURNS {
        request.append(&mut rng);
        let body = body(wire, &request.json());
        let answer = stage.post(path, &body).await;
        let header = |name: &str| {
            let value = answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            value.unwrap_or_default()
        };
        let place = format!("{wire:?}, seed {seed}, limit {limit}, turn {turn}");
        assert_ne!(header("x-longhand"), "bypassed", "{place}");
        let after: u64 = header("x-longhand-tokens-after").parse().unwrap_or(0);
        assert!(after <= limit || !header("x-longhand-shortfall").is_empty(), "{place}");
        session = header("x-longhand-session");
        let sent = stage.sent().pop().unwrap();
        assert_eq!(validate(wire, &sent), Vec::<String>::new(), "{place}\n{sent}");
        assert!(sent.matches("[longhand fold ").count() <= 1, "{place}");
        // Nothing has waited for the archive but the window itself, unless the disk was slow.
        let opens = |handle| recall::open(&*archive, &Scope::All, handle).unwrap().is_some();
        if stage.proxy.counts().late > late {
            late = stage.proxy.counts().late;
            until("its handles open", || handles(&sent).into_iter().all(opens)).await;
        }
        for handle in handles(&sent) {
            assert!(opens(handle), "{place} {handle}");
        }
        let made = stage.proxy.counts().batches;
        if header("x-longhand-edits") == "0" {
            assert_eq!(sent, body, "{place}");
        }
        let kept = made > batches || is_prefix(&last, &sent) || same_start(wire, &last, &sent);
        assert!(kept, "{place}: the prefix broke without a batch\n{last}\n{sent}");
        (last, batches) = (sent, made);
        answer.text().await.unwrap();
    }
    stage.proxy.stop().await;
    let sessions = sessions(&*archive);
    assert_eq!(sessions.len(), 1, "{wire:?} {seed}: one conversation is one session");
    assert_eq!(sessions[0].name, session);
    assert_eq!(archive.verify(None).unwrap(), []);
}

/// Whether a window begins with all messages of another one but the last, which the next may join, and
/// but for marks that a client moves.
fn same_start(wire: WireFormat, one: &str, other: &str) -> bool {
    let field = if wire == WireFormat::Responses { "input" } else { "messages" };
    let messages = |text: &str| {
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        let list = document[field].as_array().cloned().unwrap_or_default();
        list.into_iter().map(unmarked).collect::<Vec<Value>>()
    };
    let (one, other) = (messages(one), messages(other));
    let sure = one.len().saturating_sub(1);
    other.get(..sure) == Some(&one[..sure])
}

fn unmarked(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(unmarked).collect(),
        Value::Object(mut fields) => {
            fields.remove("cache_control");
            fields.into_iter().map(|(key, value)| (key, unmarked(value))).collect()
        }
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_of_a_growing_conversation_keep_the_laws() {
    let seeds = std::env::var("LONGHAND_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let first = std::env::var("LONGHAND_SEED_FIRST").ok().and_then(|seed| seed.parse().ok());
    let (first, seeds) = (first.unwrap_or(0_u64), seeds.unwrap_or(12_u64));
    println!("laws: {seeds} conversations in each of three formats, from seed {first}");
    for seed in first..first + seeds {
        // All formats at once, or one core would be idle while this long test is the last.
        let limit = [500, 1_500, 4_000][seed as usize % 3];
        join_all(WireFormat::ALL.map(|wire| grow(wire, seed, limit))).await;
    }
}
