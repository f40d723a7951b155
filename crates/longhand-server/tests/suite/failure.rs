//! Whatever fails, the request does not.
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATHS, Stage, id_of, messages, request, sessions, sqlite, told, until};
use longhand::{Archive, MemoryArchive, Tokens};
use longhand_testkit::faulty::{Fault, Faulty, METHODS};
use longhand_testkit::scripted::ScriptStep;
use serde_json::{Value, json};

async fn stage(fault: Fault, steps: Vec<ScriptStep>) -> (Stage, Arc<Faulty>) {
    let archive = Arc::new(Faulty::new(Arc::new(MemoryArchive::default()), fault));
    let faulty = Arc::clone(&archive);
    let stage = Stage::with(steps, |settings| {
        settings.archive = faulty;
        settings.budget = Some(Tokens(1_000));
        if let Fault::Held = fault {
            settings.deadline = Duration::from_millis(200);
        }
    });
    (stage.await, archive)
}

#[tokio::test]
async fn a_slow_or_broken_archive_costs_no_request() {
    for (fault, outcome) in [
        (Fault::Held, "bypassed"),
        (Fault::Panic, "bypassed"),
        // What cannot be written can still be shortened.
        (Fault::Error, "compacted"),
    ] {
        for path in PATHS {
            let (stage, archive) =
                stage(fault, vec![ScriptStep::Answer("Here.".to_owned()); 2]).await;
            let body = request(path, &messages(path, 20), true);
            for _ in 0..2 {
                let answer = stage.post(path, &body).await;
                assert_eq!(answer.headers()["x-longhand"], outcome, "{fault:?}");
                assert!(answer.text().await.unwrap().contains("Here."));
                if outcome == "compacted" {
                    break;
                }
            }
            if outcome == "bypassed" {
                assert_eq!(stage.sent(), [body.as_str(), body.as_str()]);
                assert_eq!(stage.proxy.counts().bypassed, 2);
            }
            archive.release();
        }
    }
}

/// Asks in a session of that name.
async fn ask_in(stage: &Stage, session: &str, path: &str, steps: usize) -> String {
    let asked = stage.client.post(stage.url(path)).header("x-longhand-session", session);
    let body = request(path, &messages(path, steps), false);
    let answer = asked.body(body).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{session}");
    let outcome = answer.headers()["x-longhand"].to_str().unwrap().to_owned();
    assert!(answer.text().await.unwrap().contains("Here."), "{session}");
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_s_trouble_is_no_other_s() {
    let slow = Fault::Slow(Duration::from_millis(600));
    for method in METHODS {
        let faults = [Fault::Error, Fault::Panic, slow];
        futures_util::future::join_all(faults.map(|fault| trouble_of_one(method, fault))).await;
    }
}

async fn trouble_of_one(method: &'static str, fault: Fault) {
    let (_folder, disk) = sqlite();
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let proxy_archive = Arc::clone(&archive);
    let steps = vec![ScriptStep::Answer("Here.".to_owned()); 40];
    let stage = Stage::with(steps, |settings| {
        settings.archive = proxy_archive;
        settings.budget = Some(Tokens(2_000));
        settings.deadline = Duration::from_secs(20);
    })
    .await;
    let path = PATHS[0];
    ask_in(&stage, "theirs", path, 2).await;
    ask_in(&stage, "ours", path, 2).await;
    until("both are archived", || sessions(&*disk).len() == 2).await;
    archive.rule(method, Some(id_of(&*disk, "theirs")), fault);
    for steps in [6, 10, 14] {
        let (_, ours) = tokio::join!(
            ask_in(&stage, "theirs", path, steps),
            ask_in(&stage, "ours", path, steps),
        );
        assert_eq!(ours, "compacted", "{method} {fault:?} {steps}");
    }
    let ready = stage.client.get(stage.url("/longhand/ready")).send().await.unwrap();
    let ready: Value = serde_json::from_str(&ready.text().await.unwrap()).unwrap();
    assert_eq!(ready["archive"], true, "{method} {fault:?}: {ready}");
    stage.proxy.stop().await;
    let told = told(&*disk, "ours");
    assert_eq!(told.len(), 1 + 2 * 14 + 1, "{method} {fault:?}");
    assert_eq!(disk.verify(None).unwrap(), [], "{method} {fault:?}");
}

/// What the proxy says of itself.
async fn ready(stage: &Stage) -> Value {
    let ready = stage.client.get(stage.url("/longhand/ready")).send().await.unwrap();
    serde_json::from_str(&ready.text().await.unwrap()).unwrap()
}

/// A proxy of a budget of 2,000 tokens before an archive.
async fn before(archive: Arc<dyn Archive>) -> Stage {
    Stage::with(vec![ScriptStep::Answer("Here.".to_owned()); 60], |settings| {
        settings.archive = archive;
        settings.budget = Some(Tokens(2_000));
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_slow_to_read_again_holds_up_no_other_s_writes() {
    let (_folder, disk) = sqlite();
    let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
    let stage = before(Arc::clone(&archive) as Arc<dyn Archive>).await;
    let path = PATHS[0];
    for session in ["theirs", "ours"] {
        ask_in(&stage, session, path, 2).await;
    }
    until("both are archived", || sessions(&*disk).len() == 2).await;
    let theirs = id_of(&*disk, "theirs");
    archive.rule("tree", Some(theirs), Fault::Held);
    // Another process says something in that session, so that what comes next is in conflict.
    let entry =
        longhand::driver::new_entry("chat", r#"{"role":"user","content":"x"}"#.into(), true, 0);
    disk.append(theirs, longhand_archive::After::Newest, &[entry.unwrap()]).unwrap();
    ask_in(&stage, "theirs", path, 3).await;
    assert_eq!(ask_in(&stage, "ours", path, 14).await, "compacted");
    until("ours is archived", || told(&*disk, "ours").len() == 1 + 2 * 14 + 1).await;
    archive.release();
    stage.proxy.stop().await;
    // What was in conflict has its place, too.
    let raws = disk.entries(theirs, 0..u64::MAX).unwrap().into_iter().map(|entry| entry.raw);
    assert_eq!(raws.filter(|raw| raw.contains("file_2.rs")).count(), 2);
}

#[test]
fn requests_that_wait_for_one_session_leave_threads_for_others() {
    // As many threads as `longhand serve` has.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (_folder, disk) = sqlite();
        let path = PATHS[0];
        let stage = before(Arc::clone(&disk)).await;
        for session in ["theirs", "ours"] {
            ask_in(&stage, session, path, 10).await;
        }
        stage.proxy.stop().await;
        let archive = Arc::new(Faulty::new(Arc::clone(&disk), Fault::None));
        archive.rule("tree", Some(id_of(&*disk, "theirs")), Fault::Held);
        let stage = Arc::new(before(Arc::clone(&archive) as Arc<dyn Archive>).await);
        let theirs: Vec<_> = (0..30)
            .map(|_| {
                let stage = Arc::clone(&stage);
                tokio::spawn(async move { ask_in(&stage, "theirs", path, 11).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        for steps in [11, 12, 13] {
            assert_eq!(ask_in(&stage, "ours", path, steps).await, "compacted");
        }
        for asked in theirs {
            asked.abort();
        }
        archive.release();
    });
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_session_is_counted_and_hurts_no_other() {
    let path = PATHS[0];
    for damage in [
        "UPDATE session SET name = name || 'x' WHERE name = 'theirs'",
        "UPDATE session SET owner = x'00112233445566778899aabbccddeeff' WHERE name = 'theirs'",
        "UPDATE entry SET link = zeroblob(16) WHERE session = (SELECT id FROM session WHERE name = 'theirs')",
        "UPDATE head SET entries = entries + 7 WHERE session = (SELECT id FROM session WHERE name = 'theirs')",
    ] {
        let (folder, disk) = sqlite();
        let stage = before(disk).await;
        for session in ["theirs", "ours"] {
            ask_in(&stage, session, path, 2).await;
        }
        stage.proxy.stop().await;
        let file = folder.path().join("archive.db");
        let changed = rusqlite::Connection::open(&file).unwrap().execute(damage, []);
        let Ok(changed) = changed else { panic!("{damage}: {changed:?}") };
        assert!(changed > 0, "{damage}");
        let disk = crate::common::reopened(&folder);
        let stage = before(Arc::clone(&disk)).await;
        for steps in [6, 10, 14] {
            let (_, ours) = tokio::join!(
                ask_in(&stage, "theirs", path, steps),
                ask_in(&stage, "ours", path, steps),
            );
            assert_eq!(ours, "compacted", "{damage}");
            // Sent again, it has nothing new, and waits for nothing.
            ask_in(&stage, "theirs", path, steps).await;
        }
        until("ours is archived", || told(&*disk, "ours").len() == 30).await;
        let ready = ready(&stage).await;
        assert_eq!(ready["archive"], true, "{damage}: {ready}");
        let is_counted = ready["troubled_sessions"] == 1 && ready["unarchived"].as_u64() > Some(0);
        // A session that is another owner's by now is not touched at all.
        let is_left_alone = stage.proxy.counts().bypassed == 6;
        // Where only entries are damaged, the conversation begins anew beside them.
        let newest = || disk.path(id_of(&*disk, "theirs"), None, 0..u64::MAX).unwrap_or_default();
        let is_kept = !is_counted && !is_left_alone && newest().len() >= 28;
        assert!(is_counted || is_left_alone || is_kept, "{damage}: {ready} {}", newest().len());
        for _ in 0..3_000 {
            if self::ready(&stage).await["archive_queue"] == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(
            self::ready(&stage).await["archive_queue"],
            0,
            "{damage}: nothing waits for ever"
        );
        stage.proxy.stop().await;
        assert!(disk.verify(Some(id_of(&*disk, "ours"))).unwrap().is_empty(), "{damage}");
    }
}

#[tokio::test]
async fn an_archive_that_is_moved_or_replaced_is_noticed() {
    for required in [false, true] {
        for replaced in [false, true] {
            let (folder, archive) = sqlite();
            let stage = Stage::with(vec![ScriptStep::Answer("Here.".to_owned()); 9], |settings| {
                settings.archive = archive;
                settings.require_archive = required;
            })
            .await;
            let path = PATHS[0];
            let ready = async || {
                let ready = stage.client.get(stage.url("/longhand/ready")).send().await.unwrap();
                let status = ready.status().as_u16();
                let body: Value = serde_json::from_str(&ready.text().await.unwrap()).unwrap();
                (status, body["archive"] == true)
            };
            ask_in(&stage, "task", path, 1).await;
            assert_eq!(ready().await, (200, true));
            let file = folder.path().join("archive.db");
            std::fs::rename(&file, folder.path().join("elsewhere.db")).unwrap();
            if replaced {
                std::fs::copy(folder.path().join("elsewhere.db"), &file).unwrap();
            }
            let answer = stage.post(path, &request(path, &messages(path, 2), false)).await;
            let expected = if required { 503 } else { 200 };
            assert_eq!(answer.status(), expected, "{required} {replaced}");
            let status = if required { 503 } else { 200 };
            assert_eq!(ready().await, (status, false), "{required} {replaced}");
            std::fs::rename(folder.path().join("elsewhere.db"), &file).unwrap();
            // It is there again.
            ask_in(&stage, "task", path, 2).await;
            assert_eq!(ready().await, (200, true), "{required} {replaced}");
        }
    }
}

#[tokio::test]
async fn an_archive_that_is_deleted_under_a_running_proxy_is_noticed() {
    for required in [false, true] {
        let (folder, archive) = sqlite();
        let stage = Stage::with(vec![ScriptStep::Answer("Here.".to_owned()); 9], |settings| {
            settings.archive = archive;
            settings.require_archive = required;
        })
        .await;
        let path = PATHS[0];
        ask_in(&stage, "task", path, 1).await;
        for file in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        for steps in [2, 3] {
            let answer = stage.post(path, &request(path, &messages(path, steps), false)).await;
            assert_eq!(answer.status(), if required { 503 } else { 200 });
            answer.text().await.unwrap();
        }
        assert_eq!(ready(&stage).await["archive"], false);
        if !required {
            until("it is counted", || stage.proxy.counts().unarchived > 0).await;
        }
        stage.proxy.stop().await;
        assert!(!folder.path().join("archive.db").exists(), "nothing takes its place in silence");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_ends_in_an_error_and_the_session_goes_on() {
    for path in PATHS {
        let cut = ScriptStep::Cut("one two three four five six".to_owned());
        let stage = Stage::new(Some(8_000), [cut, ScriptStep::Answer("Here.".to_owned())]).await;
        let mut messages = messages(path, 1);
        let answer = stage.post(path, &request(path, &messages, true)).await;
        assert_eq!(answer.status(), 200);
        assert!(answer.text().await.is_err());
        messages.push(json!({"role": "user", "content": "Again."}));
        stage.post(path, &request(path, &messages, true)).await.text().await.unwrap();
        let archived = stage.archived().await;
        assert_eq!(archived.len(), 1);
        // What came of the first answer is a path of its own.
        assert_eq!(archived[0].1.len(), messages.len() + 2, "{archived:#?}");
    }
}

#[tokio::test]
async fn garbage_is_passed_on_as_it_is() {
    for step in [ScriptStep::Garbage, ScriptStep::Empty, ScriptStep::Page] {
        for path in PATHS {
            let stage = Stage::new(Some(8_000), [step.clone()]).await;
            let answer = stage.post(path, &request(path, &messages(path, 1), true)).await;
            assert_eq!(answer.status(), 200);
            let text = answer.text().await.unwrap();
            assert_eq!(text.is_empty(), matches!(step, ScriptStep::Empty));
        }
    }
}

#[tokio::test]
async fn a_web_page_cannot_drive_it() {
    let stage = Stage::new(None, [ScriptStep::Answer("no".to_owned())]).await;
    for (name, value) in [
        ("host", "evil.example"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
        // Another user of this machine may serve it.
        ("origin", "http://localhost:3000"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let request = stage.client.get(stage.url("/v1/models")).header(name, value);
        assert_eq!(request.send().await.unwrap().status(), 403);
    }
    assert!(stage.server.requests().is_empty());
}

#[tokio::test]
async fn only_pages_of_the_proxy_itself_may_call_it() {
    let stage = Stage::new(None, vec![ScriptStep::Answer("yes".to_owned()); 8]).await;
    let port = stage.proxy.address().port();
    for (origin, expected) in [
        (format!("http://127.0.0.1:{port}"), true),
        (format!("http://localhost:{port}"), true),
        (format!("HTTP://LOCALHOST:{port}"), true),
        (format!("https://localhost:{port}"), false),
        (format!("http://localhost:{}", port - 1), false),
        // Another user may listen on the same port of another loopback address.
        (format!("http://[::1]:{port}"), false),
        ("http://localhost".to_owned(), false),
        ("null".to_owned(), false),
    ] {
        // Each kind of path has a guard of its own.
        let path = "/v1/chat/completions";
        let body = request(path, &messages(path, 1), false);
        for call in [
            stage.client.get(stage.url("/longhand/health")),
            stage.client.get(stage.url("/v1/models")),
            stage.client.post(stage.url(path)).body(body),
        ] {
            let status = call.header("origin", &origin).send().await.unwrap().status();
            assert_eq!(status, if expected { 200 } else { 403 }, "{origin}");
        }
    }
}

#[tokio::test]
async fn thinking_and_marks_do_not_break_the_chain() {
    let path = "/v1/messages";
    let stage = Stage::new(Some(3_000), vec![ScriptStep::Answer("Go on.".to_owned()); 30]).await;
    for steps in 1..=30 {
        let mut messages = messages(path, steps);
        for (at, message) in messages.iter_mut().enumerate() {
            if message["role"] == "assistant" {
                let thought = json!({"type": "thinking", "thinking": format!("Hm {at}."), "signature": "c2ln"});
                message["content"].as_array_mut().unwrap().insert(0, thought);
            }
        }
        // Clients move their mark to the newest message.
        let last = messages.last_mut().unwrap();
        last["content"][0]["cache_control"] = json!({"type": "ephemeral"});
        let answer = stage.post(path, &request(path, &messages, false)).await;
        assert_eq!(answer.status(), 200);
        answer.text().await.unwrap();
    }
    let counts = stage.proxy.counts();
    assert_eq!(counts.bypassed, 0);
    assert!((1..=8).contains(&counts.batches), "{counts:?}");
    for body in stage.sent() {
        let conversation =
            longhand_dialect::read(body.into_bytes(), Some(longhand_dialect::Dialect::Anthropic))
                .unwrap();
        let faults: Vec<_> =
            conversation.check().into_iter().filter(longhand_dialect::Finding::is_fault).collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
    // The answers between were never taken up: they are paths of the one session.
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0].1.len(), 1 + 2 * 30 + 30);
}
