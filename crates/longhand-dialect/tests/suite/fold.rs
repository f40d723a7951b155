//! What a fold counts, cites and tells, and how it is found again.
use std::cell::RefCell;

use crate::common::{Compacted, compact, count, o200k, parse};
use longhand_core::{
    Batch, Budget, Digest, Digested, Folded, Framing, Handle, HandleOpener, History, Image,
    IndexDigest, Meter, Part, Plan, PlanSettings, Policy, Rolling, Scale, Seq, Tokens, content,
    earlier, find_fold, folded_messages, is_fold, plan, plan_with, project,
};
use longhand_dialect::{Conversation, Dialect};

/// A token for each byte, and some around each message; digits and line breaks may cost more.
struct ByteMeter {
    message: u64,
    digit: u64,
    line_break: u64,
}

const BYTES: ByteMeter = ByteMeter { message: 0, digit: 0, line_break: 0 };

impl Meter for ByteMeter {
    fn weigh(&self, text: &str, _: u64) -> u64 {
        let more = |byte: u8| match byte {
            b'0'..=b'9' => self.digit,
            b'\n' => self.line_break,
            _ => 0,
        };
        text.bytes().map(|byte| 1 + more(byte)).sum()
    }

    fn image(&self, _: &Image) -> Tokens {
        Tokens::ZERO
    }

    fn framing(&self) -> Framing {
        Framing {
            message: Tokens(self.message),
            name: Tokens::ZERO,
            reply: Tokens::ZERO,
            ids: false,
        }
    }
}

fn message(role: &str, words: &str) -> String {
    format!(r#"{{"role":"{role}","content":{}}}"#, serde_json::json!(words))
}

fn conversation(messages: &[String]) -> Conversation {
    parse(&format!("[{}]", messages.join(",")), Some(Dialect::Chat))
}

/// Users and replies in turn, of some forty tokens each; the user begins and ends.
fn long_chat(range: std::ops::Range<usize>) -> String {
    let turn = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        message(role, &format!("the words of message {number} ").repeat(8))
    };
    range.map(turn).collect::<Vec<_>>().join(",")
}

fn policy(policy: Policy) -> PlanSettings {
    PlanSettings { policy, ..PlanSettings::default() }
}

/// The text of the only block in a window.
fn block(window: &Conversation) -> String {
    let is_block = |part: &&Part| earlier(part).is_some();
    let mut blocks =
        window.messages.iter().flat_map(|message| message.parts.iter().filter(is_block));
    let block = blocks.next().expect("a block");
    assert!(blocks.next().is_none());
    content(block).as_str().to_owned()
}

/// How many messages a block says that it stands for.
fn told_count(block: &str) -> u64 {
    let (_, rest) = block.split_once(": ").unwrap();
    rest.split_once(' ').unwrap().0.replace(',', "").parse().unwrap()
}

// The index.

fn index(
    messages: &[String],
    state: &str,
    blocks: &[&str],
    limit: u64,
    meter: &ByteMeter,
) -> String {
    let conversation = conversation(messages);
    let folded = Folded {
        hands_over: false,
        messages: conversation.messages.iter().collect(),
        entries: Vec::new(),
        state,
        blocks: blocks.iter().map(ToString::to_string).collect(),
        before: Vec::new(),
        after: Vec::new(),
        hidden: Vec::new(),
    };
    IndexDigest.digest(&folded, Tokens(limit), &Scale::new(meter)).text
}

#[test]
fn the_index_tells_who_said_what() {
    let messages = [
        message("system", "Be brief."),
        message("user", "Fix the build."),
        message("assistant", "I will."),
        r#"{"role":"user","content":[{"type":"text","text":" \n"},{"type":"text","text":"And \"test\"."}]}"#.to_owned(),
        r#"{"role":"user","content":[{"type":"text","text":"[longhand fold h:000000000000: 2 earlier messages are not shown]"},{"type":"text","text":"Go on."}]}"#.to_owned(),
    ];
    assert_eq!(
        index(&messages, "", &[], 10_000, &BYTES),
        r#"user said: "Go on."
user said: "And \"test\"."
user said: "Fix the build."
system said: "Be brief.""#
    );
}

#[test]
fn the_index_carries_on_what_earlier_ones_told_but_for_names() {
    let state = "user said: \"one\"\n \nnames: src/one.rs";
    let blocks = ["noted: \"two\"\nnames: src/two.rs", "\nuser said: \"three\""];
    assert_eq!(
        index(&[], state, &blocks, 10_000, &BYTES),
        "noted: \"two\"\nuser said: \"one\"\nuser said: \"three\""
    );
}

#[test]
fn the_index_names_what_was_said_asked_for_and_answered() {
    let messages = [
        message("assistant", "See src/reply.rs."),
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{\"path\":\"src/argument.rs\"}"}}]}"#.to_owned(),
        r#"{"role":"tool","tool_call_id":"1","content":"error: no src/result.rs"}"#.to_owned(),
        r#"{"role":"assistant","content":null,"refusal":"Not src/refused.rs."}"#.to_owned(),
    ];
    assert_eq!(
        index(&messages, "", &[], 10_000, &BYTES),
        r#"noted: "error: no src/result.rs"
names: src/refused.rs, src/result.rs, src/argument.rs, src/reply.rs"#
    );
}

#[test]
fn the_index_reads_the_newest_128_kib() {
    let read = |bytes: usize| {
        let newest = "words ".repeat(bytes).split_at(bytes).0.to_owned();
        let messages = [message("assistant", "error: the oldest"), message("assistant", &newest)];
        !index(&messages, "", &[], 10_000, &BYTES).is_empty()
    };
    assert!(read(128 * 1024));
    assert!(!read(128 * 1024 + 1));
}

/// Where there is too much of everything, each kind of line leaves room for the next.
#[test]
fn the_index_shares_its_room() {
    let number = |number: usize| format!("{number:04}");
    let mut messages: Vec<String> =
        (0..400).map(|at| message("user", &format!("the words of user {}", number(at)))).collect();
    for at in 0..400 {
        let reply = format!("error: the one that is {} in module_{at}.rs", number(at));
        messages.push(message("assistant", &reply));
    }
    let state: String = (0..400).map(|at| format!("noted before: {}\n", number(at))).collect();
    let told = index(&messages, &state, &[], 10_000, &BYTES);
    let mut used = 0;
    for (kind, share) in
        [("user said: ", 4_500), ("noted before: ", 6_000), ("noted: ", 7_000), ("names: ", 9_500)]
    {
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with(kind)).collect();
        used += lines.iter().map(|line| line.len() + 1).sum::<usize>();
        let longest = lines.iter().map(|line| line.len() + 1).max().unwrap();
        assert!(used <= share && share < used + longest, "{kind}: {used}");
    }
    assert!(told.starts_with("user said: \"the words of user 0399\"\n"), "the newest first");
    assert!(told.contains("that is 0399"));
}

/// Joined, lines may count for more than they did one by one.
#[test]
fn the_index_stays_within_its_limit_however_lines_are_counted() {
    let meter = ByteMeter { line_break: 60, ..BYTES };
    let messages: Vec<String> = (0..40).map(|at| message("user", &format!("word {at}"))).collect();
    let size = |limit: u64| meter.weigh(&index(&messages, "", &[], limit, &meter), u64::MAX);
    let sizes: Vec<(u64, u64)> = (200..500).map(|limit| (size(limit), limit)).collect();
    assert!(sizes.iter().all(|(size, limit)| size <= limit && *size > 0), "{sizes:?}");
    assert!(sizes.iter().any(|(size, limit)| size == limit), "all of it is used");
}

#[test]
fn what_a_block_tells_is_read_without_its_head() {
    let text = "[longhand fold h:000000000000: 2 earlier messages are not shown]\nbefore that: h:111111111111\nuser said: \"a\"\nnoted: \"b\"";
    let block = conversation(&[message("user", text)]);
    let words = conversation(&[message("user", "user said: \"a\"\nnoted: \"b\"")]);
    let told = |conversation: &Conversation| earlier(&conversation.messages[0].parts[0]);
    assert_eq!(told(&block).as_deref(), Some("user said: \"a\"\nnoted: \"b\""));
    assert_eq!(told(&words), None);
    assert!(is_fold(&block.messages[0]) && !is_fold(&words.messages[0]));
    let quoted = conversation(&[message("assistant", text)]);
    assert!(!is_fold(&quoted.messages[0]), "a reply is not a block, whatever it quotes");
}

// Digests of others.

/// Tells as much as it may, but never less than so many bytes, and notes what it was asked.
struct Verbose {
    bytes_min: u64,
    limits: RefCell<Vec<u64>>,
    states: RefCell<Vec<String>>,
}

impl Verbose {
    fn of(bytes_min: u64) -> Self {
        Self { bytes_min, limits: RefCell::default(), states: RefCell::default() }
    }
}

impl Digest for Verbose {
    fn digest(&self, folded: &Folded, limit: Tokens, _: &Scale) -> Digested {
        self.limits.borrow_mut().push(limit.0);
        self.states.borrow_mut().push(folded.state.to_owned());
        let text = "x".repeat(limit.0.max(self.bytes_min) as usize);
        let state = format!("state\nof {}", folded.messages.len());
        Digested { text, state, wanted: Tokens::ZERO }
    }
}

/// Fills its room, and would like to have much more.
struct GreedyDigest;

impl Digest for GreedyDigest {
    fn digest(&self, _: &Folded, limit: Tokens, _: &Scale) -> Digested {
        let text = "x".repeat(limit.0 as usize);
        Digested { text, state: String::new(), wanted: Tokens(1_000_000) }
    }
}

#[test]
fn a_larger_block_never_costs_a_session_the_room_for_its_next_requests() {
    let conversation = parse(&format!("[{}]", long_chat(0..41)), Some(Dialect::Chat));
    let history = conversation.history(Tokens::ZERO);
    for target in [500_u64, 1_000, 1_500, 2_000] {
        let budget = Budget { target: Some(Tokens(target)), ..Budget::of(Tokens(4_000)) };
        let plan = plan_with(&history, &budget, &policy(Policy::Auto), &BYTES, &GreedyDigest);
        let most = Tokens(target.midpoint(4_000));
        assert!(plan.tokens() <= most, "{} of {most} with the target {target}", plan.tokens());
    }
}

#[test]
fn the_first_line_says_how_to_open_a_handle() {
    let messages = long_chat(0..41);
    let headline = |request: &str, opener: HandleOpener| {
        let mut conversation = parse(request, Some(Dialect::Chat));
        conversation.opened_by(opener);
        let plan = trimmed(&conversation, &[], &SilentDigest);
        plan.batch.fold().unwrap().text.lines().next().unwrap().to_owned()
    };
    let bare = format!("[{messages}]");
    assert!(headline(&bare, HandleOpener::Unknown).ends_with("not an order]"));
    let command = headline(&bare, HandleOpener::Command("longhand expand"));
    assert!(command.ends_with("; `longhand expand h:…` prints what a handle stands for]"));
    let tools = r#"[{"type":"function","function":{"name":"longhand_recall","parameters":{}}}]"#;
    let offering = format!(r#"{{"model":"m","tools":{tools},"messages":[{messages}]}}"#);
    let tool = headline(&offering, HandleOpener::Command("longhand expand"));
    assert!(tool.ends_with("; call longhand_recall to read what a handle stands for]"), "{tool}");
}

/// Tells nothing.
struct SilentDigest;

impl Digest for SilentDigest {
    fn digest(&self, _: &Folded, _: Tokens, _: &Scale) -> Digested {
        Digested::default()
    }
}

fn trimmed(conversation: &Conversation, live: &[Batch], digest: &dyn Digest) -> Plan {
    let history = History { live, ..conversation.history(Tokens::ZERO) };
    plan_with(&history, &Budget::of(Tokens(3_000)), &policy(Policy::Trim), &BYTES, digest)
}

#[test]
fn a_digest_that_tells_too_much_is_asked_for_less() {
    let conversation = parse(&format!("[{}]", long_chat(0..41)), Some(Dialect::Chat));
    let digest = Verbose::of(0);
    let plan = trimmed(&conversation, &[], &digest);
    assert!(plan.fits() && plan.batch.fold().unwrap().text.ends_with("xxx"));
    let limits = digest.limits.take();
    assert_eq!(limits.len(), 1, "what it may tell is told at once");

    // Two tokens are to spare beside the break between the head and the text.
    let digest = Verbose::of(limits[0] + 12);
    let plan = trimmed(&conversation, &[], &digest);
    assert_eq!(digest.limits.take(), [0, 10, 20, 30].map(|less| limits[0] - less));
    assert!(plan.fits() && plan.batch.fold().unwrap().text.ends_with("not an order]"));
}

#[test]
fn a_digest_gets_what_the_one_before_it_left() {
    let digest = Verbose::of(0);
    let first = parse(&format!("[{}]", long_chat(0..41)), Some(Dialect::Chat));
    let one = trimmed(&first, &[], &digest);
    let folded = folded_messages(&one.batch);
    let grown = parse(&format!("[{}]", long_chat(0..61)), Some(Dialect::Chat));
    let two = trimmed(&grown, &[one.batch], &digest);
    assert_eq!(*digest.states.borrow(), [String::new(), format!("state\nof {folded}")]);
    assert!(folded_messages(&two.batch) > folded);
    assert_eq!(two.batch.fold().unwrap().spans.len(), 1, "the folds are one");
}

// Counts and citations.

#[test]
fn one_message_is_not_several() {
    let is_told = |messages: usize, words: &str| {
        let mut notation: Vec<String> = vec!["a 200tk".to_owned(); messages];
        notation.push("u next".to_owned());
        let json = longhand_testkit::notation::chat(&notation.join(" | "));
        let budget = Budget::of(Tokens(60));
        let made = compact(&json, None, &budget, &policy(Policy::Trim), o200k());
        assert!(block(&made.after).contains(words), "{}", block(&made.after));
    };
    is_told(1, ": 1 earlier message is not shown;");
    is_told(2, ": 2 earlier messages are not shown;");
}

/// A window of the first part of a long chat, and one of what it grew to when it came back as input.
fn came_back(dialect: Dialect, settings: &PlanSettings) -> (Compacted, Compacted) {
    let budget = Budget::of(Tokens(700));
    let json = format!(r#"{{"max_tokens":9,"messages":[{}]}}"#, long_chat(0..21));
    let first = compact(&json, Some(dialect), &budget, settings, o200k());
    let open = first.text.trim_end_matches("]}");
    let json = format!("{open},{}]}}", long_chat(21..41));
    let second = compact(&json, Some(dialect), &budget, settings, o200k());
    (first, second)
}

const FOLDING: [Policy; 3] = [
    Policy::Auto,
    Policy::Trim,
    Policy::Rolling(Rolling { rounds_max: 3, summary_max: Tokens(4_000) }),
];

#[test]
fn a_block_counts_and_cites_the_one_that_came_back() {
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        for way in FOLDING {
            let (first, second) = came_back(dialect, &policy(way));
            let is_new = |at: &&usize| !is_fold(&second.before.messages[**at]);
            let (old, new) = (first.folded().len(), second.folded().iter().filter(is_new).count());
            assert!(old > 3 && new > 3, "{dialect} {way:?}: {old} and {new}");
            let text = block(&second.after);
            assert_eq!(told_count(&text), (old + new) as u64, "{dialect} {way:?}: {text}");
            let handle = first.plan.batch.fold().unwrap().handle();
            assert_eq!(text.matches("before that: ").count(), 1, "{dialect} {way:?}");
            let cites =
                |line: &str| line.strip_prefix("before that: ") == Some(&handle.to_string());
            assert!(text.lines().any(cites), "{dialect} {way:?}: {text}");
            assert_eq!(second.plan.tokens(), second.tokens, "{dialect} {way:?}");
        }
    }
}

/// Where roles alternate a block comes back beside the words of a user, which go later than it or never.
#[test]
fn a_block_that_came_back_is_told_once_however_often_it_is_folded() {
    let (budget, dialect) = (Budget::of(Tokens(1_500)), Some(Dialect::Anthropic));
    let blocker = message("assistant", "Blocker: the disk is full.");
    let list = format!("{},{blocker},{}", message("user", "Go."), long_chat(2..61));
    let json = format!(r#"{{"max_tokens":9,"messages":[{list}]}}"#);
    let first = compact(&json, dialect, &budget, &PlanSettings::default(), o200k());
    let handle = first.plan.batch.fold().unwrap().handle();
    assert!(first.text.starts_with(r#"{"max_tokens":9,"messages":[{"role":"user","content":[{"#));
    let open = first.text.trim_end_matches("]}");
    let mut live: Vec<Batch> = Vec::new();
    for (end, way) in [(91, Policy::Auto), (121, Policy::Auto), (151, Policy::Trim)] {
        let grown = parse(&format!("{open},{}]}}", long_chat(61..end)), dialect);
        let history =
            History { live: &live, ..grown.history(crate::common::fixed(&grown, o200k())) };
        live.push(plan(&history, &budget, &policy(way), o200k()).batch);
        let shown = project(&grown.path(), &live, grown.wire());
        let folded = (0..grown.messages.len()).filter(|at| shown.is_folded(*at)).count();
        let text = block(&parse(&grown.apply(&live), dialect));
        assert_eq!(told_count(&text), (first.folded().len() + folded) as u64, "{end}: {text}");
        for line in [&format!("before that: {handle}"), "Blocker: the disk is full."] {
            assert_eq!(text.matches(line).count(), 1, "{end}: {line}: {text}");
        }
    }
}

#[test]
fn a_reply_that_quotes_a_block_is_a_message_like_others() {
    let quoted = r#"{"role":"assistant","content":[{"type":"text","text":"It says:"},{"type":"text","text":"[longhand fold h:000000000000: 7 earlier messages are not shown]"}]}"#;
    let next = message("user", "What does that mean?");
    let last = format!("{},{quoted},{next}", long_chat(0..21));
    let first = format!("{},{quoted},{}", message("user", "Go."), long_chat(0..21));
    for way in FOLDING {
        let made = |list: &str| {
            let json = format!(r#"{{"max_tokens":9,"messages":[{list}]}}"#);
            let budget = Budget::of(Tokens(600));
            compact(&json, Some(Dialect::Anthropic), &budget, &policy(way), o200k())
        };
        let (kept, gone) = (made(&last), made(&first));
        assert!(!kept.folded().is_empty() && kept.text.contains(quoted), "{way:?}: {}", kept.text);
        assert!(gone.folded().contains(&1), "{way:?}");
        let told = block(&gone.after);
        assert_eq!(told_count(&told), gone.folded().len() as u64, "{way:?}: {told}");
        assert!(!told.contains("before that: "), "{way:?}: {told}");
    }
}

#[test]
fn a_block_that_is_pinned_stays() {
    let text = "[longhand fold h:000000000000: 7 earlier messages are not shown]";
    let json = format!("[{},{}]", message("user", text), long_chat(0..21));
    let conversation = parse(&json, Some(Dialect::Chat));
    for way in FOLDING {
        let history = History { pins: &[Seq(0)], ..conversation.history(Tokens::ZERO) };
        let plan = plan(&history, &Budget::of(Tokens(600)), &policy(way), o200k());
        let window = conversation.apply(std::slice::from_ref(&plan.batch));
        assert!(plan.batch.fold().is_some() && window.contains(text), "{way:?}: {window}");
        assert!(!window.contains("before that: "), "it tells for itself: {way:?}: {window}");
    }
}

#[test]
fn citations_are_dropped_where_there_is_no_room() {
    let old = |handle: char| {
        let handle = handle.to_string().repeat(12);
        message("user", &format!("[longhand fold h:{handle}: 5 earlier messages are not shown]"))
    };
    let mut messages = vec![old('1'), old('2')];
    messages.extend((0..20).map(|_| message("assistant", &"words ".repeat(40))));
    messages.push(message("user", "next"));
    let conversation = conversation(&messages);
    let block = |summary_max: u64| {
        let rolling = Rolling { rounds_max: 0, summary_max: Tokens(summary_max) };
        let budget = Budget::of(Tokens(4_000));
        let settings = policy(Policy::Rolling(rolling));
        let history = conversation.history(Tokens::ZERO);
        let plan = plan_with(&history, &budget, &settings, &BYTES, &SilentDigest);
        plan.batch.fold().expect("a fold").text.clone()
    };
    let both = block(1_000);
    let lines: Vec<&str> = both.lines().collect();
    assert_eq!(lines[1..], ["before that: h:111111111111", "before that: h:222222222222"]);
    let one = format!("{}\n{}", lines[0], lines[1]);
    assert_eq!(block(both.len() as u64), both);
    assert_eq!(block(both.len() as u64 - 1), one);
    assert_eq!(block(one.len() as u64), one);
    assert_eq!(block(one.len() as u64 - 1), lines[0]);
}

// Sizes.

/// A block that a later window keeps counts as well as one that is new.
#[test]
fn a_window_with_the_block_of_an_earlier_batch_counts_exactly() {
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        for way in FOLDING {
            let request = |end: usize| {
                let json = format!(r#"{{"max_tokens":9,"messages":[{}]}}"#, long_chat(0..end));
                parse(&json, Some(dialect))
            };
            let (mut live, mut unchanged): (Vec<Batch>, usize) = (Vec::new(), 0);
            for end in (21..81).step_by(2) {
                let grown = request(end);
                let fixed = crate::common::fixed(&grown, o200k());
                let history = History { live: &live, ..grown.history(fixed) };
                let budget = Budget::of(Tokens(1_200)).with_low_water(50, fixed);
                let plan = plan(&history, &budget, &policy(way), o200k());
                if plan.is_noop() {
                    unchanged += usize::from(!live.is_empty());
                } else {
                    live.push(plan.batch.clone());
                }
                let window = parse(&grown.apply(&live), Some(dialect));
                assert_eq!(plan.tokens(), count(&window, o200k()), "{dialect} {way:?} {end}");
                let shown = project(&grown.path(), &live, grown.wire());
                let folded = (0..end).filter(|at| shown.is_folded(*at)).count() as u64;
                let newest = live.iter().rev().find(|batch| batch.fold().is_some());
                assert_eq!(newest.map_or(0, folded_messages), folded, "{dialect} {way:?} {end}");
            }
            assert!(
                live.len() > 2 && unchanged > 2,
                "{dialect} {way:?}: {} {unchanged}",
                live.len()
            );
        }
    }
}

/// Turns without content stand beside the block; they are joined with no others.
#[test]
fn turns_without_content_beside_a_block_count_exactly() {
    let empty = r#"{"role":"user","content":[]}"#;
    let words = "the words of a reply ".repeat(30);
    let reply = message("assistant", &words);
    let user = message("user", "Go on.");
    for list in [
        [user.as_str(), &reply, empty, &reply, &user, &reply, &user].join(","),
        [empty, &reply, &user, &reply, empty, &reply, &user].join(","),
        [user.as_str(), &reply, &user, &reply, empty, &user].join(","),
    ] {
        let json = format!(r#"{{"max_tokens":9,"messages":[{list}]}}"#);
        for (way, keep_tail) in
            [(Policy::Auto, Some(1)), (Policy::Auto, None), (Policy::Trim, None)]
        {
            for limit in [120, 250, 330, 450] {
                let settings = PlanSettings { keep_tail, ..policy(way) };
                let budget = Budget::of(Tokens(limit));
                let made = compact(&json, Some(Dialect::Anthropic), &budget, &settings, o200k());
                assert_eq!(made.plan.tokens(), made.tokens, "{way:?} {limit}: {list}");
            }
        }
    }
}

/// Short turns of users and replies.
fn short_chat() -> String {
    let turn = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        message(role, &"words ".repeat(1 + number % 4))
    };
    let turns: Vec<String> = (0..24).map(turn).collect();
    let newest = message("user", "And now?");
    format!(r#"{{"max_tokens":9,"messages":[{},{newest}]}}"#, turns.join(","))
}

/// A block may cost more than was reckoned: its handle is another, and it may join no turn.
#[test]
fn every_budget_that_can_be_reached_is_reached() {
    let json = short_chat();
    let by_digits = ByteMeter { digit: 1, ..BYTES };
    let by_messages = ByteMeter { message: 40, ..BYTES };
    for (dialect, meter, step) in
        [(Dialect::Chat, by_digits, 1), (Dialect::Anthropic, by_messages, 5)]
    {
        let whole = count(&parse(&json, Some(dialect)), &meter).0;
        for way in crate::common::POLICIES {
            for limit in (100..whole).step_by(step) {
                let budget = Budget::of(Tokens(limit));
                let made = compact(&json, Some(dialect), &budget, &policy(way), &meter);
                crate::common::check_contract(&made, &budget, &policy(way), &meter);
            }
        }
    }
}

#[test]
fn the_bytes_of_a_block_are_what_they_are() {
    let json = format!("[{}]", long_chat(0..801));
    let budget = Budget { bytes_max: Some(90_000), ..Budget::of(Tokens(1_000_000)) };
    for way in FOLDING {
        let made = compact(&json, Some(Dialect::Chat), &budget, &policy(way), o200k());
        assert!(made.plan.fits() && !made.folded().is_empty(), "{way:?}: {}", made.plan);
        let bytes = made.text.len() as u64;
        assert!(bytes <= made.plan.size.bytes, "{way:?}");
        assert!(made.plan.size.bytes < bytes + 4_000, "{way:?}: {bytes}, {:?}", made.plan.size);
    }
}

/// Folding a block alone loses what it tells, and for a few tokens that is not worth it.
#[test]
fn a_block_alone_is_not_folded_for_a_few_tokens() {
    let head =
        "[longhand fold h:000000000000: 9 earlier messages are not shown; a record, not an order]";
    let block = message("user", &format!("{head}\nGo on."));
    let words = "some words ".repeat(200);
    let messages = [
        block.as_str(),
        r#"{"role":"user","content":"And now?"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"read","arguments":"{}"}}]}"#,
        &format!(r#"{{"role":"tool","tool_call_id":"1","content":"{words}"}}"#),
    ];
    let json = format!("[{}]", messages.join(","));
    let whole = count(&parse(&json, Some(Dialect::Chat)), &BYTES);
    for way in [FOLDING[0], FOLDING[2]] {
        let budget = Budget::of(whole - Tokens(1));
        let made = compact(&json, Some(Dialect::Chat), &budget, &policy(way), &BYTES);
        assert!(made.plan.fits() && made.text.contains(&block), "{way:?}: {}", made.text);
        assert_eq!(made.clipped(), [3], "{way:?}");
    }
    // `trim` clips nothing, and would have to let the newest user message go.
    let budget = Budget::of(whole - Tokens(1));
    let made = compact(&json, Some(Dialect::Chat), &budget, &policy(Policy::Trim), &BYTES);
    assert!(made.plan.fits() && made.text.contains(messages[1]), "{}", made.text);
    assert!(made.tokens + Tokens(400) > whole, "{} of {whole}", made.tokens);
}

#[test]
fn messages_are_folded_for_a_single_token() {
    for way in FOLDING {
        let saved = (40..140).map(|bytes| {
            let reply = message("assistant", &"x".repeat(bytes));
            let messages = [message("user", "Go."), reply, message("user", "And now?")];
            let json = format!("[{}]", messages.join(","));
            let whole = count(&parse(&json, Some(Dialect::Chat)), &BYTES);
            let budget = Budget::of(whole - Tokens(1));
            let settings = PlanSettings { keep_tail: Some(0), ..policy(way) };
            whole - compact(&json, Some(Dialect::Chat), &budget, &settings, &BYTES).tokens
        });
        let saved: Vec<Tokens> = saved.collect();
        assert!(saved.contains(&Tokens(1)), "{way:?}: {saved:?}");
    }
}

// Finding.

#[test]
fn a_fold_is_found_by_its_handle() {
    for dialect in [Dialect::Chat, Dialect::Anthropic] {
        for way in FOLDING {
            let (first, second) = came_back(dialect, &policy(way));
            for made in [&first, &second] {
                let fold = made.plan.batch.fold().unwrap();
                let path = made.before.path();
                let blocks: Vec<(usize, usize)> =
                    fold.blocks.iter().filter_map(|place| path.find(*place)).collect();
                let found = find_fold(&path, made.before.wire(), fold.handle());
                assert_eq!(found, Some((blocks, made.folded())), "{dialect} {way:?}");
            }
            assert!(
                find_fold(&first.before.path(), first.before.wire(), Handle::of(["x"])).is_none()
            );
        }
    }
}
