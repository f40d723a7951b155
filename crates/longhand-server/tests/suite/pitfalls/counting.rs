//! Counting, as far as it shows in a proxy.

use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{PATHS, Stage, answers, calls, is_prefix, messages, request, says, user};

async fn counted(path: &str, body: &str) -> u64 {
    // What fits by its bytes alone is not counted.
    let stage = Stage::new(Some(1), answers(1)).await;
    let answer = stage.post(path, body).await;
    answer.headers()["x-longhand-tokens-before"].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn p47_everything_counts_and_nothing_crashes() {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAIAAAC6s0uzAAAA";
    for path in PATHS {
        let plain = counted(path, &request(path, &[user("Hm?")], false)).await;
        let image = match path {
            "/v1/messages" => {
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}})
            }
            "/v1/responses" => {
                json!({"type": "input_image", "image_url": format!("data:image/png;base64,{png}")})
            }
            _ => {
                json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}")}})
            }
        };
        let sealed = match path {
            "/v1/messages" => {
                json!({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "c3Ryb25n".repeat(100)}, {"type": "text", "text": "."}]})
            }
            "/v1/responses" => {
                json!({"type": "reasoning", "summary": [], "encrypted_content": "c3Ryb25n".repeat(100)})
            }
            _ => {
                json!({"role": "assistant", "content": ".", "reasoning_content": "c3Ryb25n".repeat(100)})
            }
        };
        let with = |messages: Vec<Value>| [messages, vec![user("Hm?")]].concat();
        for (what, asked, least) in [
            ("a result", messages(path, 1), 200),
            ("CJK", with(vec![user(&"漢字仮名".repeat(100))]), 200),
            ("emoji", with(vec![user(&"🦀🐍".repeat(100))]), 200),
            ("a special token", with(vec![user("<|endoftext|><|im_start|>")]), 6),
            ("an image", with(vec![json!({"role": "user", "content": [image]})]), 50),
            ("sealed reasoning", with(vec![sealed]), 50),
        ] {
            let tokens = counted(path, &request(path, &asked, false)).await;
            assert!(tokens >= plain + least, "{path} {what}: {tokens} against {plain}");
        }
        let schema = json!([{"name": "x", "description": "a tool of many words ".repeat(100)}]);
        let tools = request(path, &[user("Hm?")], false);
        let tools = tools.replacen('{', &format!(r#"{{"tools":{schema},"#), 1);
        assert!(counted(path, &tools).await >= plain + 400, "{path} tools");
    }
}

#[tokio::test]
async fn p48_what_was_cached_is_counted_once_on_every_wire() {
    let json_kind = || vec![("content-type", "application/json".to_owned())];
    let text = json!([{"type": "text", "text": "Well."}]);
    let message = json!({"role": "assistant", "content": "Well."});
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]});
    for (path, body) in [
        (
            PATHS[0],
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens": 5}}),
        ),
        (
            PATHS[1],
            json!({"status": "completed", "output": [item], "usage": {"input_tokens": 900, "input_tokens_details": {"cached_tokens": 800}, "output_tokens": 5}}),
        ),
        (
            PATHS[2],
            json!({"type": "message", "role": "assistant", "content": text, "stop_reason": "end_turn", "usage": {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 5}}),
        ),
    ] {
        let stage = Stage::new(Some(8_000), [ScriptStep::Raw(200, json_kind(), body.to_string())]).await;
        stage.ask(path, &[user("Hm?")]).await;
        let url = stage.url("/longhand/metrics");
        let metrics = stage.client.get(url).send().await.unwrap().text().await.unwrap();
        for expected in [r#"kind="billed"} 900"#, r#"kind="cached"} 800"#, r#"kind="output"} 5"#] {
            assert!(metrics.contains(expected), "{path} {expected}: {metrics}");
        }
    }
}

#[tokio::test]
async fn p48_what_an_old_window_was_billed_for_says_nothing_of_the_next() {
    // Ours are some 6 000 tokens, the provider bills for 1 000: no room is made of that.
    let path = PATHS[0];
    let stage = Stage::new(Some(5_000), answers(3)).await;
    for steps in [20, 21, 22] {
        let heads = stage.ask(path, &messages(path, steps)).await;
        let after = heads.number("x-longhand-tokens-after").unwrap();
        assert!((1_000..=5_000).contains(&after), "{after}");
    }
}

#[tokio::test]
async fn p49_neither_a_full_prompt_nor_an_unknown_window_ends_in_nothing() {
    for path in PATHS {
        let sent = sent_with_large_tools(path).await;
        assert!(sent.contains("Find out why the build fails."), "{path}");
        // Nobody knows the model: the upstream tells, and is believed.
        let steps = [ScriptStep::TooLong { limit: 3_000, asked: 9_000 }, says("a"), says("b")];
        let stage = Stage::new(None, steps).await;
        for steps in [20, 21] {
            assert_eq!(
                stage.ask(path, &messages(path, steps)).await.get("x-longhand"),
                "compacted"
            );
        }
        assert_eq!(stage.sent().len(), 3);
    }
}

#[tokio::test]
async fn p49_a_full_prompt_leaves_what_the_model_has_not_read() {
    for path in PATHS {
        assert!(sent_with_large_tools(path).await.contains("call_19"), "{path}");
    }
}

/// What is sent of a tool loop whose tools are larger than the budget.
async fn sent_with_large_tools(path: &str) -> String {
    let body = request(path, &messages(path, 20), false);
    let tools = json!([{"name": "x", "description": "a tool of many words ".repeat(200)}]);
    let body = body.replacen('{', &format!(r#"{{"tools":{tools},"#), 1);
    let stage = Stage::new(Some(500), answers(1)).await;
    let answer = stage.post(path, &body).await;
    assert!(answer.headers().contains_key("x-longhand-shortfall"));
    stage.sent().remove(0)
}

/// A request with a system prompt of so many tokens.
fn with_system(path: &str, messages: &[Value], tokens: usize) -> String {
    let prompt = "Be careful. ".repeat(tokens / 3);
    let field = match path {
        "/v1/messages" => "system",
        "/v1/responses" => "instructions",
        _ => {
            let system = json!({"role": "system", "content": prompt});
            return request(path, &[&[system], messages].concat(), false);
        }
    };
    let body = request(path, messages, false);
    body.replacen('{', &format!(r#"{{"{field}":{},"#, json!(prompt)), 1)
}

#[tokio::test]
async fn a_system_prompt_that_grows_after_a_batch_is_counted() {
    for path in PATHS {
        let stage = Stage::new(Some(6_000), answers(8)).await;
        for (steps, system) in [(20, 400), (21, 400), (22, 3_000), (23, 4_000)] {
            let answer = stage.post(path, &with_system(path, &messages(path, steps), system)).await;
            assert_eq!(answer.headers()["x-longhand"], "compacted", "{path} {system}");
            let sent = stage.sent().pop().unwrap();
            assert!(counted(path, &sent).await <= 6_000, "{path} {system}");
        }
    }
}

#[tokio::test]
async fn what_every_window_has_is_no_part_of_the_low_water_mark() {
    for path in PATHS {
        for (budget, system) in [(8_000, 2_000), (16_000, 10_000)] {
            let stage = Stage::new(Some(budget), calls(path, 60)).await;
            for steps in 1..=60 {
                stage.post(path, &with_system(path, &messages(path, steps), system)).await;
            }
            let sent = stage.sent();
            let breaks = sent.windows(2).filter(|pair| !is_prefix(&pair[0], &pair[1])).count();
            assert!((1..=6).contains(&breaks), "{path} {budget}: {breaks} breaks");
            let first = sent.windows(2).find(|pair| !is_prefix(&pair[0], &pair[1])).unwrap();
            // A good part of the rest is kept, and much of it in words.
            let kept = counted(path, &first[1]).await.saturating_sub(system as u64);
            let rest = budget - system as u64;
            assert!(kept * 4 >= rest && kept * 4 <= rest * 3, "{path} {budget}: {kept} of {rest}");
        }
    }
}

#[tokio::test]
async fn a_budget_that_is_too_small_for_any_window_is_said_once() {
    for path in PATHS {
        let stage = Stage::new(Some(1_000), calls(path, 3)).await;
        let mut notices = Vec::new();
        for steps in 1..=3 {
            let body = with_system(path, &messages(path, steps), 3_000);
            let answer = stage.post(path, &body).await;
            let notice = answer.headers().get("x-longhand-notice");
            notices.push(notice.map(|notice| notice.to_str().unwrap().to_owned()));
        }
        let [Some(notice), None, None] = &notices[..] else { panic!("{path}: {notices:?}") };
        let enough: u64 = notice.split(' ').rev().nth(2).unwrap().parse().unwrap();
        let stage = Stage::new(Some(enough), answers(1)).await;
        let answer = stage.post(path, &with_system(path, &messages(path, 1), 3_000)).await;
        assert!(!answer.headers().contains_key("x-longhand-shortfall"), "{path}: {notice}");
    }
}
