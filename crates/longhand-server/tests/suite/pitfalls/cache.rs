//! Cache stability.

use std::sync::Arc;

use longhand::{Archive, MemoryArchive, Tokens};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{
    PATHS, Stage, answers, calls, faults, is_prefix, log, messages, request, says, user,
};

const TURNS: usize = 24;

/// What a client says in each turn: a tool loop that grows.
fn turns(path: &str) -> Vec<Vec<Value>> {
    let all = messages(path, TURNS);
    (1..=TURNS).map(|steps| all[..=2 * steps].to_vec()).collect()
}

#[tokio::test]
async fn p09_what_was_sent_is_a_prefix_until_a_batch_is_declared() {
    for path in PATHS {
        let stage = Stage::new(Some(4_000), calls(path, TURNS)).await;
        let (mut last, mut batches) = (String::new(), 0);
        for turn in turns(path) {
            let heads = stage.ask(path, &turn).await;
            let sent = stage.sent().pop().unwrap();
            let made = stage.proxy.counts().batches;
            assert!(is_prefix(&last, &sent) || made > batches, "{path} {}", turn.len());
            assert_eq!(heads.get("x-longhand") == "compacted", made > 0);
            (last, batches) = (sent, made);
        }
        assert!((1..=6).contains(&batches), "{path} {batches}");
    }
}

#[tokio::test]
async fn p10_marks_that_move_break_nothing_and_are_never_too_many() {
    let path = "/v1/messages";
    let mark = json!({"type": "ephemeral"});
    let stage = Stage::new(Some(4_000), calls(path, TURNS)).await;
    let unmarked = |body: &str| body.replace(&format!(r#","cache_control":{mark}"#), "");
    let (mut last, mut batches) = (String::new(), 0);
    for mut turn in turns(path) {
        // As clients do: the newest few messages.
        for message in turn.iter_mut().rev().filter(|message| message["content"].is_array()).take(4)
        {
            message["content"][0]["cache_control"] = mark.clone();
        }
        stage.ask(path, &turn).await;
        let sent = stage.sent().pop().unwrap();
        assert!(sent.matches("cache_control").count() <= 4);
        assert!(faults(path, &sent).is_empty());
        let made = stage.proxy.counts().batches;
        assert!(is_prefix(&unmarked(&last), &unmarked(&sent)) || made > batches, "{}", turn.len());
        (last, batches) = (sent, made);
    }
    assert!((1..=6).contains(&batches), "{batches}");
}

#[tokio::test]
async fn p12_the_same_conversation_gives_the_same_bytes_at_any_time() {
    for path in PATHS {
        let mut seen = Vec::new();
        for _ in 0..2 {
            let stage = Stage::new(Some(4_000), calls(path, TURNS)).await;
            for turn in turns(path) {
                stage.ask(path, &turn).await;
            }
            seen.push(stage.sent());
        }
        assert_eq!(seen[0], seen[1], "{path}");
    }
}

#[tokio::test]
async fn p13_a_restart_before_every_turn_changes_no_byte() {
    for path in PATHS {
        let stage = Stage::new(Some(4_000), calls(path, TURNS)).await;
        for turn in turns(path) {
            stage.ask(path, &turn).await;
        }
        let expected = stage.sent();
        let archive = Arc::new(MemoryArchive::default());
        for (turn, expected) in turns(path).into_iter().zip(expected) {
            let reply = calls(path, TURNS).swap_remove(turn.len() / 2 - 1);
            let stage = Stage::with([reply], |settings| {
                settings.budget = Some(Tokens(4_000));
                settings.archive = Arc::clone(&archive) as Arc<dyn Archive>;
            })
            .await;
            stage.ask(path, &turn).await;
            assert_eq!(stage.sent(), [expected], "{path} {}", turn.len());
            stage.proxy.stop().await;
        }
    }
}

#[tokio::test]
async fn p15_a_guard_that_reverts_every_request_is_seen() {
    let (log, lines) = log();
    let stage = Stage::with(answers(5), |settings| {
        settings.request_bytes_max = 10;
        settings.log = Some(log);
    })
    .await;
    for _ in 0..5 {
        stage.ask(PATHS[0], &[user("a question that is too long to look into")]).await;
    }
    let metrics = stage.client.get(stage.url("/longhand/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains(r#"longhand_fail_opens_total{why="too_large"} 5"#), "{metrics}");
    stage.proxy.stop().await;
    let lines = lines.lock().unwrap();
    let warned = lines.iter().filter(|line| line.contains(r#""level":"warn""#)).count();
    assert_eq!(warned, 5, "{lines:?}");
}

/// An answer of Anthropic with what it took.
fn billed(usage: &Value) -> ScriptStep {
    let body = json!({"type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Well."}], "stop_reason": "end_turn", "usage": usage});
    ScriptStep::Raw(200, vec![("content-type", "application/json".to_owned())], body.to_string())
}

#[tokio::test]
async fn p17_what_a_cache_costs_to_write_is_counted() {
    let usage = json!({"input_tokens": 1_000, "cache_creation_input_tokens": 100_000, "cache_read_input_tokens": 10_000, "output_tokens": 100});
    let stage = Stage::new(Some(8_000), [billed(&usage)]).await;
    stage.ask("/v1/messages", &[user("Hm?")]).await;
    let url = stage.url("/longhand/metrics");
    let metrics = stage.client.get(url).send().await.unwrap().text().await.unwrap();
    // 3 dollars a million: 0.003, with a quarter more 0.375, a tenth of it 0.003, and 0.0015.
    assert!(metrics.contains("longhand_cost_dollars_total 0.3825"), "{metrics}");
    for expected in [r#"kind="billed"} 111000"#, r#"kind="cached"} 10000"#] {
        assert!(metrics.contains(expected), "{expected}: {metrics}");
    }
}

#[tokio::test]
async fn p14_nothing_is_replaced_for_being_said_before() {
    let path = PATHS[0];
    let stage = Stage::new(Some(20_000), [says("a"), says("b")]).await;
    let mut all = messages(path, 3);
    let again = all[2]["content"].clone();
    all.push(user(again.as_str().unwrap()));
    all.push(user(again.as_str().unwrap()));
    let body = request(path, &all, false);
    for _ in 0..2 {
        stage.post(path, &body).await.text().await.unwrap();
    }
    assert_eq!(stage.sent(), [body.clone(), body]);
}
