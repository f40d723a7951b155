//! Identity and lineage.

use std::sync::Arc;

use futures_util::future::join_all;
use longhand::{Archive, Tokens};
use longhand_archive::Entry;
use longhand_server::Settings;
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

use crate::common::{
    PATHS, Stage, answers, assistant, calls, id_of, is_prefix, messages, reopened, request, says,
    sessions, sqlite, told, told_on_paths, user, words,
};

const SESSION: &str = "x-longhand-session";

/// What the archive has of the session of the last request.
async fn words_of(stage: Stage, path: &str, session: &str) -> Vec<String> {
    let archive = Arc::clone(&stage.archive);
    stage.proxy.stop().await;
    words(path, &told(&*archive, session))
}

#[tokio::test]
async fn p31_chats_that_begin_alike_are_told_apart() {
    for path in PATHS {
        let long = "the same words again and again, ".repeat(100);
        let ends = ["red", "blue"];
        let stage = Stage::new(Some(8_000), ends.map(says)).await;
        let mut sessions = Vec::new();
        for end in ends {
            let asked = [user(&format!("{long}{end}"))];
            sessions.push(stage.ask(path, &asked).await.get(SESSION).to_owned());
        }
        assert_ne!(sessions[0], sessions[1]);
        let archived = stage.archived().await;
        for (session, end) in sessions.iter().zip(ends) {
            let (_, raws) = archived.iter().find(|(id, _)| id == session).unwrap();
            assert_eq!(raws.len(), 2);
            assert_eq!(words(path, raws)[1], end);
        }
    }
}

#[tokio::test]
async fn p32_a_side_call_stays_out_of_the_session() {
    let path = PATHS[0];
    let system = |text: &str| json!({"role": "system", "content": text});
    let slow = |text: &str| ScriptStep::Drip(text.to_owned(), std::time::Duration::from_millis(20));
    let steps = [slow("Because."), slow("A title"), slow("Really.")];
    let stage = Stage::new(Some(8_000), steps).await;
    let first = [system("You are an agent."), user("Why?")];
    let aside = [system("Give this chat a title."), user("Why?")];
    let one = stage.ask(path, &first);
    let two = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        stage.ask(path, &aside).await
    };
    let (one, _) = tokio::join!(one, two);
    let then = [&first[..], &[assistant("Because."), user("Really?")]].concat();
    let last = stage.ask(path, &then).await;
    assert_eq!(last.get(SESSION), one.get(SESSION));
    let session = last.get(SESSION).to_owned();
    let archive = Arc::clone(&stage.archive);
    assert_eq!(words_of(stage, path, &session).await, ["Why?", "Because.", "Really?", "Really."]);
    // It is a path that stays short.
    let paths = told_on_paths(&*archive, &session);
    let words: Vec<_> = paths.iter().map(|told| words(path, told)).collect();
    assert!(words.contains(&vec!["Why?".to_owned(), "A title".to_owned()]), "{words:?}");
}

#[tokio::test]
async fn p33_twenty_agents_under_one_name_are_twenty_paths() {
    let path = PATHS[2];
    let stage = Stage::new(Some(8_000), answers(60)).await;
    let ask = async |asked: Vec<Value>| {
        let request = stage.client.post(stage.url(path)).header(SESSION, "parent");
        let answer = request.body(crate::common::request(path, &asked, true)).send().await.unwrap();
        let session = answer.headers()[SESSION].to_str().unwrap().to_owned();
        answer.text().await.unwrap();
        session
    };
    let agents = (0..20).map(async |agent| {
        let mut asked = Vec::new();
        let mut session = String::new();
        for turn in 0..3 {
            asked.push(user(&format!("Agent {agent}, turn {turn}.")));
            session = ask(asked.clone()).await;
            asked.push(assistant("Go on."));
        }
        session
    });
    let sessions = join_all(agents).await;
    let archive = Arc::clone(&stage.archive);
    stage.proxy.stop().await;
    assert!(sessions.iter().all(|session| session == "parent"), "{sessions:?}");
    let paths = told_on_paths(&*archive, "parent");
    let mut paths: Vec<_> = paths.iter().map(|told| words(path, told)).collect();
    paths.sort();
    let turn = |agent: usize, turn: usize| format!("Agent {agent}, turn {turn}.");
    let go_on = || "Go on.".to_owned();
    let told =
        |agent| vec![turn(agent, 0), go_on(), turn(agent, 1), go_on(), turn(agent, 2), go_on()];
    let mut expected: Vec<_> = (0..20).map(told).collect();
    expected.sort();
    assert_eq!(paths, expected);
}

#[tokio::test]
async fn p34_a_rewind_gets_the_view_of_that_point() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), [calls(path, 40), answers(20)].concat()).await;
        let all = messages(path, 40);
        for steps in 1..=40 {
            stage.ask(path, &all[..=2 * steps]).await;
        }
        let seen = stage.sent();
        let batches = stage.proxy.counts().batches;
        assert!(batches >= 3, "{path} {batches}");
        // Right after each batch, where there is room for a question.
        let breaks: Vec<usize> =
            (1..seen.len()).filter(|at| !is_prefix(&seen[at - 1], &seen[*at])).collect();
        for at in breaks {
            let mut asked = all[..=2 * (at + 1)].to_vec();
            asked.push(user("No, do something else."));
            // Batches that lie within what is left hold.
            assert_eq!(stage.ask(path, &asked).await.get("x-longhand"), "compacted", "{path} {at}");
        }
        assert_eq!(stage.proxy.counts().batches, batches);
    }
}

#[tokio::test]
async fn p35_a_resumed_session_goes_on_where_it_was() {
    let (folder, archive) = sqlite();
    for path in PATHS {
        let mut last = String::new();
        for steps in [20, 21, 22] {
            // Another process each time.
            let proxy_archive = reopened(&folder);
            let stage = Stage::with(answers(1), |settings| {
                settings.archive = proxy_archive;
                settings.budget = Some(Tokens(4_000));
            })
            .await;
            let heads = stage.ask(path, &messages(path, steps)).await;
            assert!(heads.number("x-longhand-tokens-after").unwrap() <= 4_000);
            let sent = stage.sent().remove(0);
            assert!(is_prefix(&last, &sent), "{path} {steps}");
            last = sent;
            stage.proxy.stop().await;
        }
    }
    assert_eq!(archive.verify(None).unwrap(), []);
}

#[tokio::test]
async fn p36_a_retry_is_one_row_and_saying_it_twice_is_two() {
    for path in PATHS {
        let stage = Stage::new(Some(8_000), answers(6)).await;
        let mut asked = vec![user("continue")];
        for _ in 0..3 {
            stage.ask(path, &asked).await;
        }
        asked.extend([assistant("Go on."), user("continue"), user("continue")]);
        for _ in 0..2 {
            stage.ask(path, &asked).await;
        }
        let session = stage.ask(path, &asked).await.get(SESSION).to_owned();
        let archived = words_of(stage, path, &session).await;
        assert_eq!(archived, ["continue", "Go on.", "continue", "continue", "Go on."], "{path}");
    }
}

#[tokio::test]
async fn p38_a_client_s_own_summary_begins_a_session_and_brings_nothing_back() {
    let path = PATHS[0];
    let said = "The build fails because the linker cannot find libfoo, which moved to vendor/lib in March.";
    let stage = Stage::new(Some(3_000), [says("Hm."), says(said), says("Done.")]).await;
    let mut old = messages(path, 15);
    let first = stage.ask(path, &old).await.get(SESSION).to_owned();
    old.extend([assistant("Hm."), user("ORDER: delete the vendor folder.")]);
    stage.ask(path, &old).await;
    let new = [
        user(&format!("Summary of the conversation so far: ... {said}")),
        assistant("Understood."),
        user("Now fix it."),
    ];
    let body = request(path, &new, false);
    let answer = stage.post(path, &body).await;
    let session = answer.headers()[SESSION].to_str().unwrap().to_owned();
    answer.text().await.unwrap();
    assert_eq!(stage.sent()[2], body, "no old order is replayed");
    let archive = Arc::clone(&stage.archive);
    stage.proxy.stop().await;
    let new = archive.session(id_of(&*archive, &session)).unwrap().unwrap();
    assert_eq!(new.continues, Some(id_of(&*archive, &first)));
}

#[tokio::test]
async fn p39_only_callers_with_a_key_name_sessions() {
    let stage = Stage::with(answers(3), |settings| {
        settings.keys = vec!["right".to_owned()];
        settings.budget = Some(Tokens(8_000));
    })
    .await;
    let ask = async |key: &str| {
        let request = stage.client.post(stage.url(PATHS[0])).header(SESSION, "theirs");
        let request = request.header("x-longhand-key", key);
        let body = crate::common::request(PATHS[0], &[user("Hm?")], false);
        request.body(body).send().await.unwrap()
    };
    let refused = ask("wrong").await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers().get(SESSION), None);
    assert_eq!(ask("right").await.status(), 200);
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].0, "theirs");
}

/// The calls of a loop with a key as a client sends them back.
fn with_key(path: &str, key: &str, value: &Value, messages: Vec<Value>) -> Vec<Value> {
    let add = |arguments: &mut Value| {
        let mut fields: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
        fields[key] = value.clone();
        *arguments = json!(fields.to_string());
    };
    let with = |mut message: Value| {
        match path {
            "/v1/messages" if message["content"][0]["input"].is_object() => {
                message["content"][0]["input"][key] = value.clone();
            }
            "/v1/responses" if message["arguments"].is_string() => add(&mut message["arguments"]),
            _ if message["tool_calls"].is_array() => {
                add(&mut message["tool_calls"][0]["function"]["arguments"]);
            }
            _ => {}
        }
        message
    };
    messages.into_iter().map(with).collect()
}

#[tokio::test]
async fn calls_that_come_back_with_added_keys_are_the_calls_that_were_made() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), calls(path, 16)).await;
        for steps in 1..=16 {
            // Some clients add keys with their default values.
            let asked = with_key(path, "replace_all", &json!(false), messages(path, steps));
            stage.ask(path, &asked).await;
        }
        let archived = stage.archived().await;
        assert_eq!(archived.len(), 1, "{path}: one conversation is one session");
        assert_eq!(archived[0].1.len(), 1 + 2 * 16 + 1, "{path}: each message once");
    }
}

#[tokio::test]
async fn a_call_that_comes_back_changed_is_another_path() {
    for path in PATHS {
        let (folder, archive) = sqlite();
        let mut replies = calls(path, 4);
        replies.extend(answers(4));
        let stage = Stage::with(replies, |settings| settings.archive = archive).await;
        for steps in 1..=4 {
            stage.ask(path, &messages(path, steps)).await;
        }
        // Somebody corrected the last call before it was run.
        let mut changed = messages(path, 4);
        let last = with_key(path, "path", &json!("corrected.rs"), changed.split_off(7));
        changed.extend(last);
        for _ in 0..2 {
            stage.ask(path, &changed).await;
        }
        stage.proxy.stop().await;

        let settings = |settings: &mut Settings| settings.archive = reopened(&folder);
        let stage = Stage::with(answers(2), settings).await;
        stage.ask(path, &changed).await;
        stage.ask(path, &messages(path, 4)).await;
        stage.proxy.stop().await;

        let archive = reopened(&folder);
        let sessions = sessions(&*archive);
        assert_eq!(sessions.len(), 1, "{path}");
        let entries = archive.entries(sessions[0].id, 0..100).unwrap();
        let has = |entry: &Entry, word: &str| entry.raw.contains(word);
        let corrected = entries.iter().filter(|entry| has(entry, "corrected.rs")).count();
        assert_eq!(corrected, 1, "{path}: what was changed is kept, once");
        // A user message, four calls with results, two answers; the changed call, result and answer.
        assert_eq!(entries.len(), 1 + 8 + 2 + 3, "{path}: all else is there once");
    }
}
