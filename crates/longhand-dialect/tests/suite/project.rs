//! What a window shows of batches that follow one another.

use crate::common::{compact, graves, o200k, parse};
use longhand_core::{
    Batch, Budget, Change, Edit, Fold, Handle, History, Original, Place, PlanSettings, Policy, Seq,
    Span, Tally, Tokens, content, folded_messages, is_fold, original, plan, project, shown_edits,
};
use longhand_dialect::{Conversation, Dialect};

/// Five rounds of a user and an assistant: the entries 0 to 9.
fn conversation(dialect: Dialect) -> Conversation {
    let messages: Vec<String> = (0..10)
        .map(|number| {
            let role = if number % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"message {number}"}}"#)
        })
        .collect();
    let list = messages.join(",");
    let json = match dialect {
        Dialect::Responses => format!(r#"{{"input":[{list}]}}"#),
        Dialect::Anthropic => format!(r#"{{"max_tokens":9,"messages":[{list}]}}"#),
        _ => format!("[{list}]"),
    };
    parse(&json, Some(dialect))
}

fn stub(entry: u64, text: &str) -> Edit {
    let at = Place { entry: Seq(entry), part: 0 };
    Edit::Stub { at, handle: Handle::of(["x"]), text: text.to_owned() }
}

fn insert(after: u64, text: &str) -> Edit {
    Edit::Insert { after: Seq(after), text: text.to_owned() }
}

fn fold(first: u64, last: u64, text: &str) -> Edit {
    let spans = vec![Span { first: Seq(first), last: Seq(last) }];
    Edit::Fold(Fold { spans, blocks: Vec::new(), sum: 1, text: text.to_owned() })
}

fn batch(edits: Vec<Edit>) -> Batch {
    Batch { head: Seq(9), edits, ..Batch::default() }
}

fn texts(edits: &[&Edit]) -> Vec<String> {
    let text = |edit: &&Edit| match edit {
        Edit::Stub { text, .. } | Edit::Clip { text, .. } | Edit::Insert { text, .. } => {
            text.clone()
        }
        Edit::Fold(fold) => fold.text.clone(),
    };
    edits.iter().map(text).collect()
}

#[test]
fn a_part_that_is_not_there_is_not_found() {
    let conversation = conversation(Dialect::Chat);
    let path = conversation.path();
    let at = |entry, part| path.find(Place { entry: Seq(entry), part });
    assert_eq!((at(3, 0), at(3, 1), at(10, 0)), (Some((3, 0)), None, None));
}

#[test]
fn edits_that_are_shown_are_those_that_no_later_one_replaced() {
    let first = batch(vec![stub(1, "old"), stub(3, "kept"), insert(5, "recalled")]);
    let second = batch(vec![stub(1, "new")]);
    let mut live = vec![first, second];
    assert_eq!(texts(&shown_edits(&live)), ["kept", "recalled", "new"]);
    live.push(batch(vec![fold(0, 3, "block")]));
    assert_eq!(texts(&shown_edits(&live)), ["recalled", "block"]);
    live.push(batch(vec![stub(7, "later"), fold(0, 6, "wider")]));
    assert_eq!(texts(&shown_edits(&live)), ["later", "wider"]);
}

#[test]
fn what_is_inserted_stands_after_its_entry_until_it_is_folded() {
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        let conversation = conversation(dialect);
        let mut live = vec![batch(vec![insert(5, "recalled"), insert(1, "sooner")])];
        let window = parse(&conversation.apply(&live), Some(dialect));
        assert_eq!(graves(&window), Vec::<String>::new());
        let text: String =
            window.messages.iter().map(|message| format!("{}\n", message.raw.raw())).collect();
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(place("message 1") < place("sooner") && place("sooner") < place("message 2"));
        assert!(place("message 5") < place("recalled") && place("recalled") < place("message 6"));
        live.push(batch(vec![fold(0, 3, "[longhand fold h:000000000000: 4]")]));
        let window = conversation.apply(&live);
        assert!(!window.contains("sooner") && window.contains("recalled"), "{window}");
        assert!(!window.contains("message 3") && window.contains("message 4"));
    }
}

#[test]
fn of_several_folds_the_newest_counts() {
    let conversation = conversation(Dialect::Chat);
    let live = [batch(vec![fold(0, 3, "narrow")]), batch(vec![fold(0, 5, "wide")])];
    let window = project(&conversation.path(), &live, conversation.wire());
    assert_eq!(window.block.as_ref().map(|block| block.text.as_str()), Some("wide"));
    let folded: Vec<bool> = (0..10).map(|at| window.is_folded(at)).collect();
    assert_eq!(folded.iter().filter(|folded| **folded).count(), 6);
    assert!(!window.is_unchanged());
}

/// Half a pair of surrogates is no character: decoded, it would be lost.
#[test]
fn a_text_that_cannot_be_decoded_is_kept_as_it_was_written() {
    let content_of = |body: &str| {
        let json = format!(r#"[{{"role":"user","content":"{body}"}}]"#);
        content(&parse(&json, Some(Dialect::Chat)).messages[0].parts[0])
    };
    assert_eq!(content_of(r"a\ud800b"), Original::Json(r#""a\ud800b""#.to_owned()));
    assert_eq!(content_of(r"caf\u00e9\n"), Original::Text("café\n".to_owned()));
    assert_eq!(content_of("a\u{fffd}b"), Original::Text("a\u{fffd}b".to_owned()));
    assert_eq!(content_of(r"a\ufffdb"), Original::Text("a\u{fffd}b".to_owned()));
}

#[test]
fn arguments_are_kept_as_text_only_where_they_are_text() {
    let content_of = |item: &str| {
        content(&parse(&format!("[{item}]"), Some(Dialect::Responses)).messages[0].parts[0])
    };
    let custom = |input: &str| {
        content_of(&format!(
            r#"{{"type":"custom_tool_call","call_id":"c","name":"patch","input":"{input}"}}"#
        ))
    };
    assert_eq!(custom(r"a\nb"), Original::Text("a\nb".to_owned()));
    assert_eq!(custom(r"a\ud800b"), Original::Json(r#""a\ud800b""#.to_owned()));
    let function =
        r#"{"type":"function_call","call_id":"c","name":"read","arguments":"{\"path\":\"a\"}"}"#;
    assert_eq!(content_of(function), Original::Json(r#"{"path":"a"}"#.to_owned()));
}

#[test]
fn what_a_fold_took_are_its_messages_one_after_another() {
    let messages = ["one", "two", "three", "four"].map(|words| {
        let role = if words.len() == 3 { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":"{words}"}}"#)
    });
    let json = format!(
        r#"{{"system":[{{"type":"text","text":"a"}},{{"type":"text","text":"b"}}],"messages":[{}]}}"#,
        messages.join(",")
    );
    let conversation = parse(&json, Some(Dialect::Anthropic));
    assert!(conversation.path().lead > 0);
    let kept = original(&conversation.path(), &fold(1, 2, "block"));
    assert_eq!(kept, Some(Original::Json(format!("{}\n{}", messages[1], messages[2]))));
}

#[test]
fn a_window_tells_what_became_of_each_part() {
    let conversation = conversation(Dialect::Chat);
    let live = [batch(vec![stub(3, "marker")])];
    let window = project(&conversation.path(), &live, conversation.wire());
    assert_eq!(window.change(3, 0), Some(&Change::Text("marker".to_owned())));
    assert_eq!((window.change(3, 1), window.change(2, 0)), (None, None));
}

#[test]
fn a_plan_can_be_printed() {
    let text = "word ".repeat(400);
    let json = format!(r#"[{{"role":"user","content":"{text}"}}]"#);
    let plan_of = |limit| {
        let budget = Budget::of(Tokens(limit));
        compact(&json, Some(Dialect::Chat), &budget, &PlanSettings::default(), o200k()).plan
    };
    let (fits, over) = (plan_of(10_000), plan_of(100));
    assert_eq!(
        fits.to_string(),
        format!("stubs 0, clips 0, folds 0 entries: {} tokens", fits.tokens())
    );
    let shortfall = over.tokens() - Tokens(100);
    assert!(over.to_string().ends_with(&format!("{} tokens, {shortfall} over", over.tokens())));
}

#[test]
fn edits_are_counted_by_kind() {
    let at = Place { entry: Seq(3), part: 0 };
    let clip = Edit::Clip { at, handle: Handle::of(["x"]), text: String::new() };
    let two_spans = Edit::Fold(Fold {
        spans: vec![Span { first: Seq(2), last: Seq(4) }, Span { first: Seq(7), last: Seq(7) }],
        blocks: Vec::new(),
        sum: 1,
        text: String::new(),
    });
    let edits =
        [stub(1, ""), stub(5, ""), stub(6, ""), clip.clone(), clip, insert(1, ""), two_spans];
    let tally = Tally::of(&edits);
    assert_eq!((tally.stubs, tally.clips, tally.folded, tally.inserts), (3, 2, 4, 1));
}

/// Where roles alternate a block joins the turns beside it, which saves what is around them.
#[test]
fn a_plan_of_plain_messages_says_exactly_what_its_window_counts() {
    let words = |number: usize| format!("the words of message {number} ").repeat(30);
    let messages: Vec<String> = (0..21)
        .map(|number: usize| {
            let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{}"}}"#, words(number))
        })
        .collect();
    let json = format!(r#"{{"max_tokens":9,"messages":[{}]}}"#, messages.join(","));
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        for policy in [Policy::Auto, Policy::Trim] {
            let settings = PlanSettings { policy, ..PlanSettings::default() };
            let budget = Budget::of(Tokens(2_000));
            let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
            assert!(!compacted.folded().is_empty(), "{}", compacted.plan);
            assert_eq!(compacted.plan.tokens(), compacted.tokens, "{dialect:?} {policy:?}");
        }
    }
}

/// So many messages of some forty tokens each.
fn long_chat(range: std::ops::Range<usize>) -> String {
    let message = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        let words = format!("the words of message {number} ").repeat(8);
        format!(r#"{{"role":"{role}","content":"{words}"}}"#)
    };
    range.map(message).collect::<Vec<_>>().join(",")
}

#[test]
fn a_block_says_how_many_messages_it_stands_for() {
    let told = |text: &str| {
        let (_, rest) = text.split_once("[longhand fold ").unwrap();
        let (_, rest) = rest.split_once(": ").unwrap();
        rest.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (budget, settings) = (Budget::of(Tokens(600)), PlanSettings::default());
    let list = format!("[{}]", long_chat(0..21));
    let first = compact(&list, Some(Dialect::Chat), &budget, &settings, o200k());
    let folded = first.folded().len() as u64;
    assert!(folded > 5 && first.plan.fits());
    assert_eq!((folded_messages(&first.plan.batch), told(&first.text)), (folded, folded));

    // The batch is remembered, and the next one takes its fold over.
    let grown = parse(&format!("[{}]", long_chat(0..41)), Some(Dialect::Chat));
    let live = [first.plan.batch.clone()];
    let history = History { live: &live, ..grown.history(Tokens::ZERO) };
    let second = plan(&history, &budget, &settings, o200k());
    let live = [first.plan.batch.clone(), second.batch.clone()];
    let window = project(&grown.path(), &live, grown.wire());
    let all = (0..41).filter(|at| window.is_folded(*at)).count() as u64;
    assert!(all > folded);
    assert_eq!((folded_messages(&second.batch), told(&grown.apply(&live))), (all, all));

    // Nobody remembers it, and its block comes back as input.
    let text = first.text.trim_end_matches(']');
    let back = format!("{text},{}]", long_chat(21..41));
    let third = compact(&back, Some(Dialect::Chat), &budget, &settings, o200k());
    let is_new = |at: &usize| !is_fold(&third.before.messages[*at]);
    let new = third.folded().into_iter().filter(is_new).count() as u64;
    assert!(new > 5);
    assert_eq!(told(&third.text), folded + new);
    let handle = first.plan.batch.fold().unwrap().handle();
    assert!(third.text.contains(&format!("before that: {handle}")), "{}", third.text);
}

#[test]
fn the_index_tells_words_notes_and_names_and_carries_them_on() {
    let opening = [
        r#"{"role":"user","content":"Go."}"#,
        r#"{"role":"assistant","content":"Gone."}"#,
        r#"{"role":"user","content":"Never push to main."}"#,
        r#"{"role":"assistant","content":"Decision: keep 512 slots, because size is not the cause. See src/fold.rs:214."}"#,
    ]
    .join(",");
    let replies = |range: std::ops::Range<usize>| {
        let reply = |number| {
            let words = format!("and the words of reply {number} ").repeat(8);
            format!(r#"{{"role":"assistant","content":"{words}"}}"#)
        };
        range.map(reply).collect::<Vec<_>>().join(",")
    };
    let next = r#"{"role":"user","content":"Next?"}"#;
    let (budget, settings) = (Budget::of(Tokens(1_500)), PlanSettings::default());
    let list = format!("[{opening},{},{next}]", replies(0..60));
    let first = compact(&list, Some(Dialect::Chat), &budget, &settings, o200k());
    let list = format!("{},{},{next}]", first.text.trim_end_matches(']'), replies(60..120));
    let second = compact(&list, Some(Dialect::Chat), &budget, &settings, o200k());
    for window in [&first, &second] {
        let block = window.after.messages.iter().find(|message| is_fold(message)).unwrap();
        let told = content(&block.parts[0]).as_str().to_owned();
        for line in [
            r#"user said: "Never push to main.""#,
            r#"noted: "Decision: keep 512 slots, because size is not the cause."#,
        ] {
            assert_eq!(told.matches(line).count(), 1, "{line}: {told}");
        }
        assert!(!told.contains("assistant said"), "{told}");
    }
    assert!(first.text.contains("names: src/fold.rs:214"));
}
