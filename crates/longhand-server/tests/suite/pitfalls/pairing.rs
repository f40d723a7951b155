//! Pairing and validity.

use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{
    PATHS, Stage, answers, assistant, calls, conversation, faults, messages, request, says, user,
};

/// A tool loop in which each reply has three calls, answered in another order.
fn parallel(path: &str, steps: usize) -> Vec<Value> {
    let mut all = vec![user("Find out why the build fails.")];
    let of = |call: usize, at: usize| messages(path, call + 1)[at + 2 * call].clone();
    for step in 0..steps {
        let numbers = [3 * step, 3 * step + 1, 3 * step + 2];
        let calls: Vec<Value> = numbers.iter().map(|call| of(*call, 1)).collect();
        let results: Vec<Value> = numbers.iter().rev().map(|call| of(*call, 2)).collect();
        let merge = |messages: &[Value], key: &str| {
            let mut one = messages[0].clone();
            one[key] = messages
                .iter()
                .flat_map(|message| message[key].as_array().unwrap().clone())
                .collect();
            one
        };
        match path {
            "/v1/messages" => {
                all.push(merge(&calls, "content"));
                all.push(merge(&results, "content"));
            }
            "/v1/responses" => all.extend(calls.into_iter().chain(results)),
            _ => {
                all.push(merge(&calls, "tool_calls"));
                all.extend(results);
            }
        }
    }
    all
}

#[tokio::test]
async fn p18_no_cut_parts_a_call_from_its_result() {
    for path in PATHS {
        let asked = parallel(path, 8);
        assert!(faults(path, &request(path, &asked, false)).is_empty());
        for budget in (300..9_000).step_by(600) {
            let stage = Stage::new(Some(budget), answers(1)).await;
            let heads = stage.ask(path, &asked).await;
            let sent = stage.sent().remove(0);
            assert!(faults(path, &sent).is_empty(), "{path} {budget}: {:?}", faults(path, &sent));
            let after = heads.number("x-longhand-tokens-after").unwrap();
            assert!(after <= budget || heads.number("x-longhand-shortfall").is_some(), "{budget}");
        }
    }
}

/// How many results a body has.
fn results(path: &str, body: &str) -> usize {
    conversation(path, body).messages.iter().flat_map(longhand_core::Message::results).count()
}

#[tokio::test]
async fn p19_p20_calls_without_results_stay_as_they_are_and_get_none_of_ours() {
    for path in PATHS {
        let mut asked = parallel(path, 6);
        // The client gave up waiting, twice.
        for call in [100, 101] {
            asked.push(messages(path, call + 1)[1 + 2 * call].clone());
            asked.push(user("Never mind, go on without it."));
            asked.extend(messages(path, 2)[1..3].iter().cloned());
        }
        let body = request(path, &asked, false);
        for budget in [2_000, 4_000, 100_000] {
            let stage = Stage::new(Some(budget), answers(2)).await;
            for turn in [asked.clone(), [asked.clone(), vec![user("Well?")]].concat()] {
                assert_eq!(stage.ask(path, &turn).await.status, 200);
            }
            assert_eq!(stage.proxy.counts().bypassed, 0);
            for sent in stage.sent() {
                let (left, given) = (faults(path, &sent), faults(path, &body));
                assert!(left.len() <= given.len(), "{path} {budget}: {left:?} of {given:?}");
                assert!(results(path, &sent) <= results(path, &body), "{path} {budget}");
            }
        }
    }
}

#[tokio::test]
async fn p21_oddities_get_no_worse() {
    let path = "/v1/messages";
    let block = |block: Value| json!({"role": "assistant", "content": [block]});
    let anthropic = [
        block(json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"})),
        json!({"role": "user", "content": ""}),
        json!({"role": "assistant", "content": []}),
        json!({"role": "user", "content": [{"type": "text", "text": " \n "}]}),
        // The id of a call that was made before.
        messages(path, 1)[1].clone(),
        messages(path, 1)[2].clone(),
    ];
    let chat = [
        json!({"role": "assistant", "content": null}),
        json!({"role": "user", "content": ""}),
        json!({"role": "assistant", "content": "", "tool_calls": []}),
        json!({"role": "user", "content": [{"type": "text", "text": " \n "}]}),
        messages(PATHS[0], 1)[1].clone(),
        messages(PATHS[0], 1)[2].clone(),
    ];
    let responses = [
        json!({"type": "reasoning", "summary": []}),
        json!({"role": "user", "content": ""}),
        json!({"type": "message", "role": "assistant", "content": []}),
        json!({"role": "user", "content": [{"type": "input_text", "text": " \n "}]}),
        messages(PATHS[1], 1)[1].clone(),
        messages(PATHS[1], 1)[2].clone(),
    ];
    for (path, odd) in [(path, anthropic), (PATHS[0], chat), (PATHS[1], responses)] {
        for at in 0..3 {
            let mut asked = messages(path, 15);
            let place = 1 + 10 * at;
            asked.splice(place..place, odd.clone());
            let given = faults(path, &request(path, &asked, false));
            for budget in [900, 2_500, 100_000] {
                let stage = Stage::new(Some(budget), answers(1)).await;
                assert_eq!(stage.ask(path, &asked).await.status, 200);
                assert_eq!(stage.proxy.counts().bypassed, 0, "{path}");
                let left = faults(path, &stage.sent()[0]);
                assert!(left.len() <= given.len(), "{path} {at} {budget}: {left:?} of {given:?}");
            }
        }
    }
}

#[tokio::test]
async fn p22_another_model_goes_on_in_the_same_session() {
    let path = "/v1/messages";
    let steps = vec![calls(path, 12).pop().unwrap(), says("Done.")];
    let stage = Stage::new(Some(3_000), steps).await;
    let mut asked = messages(path, 12);
    let foreign = json!({"type": "thinking", "thinking": "Hm.", "signature": "Zm9yZWlnbg=="});
    for message in asked.iter_mut().filter(|message| message["role"] == "assistant") {
        message["content"].as_array_mut().unwrap().insert(0, foreign.clone());
    }
    let first = stage.ask(path, &asked).await;
    asked.extend(messages(path, 13)[25..].iter().cloned());
    let body = request(path, &asked, false).replace("scripted", "claude-sonnet-4-5");
    let second = stage.post(path, &body).await;
    assert_eq!(second.status(), 200);
    assert_eq!(second.headers()["x-longhand-session"], first.get("x-longhand-session"));
    second.text().await.unwrap();
    assert!(stage.sent().iter().all(|sent| faults(path, sent).is_empty()));
}

#[tokio::test]
async fn p23_an_id_that_is_missing_is_not_made_up() {
    let call = json!({"type": "function", "function": {"name": "read", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"model": "scripted", "choices": [choice]}).to_string();
    let kind = vec![("content-type", "application/json".to_owned())];
    let stage = Stage::new(Some(8_000), [ScriptStep::Raw(200, kind, body.clone())]).await;
    let answer = stage.post(PATHS[0], &request(PATHS[0], &[user("Read.")], false)).await;
    assert_eq!(answer.text().await.unwrap(), body);
    for (_, raws) in stage.archived().await {
        assert!(raws.iter().all(|raw| !raw.contains("\"id\"")), "{raws:?}");
    }
    // A request that has one is no worse off.
    let stage = Stage::new(Some(8_000), answers(1)).await;
    let asked = [user("Read."), message, assistant("No."), user("Why?")];
    assert_eq!(stage.ask(PATHS[0], &asked).await.status, 200);
    assert_eq!(stage.sent(), [request(PATHS[0], &asked, false)]);
}
