//! What counts as a regret: scenarios as data, and the laws of what is noted and learned.
use std::sync::Arc;

use longhand::replay::{BudgetShare, Method, ReplaySettings, Trace, replay};
use longhand::{Archive, MemoryArchive, Policy, Session, SessionSettings, Tokens};
use longhand_archive::{NoteContent, NoteFilter, Storage as _, wait};
use longhand_core::{
    Batch, Edit, Fold, Handle, Meter, Place, Scale, Seq, Span, content_hash, regrets,
};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::{filler, notation};
use serde_json::{Value, json};

fn meter() -> Arc<dyn Meter> {
    static METER: std::sync::OnceLock<Arc<dyn Meter>> = std::sync::OnceLock::new();
    let open = || Arc::from(MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap());
    Arc::clone(METER.get_or_init(open))
}

/// The text of a file that nothing else is like.
fn file(name: &str) -> String {
    let line = |at: usize| format!("line {at} of {name} {}", filler::words(4, at as u64));
    (0..12).map(line).collect::<Vec<_>>().join("\\n")
}

/// A conversation in the notation, where `FILE:name` is the text of a file.
fn conversation(turns: &str) -> Conversation {
    let mut chat = notation::chat(turns);
    for name in ["a.rs", "b.rs"] {
        chat = chat.replace(&format!("FILE:{name}"), &file(name));
        let half = file(name).split_at(file(name).len() / 2).0.rsplit_once("\\n").unwrap().0.to_owned();
        chat = chat.replace(&format!("HALF:{name}"), &half);
    }
    let mut conversation = read(chat.into_bytes(), Some(Dialect::Chat)).unwrap();
    let count = conversation.path().messages.len() as u64;
    conversation.number((0..count).map(Seq).collect());
    conversation
}

fn part_handle(entry: u64) -> Handle {
    Handle::of([format!("part of {entry}").as_str()])
}

fn fold(first: u64, last: u64) -> Fold {
    let spans = vec![Span { first: Seq(first), last: Seq(last) }];
    let sum = content_hash(&format!("{first}-{last}"));
    Fold { spans, blocks: Vec::new(), sum, text: "[longhand fold]".to_owned() }
}

/// Reads batches such as `stub 2 @4; fold 0-3 @6; insert TEXT @7`: what is hidden, and the head.
fn batches(notation: &str) -> Vec<Batch> {
    let batch = |words: &str| {
        let (edit, head) = words.rsplit_once(" @").unwrap();
        let (kind, of) = edit.trim().split_once(' ').unwrap();
        let head = Seq(head.parse().unwrap());
        let edit = match kind {
            "stub" => {
                let entry: u64 = of.parse().unwrap();
                let at = Place { entry: Seq(entry), part: 0 };
                Edit::Stub { at, handle: part_handle(entry), text: "[longhand stub]".to_owned() }
            }
            "fold" => {
                let (first, last) = of.split_once('-').unwrap();
                Edit::Fold(fold(first.parse().unwrap(), last.parse().unwrap()))
            }
            "insert" => Edit::Insert { after: head, text: of.replace("\\n", "\n") },
            _ => panic!("{words}"),
        };
        Batch { head, edits: vec![edit], ..Batch::default() }
    };
    notation.split(';').filter(|words| !words.trim().is_empty()).map(batch).collect()
}

/// What is regretted: the batch, how, the entry that brought it back.
fn found(turns: &str, edits: &str) -> Vec<String> {
    let conversation = conversation(turns);
    let meter = meter();
    let scale = Scale::new(&*meter);
    let all = regrets(&conversation.path(), &batches(edits), 0, &scale);
    // Whoever looks at the newest messages alone sees the same of them.
    for first in 0..conversation.messages.len() {
        let of_newest = regrets(&conversation.path(), &batches(edits), first, &scale);
        let expected = all.iter().filter(|regret| regret.by.0 >= first as u64).copied();
        assert_eq!(of_newest, expected.collect::<Vec<_>>(), "from {first}");
    }
    let told = all.iter().map(|regret| {
        assert!(regret.tokens > Tokens::ZERO);
        let again = if regret.again { " (again)" } else { "" };
        format!("{} {} by {}{again}", regret.batch + 1, regret.how.as_str(), regret.by.0)
    });
    told.collect()
}

#[track_caller]
fn check(turns: &str, edits: &str, expected: &[&str]) {
    assert_eq!(found(turns, edits), expected, "{turns} / {edits}");
}

/// A file that is read, and read again after other work.
const READ_TWICE: &str = r#"u fix it | a call:read#1{"path":"a.rs"} | t #1 FILE:a.rs | a call:bash#2{"command":"ls"} | t #2 FILE:b.rs | a call:read#3{"path":"a.rs"} | t #3 FILE:a.rs | a done"#;

#[test]
fn a_file_that_is_read_again_while_its_text_is_hidden_is_regretted() {
    check(READ_TWICE, "", &[]);
    check(READ_TWICE, "stub 2 @4", &["1 read again by 6"]);
    check(READ_TWICE, "fold 0-2 @4", &["1 read again by 6"]);
    // The batch that hid it first is the one that is regretted.
    check(READ_TWICE, "stub 2 @3; fold 0-2 @4", &["1 read again by 6"]);
    // Another edit has nothing to do with it, nor has one that was made after the call.
    check(READ_TWICE, "stub 4 @4", &[]);
    check(READ_TWICE, "stub 2 @5", &[]);
    check(READ_TWICE, "stub 2 @6", &[]);
}

#[test]
fn arguments_are_compared_as_values_and_files_by_their_keys() {
    let other = |second: &str| READ_TWICE.replace(r#"read#3{"path":"a.rs"}"#, second);
    let regretted = ["1 read again by 6"];
    // Another tool, another key, more keys: it is the file that counts.
    check(&other(r#"view#3{"file_path":"a.rs","limit":2000}"#), "stub 2 @4", &regretted);
    check(&other(r#"view#3{"file_path":"b.rs"}"#), "stub 2 @4", &[]);
    let command = |call: &str| {
        format!(
            r#"u fix it | a call:bash#1{{"command":"cargo tree","timeout":5}} | t #1 FILE:a.rs | a call:bash#2{{"command":"ls"}} | t #2 FILE:b.rs | a call:{call} | t #3 FILE:a.rs | a done"#
        )
    };
    let same = r#"bash#3{ "timeout": 5.0, "command": "cargo \u0074ree"}"#;
    check(&command(same), "stub 2 @4", &regretted);
    check(&command(r#"bash#3{"command":"cargo tree","timeout":6}"#), "stub 2 @4", &[]);
    check(&command(r#"sh#3{"command":"cargo tree","timeout":5}"#), "stub 2 @4", &[]);
}

#[test]
fn what_was_written_in_between_is_no_regret() {
    let turns = |between: &str, text: &str| {
        format!(
            r#"u fix it | a call:read#1{{"path":"a.rs"}} | t #1 FILE:a.rs | a call:{between} | t #2 ok | a call:read#3{{"path":"a.rs"}} | t #3 {text} | a done"#
        )
    };
    let regretted = ["1 read again by 6"];
    check(&turns(r#"bash#2{"command":"ls"}"#, "FILE:a.rs"), "stub 2 @4", &regretted);
    for write in [
        r#"edit#2{"path":"a.rs","old_string":"x","new_string":"y"}"#,
        r#"edit#2{"path":"a.rs","edits":[{"oldText":"x","newText":"y"}]}"#,
        r#"write#2{"path":"a.rs","content":"short"}"#,
        r#"apply_patch#2{"input":"*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** End Patch"}"#,
    ] {
        check(&turns(write, "FILE:a.rs"), "stub 2 @4", &[]);
    }
    check(&turns(r#"write#2{"path":"b.rs","content":"short"}"#, "FILE:a.rs"), "stub 2 @4", &regretted);
    // Whoever changed it, what it says is new.
    check(&turns(r#"bash#2{"command":"ls"}"#, "FILE:b.rs"), "stub 2 @4", &[]);
    // A part of it that was read in full, and numbers before the lines.
    check(&turns(r#"bash#2{"command":"ls"}"#, "HALF:a.rs"), "stub 2 @4", &regretted);
    // After any file was written, a command may print another thing.
    let command = |between: &str| {
        format!(
            r#"u go | a call:bash#1{{"command":"make"}} | t #1 FILE:a.rs | a call:{between} | t #2 ok | a call:bash#3{{"command":"make"}} | t #3 FILE:a.rs | a done"#
        )
    };
    check(&command(r#"read#2{"path":"b.rs"}"#), "stub 2 @4", &regretted);
    check(&command(r#"write#2{"path":"b.rs","content":"short"}"#), "stub 2 @4", &[]);
}

#[test]
fn what_was_in_sight_is_no_regret() {
    // A newer copy stands there, although an older one was hidden.
    let turns = r#"u fix it | a call:read#1{"path":"a.rs"} | t #1 FILE:a.rs | a call:read#2{"path":"a.rs"} | t #2 FILE:a.rs | a call:read#3{"path":"a.rs"} | t #3 FILE:a.rs | a done"#;
    check(turns, "stub 2 @3", &[]);
    check(turns, "stub 2 @3; stub 4 @4", &["2 read again by 6"]);
    // Short answers are alike by chance, and a call that failed has told nothing.
    let short = READ_TWICE.replace("FILE:a.rs", "ok");
    check(&short, "stub 2 @4", &[]);
}

#[test]
fn a_text_that_the_model_wrote_itself_may_be_missed() {
    let text = file("a.rs");
    let turns = format!(
        r#"u go | a call:write#1{{"path":"a.rs","content":"{text}"}} | t #1 ok | a call:bash#2{{"command":"ls"}} | t #2 FILE:b.rs | a call:read#3{{"path":"a.rs"}} | t #3 FILE:a.rs | a done"#
    );
    check(&turns, "stub 1 @4", &["1 read again by 6"]);
    check(&turns, "stub 2 @4", &[]);
}

#[test]
fn a_person_who_is_asked_again_is_a_regret_whatever_the_answer() {
    let turns = r#"u go | a call:ask#1{"question":"Which port?"} | t #1 9090 | a call:bash#2{"command":"ls"} | t #2 FILE:b.rs | a call:ask#3{"question":"Which port?"} | t #3 I said so: the one of the lease service | a done"#;
    check(turns, "fold 0-2 @4", &["1 asked again by 6"]);
    check(turns, "stub 4 @4", &[]);
    // A question in words of a message is not judged.
    check("u go | a Which port? | u 9090 | a ok | u next | a Which port? | u 9090", "fold 0-2 @3", &[]);
}

#[test]
fn a_handle_that_is_opened_is_regretted() {
    let stub = part_handle(2).to_string();
    let block = fold(0, 2).handle().to_string();
    let read = |arguments: &str| {
        format!(
            r#"u fix it | a call:read#1{{"path":"a.rs"}} | t #1 FILE:a.rs | a call:bash#2{{"command":"ls"}} | t #2 FILE:b.rs | a call:open#3{arguments} | t #3 FILE:a.rs | a done"#
        )
    };
    let regretted = ["1 recalled by 6"];
    check(&read(&format!(r#"{{"handle":"{stub}"}}"#)), "stub 2 @4", &regretted);
    check(&read(&format!(r#"{{"handle":"{block}"}}"#)), "fold 0-2 @4", &regretted);
    // Through any tool: a command, or a server with tools of its own.
    let command = format!(r#"{{"command":"longhand expand {stub} --grep port"}}"#);
    check(&read(&command), "stub 2 @4", &regretted);
    let twice = format!(r#"{{"handles":["{stub}","{stub}"]}}"#);
    check(&read(&twice), "stub 2 @4", &regretted);
    // An entry that is named and quoted; one of another session says something else.
    check(&read(r#"{"handle":"7f3a9c02b1d4:2"}"#), "stub 2 @4", &regretted);
    check(&read(r#"{"handle":"7f3a9c02b1d4:1-3"}"#), "stub 2 @4", &regretted);
    let other = read(r#"{"handle":"7f3a9c02b1d4:2"}"#).replace("t #3 FILE:a.rs", "t #3 FILE:b.rs");
    check(&other, "stub 2 @4", &[]);
    // A handle of nothing, or of an edit that was not there yet.
    check(&read(r#"{"handle":"h:000000000000"}"#), "stub 2 @4", &[]);
    check(&read(&format!(r#"{{"handle":"{stub}"}}"#)), "stub 2 @5", &[]);
}

#[test]
fn what_the_recall_tool_brings_back_is_regretted_by_its_head_alone() {
    let stub = part_handle(2).to_string();
    let recalled = |text: &str| format!("stub 2 @4; insert {text} @6");
    let regretted = ["1 recalled by 6"];
    let head = format!("[longhand recall]\\n{stub} from earlier, quoted:\\n> line 1");
    check(READ_TWICE, &recalled(&head), &["1 recalled by 6", "1 read again by 6 (again)"]);
    let other = READ_TWICE.replace(r#"read#3{"path":"a.rs"}"#, r#"bash#3{"command":"ps"}"#);
    check(&other, &recalled(&head), &regretted);
    check(&other, &recalled("entry e:2 from earlier, quoted:\\n> line 1"), &regretted);
    check(&other, &recalled("entry e:4 from earlier, quoted:\\n> line 1"), &[]);
    // What is quoted was said by somebody, and names no regret.
    check(&other, &recalled(&format!("Found:\\ne:2 > see {stub}\\n> {stub}")), &[]);
}

#[test]
fn hostile_arguments_and_texts_are_no_regret_and_no_panic() {
    let hostile = [
        r#"{"handle":"h:"}"#.to_owned(),
        r#"{"handle":"h:é0000000000"}"#.to_owned(),
        r#"{"handle":"e:18446744073709551615-0"}"#.to_owned(),
        r#"{"handle":"abcdef012345:0-18446744073709551615"}"#.to_owned(),
        format!(r#"{{"handle":"{}"}}"#, "h:".repeat(5_000)),
        format!(r#"{{"x":{}1{}}}"#, "[".repeat(3_000), "]".repeat(3_000)),
        r#"{"path":7,"question":null}"#.to_owned(),
        r#"{"path":"a.rs","path":"b.rs"}"#.to_owned(),
    ];
    for arguments in hostile {
        let chat = json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
                "function": {"name": "read", "arguments": "{\"path\":\"a.rs\"}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": file("b.rs")},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "2", "type": "function",
                "function": {"name": "read", "arguments": arguments}}]},
            {"role": "tool", "tool_call_id": "2", "content": file("a.rs")},
            {"role": "tool", "tool_call_id": "unknown", "content": file("b.rs")},
        ]);
        let mut conversation = read(chat.to_string().into_bytes(), Some(Dialect::Chat)).unwrap();
        conversation.number((0..6).map(Seq).collect());
        let meter = meter();
        let found =
            regrets(&conversation.path(), &batches("stub 2 @2"), 0, &Scale::new(&*meter));
        assert_eq!(found, [], "{arguments}");
    }
}
