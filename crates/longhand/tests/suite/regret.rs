//! What counts as a regret: scenarios as data, and the laws of what is noted and learned.
use std::sync::Arc;

use longhand::app::{App, LogLine, LoggedEdits, RegretSums, UsageRequest};
use longhand::replay::{BudgetShare, Method, ReplaySettings, Trace, replay};
use longhand::{Archive, MemoryArchive, Policy, Session, SessionSettings, Tokens};
use longhand_archive::{EditSums, Note, NoteFilter, Owner, SessionId, wait};
use longhand_core::{
    Batch, CachePrices, Edit, Fold, Handle, Meter, Place, Scale, Seq, Span, content_hash, regrets,
};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use longhand_testkit::arbitrary::cases;
use longhand_testkit::{WireFormat, filler, notation, validate};
use proptest::prelude::*;
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
        let half =
            file(name).split_at(file(name).len() / 2).0.rsplit_once("\\n").unwrap().0.to_owned();
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
    check(
        &turns(r#"write#2{"path":"b.rs","content":"short"}"#, "FILE:a.rs"),
        "stub 2 @4",
        &regretted,
    );
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
    check(
        "u go | a Which port? | u 9090 | a ok | u next | a Which port? | u 9090",
        "fold 0-2 @3",
        &[],
    );
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
        let found = regrets(&conversation.path(), &batches("stub 2 @2"), 0, &Scale::new(&*meter));
        assert_eq!(found, [], "{arguments}");
    }
}

/// One step of an agent that reads files and does other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentStep {
    Reads(usize),
    Writes(usize),
    Works(u64),
    IsTold(u64),
}

/// The messages of an agent's work, as Chat Completions.
fn work(steps: &[AgentStep]) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Keep the leases in order."})];
    for (number, step) in steps.iter().enumerate() {
        let long = |name: &str| {
            let line = |at| format!("line {at} of {name} {}", filler::words(6, at));
            (0..30).map(line).collect::<Vec<_>>().join("\n")
        };
        let (tool, arguments, result) = match *step {
            AgentStep::Reads(file) => {
                let name = format!("src/{file}.rs");
                ("read", json!({"path": name}), long(&name))
            }
            AgentStep::Writes(file) => {
                let name = format!("src/{file}.rs");
                ("edit", json!({"path": name, "old": "x", "new": number}), "Done.".to_owned())
            }
            AgentStep::Works(seed) => {
                let command = format!("make {number}");
                ("bash", json!({"command": command}), long(&format!("{number} {seed}")))
            }
            AgentStep::IsTold(seed) => {
                messages.push(json!({"role": "assistant", "content": "It is done."}));
                let words = format!("Next: {}", filler::words(20, seed));
                messages.push(json!({"role": "user", "content": words}));
                continue;
            }
        };
        let id = format!("call_{number}");
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        let call = json!([{"id": id, "type": "function", "function": function}]);
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": call}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    messages.push(json!({"role": "assistant", "content": "All is done."}));
    messages
}

fn request(messages: &[Value]) -> String {
    json!({"messages": messages}).to_string()
}

fn settings(limit: u64) -> SessionSettings {
    SessionSettings {
        budget: Tokens(limit),
        meter: meter(),
        prices: Some(CachePrices { cached: 100, uncached: 1_000 }),
        // A replay brings nothing back.
        recall_percent: 0,
        ..SessionSettings::new().unwrap()
    }
}

fn notes(archive: &dyn Archive, session: SessionId) -> Vec<Note> {
    let notes = wait(archive.notes(NoteFilter::Session(session))).unwrap();
    notes.into_iter().map(|(_, note)| note).collect()
}

fn logged(archive: &Arc<dyn Archive>) -> Vec<LoggedEdits> {
    let lines = App::new(Arc::clone(archive)).log("s").unwrap().into_iter();
    let edits = lines.filter_map(|line| match line {
        LogLine::Edits(edits) => Some(*edits),
        _ => None,
    });
    edits.collect()
}

/// Sends the requests of an agent, one for each of its messages; every so many of them, somebody else goes on with the
/// session, who has read it from the archive. Returns the windows.
fn sent(
    archive: &Arc<dyn Archive>,
    messages: &[Value],
    limit: u64,
    writers: usize,
    restart: usize,
) -> Vec<String> {
    let open = || Session::open_with(Arc::clone(archive), "s", settings(limit)).unwrap();
    let mut sessions: Vec<Session> = (0..writers).map(|_| open()).collect();
    let mut windows = Vec::new();
    let replies = messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant");
    for (number, (at, reply)) in replies.enumerate() {
        let writer = number % writers;
        if number % restart == restart - 1 {
            sessions[writer] = open();
        }
        let now_ms = number as i64;
        windows.push(sessions[writer].fit(&request(&messages[..at]), now_ms).unwrap().json);
        let answer = json!({"choices": [{"message": reply}]}).to_string();
        sessions[writer].answered(&answer, now_ms).unwrap();
    }
    windows
}

/// The windows of a replay, and what became of edits.
fn replayed(messages: &[Value], limit: u64) -> (Vec<String>, EditSums) {
    let meter = meter();
    let whole = read(request(messages).into_bytes(), Some(Dialect::Chat)).unwrap();
    let trace = Trace::new(&whole, &*meter).unwrap();
    let settings = ReplaySettings::new(BudgetShare::Tokens(Tokens(limit)), meter);
    let mut windows = Vec::new();
    let by = Method::Standing(Policy::Auto);
    let run = replay(&trace, by, &settings, |window| windows.push(window.to_owned())).unwrap();
    (windows, run.figures.edits)
}

fn agent_step() -> impl Strategy<Value = AgentStep> {
    prop_oneof![
        6 => (0..3_usize).prop_map(AgentStep::Reads),
        1 => (0..3_usize).prop_map(AgentStep::Writes),
        5 => any::<u64>().prop_map(AgentStep::Works),
        1 => any::<u64>().prop_map(AgentStep::IsTold),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..cases(24) })]

    /// Whoever has the ledger plans the same bytes and notes the same regrets: a session, one that is read from the archive
    /// again and again, several that take turns, and a replay. Windows stay valid and within their budget.
    #[test]
    fn a_restart_another_writer_and_a_replay_see_the_same_regrets(
        steps in prop::collection::vec(agent_step(), 8..60),
        limit in 1_800..4_000_u64,
        restart in 1..6_usize,
    ) {
        let messages = work(&steps);
        let (expected, sums) = replayed(&messages, limit);
        for (writers, restart) in [(1, usize::MAX), (1, restart), (2, usize::MAX), (3, restart)] {
            let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
            let windows = sent(&archive, &messages, limit, writers, restart);
            prop_assert_eq!(&windows, &expected, "{} writers, restart {}", writers, restart);
            let session = SessionId::named(Owner::LOCAL, "s");
            let found = EditSums::total(&[], &notes(&*archive, session));
            prop_assert_eq!(EditSums { made: sums.made, ..found }, sums);
            let mut told = RegretSums::default();
            for edits in logged(&archive) {
                told.add(&edits);
            }
            prop_assert_eq!(told, RegretSums::from(sums));
        }
        let meter = meter();
        for window in &expected {
            prop_assert_eq!(validate(WireFormat::Chat, window), Vec::<String>::new());
            let shown = read(window.clone().into_bytes(), Some(Dialect::Chat)).unwrap();
            let scale = Scale::new(&*meter);
            let tokens: Tokens =
                shown.messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
            prop_assert!(tokens + scale.framing().reply <= Tokens(limit), "{}", tokens);
        }
    }
}

/// An agent that comes back to the same files, with other work in between.
fn loop_of_reading(rounds: usize, work_between: u64) -> Vec<AgentStep> {
    let mut steps = Vec::new();
    for round in 0..rounds as u64 {
        steps.push(AgentStep::Reads(0));
        steps.extend((0..work_between).map(|at| AgentStep::Works(round * 100 + at)));
    }
    steps
}

#[test]
fn what_was_fetched_back_is_kept_for_longer() {
    // Without that, each of the later readings would be a regret.
    for (rounds, work_between, regrets_max) in [(12, 12, 7), (8, 30, 5)] {
        let (_, sums) = replayed(&work(&loop_of_reading(rounds, work_between)), 6_000);
        assert!((1..=regrets_max).contains(&sums.regrets), "{work_between}: {sums:?}");
    }
}

#[test]
fn a_session_that_reads_the_same_for_ever_stays_small() {
    let files = (0..60).flat_map(|round| (0..3).map(move |file| (round, file)));
    let steps: Vec<AgentStep> =
        files.flat_map(|(round, file)| [AgentStep::Reads(file), AgentStep::Works(round)]).collect();
    let (windows, sums) = replayed(&work(&steps), 5_000);
    let meter = meter();
    let sizes = windows.iter().skip(windows.len() / 2).map(|window| meter.weigh(window, u64::MAX));
    let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
    assert!(least * 3 < most * 2, "a batch still brings it down: {least} of {most}");
    let breaks =
        windows.windows(2).filter(|pair| !pair[1].starts_with(pair[0].trim_end_matches("]}")));
    assert!(breaks.count() * 3 < windows.len(), "and it lasts for some requests: {sums:?}");
}

#[test]
fn the_log_names_what_was_regretted_also_of_a_batch_that_was_undone() {
    let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let messages = work(&loop_of_reading(3, 12));
    sent(&archive, &messages, 3_000, 1, usize::MAX);
    let app = App::new(Arc::clone(&archive));
    let log = logged(&archive);
    let regretted: Vec<&LoggedEdits> =
        log.iter().filter(|edits| !edits.regrets.is_empty()).collect();
    assert!(!regretted.is_empty());
    let first = &regretted[0].regrets[0];
    assert_eq!(first.how, "read again");
    assert!(first.by.is_some() && first.tokens > 100, "{first:?}");
    let mut sums = RegretSums::default();
    for edits in &log {
        sums.add(edits);
    }
    assert_eq!(app.show("s", &longhand::app::ViewSettings::default()).unwrap().edits, sums);
    let usage = app.usage(&UsageRequest::default(), &|_, _| None).unwrap();
    assert_eq!((usage.total.edits, usage.rows[0].edits), (sums, sums));
    // What was undone was regretted all the same.
    let session = SessionId::named(Owner::LOCAL, "s");
    while archive.undo(session, None).unwrap().is_some() {}
    let undone = logged(&archive);
    assert!(undone.iter().all(|edits| edits.undone));
    let regrets = |log: &[LoggedEdits]| -> Vec<_> {
        log.iter().flat_map(|edits| edits.regrets.clone()).collect()
    };
    assert_eq!(regrets(&undone), regrets(&log));
    // And the next window is made as if nothing had been left out.
    let mut again = Session::open_with(Arc::clone(&archive), "s", settings(3_000)).unwrap();
    let window = again.fit(&request(&messages[..messages.len() - 1]), 0).unwrap();
    assert_eq!(validate(WireFormat::Chat, &window.json), Vec::<String>::new());
    assert_eq!(window.shortfall, Tokens::ZERO);
}

#[test]
fn recorded_rounds_are_noted_as_well() {
    let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::default());
    let mut session = Session::open_with(Arc::clone(&archive), "s", settings(2_500)).unwrap();
    let messages = work(&loop_of_reading(1, 14));
    let round = |messages: &[Value]| {
        longhand::Round::parse(&json!({"messages": messages}).to_string(), 0).unwrap()
    };
    session.record(&round(&messages)).unwrap();
    session.record(&longhand::Round::new("And now?", "Now it is done.", 1)).unwrap();
    let window = session.window("Go on.", &longhand::Prompt::default(), 2).unwrap().json;
    let at = window.find("h:").unwrap();
    let handle = &window[at..at + 14];
    let asked = json!({"handle": handle}).to_string();
    let function = json!({"name": "open", "arguments": asked});
    let call = json!([{"id": "x", "type": "function", "function": function}]);
    let recall = [
        json!({"role": "user", "content": "What was in it?"}),
        json!({"role": "assistant", "content": null, "tool_calls": call}),
        json!({"role": "tool", "tool_call_id": "x", "content": "line 7 of src/0.rs"}),
        json!({"role": "assistant", "content": "Lines."}),
    ];
    session.record(&round(&recall)).unwrap();
    let regrets: Vec<_> = logged(&archive).into_iter().flat_map(|edits| edits.regrets).collect();
    assert_eq!(regrets.len(), 1, "{regrets:?}");
    assert_eq!((regrets[0].handle.as_str(), regrets[0].how.as_str()), (handle, "recalled"));
}
