//! What agents load of their files: branches, compactions, what these keep and clear.

use std::fmt::Write as _;

use longhand_core::{Part, Tokens};
use longhand_dialect::{
    Conversation, Dialect, FaultKind, SessionFileStart, mend, read, read_as_loaded,
};
use proptest::prelude::*;

use super::common::{fold, render, shown};
use crate::common::{Operation, window};

fn load(lines: &str, dialect: Dialect) -> Conversation {
    let read = read_as_loaded(lines.as_bytes().to_vec(), Some(dialect));
    let conversation = read.unwrap_or_else(|error| panic!("{error}: {lines}"));
    assert_eq!(conversation.apply(&[]), lines);
    conversation
}

fn words(conversation: &Conversation) -> String {
    let mut out = String::new();
    for message in &conversation.messages {
        let parts: Vec<String> = message.parts.iter().map(shown).collect();
        let _ = write!(out, "{}:{} ", &message.role.as_str()[..1], parts.join("+"));
    }
    out.trim_end().to_owned()
}

#[track_caller]
fn check(lines: &[String], dialect: Dialect, expected: &str) -> Conversation {
    let conversation = load(&lines.concat(), dialect);
    assert_eq!(words(&conversation), expected);
    conversation
}

fn line(uuid: &str, parent: &str, kind: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"parentUuid":{parent},"type":"{kind}","sessionId":"s",{rest},"uuid":"{uuid}"}}"#)
        + "\n"
}

fn user(uuid: &str, parent: &str, text: &str) -> String {
    line(uuid, parent, "user", &format!(r#""message":{{"role":"user","content":"{text}"}}"#))
}

fn answer(uuid: &str, parent: &str, block: &str, input: u64) -> String {
    let message = format!(
        r#""message":{{"id":"m{uuid}","role":"assistant","model":"claude-opus-4-6","content":[{block}],"usage":{{"input_tokens":{input},"output_tokens":7}}}}"#
    );
    line(uuid, parent, "assistant", &message)
}

fn text(text: &str) -> String {
    format!(r#"{{"type":"text","text":"{text}"}}"#)
}

fn call(id: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#)
}

fn result(uuid: &str, parent: &str, call: &str) -> String {
    let message = format!(
        r#""message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"of {call}"}}]}}"#
    );
    line(uuid, parent, "user", &message)
}

fn boundary(uuid: &str, logical: &str, metadata: &str) -> String {
    let rest = format!(
        r#""subtype":"compact_boundary","logicalParentUuid":"{logical}","compactMetadata":{{{metadata}}}"#
    );
    line(uuid, "", "system", &rest)
}

fn summary(uuid: &str, parent: &str) -> String {
    let rest = r#""isCompactSummary":true,"message":{"role":"user","content":"what was"}"#;
    line(uuid, parent, "user", rest)
}

const CLAUDE: Dialect = Dialect::ClaudeCode;

#[test]
fn a_branch_that_was_left_is_not_loaded() {
    let lines = [
        user("1", "", "go"),
        answer("2", "1", &text("first try"), 10),
        user("3", "2", "no"),
        user("4", "1", "again"),
    ];
    let session = check(&lines, CLAUDE, "u:go u:again");
    let loaded = session.loaded().unwrap();
    assert_eq!((loaded.lines, loaded.lines_off, loaded.dangling), (4, 2, 0));
    assert_eq!(loaded.bytes_off, lines[1].len() + lines[2].len() - 2);
    assert_eq!(read(lines.concat().into_bytes(), None).unwrap().messages.len(), 4, "all is kept");
}

#[test]
fn a_file_is_loaded_from_its_newest_compaction() {
    let lines = [
        user("1", "", "go"),
        answer("2", "1", &text("done"), 100),
        boundary("3", "2", r#""trigger":"auto""#),
        summary("4", "3"),
        user("5", "4", "on"),
        answer("6", "5", &text("more"), 40),
    ];
    let session = check(&lines, CLAUDE, "u:what was u:on a:more");
    let loaded = session.loaded().unwrap();
    assert_eq!((loaded.compactions, loaded.lines_off), (1, 2));
    let opening = loaded.opening.as_ref().unwrap();
    assert_eq!((opening.messages.len(), opening.input_tokens), (2, 40), "the first since then");
    let fresh = load(&lines[..5].concat(), CLAUDE);
    assert_eq!(fresh.loaded().unwrap().opening.as_ref().unwrap().input_tokens, 100);
    // A fold stands where the agent finds it.
    let written = render(&session, &[fold(&[(0, 2)])]);
    let after = load(&written, CLAUDE);
    assert_eq!(words(&after), "u:F a:more");
    assert!(written.starts_with(&lines[..3].concat()), "what is not loaded stays");
}

#[test]
fn messages_that_a_compaction_kept_follow_its_summary() {
    let kept = r#""preservedMessages":{"anchorUuid":"6","uuids":["3","4"]}"#;
    let lines = |kept: &str| {
        [
            user("1", "", "go"),
            answer("2", "1", &text("done"), 100),
            user("3", "2", "kept"),
            answer("4", "3", &text("kept too"), 100),
            boundary("5", "4", kept),
            summary("6", "5"),
            user("7", "6", "on"),
        ]
    };
    let session = check(&lines(kept), CLAUDE, "u:what was u:kept a:kept too u:on");
    let segment = r#""preservedSegment":{"headUuid":"3","anchorUuid":"6","tailUuid":"4"}"#;
    check(&lines(segment), CLAUDE, "u:what was u:kept a:kept too u:on");
    let dangling = r#""preservedMessages":{"anchorUuid":"6","uuids":["3","x"]}"#;
    check(&lines(dangling), CLAUDE, "u:what was u:on");
    // A window of it is written behind all other lines.
    let written = render(&session, &[fold(&[(0, 2)])]);
    assert!(written.starts_with(&lines(kept).concat()));
    assert_eq!(words(&load(&written, CLAUDE)), "u:F a:kept too u:on");
}

#[test]
fn results_that_were_cleared_are_empty() {
    let clear =
        r#""subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":["t1"]}"#;
    let lines = [
        user("1", "", "go"),
        answer("2", "1", &call("t1"), 10),
        result("3", "2", "t1"),
        answer("4", "3", &call("t2"), 10),
        result("5", "4", "t2"),
        line("6", "5", "system", clear),
        answer("7", "6", &text("ok"), 10),
    ];
    let expected = "u:go a:t1=f u:t1->[Old tool result content cleared] a:t2=f u:t2->of t2 a:ok";
    let session = check(&lines, CLAUDE, expected);
    assert_eq!(session.loaded().unwrap().cleared, 1);
    let new = resumed(&session, &[]);
    assert_eq!(words(&load(&new, CLAUDE)), expected, "also in a new session");
    assert!(!new.contains("of t1"));
}

#[test]
fn parallel_calls_have_all_their_results() {
    let same = |line: String| line.replace(r#""id":"m3""#, r#""id":"m2""#);
    let lines = [
        user("1", "", "go"),
        answer("2", "1", &call("t1"), 10),
        same(answer("3", "2", &call("t2"), 10)),
        result("4", "2", "t1"),
        result("5", "3", "t2"),
        answer("6", "5", &text("ok"), 10),
    ];
    check(&lines, CLAUDE, "u:go a:t1=f+t2=f u:t1->of t1 u:t2->of t2 a:ok");
}

#[test]
fn the_agents_own_words_for_an_error_are_not_sent() {
    let error = line(
        "3",
        "1",
        "assistant",
        r#""isApiErrorMessage":true,"message":{"id":"e","model":"<synthetic>","role":"assistant","content":[{"type":"text","text":"API Error"}]}"#,
    );
    let lines = [user("1", "", "go"), error, user("4", "3", "again")];
    check(&lines, CLAUDE, "u:go u:again");
}

#[test]
fn circles_dangling_parents_and_half_lines_have_an_end() {
    let circle = [user("1", "2", "a"), answer("2", "1", &text("b"), 1)];
    check(&circle, CLAUDE, "u:a a:b");
    let session = check(&[user("1", "gone", "a"), user("2", "1", "b")], CLAUDE, "u:a u:b");
    assert_eq!(session.loaded().unwrap().dangling, 1);
    let half = [
        user("1", "", "a"),
        "{\"type\":\"us\n".to_owned(),
        user("2", "1", "b"),
        "{\"ty".to_owned(),
    ];
    let session = check(&half, CLAUDE, "u:a u:b");
    assert_eq!(session.loaded().unwrap().unread, [2, 4]);
    assert!(read(half.concat().into_bytes(), None).is_err());
}

fn resumed(session: &Conversation, operations: &[Operation]) -> String {
    let file = SessionFileStart {
        id: "11112222-3333-4444-8555-666677778888".to_owned(),
        time: "2026-11-18T10:00:00.000Z".to_owned(),
        parent: "old.jsonl".to_owned(),
        tokens_before: Tokens(9).0,
    };
    session.as_new_session(&window(session, operations), &file).unwrap()
}

#[test]
fn a_new_session_of_claude_code_begins_as_its_compactions_do() {
    let lines = [
        user("1", "", "go"),
        answer("2", "1", &text("done"), 100),
        user("3", "2", "on"),
        answer("4", "3", &text("more"), 120),
    ];
    let session = load(&lines.concat(), CLAUDE);
    let new = resumed(&session, &[fold(&[(0, 2)])]);
    let lines: Vec<serde_json::Value> =
        new.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["subtype"], "compact_boundary");
    assert_eq!(
        (&lines[0]["logicalParentUuid"], &lines[0]["parentUuid"]),
        (&"4".into(), &serde_json::Value::Null)
    );
    assert_eq!(lines[1]["isCompactSummary"], true);
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
        assert_eq!(pair[1]["sessionId"], "11112222-3333-4444-8555-666677778888");
    }
    assert_eq!(lines[3]["message"]["usage"]["input_tokens"], 0, "it was for another context");
    assert_eq!(words(&load(&new, CLAUDE)), "u:F u:on a:more");
}

fn codex(payload: &str) -> String {
    format!(r#"{{"timestamp":"t","type":"response_item","payload":{payload}}}"#) + "\n"
}

fn said(role: &str, text: &str) -> String {
    let kind = if role == "user" { "input_text" } else { "output_text" };
    codex(&format!(
        r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}"#
    ))
}

fn compacted(history: &str) -> String {
    format!(
        r#"{{"type":"compacted","payload":{{"message":"sum","replacement_history":[{history}]}}}}"#
    ) + "\n"
}

fn rolled_back(turns: usize) -> String {
    format!(
        r#"{{"type":"event_msg","payload":{{"type":"thread_rolled_back","num_turns":{turns}}}}}"#
    ) + "\n"
}

#[test]
fn codex_loads_the_newest_history_that_was_not_rolled_back() {
    let item = |text: &str| {
        format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
        )
    };
    let history = format!("{},{}", item("kept"), item("summary"));
    let lines = [
        said("user", "one"),
        said("assistant", "a"),
        compacted(&history),
        said("user", "two"),
        said("assistant", "b"),
    ];
    let session = check(&lines, Dialect::Codex, "u:kept u:summary u:two a:b");
    assert_eq!(session.loaded().unwrap().lines_off, 2);
    let written = render(&session, &[fold(&[(1, 3)])]);
    assert!(written.starts_with(&lines.concat()));
    assert_eq!(words(&load(&written, Dialect::Codex)), "u:kept u:F a:b");
    let new = resumed(&session, &[fold(&[(0, 3)])]);
    assert_eq!(words(&load(&new, Dialect::Codex)), "u:F a:b");
    // What the agent puts in is no turn of the user; a compaction in a turn goes back with it.
    let inserted = said("user", "<environment_context>x</environment_context>");
    let lines = [
        said("user", "one"),
        said("assistant", "a"),
        said("user", "two"),
        compacted(&history),
        inserted,
        said("assistant", "b"),
        rolled_back(1),
    ];
    check(
        &lines[..6],
        Dialect::Codex,
        "u:kept u:summary u:<environment_context>x</environment_context> a:b",
    );
    check(&lines, Dialect::Codex, "u:one a:a");
}

fn pi(id: &str, parent: &str, rest: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(r#"{{"id":"{id}","parentId":{parent},"timestamp":"t",{rest}}}"#) + "\n"
}

fn pi_said(id: &str, parent: &str, role: &str, text: &str) -> String {
    pi(
        id,
        parent,
        &format!(
            r#""type":"message","message":{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input":50,"output":2}}}}"#
        ),
    )
}

#[test]
fn pi_loads_the_summary_then_what_was_kept_then_the_rest() {
    let lines = [
        r#"{"type":"session","version":3,"id":"s","cwd":"/w"}"#.to_owned() + "\n",
        pi_said("1", "", "user", "one"),
        pi_said("2", "1", "assistant", "a"),
        pi_said("3", "2", "user", "two"),
        pi(
            "4",
            "3",
            r#""type":"compaction","summary":"what was","firstKeptEntryId":"3","tokensBefore":9"#,
        ),
        pi("5", "4", r#""type":"custom","customType":"x","data":{}"#),
        pi_said("6", "5", "assistant", "b"),
    ];
    let session = check(&lines, Dialect::Pi, "u:what was u:two a:b");
    assert_eq!(
        (session.loaded().unwrap().compactions, session.folder()),
        (1, Some("/w".to_owned()))
    );
    let written = render(&session, &[fold(&[(0, 2)])]);
    assert!(written.starts_with(&lines.concat()));
    assert_eq!(words(&load(&written, Dialect::Pi)), "u:F a:b");
    let new = resumed(&session, &[fold(&[(0, 1)])]);
    assert_eq!(words(&load(&new, Dialect::Pi)), "u:F u:two a:b");
}

/// What may befall a line of a file.
#[derive(Clone, Debug)]
enum Harm {
    Cut(prop::sample::Index, prop::sample::Index),
    Double(prop::sample::Index, prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Link(prop::sample::Index, prop::sample::Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    let two = || (any::<prop::sample::Index>(), any::<prop::sample::Index>());
    prop_oneof![
        two().prop_map(|(a, b)| Harm::Cut(a, b)),
        two().prop_map(|(a, b)| Harm::Double(a, b)),
        two().prop_map(|(a, b)| Harm::Swap(a, b)),
        two().prop_map(|(a, b)| Harm::Link(a, b)),
    ]
}

fn harmed(lines: &[String], harms: &[Harm]) -> String {
    let mut lines = lines.to_vec();
    for harm in harms {
        match harm {
            Harm::Cut(at, to) => {
                let at = at.index(lines.len());
                let to = to.index(lines[at].len());
                lines[at] = lines[at].chars().take(to).collect::<String>() + "\n";
            }
            Harm::Double(at, to) => {
                let line = lines[at.index(lines.len())].clone();
                lines.insert(to.index(lines.len()), line);
            }
            Harm::Swap(one, other) => {
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
            }
            Harm::Link(at, to) => {
                let (at, to) = (at.index(lines.len()), to.index(9) + 1);
                for key in ["parentUuid", "parentId"] {
                    let pattern = format!("\"{key}\":");
                    if let Some(start) = lines[at].find(&pattern) {
                        let value = start + pattern.len();
                        if let Some(end) = lines[at][value..].find(',') {
                            lines[at].replace_range(value..value + end, &format!("\"{to}\""));
                        }
                    }
                }
            }
        }
    }
    lines.concat()
}

fn files() -> [(Dialect, Vec<String>); 3] {
    let claude = vec![
        user("1", "", "go"),
        answer("2", "1", &call("t1"), 10),
        result("3", "2", "t1"),
        answer("4", "3", &text("ok"), 10),
        boundary("5", "4", r#""preservedMessages":{"anchorUuid":"6","uuids":["4"]}"#),
        summary("6", "5"),
        user("7", "6", "on"),
        answer("8", "7", &text("more"), 10),
        user("9", "8", "end"),
    ];
    let history =
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"k"}]}"#;
    let codex = vec![
        said("user", "one"),
        said("assistant", "a"),
        compacted(history),
        said("user", "two"),
        rolled_back(1),
        said("user", "three"),
        said("assistant", "b"),
    ];
    let pi = vec![
        r#"{"type":"session","id":"s","cwd":"/w"}"#.to_owned() + "\n",
        pi_said("1", "", "user", "one"),
        pi_said("2", "1", "assistant", "a"),
        pi_said("3", "2", "user", "two"),
        pi("4", "3", r#""type":"compaction","summary":"s","firstKeptEntryId":"3""#),
        pi_said("5", "4", "assistant", "b"),
        pi_said("6", "3", "assistant", "c"),
    ];
    [(CLAUDE, claude), (Dialect::Codex, codex), (Dialect::Pi, pi)]
}

proptest! {
    /// A damaged file is read to its end, written back as it was, and every window of it is read back as that window.
    #[test]
    fn damaged_files_are_read_and_their_windows_are_found(
        which in 0..3_usize,
        harms in prop::collection::vec(harm(), 0..5),
        span in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let (dialect, lines) = files()[which].clone();
        let text = harmed(&lines, &harms);
        let Ok(session) = read_as_loaded(text.clone().into_bytes(), Some(dialect)) else {
            return Ok(());
        };
        prop_assert_eq!(session.apply(&[]), text);
        let lead = session.path().lead;
        let count = session.messages.len() - lead;
        if count < 2 {
            return Ok(());
        }
        let (one, other) = (span.0.index(count - 1), span.1.index(count - 1));
        let (first, last) = (one.min(other), one.max(other) + 1);
        let operation = fold(&[(lead + first, lead + last)]);
        let new = resumed(&session, &[operation]);
        let after = read_as_loaded(new.into_bytes(), Some(dialect)).unwrap();
        let texts = |messages: &[longhand_core::Message]| -> Vec<String> {
            messages.iter().flat_map(|message| message.parts.iter().map(shown)).collect()
        };
        let mut expected = texts(&session.messages[lead..lead + first]);
        expected.push("F".to_owned());
        expected.extend(texts(&session.messages[lead + last..]));
        let lead = after.path().lead;
        let mut found = texts(&after.messages[lead..]);
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn parts_of_a_loaded_file_are_counted_as_they_are_shown() {
    let lines = [user("1", "", "go"), answer("2", "1", &text("done"), 100)];
    let session = load(&lines.concat(), CLAUDE);
    assert!(matches!(session.messages[0].parts[0], Part::Text(_)));
    assert_eq!(session.model.as_deref(), Some("claude-opus-4-6"));
}

#[test]
fn faults_are_mended_and_everything_else_stays() {
    let lines = [
        user("1", "", "go"),
        answer("2", "gone", &text("a"), 1),
        answer("2", "gone", &text("a"), 1),
        user("3", "4", "b"),
        user("4", "3", "c"),
        "{\"type\":\n".to_owned(),
        user("5", "4", "d"),
        "{\"type\":\"us".to_owned(),
    ];
    let mended = mend(lines.concat()).unwrap();
    let found: Vec<(u32, FaultKind)> =
        mended.faults.iter().map(|fault| (fault.line, fault.kind)).collect();
    assert_eq!(
        found,
        [
            (2, FaultKind::Dangling),
            (3, FaultKind::Doubled),
            (4, FaultKind::Circle),
            (6, FaultKind::Unreadable),
            (8, FaultKind::Cut)
        ]
    );
    let expected = [
        user("1", "", "go"),
        answer("2", "1", &text("a"), 1),
        user("3", "", "b"),
        user("4", "3", "c"),
        "{\"type\":\n".to_owned(),
        user("5", "4", "d"),
    ];
    assert_eq!(mended.text, expected.concat());
}

proptest! {
    /// A mended file has no fault that can be mended, and a file without faults is not touched.
    #[test]
    fn a_file_is_mended_once(which in 0..3_usize, harms in prop::collection::vec(harm(), 0..5)) {
        let (_, lines) = files()[which].clone();
        let whole = lines.concat();
        prop_assert_eq!(mend(whole.clone()).unwrap().text, whole);
        if let Ok(mended) = mend(harmed(&lines, &harms)) {
            let again = mend(mended.text.clone()).unwrap();
            prop_assert_eq!(&again.text, &mended.text);
            prop_assert!(again.faults.iter().all(|fault| !fault.kind.is_mended()));
        }
    }
}
