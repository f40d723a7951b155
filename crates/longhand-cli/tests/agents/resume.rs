//! A session that `compact --resume` made is resumed by its agent.

use crate::agent::PublishedAgent;
use crate::model::TaskModel;
use crate::request::TokenCounter;
use crate::task::parts;
use crate::workspace::Workspace;

/// A budget that nothing reaches.
const PLENTY: u64 = 100_000_000;

/// Brings the newest session of an agent down. Returns the name under which it goes on.
fn compacted(workspace: &Workspace, agent: &str, budget: u64) -> String {
    let session = format!("{agent}@last");
    let budget = budget.to_string();
    let (is_done, said) =
        workspace.longhand(&["compact", "--resume", &session, "--budget", &budget]);
    assert!(is_done, "{agent}: {said}");
    let command = said.trim().rsplit(' ').next().unwrap_or_default();
    command.trim_matches('\'').to_owned()
}

/// Brings a session down to a budget, system prompt and tools included, and goes on in it.
fn check(name: &'static str, budget: u64) {
    let Some(agent) = PublishedAgent::named(name) else { return };
    let workspace = Workspace::new();
    let model = TaskModel::start(&workspace.project(), None, agent.nature);
    let parts = parts();
    let run = |session: Option<&str>, prompt: &str| {
        let ended = match session {
            None => agent.run(&workspace, &model.url(), (PLENTY, false), (prompt, ""), || false),
            Some(session) => agent.resume(&workspace, &model.url(), PLENTY, session, prompt),
        };
        assert_eq!(ended.status, Some(0), "{name}: {}", ended.output);
    };
    run(None, &parts[0].prompt);
    let before = model.seen();
    assert!(before.most > 2 * budget, "{name}: {}", before.most);
    let session = compacted(&workspace, name, budget);
    let known = model.requests().len();
    run(Some(&session), &parts[1].prompt);
    let seen = model.seen();
    assert_eq!((seen.ended, seen.invalid.len()), (2, 0), "{name}: {:?}", seen.invalid);
    let requests = model.requests();
    let resumed = requests[known..].iter().find(|request| request.body.contains("part 2"));
    let resumed = &resumed.unwrap().body;
    assert!(resumed.contains("[longhand fold "), "{name}: our window is what it loads");
    let tokens = TokenCounter::new().count(&serde_json::from_str(resumed).unwrap());
    println!("{name}: {} tokens before, {tokens} in the resumed request", before.most);
    assert!(tokens < before.most / 2 + 20_000, "{name}: {tokens}");
    // It has gone on in that session, and a second one is made of it.
    let second = compacted(&workspace, name, budget);
    assert_ne!(second, session, "{name}: another session");
    let known = model.requests().len();
    run(Some(&second), "What is the number of the ticket?");
    let requests = model.requests();
    let again =
        requests[known..].iter().find(|request| request.body.contains("number of the ticket"));
    let again = &again.unwrap().body;
    assert!(again.contains("[longhand fold ") && again.contains("part 2"), "{name}: {again:.2000}");
    assert_eq!(model.seen().invalid, Vec::<String>::new(), "{name}");
}

#[test]
fn claude() {
    check("claude", 30_000);
}

#[test]
fn codex() {
    check("codex", 20_000);
}

#[test]
fn pi() {
    check("pi", 20_000);
}
