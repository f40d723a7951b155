//! Case 79: a tool refuses to repeat what its client believes to be in view.

use std::sync::Arc;

use crate::common::{PATHS, Stage, answers, faults, is_prefix, messages, sessions, sqlite};
use longhand::Tokens;
use serde_json::{Value, json};

const REFUSAL: &str =
    "Wasted call: file unchanged since your last Read. Refer to that earlier tool_result instead.";
const CLAIM: &str =
    "The file was updated. (file state is current in your context, no need to Read it back)";

/// A loop whose last step is about the file of its first one, and answered with these words.
fn referring(path: &str, steps: usize, words: &str) -> Vec<Value> {
    let mut all = messages(path, steps);
    let text = |value: &Value| value.to_string();
    let last = format!("src/file_{}.rs", steps - 1);
    let call = all.len() - 2;
    all[call] = serde_json::from_str(&text(&all[call]).replace(&last, "src/file_0.rs")).unwrap();
    let end = all.len() - 1;
    match path {
        "/v1/messages" => all[end]["content"][0]["content"] = json!(words),
        "/v1/responses" => all[end]["output"] = json!(words),
        _ => all[end]["content"] = json!(words),
    }
    all
}

/// How many of the 25 lines of the first file a body shows.
fn lines(body: &str) -> usize {
    body.matches("line 0 of src/file_0.rs: all is well here").count()
}

#[tokio::test]
async fn case_79_a_refusal_to_repeat_a_file_shows_the_file() {
    for path in PATHS {
        let stage = Stage::new(Some(6_000), answers(4)).await;
        stage.ask(path, &messages(path, 39)).await;
        assert!(lines(&stage.sent()[0]) < 3, "{path}: the file has made way");
        let refused = referring(path, 40, REFUSAL);
        stage.ask(path, &refused).await;
        let shown = stage.sent().pop().unwrap();
        assert!(lines(&shown) >= 25, "{path}: {shown}");
        assert!(!shown.contains("Wasted call"), "{path}");
        assert_eq!(faults(path, &shown), [], "{path}");
        // It stays where it is, and a second refusal has nothing to bring back.
        let mut more = refused.clone();
        let again = referring(path, 42, REFUSAL);
        more.extend_from_slice(&again[again.len() - 2..]);
        stage.ask(path, &more).await;
        let next = stage.sent().pop().unwrap();
        assert!(is_prefix(&shown, &next), "{path}");
        assert!(next.contains("Wasted call") && lines(&next) < 40, "{path}");
    }
}

#[tokio::test]
async fn case_79_a_file_that_is_referred_to_does_not_make_way() {
    for path in PATHS {
        // All of it comes at once, so the first plan sees the refusal.
        let stage = Stage::new(Some(6_000), answers(2)).await;
        stage.ask(path, &referring(path, 40, REFUSAL)).await;
        let shown = stage.sent().pop().unwrap();
        assert!(lines(&shown) >= 25, "{path}: {shown}");
        assert_eq!(faults(path, &shown), [], "{path}");
    }
}

#[tokio::test]
async fn case_79_a_claim_that_a_file_is_in_view_is_set_right() {
    for path in PATHS {
        let stage = Stage::new(Some(6_000), answers(3)).await;
        stage.ask(path, &messages(path, 39)).await;
        stage.ask(path, &referring(path, 40, CLAIM)).await;
        let shown = stage.sent().pop().unwrap();
        assert!(shown.contains("is not in view any more; read it again"), "{path}: {shown}");
        // Where the file is in view, the client's words stay as they are.
        let stage = Stage::new(Some(6_000), answers(3)).await;
        stage.ask(path, &referring(path, 3, CLAIM)).await;
        assert!(!stage.sent().pop().unwrap().contains("not in view any more"), "{path}");
    }
}

#[tokio::test]
async fn case_79_what_is_not_archived_is_brought_back_and_not_archived_either() {
    for path in PATHS {
        let (_folder, archive) = sqlite();
        let kept = Arc::clone(&archive);
        let stage = Stage::with(answers(4), |settings| {
            settings.archive = archive;
            settings.budget = Some(Tokens(6_000));
            settings.no_archive = true;
        })
        .await;
        stage.ask(path, &messages(path, 39)).await;
        let refused = referring(path, 40, REFUSAL);
        stage.ask(path, &refused).await;
        let shown = stage.sent().pop().unwrap();
        assert!(lines(&shown) >= 25, "{path}: {shown}");
        let mut more = refused.clone();
        more.extend_from_slice(&messages(path, 42)[refused.len()..]);
        stage.ask(path, &more).await;
        assert!(is_prefix(&shown, &stage.sent().pop().unwrap()), "{path}");
        let counts = stage.proxy.counts();
        assert_eq!((counts.archived, counts.unarchived), (0, 0), "{path}");
        stage.proxy.stop().await;
        assert!(sessions(&*kept).is_empty(), "{path}");
    }
}
