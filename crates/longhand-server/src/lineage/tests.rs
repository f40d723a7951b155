//! Requests as they come, and the sessions they belong to.

use longhand_dialect::{Dialect, read};

use super::*;

/// Places a chain whose messages do not matter.
fn place(lineage: &mut Lineage, root: &Root, thread: &Thread, aside: bool) -> Placed {
    lineage.place(root, thread, &[], root.owner, aside, 0).unwrap()
}

fn thread(root: &Root, dialect: Dialect, messages: &str) -> Thread {
    let body = format!(r#"{{"messages":[{messages}]}}"#);
    Thread::of(root.start, &read(body.into_bytes(), Some(dialect)).unwrap().messages)
}

/// Places conversations written as `u words | a words`, each message by its role, and names the
/// sessions by letters in the order in which they appear.
fn check(requests: &[(&str, &str)]) {
    let root = Root::new("", None, None);
    let mut lineage = Lineage::default();
    let mut names: Vec<String> = Vec::new();
    for (request, expected) in requests {
        let messages: Vec<String> = request
            .split(" | ")
            .map(|message| {
                let (role, words) = message.split_once(' ').unwrap();
                let role = match role {
                    "u" => "user",
                    "a" => "assistant",
                    _ => "system",
                };
                format!(r#"{{"role":"{role}","content":"{words}"}}"#)
            })
            .collect();
        let thread = thread(&root, Dialect::Chat, &messages.join(","));
        let aside = lineage.known(&thread.links) == thread.links.len() && lineage.is_aside(&thread);
        let placed = place(&mut lineage, &root, &thread, aside);
        if !names.contains(&placed.session) {
            names.push(placed.session.clone());
        }
        let name = names.iter().position(|name| *name == placed.session).unwrap();
        let letter = char::from(b'A' + name as u8);
        let found = format!("{letter} {} new", thread.links.len() - placed.known);
        assert_eq!(found, *expected, "{request}");
    }
}

#[test]
fn a_conversation_goes_on() {
    check(&[
        ("s be brief | u hi", "A 1 new"),
        ("s be brief | u hi | a hello", "A 1 new"),
        ("s be brief | u hi | a hello | u more", "A 1 new"),
        ("s it is Tuesday | u hi | a hello | u more | a yes | u and", "A 2 new"),
    ]);
}

#[test]
fn a_retry_says_nothing_new() {
    check(&[
        ("u hi", "A 1 new"),
        ("u hi", "A 0 new"),
        ("u hi | a yes", "A 1 new"),
        ("u hi", "A 0 new"),
    ]);
}

#[test]
fn a_regenerated_answer_is_a_fork() {
    check(&[
        ("u hi", "A 1 new"),
        ("u hi | a one", "A 1 new"),
        ("u hi | a two", "B 1 new"),
        ("u hi | a two | u go on", "B 1 new"),
        ("u hi | a one | u go on", "A 1 new"),
    ]);
}

#[test]
fn an_edited_message_is_a_fork_that_shares_the_past() {
    check(&[
        ("u a | a b | u c | a d | u e", "A 5 new"),
        ("u a | a b | u C | a d", "B 2 new"),
        ("u a | a b | u c | a d | u e | a f", "A 1 new"),
    ]);
}

#[test]
fn parallel_requests_with_one_prefix_part() {
    check(&[
        ("u a | a b", "A 2 new"),
        ("u a | a b | u left", "A 1 new"),
        ("u a | a b | u right", "B 1 new"),
        ("u a | a b | u left | a L", "A 1 new"),
        ("u a | a b | u right | a R", "B 1 new"),
    ]);
}

#[test]
fn a_side_call_is_known_by_its_system_prompt() {
    let root = Root::new("", None, None);
    let mut lineage = Lineage::default();
    let user = r#"{"role":"user","content":"hi"}"#;
    let main = thread(&root, Dialect::Chat, user);
    place(&mut lineage, &root, &main, false);
    let title = r#"{"role":"system","content":"Give it a title."}"#;
    let aside = thread(&root, Dialect::Chat, &format!("{title},{user}"));
    assert_eq!(aside.links, main.links);
    assert!(lineage.is_aside(&aside) && !lineage.is_aside(&main));
    let answer = |words: &str, base: &str| {
        let said = format!(r#"{base},{{"role":"assistant","content":"{words}"}}"#);
        thread(&root, Dialect::Chat, &said)
    };
    let titled = place(&mut lineage, &root, &answer("A greeting", user), true);
    let answered = place(&mut lineage, &root, &answer("Hello!", user), false);
    assert_eq!(titled.origin, Some(Note::Fork { of: answered.session, entries: 2 }));
    assert_eq!(answered.origin, None);
}

#[test]
fn json_may_be_written_differently() {
    let root = Root::new("", None, None);
    for (dialect, one, other) in [
        (
            Dialect::Chat,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1, \"b\": [2.0]}"}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"{\"b\":[2],\"a\":1}","name":"f"},"type":"function","id":"c1"}],"role":"assistant","content":""}"#,
        ),
        (
            Dialect::Chat,
            r#"{"role":"user","content":"caf\u00e9\n"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"café"}]}"#,
        ),
        (
            Dialect::Anthropic,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"Yes."}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"Yes.","cache_control":{"type":"ephemeral"}}]}"#,
        ),
        (
            Dialect::Anthropic,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"done"}]}"#,
            r#"{"content":[{"content":[{"text":"done\n","type":"text"}],"tool_use_id":"t","type":"tool_result","cache_control":{"type":"ephemeral"}}],"role":"user"}"#,
        ),
    ] {
        let (one, other) = (thread(&root, dialect, one), thread(&root, dialect, other));
        assert_eq!(one.links, other.links);
        assert_eq!(one.links.len(), 1);
    }
}

#[test]
fn what_is_said_makes_the_difference() {
    let root = Root::new("", None, None);
    let call = |id: &str, arguments: &str| {
        let own = format!(
            r#"{{"role":"assistant","content":"x","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}]}}"#
        );
        thread(&root, Dialect::Chat, &own).links
    };
    let first = call("1", "{}");
    assert_ne!(first, call("2", "{}"));
    // An id says which call it is: clients add keys to its arguments when they send it back.
    assert_eq!(first, call("1", "{\\\"a\\\":1}"));
    assert_ne!(call("", "{}"), call("", "{\\\"a\\\":1}"));
    let image = |url: &str| {
        let own = format!(
            r#"{{"role":"user","content":[{{"type":"image_url","image_url":{{"url":"https://a/{url}"}}}}]}}"#
        );
        thread(&root, Dialect::Chat, &own).links
    };
    assert_ne!(image("1"), image("2"));
}

#[test]
fn owners_and_names_never_meet() {
    let message = r#"{"role":"user","content":"hi"}"#;
    let roots = [("k1", None), ("k2", None), ("k1", Some("work")), ("k2", Some("work"))];
    let mut lineage = Lineage::default();
    for (owner, name) in roots {
        let root = Root::new(owner, name, None);
        let thread = thread(&root, Dialect::Chat, message);
        assert_eq!(lineage.known(&thread.links), 0);
        let placed = place(&mut lineage, &root, &thread, false);
        assert_eq!(placed.first, 0);
        assert_eq!(lineage.known(&thread.links), 1);
    }
}

#[test]
fn a_name_is_the_session_and_its_forks_carry_it() {
    let root = Root::new("", Some("work"), None);
    let mut lineage = Lineage::default();
    let say = |words: &str| format!(r#"{{"role":"user","content":"{words}"}}"#);
    let first = thread(&root, Dialect::Chat, &say("one"));
    assert_eq!(place(&mut lineage, &root, &first, false).session, "work");
    let other = thread(&root, Dialect::Chat, &say("two"));
    assert!(place(&mut lineage, &root, &other, false).session.starts_with("work~"));
}

#[test]
fn a_lineage_is_found_again_in_what_was_archived() {
    let root = Root::new("", None, None);
    let messages = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"}"#;
    let whole = thread(&root, Dialect::Chat, messages);
    let mut before = Lineage::default();
    let id = place(&mut before, &root, &whole, false).session;

    let mut after = Lineage::default();
    assert_eq!(after.candidate(&root, &whole.links).as_deref(), Some(id.as_str()));
    let body = format!("[{messages}]");
    let archived = read(body.into_bytes(), Some(Dialect::Chat)).unwrap().messages;
    let archived: Vec<(u64, Message)> = (1..).zip(archived).collect();
    let stored =
        Stored { id: &id, entries: 3, messages: &archived, windows: Vec::new(), noted: None };
    after.restore(&root, &[], stored);
    let placed = place(&mut after, &root, &whole, false);
    let notes_request = false;
    let known_as = placed.known_as;
    let expected =
        Placed { session: id, known: 2, first: 3, origin: None, notes_request, known_as };
    assert_eq!(placed, expected);
}

#[test]
fn entries_are_counted_with_the_notes_before_them() {
    let root = Root::new("", None, None);
    let mut lineage = Lineage::default();
    let say = |words: &str| {
        let own = words.split(' ').map(|word| format!(r#"{{"role":"user","content":"{word}"}}"#));
        thread(&root, Dialect::Chat, &own.collect::<Vec<_>>().join(","))
    };
    let first = place(&mut lineage, &root, &say("a b"), false);
    assert_eq!((first.first, first.notes()), (0, 1), "what the requests have besides messages");
    let more = place(&mut lineage, &root, &say("a b c"), false);
    assert_eq!((more.first, more.notes()), (3, 0));
    let fork = place(&mut lineage, &root, &say("a b d"), false);
    assert_eq!((fork.first, fork.notes()), (0, 2));
    assert_eq!(fork.origin, Some(Note::Fork { of: first.session.clone(), entries: 3 }));
    let tip = |words| *say(words).links.last().unwrap();
    assert_eq!(lineage.entry(&first.session, tip("a b c")), Some(3));
    assert_eq!(lineage.entry(&fork.session, tip("a b d")), Some(2));
    lineage.forget(&first.session);
    assert_eq!(lineage.known(&say("a b c").links), 0);
}

#[test]
fn a_client_s_own_summary_is_a_new_beginning_linked_to_the_old_one() {
    let (root, other) = (Root::new("k1", None, None), Root::new("k2", None, None));
    let read = |messages: &str| {
        let body = format!(r#"{{"messages":[{messages}]}}"#);
        read(body.into_bytes(), Some(Dialect::Chat)).unwrap().messages
    };
    let summary = "The build fails because of the lock file; it was deleted. Next: run the tests again, then ship.";
    let call = r#"{"role":"assistant","content":"x","tool_calls":[{"id":"call_0123456789","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    for said in [
        format!(r#"{{"role":"user","content":"Earlier: {summary} Go on."}}"#),
        format!(r#"{{"role":"user","content":"Go on."}},{call}"#),
    ] {
        let mut lineage = Lineage::default();
        let old = read(&format!(r#"{{"role":"user","content":"Why?"}},{call}"#));
        let thread = Thread::of(root.start, &old);
        let placed = lineage.place(&root, &thread, &old, root.owner, false, 0).unwrap();
        lineage.hear(&root, &placed.session, summary, &old);
        let new = read(&said);
        for (root, origin) in
            [(&other, None), (&root, Some(Note::Continues { of: placed.session.clone() }))]
        {
            let thread = Thread::of(root.start, &new);
            let placed = lineage.place(root, &thread, &new, root.owner, false, 0).unwrap();
            assert_eq!(placed.origin, origin);
        }
    }
}
