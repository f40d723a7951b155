//! What people see and can take back.

use std::sync::Arc;

use longhand::Tokens;
use serde_json::Value;

use crate::common::{PATHS, Stage, batches, calls, id_of, is_prefix, messages, sqlite, until};

#[tokio::test]
async fn p76_a_batch_is_shown_with_its_sizes_and_can_be_taken_back() {
    for path in PATHS {
        let (_folder, archive) = sqlite();
        let stage = Stage::with(calls(path, 60), |settings| {
            settings.archive = Arc::clone(&archive);
            settings.budget = Some(Tokens(4_000));
        })
        .await;
        let all = messages(path, 40);
        let (mut session, mut steps) = (String::new(), 0);
        // Until the second batch: taking it back leaves the first.
        while stage.proxy.counts().batches < 2 {
            steps += 1;
            let heads = stage.ask(path, &all[..=2 * steps]).await;
            heads.get("x-longhand-session").clone_into(&mut session);
        }
        until("both batches are kept", || batches(&*archive, &session).len() == 2).await;
        for batch in batches(&*archive, &session) {
            let receipt: Value = serde_json::from_str(&batch.receipt).unwrap();
            let size = |name: &str| receipt[name].as_u64().unwrap();
            assert!(size("tokens_before") > size("tokens_after"), "{receipt}");
            assert_eq!(receipt["why"], "budget");
        }
        let before = stage.sent();
        let compacted = before.last().unwrap().clone();
        let undone = archive.undo(id_of(&*archive, &session), None).unwrap().unwrap();
        assert_eq!(undone.number, 2);
        stage.ask(path, &all[..=2 * (steps + 1)]).await;
        let sent = stage.sent().pop().unwrap();
        // What the first batch left is too long again: there is another one, and not the one of before.
        assert!(!is_prefix(&compacted, &sent), "{path}: the batch is still in force");
        until("a batch is kept", || batches(&*archive, &session).len() == 3).await;
        assert!(!batches(&*archive, &session)[1].is_live);
    }
}
