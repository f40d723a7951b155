//! Recall.

use std::sync::{Arc, Mutex};

use longhand::Tokens;
use longhand_core::Handle;

use crate::common::raw::{RawServer, whole};
use crate::common::{PATHS, Stage, calls, messages, opened, reopened, sqlite, user};

/// The handles that a model was shown.
fn handles(body: &str) -> Vec<Handle> {
    let is_of_one = |c: char| c.is_ascii_alphanumeric() || c == ':';
    let words = body.split(|c| !is_of_one(c)).filter(|word| word.starts_with("h:"));
    words.filter_map(|word| Handle::parse(word.trim_end_matches(':'))).collect()
}

#[tokio::test]
async fn p53_every_handle_ever_shown_leads_back_after_a_restart() {
    for path in PATHS {
        let (folder, archive) = sqlite();
        let stage = Stage::with(calls(path, 30), |settings| {
            settings.archive = archive;
            settings.budget = Some(Tokens(3_000));
            // Windows have many stubs and not only a block.
            settings.low_water_percent = 70;
        })
        .await;
        for steps in 1..=30 {
            stage.ask(path, &messages(path, steps)).await;
        }
        let mut shown: Vec<Handle> = stage.sent().iter().flat_map(|body| handles(body)).collect();
        shown.sort_unstable();
        shown.dedup();
        assert!(shown.len() > 10, "{path} {}", shown.len());
        stage.proxy.stop().await;
        let archive = reopened(&folder);
        for handle in shown {
            let original = opened(&*archive, handle);
            let original = original.unwrap_or_else(|| panic!("{path}: {handle} leads nowhere"));
            assert!(!original.is_empty());
        }
    }
}

#[tokio::test]
async fn p55_originals_are_kept_before_they_are_missed() {
    for path in PATHS {
        let (_folder, archive) = sqlite();
        let upstream_archive = Arc::clone(&archive);
        let seen = Arc::new(Mutex::new((0, 0)));
        let noted = Arc::clone(&seen);
        // The upstream looks into the archive while it is asked.
        let upstream = RawServer::start(move |got| {
            let shown = handles(&String::from_utf8_lossy(&got.body));
            let found =
                shown.iter().filter(|handle| opened(&*upstream_archive, **handle).is_some());
            *noted.lock().unwrap() = (shown.len(), found.count());
            whole("application/json", "{}")
        });
        let stage = Stage::with([], |settings| {
            settings.upstream_openai = Some(upstream.url());
            settings.upstream_anthropic = Some(upstream.url());
            settings.archive = archive;
            settings.require_archive = true;
            settings.budget = Some(Tokens(3_000));
        })
        .await;
        let mut asked = messages(path, 20);
        // Base64 like any other text.
        asked.insert(1, user(&"aGVsbG8gd29ybGQ/".repeat(200)));
        stage.post(path, &crate::common::request(path, &asked, false)).await;
        let (shown, found) = *seen.lock().unwrap();
        assert!(shown > 0 && shown == found, "{path} {shown} {found}");
    }
}
