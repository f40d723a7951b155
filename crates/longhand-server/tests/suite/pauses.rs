//! A pause in which the provider's cache runs out is the time for a batch that would be due soon.
use std::sync::Arc;
use std::time::SystemTime;

use longhand::receipt::{Receipt, ReceiptCause};
use longhand::{CachePrices, Owner, Session, SessionSettings, Tokens, meter_for};
use longhand_archive::Archive;
use longhand_dialect::Dialect;
use longhand_model::Prices;
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{Stage, batches, messages, reopened, reply, sqlite};

const PATH: &str = "/v1/messages";
const MODEL: &str = "claude-sonnet-4-5";
const BUDGET: Tokens = Tokens(9_000);
const STEPS: usize = 40;
const MINUTE_MS: i64 = 60_000;

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64
}

fn settings() -> SessionSettings {
    let price = Prices::default().named(MODEL).unwrap();
    SessionSettings {
        budget: BUDGET,
        prices: Some(CachePrices {
            cached: price.cached_input,
            uncached: price.cache_write.max(price.input),
        }),
        meter: meter_for(Dialect::Anthropic, Some(MODEL)).unwrap(),
        recall_percent: 0,
        ..SessionSettings::new().unwrap()
    }
}

/// The request after so many steps; `mark` stands on its system prompt.
fn request(all: &[Value], steps: usize, mark: &Value) -> String {
    let system = json!([{"type": "text", "text": "Be brief.", "cache_control": mark}]);
    let messages = &all[..=2 * steps];
    json!({"model": MODEL, "max_tokens": 100, "system": system, "messages": messages}).to_string()
}

fn answer(all: &[Value], steps: usize) -> ScriptStep {
    reply(PATH, &all[1 + 2 * steps])
}

/// Goes so many steps at a time, and says after how many a batch was made.
async fn gone(
    archive: Arc<dyn Archive>,
    (all, mark): (&[Value], &Value),
    steps: usize,
    at_ms: i64,
) -> Option<usize> {
    let mut session = Session::open_with(archive, "task", settings()).unwrap();
    for step in 0..steps {
        let request = request(all, step, mark);
        let window = session.fit_async(&request, at_ms).await.unwrap();
        if window.json != request {
            return Some(step);
        }
        let ScriptStep::Raw(_, _, body) = answer(all, step) else { panic!("no body") };
        session.answered_async(&body, at_ms).await.unwrap();
    }
    None
}

/// What the proxy and the library send for the request after so many steps and a pause, and why they made a batch.
async fn after_pause(
    all: &[Value],
    mark: &Value,
    steps: usize,
    pause_ms: i64,
) -> (bool, Option<ReceiptCause>) {
    let (of_proxy, of_library) = (sqlite().0, sqlite().0);
    for folder in [&of_proxy, &of_library] {
        let said_ms = now_ms() - pause_ms;
        assert_eq!(gone(reopened(folder), (all, mark), steps, said_ms).await, None);
    }
    let asked = request(all, steps, mark);
    let archive = reopened(&of_proxy);
    let stage = Stage::with([answer(all, steps)], |settings| {
        settings.archive = Arc::clone(&archive);
        settings.budget = Some(BUDGET);
        settings.owner = Some(Owner::LOCAL);
    })
    .await;
    let posted = stage.client.post(stage.url(PATH)).header("x-longhand-session", "task");
    posted.body(asked.clone()).send().await.unwrap().text().await.unwrap();
    let sent = stage.sent().pop().unwrap();
    stage.proxy.stop().await;
    let library = reopened(&of_library);
    let mut session = Session::open_with(Arc::clone(&library), "task", settings()).unwrap();
    let window = session.fit_async(&asked, now_ms()).await.unwrap();
    assert_eq!(window.json, sent, "both are drivers of one rule");
    let cause = |archive: &dyn Archive| {
        let batch = batches(archive, "task").pop()?;
        Receipt::read(&batch.receipt).why
    };
    assert_eq!(cause(&*archive), cause(&*library));
    (sent != asked, cause(&*archive))
}

#[tokio::test]
async fn a_batch_that_is_nearly_due_is_made_after_a_pause() {
    let all = messages(PATH, STEPS);
    let (short, long) = (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
    let due = gone(sqlite().1, (&all, &short), STEPS, now_ms()).await.unwrap();
    assert!(due > 12, "{due}");
    let soon = due - 3;
    let pause = (true, Some(ReceiptCause::Pause));
    assert_eq!(after_pause(&all, &short, soon, 10 * MINUTE_MS).await, pause);
    assert_eq!(after_pause(&all, &short, soon, 4 * MINUTE_MS).await, (false, None));
    // The mark says that the cache lives for an hour.
    assert_eq!(after_pause(&all, &long, soon, 10 * MINUTE_MS).await, (false, None));
    assert_eq!(after_pause(&all, &long, soon, 61 * MINUTE_MS).await, pause);
    // Far from full, nothing is hidden only because it would be cheap.
    assert_eq!(after_pause(&all, &short, due / 3, 10 * MINUTE_MS).await, (false, None));
    // One that is due is made for the budget, pause or not.
    assert_eq!(
        after_pause(&all, &short, due, 10 * MINUTE_MS).await,
        (true, Some(ReceiptCause::Budget))
    );
}
