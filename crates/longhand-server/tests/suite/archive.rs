//! What the archive has of conversations that went through a proxy.
use std::sync::Arc;

use crate::common::{PATHS, Stage, messages, opened, request, told_on_paths, words};
use longhand::Archive;
use longhand_archive::Scope;
use longhand_core::Handle;
use longhand_testkit::scripted::ScriptStep;
use serde_json::json;

fn say(text: &str) -> ScriptStep {
    ScriptStep::Answer(text.to_owned())
}

#[tokio::test]
async fn what_a_window_leaves_out_can_be_brought_back() {
    for path in PATHS {
        let stage = Stage::new(Some(3_000), [say("Go on.")]).await;
        let asked = messages(path, 20);
        stage.post(path, &request(path, &asked, false)).await.text().await.unwrap();
        let sent = stage.sent().remove(0);
        let archive = Arc::clone(&stage.archive);
        stage.archived().await;
        let is_of_a_handle = |c: char| c.is_ascii_alphanumeric() || c == ':';
        let handles: Vec<Handle> = sent
            .split(|c| !is_of_a_handle(c))
            .filter_map(|word| {
                Handle::parse(word.trim_end_matches(':')).filter(|_| word.starts_with("h:"))
            })
            .collect();
        assert!(!handles.is_empty(), "{path}: {sent:.2000}");
        for handle in handles {
            assert!(opened(&*archive, handle).is_some(), "{path} {handle}");
        }
    }
}

#[tokio::test]
async fn an_input_that_is_a_string_is_a_message_like_any_other() {
    let stage = Stage::new(Some(8_000), [say("An axolotl."), say("Pink.")]).await;
    let path = "/v1/responses";
    let first = json!({"model": "scripted", "input": "Which animal?"});
    stage.post(path, &first.to_string()).await.text().await.unwrap();
    let second = [
        json!({"role": "user", "content": "Which animal?"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "An axolotl."}]}),
        json!({"role": "user", "content": "Which colour?"}),
    ];
    stage.post(path, &request(path, &second, true)).await.text().await.unwrap();
    let archive = Arc::clone(&stage.archive);
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1, "{archived:#?}");
    assert_eq!(archived[0].1.len(), 4);
    assert_eq!(archive.search(&Scope::All, "axolotl", 10).unwrap().len(), 1);
    assert_eq!(archive.search(&Scope::All, "which animal", 10).unwrap().len(), 1);
}

#[tokio::test]
async fn forks_share_the_past_and_repeat_nothing() {
    let path = PATHS[0];
    let stage = Stage::new(Some(8_000), ["one", "two", "three", "four"].map(say)).await;
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": text});
    for messages in [
        vec![user("a")],
        // Again, for another answer.
        vec![user("a")],
        // The second answer is the one that is taken.
        vec![user("a"), assistant("two"), user("b")],
        // What was said then is edited.
        vec![user("a"), assistant("two"), user("B")],
    ] {
        stage.post(path, &request(path, &messages, false)).await.text().await.unwrap();
    }
    let archive = Arc::clone(&stage.archive);
    let archived = stage.archived().await;
    assert_eq!(archived.len(), 1, "{archived:#?}");
    assert_eq!(archived[0].1.len(), 7, "{archived:#?}");
    let paths = told_on_paths(&*archive, &archived[0].0);
    let paths: Vec<String> = paths.iter().map(|told| words(path, told).join(" ")).collect();
    assert_eq!(paths, ["a one", "a two b three", "a two B four"]);
}

#[tokio::test]
async fn a_window_goes_on_after_a_restart() {
    for path in PATHS {
        let stage = Stage::new(Some(4_000), [say("Go on.")]).await;
        stage.post(path, &request(path, &messages(path, 20), false)).await.text().await.unwrap();
        let before = stage.sent().remove(0);
        let archive = Arc::clone(&stage.archive);
        stage.archived().await;

        let stage = Stage::with([say("Go on.")], |settings| {
            settings.budget = Some(longhand::Tokens(4_000));
            settings.archive = Arc::clone(&archive) as Arc<dyn Archive>;
        })
        .await;
        stage.post(path, &request(path, &messages(path, 21), false)).await.text().await.unwrap();
        let after = stage.sent().remove(0);
        let end = before.rfind(']').unwrap();
        assert_eq!(before[..end], after[..end], "{path}");
        assert_eq!(stage.proxy.counts().batches, 0);
    }
}
