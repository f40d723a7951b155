//! Conversations that are left out of the archive.
use std::sync::Arc;

use crate::common::{
    PATHS, Stage, answers, is_prefix, legible, messages, request, sessions, sqlite,
};
use longhand::Tokens;
use longhand_core::Handle;
use longhand_server::RecallTool;

/// Whether a text names a handle.
fn names_handle(text: &str) -> bool {
    text.match_indices("h:")
        .any(|(at, _)| text.get(at..at + 14).is_some_and(|handle| Handle::parse(handle).is_some()))
}

#[tokio::test]
async fn nothing_of_them_is_kept_and_no_handle_is_offered() {
    for path in PATHS {
        for by_header in [true, false] {
            let (folder, archive) = sqlite();
            let proxy_archive = Arc::clone(&archive);
            let stage = Stage::with(answers(12), |settings| {
                settings.archive = proxy_archive;
                settings.budget = Some(Tokens(3_000));
                settings.recall_tool = RecallTool::Always;
                settings.no_archive = !by_header;
            })
            .await;
            let ask = async |steps: usize| {
                let mut call = stage.client.post(stage.url(path)).bearer_auth("k");
                if by_header {
                    call = call.header("x-longhand-no-archive", "1");
                }
                let body = request(path, &messages(path, steps), false);
                let answer = call.body(body).send().await.unwrap();
                assert_eq!(answer.headers().get("x-longhand-session"), None);
                let outcome = answer.headers()["x-longhand"].to_str().unwrap().to_owned();
                answer.text().await.unwrap();
                outcome
            };
            for steps in [20, 21, 22] {
                assert_eq!(ask(steps).await, "compacted", "{path} {by_header}");
            }
            assert_eq!(stage.proxy.counts().batches, 1, "edits hold from request to request");
            let sent = stage.sent();
            for body in &sent {
                assert!(body.contains("[longhand "), "{body}");
                assert!(!names_handle(body), "{path} {by_header}: {body}");
                assert!(!body.contains("longhand_recall"), "nothing can be brought back");
            }
            assert!(sent.windows(2).all(|pair| is_prefix(&pair[0], &pair[1])), "{path}");
            assert_eq!(stage.proxy.counts().archived, 0);
            if by_header {
                // Without the header the same conversation is kept as ever.
                let heads = stage.ask(path, &messages(path, 20)).await;
                assert_eq!(heads.get("x-longhand"), "compacted");
                assert!(names_handle(&stage.sent()[3]), "{path}");
            }
            stage.proxy.stop().await;
            assert_eq!(sessions(&*archive).len(), usize::from(by_header), "{path}");
            drop(archive);
            assert!(!legible(&folder).contains("line 21 of"), "{path} {by_header}");
        }
    }
}

#[tokio::test]
async fn where_all_must_be_archived_nobody_opts_out() {
    let stage = Stage::with(answers(2), |settings| settings.require_archive = true).await;
    let body = request(PATHS[0], &messages(PATHS[0], 1), false);
    let call = stage.client.post(stage.url(PATHS[0])).header("x-longhand-no-archive", "1");
    assert_eq!(call.body(body).send().await.unwrap().status(), 403);
    assert!(stage.sent().is_empty());
}
