use super::*;

/// Hears a script, one line a text (`u: …`, `a: …`; each `u:` opens a round), and compares what still
/// stands.
#[track_caller]
fn check(script: &str, expected: &[&str]) {
    let mut standing = Standing::default();
    let mut round = 0;
    for (line, message) in script.lines().map(str::trim).zip(0..) {
        let (who, text) = line.split_once(": ").unwrap();
        round += u64::from(who == "u");
        let by = if who == "u" { Role::User } else { Role::Assistant };
        standing.hear(by, round, message, text, false);
    }
    let open = StatementKind::ALL.iter().flat_map(|kind| standing.open(*kind));
    assert_eq!(open.map(|item| item.text.as_str()).collect::<Vec<_>>(), expected);
}

#[test]
fn an_open_question_stays_until_it_is_answered() {
    let question = "Open question: should the proxy retry on status 503?";
    let ask = format!("u: go on\n a: {question}");
    check(&format!("{ask}\n u: Later.\n a: The tests pass."), &[question]);
    check(&format!("{ask}\n u: Yes, please.\n a: Ok."), &[]);
    check(&format!("{ask}\n u: Yes, retry twice at the most.\n a: Ok."), &[]);
    check(&format!("{ask}\n u: No, not a second timer.\n a: Ok."), &[question]);
    check(
        &format!("{ask}\n u: hm\n a: x\n u: Answer: the proxy should retry twice.\n a: Ok."),
        &[],
    );
    check(&format!("{ask}\n u: hm\n a: The question about 503 retries is resolved."), &[]);
    check(
        &format!("{ask}\n u: hm\n a: The question about proxy retries was answered by ops."),
        &[],
    );
    check(&format!("{ask}\n u: hm\n a: The question about the colour is resolved."), &[question]);
    let decision = "Decision: the proxy will retry on status 503.";
    check(&format!("{ask}\n u: hm\n a: {decision}"), &[decision]);
    check(&format!("{ask}\n u: Yes.\n a: ok\n u: go\n a: {question}"), &[question]);
    let steps = "Open question: what about rules with a minute step, such as every 10 minutes: do they \
                 run through the doubled hour twice?";
    let agreed = "Agreed on the minute steps: those do run in both hours.";
    check(&format!("u: go\n a: {steps}\n u: {agreed}"), &[agreed]);
}

#[test]
fn a_question_in_passing_is_answered_by_the_reply() {
    let tabs = "Shall I use tabs or spaces?";
    check(&format!("u: x\n a: {tabs}\n u: spaces please, as everywhere else in the tree"), &[]);
    check(&format!("u: x\n a: {tabs}\n u: the second"), &[]);
    check(
        &format!(
            "u: x\n a: {tabs}\n u: Before anything else look at the failing build of yesterday."
        ),
        &[tabs],
    );
    check("u: Why does it fail?\n a: The lease expires first.", &[]);
}

#[test]
fn a_blocker_stays_until_it_is_lifted() {
    let blocked = "Blocked: the fixture journal-0.7.2.bin is not in the tree.";
    let start = format!("u: go\n a: {blocked}");
    check(&format!("{start}\n u: wait\n a: Still working."), &[blocked]);
    check(&format!("{start}\n u: done\n a: Unblocked: the fixture of 0.7.2 is there."), &[]);
    check(&format!("{start}\n u: We are no longer blocked: the fixture is in the tree now."), &[]);
    check(&format!("{start}\n u: The blocker with the journal fixture is resolved."), &[]);
    check(&format!("{start}\n u: Unblocked!"), &[]);
    check(&format!("{start}\n u: Unblocked: the staging credentials came."), &[blocked]);
    let two = format!("{start} Blocked: no licence for the fonts.");
    check(&format!("{two}\n u: Unblocked!"), &[blocked, "Blocked: no licence for the fonts."]);
    check(&format!("{two}\n u: Unblocked: we have a licence for fonts."), &[blocked]);
}

#[test]
fn a_long_session_stays_small() {
    let mut standing = Standing::default();
    for round in 0..5_000 {
        standing.hear(
            Role::Assistant,
            round,
            round,
            &format!("Decision: take way {round}."),
            false,
        );
    }
    assert!(standing.items.len() <= STATEMENTS_MAX);
    assert_eq!(standing.items.last().unwrap().text, "Decision: take way 4999.");
}
