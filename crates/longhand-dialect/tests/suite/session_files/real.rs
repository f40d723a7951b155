//! Real session files, where they are at hand.

use std::path::PathBuf;

use longhand_core::{Message, Role};
use longhand_dialect::{Dialect, read};

use super::common::parse;

/// The third-party files that are measured against, where they are at hand.
fn shared() -> Option<PathBuf> {
    let near = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into();
    let path = std::env::var_os("LONGHAND_SHARED").map_or_else(near, PathBuf::from);
    path.join("data/formats").is_dir().then_some(path)
}

#[test]
fn real_files_have_the_messages_that_are_known_of_them() {
    let Some(shared) = shared() else {
        eprintln!("no shared data here: real session files are not read");
        return;
    };
    let manifest = std::fs::read(shared.join("data/traces/MANIFEST.json")).unwrap();
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    for (file, dialect, trace) in [
        ("claude-code/spotter-ae4a77f8.jsonl", Dialect::ClaudeCode, "cc-spotter-ae4a77f8"),
        (
            "claude-code/claude-code-viewer-5c0375b4.jsonl",
            Dialect::ClaudeCode,
            "cc-claude-code-viewer-5c0375b4",
        ),
        ("pi/large-session.jsonl", Dialect::Pi, "pi-large-session"),
        ("codex/agent-sessions-small.jsonl", Dialect::Codex, "codex-agent-sessions-small"),
    ] {
        let bytes = std::fs::read_to_string(shared.join("data/formats").join(file)).unwrap();
        let session = parse(&bytes, dialect);
        let known =
            manifest.iter().find(|entry| entry["file"] == format!("traces/{trace}.json")).unwrap();
        let known = |role: &str| known["roles"][role].as_u64().unwrap() as usize;
        let count =
            |is: &dyn Fn(&Message) -> bool| session.messages.iter().filter(|m| is(m)).count();
        assert_eq!(count(&Message::is_user_turn), known("user"), "{file}");
        assert!(session.check().iter().all(|finding| !finding.grave), "{file}");
        if dialect == Dialect::Codex {
            // The trace has only some of its items, joined.
            continue;
        }
        let results: usize = session.messages.iter().map(|message| message.results().count()).sum();
        assert_eq!(results, known("tool"), "{file}");
        // The trace leaves out a reply whose only call was never answered.
        let replies = count(&|message| message.role == Role::Assistant);
        assert!(
            (known("assistant")..=known("assistant") + 1).contains(&replies),
            "{file}: {replies}"
        );
    }
    let side =
        std::fs::read(shared.join("data/formats/claude-code/spotter-ae4a77f8-acompact.jsonl"));
    assert_eq!(read(side.unwrap(), None).unwrap().messages.len(), 2, "all of it is side chain");
    let other = std::fs::read(shared.join("data/formats/copilot/agent-sessions-small.jsonl"));
    let told = read(other.unwrap(), None).unwrap();
    let users = told.messages.iter().filter(|message| message.is_user_turn()).count();
    assert_eq!((told.dialect, told.messages.len(), users), (Dialect::Chat, 11, 2));
}
