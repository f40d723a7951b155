//! One test for each agent; all hold to the same.

use std::time::Instant;

use crate::agent::{Ended, PublishedAgent};
use crate::figures::AgentFigures;
use crate::model::{ActingStyle, SeenRequests, TaskModel};
use crate::task::{LOGS, parts};
use crate::workspace::Workspace;

/// A budget that nothing reaches.
const PLENTY: u64 = 100_000_000;

/// Which share of what a session reaches its budget is.
const BUDGET_PERCENT: u64 = 42;

/// By how much the cached share may be less than that of the client alone.
const CACHED_LESS_MAX: f64 = 0.12;

/// The least share of telling lines in the last window.
const TOLD_MIN: f64 = 0.8;

/// Runs both parts, the second of which is killed on its way if `is_killed`.
fn play(
    agent: &PublishedAgent,
    budget: u64,
    window: Option<u64>,
    is_killed: bool,
) -> (Workspace, SeenRequests, usize) {
    let workspace = Workspace::new();
    let model = TaskModel::start(&workspace.project(), window, agent.nature);
    let parts = parts();
    let mut errors = 0;
    let mut check = |ended: &Ended, model: &TaskModel, part: usize| {
        let is_error = ended.status != Some(0) || model.seen().ended < part;
        if is_error {
            errors += 1;
            let output: String = ended.output.chars().rev().take(3_000).collect();
            let output: String = output.chars().rev().collect();
            println!("{}: part {part}, status {:?}\n{output}", agent.name, ended.status);
        }
    };
    let input = |part: usize| match agent.nature.style {
        ActingStyle::Tools => String::new(),
        ActingStyle::Words => rounds(part, &workspace),
    };
    let (first, second) = (input(0), input(1));
    let ended =
        agent.run(&workspace, &model.url(), (budget, false), (&parts[0].prompt, &first), || false);
    check(&ended, &model, 1);
    if !agent.nature.resumes {
        keep(agent, &model, budget);
        return (workspace, model.seen(), errors);
    }
    if is_killed {
        let before = model.seen().main;
        let kill = || model.seen().main >= before + 4;
        agent.run(&workspace, &model.url(), (budget, true), (&parts[1].prompt, &second), kill);
        model.repeat();
    }
    let ended =
        agent.run(&workspace, &model.url(), (budget, true), (&parts[1].prompt, &second), || false);
    check(&ended, &model, 2);
    keep(agent, &model, budget);
    (workspace, model.seen(), errors)
}

/// What is typed to an agent that has no tools.
///
/// Every log is asked for in both parts: aider does not restore outputs, so that each part begins with a short
/// window, and a budget of a few logs would say nothing about a cache.
fn rounds(part: usize, workspace: &Workspace) -> String {
    let script = workspace.project().join("check.sh");
    let script = script.display();
    let rounds =
        (0..=LOGS).map(|log| format!("/run sh {script} {log}\nWhat does log {log} say?\n"));
    let opening = parts()[part].prompt.clone();
    format!("{opening}\n{}", rounds.collect::<String>())
}

/// Writes the requests down where somebody wants to look at them.
fn keep(agent: &PublishedAgent, model: &TaskModel, budget: u64) {
    let Some(folder) = std::env::var_os("LONGHAND_AGENTS_KEEP") else { return };
    let folder = std::path::Path::new(&folder).join(agent.name);
    std::fs::create_dir_all(&folder).unwrap();
    for (number, request) in model.requests().iter().enumerate() {
        let headers: String =
            request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let text = format!("{}\n{headers}\n{}", request.path, request.body);
        std::fs::write(folder.join(format!("{budget}-{number:03}.txt")), text).unwrap();
    }
}

fn check(name: &'static str) {
    let Some(agent) = PublishedAgent::named(name) else { return };
    let begun = Instant::now();
    let (_, alone, _) = play(&agent, PLENTY, None, false);
    let budget = alone.most * BUDGET_PERCENT / 100;
    let (workspace, seen, errors) = play(&agent, budget, Some(budget), true);
    let figures =
        AgentFigures::of((name, agent.nature.style), budget, &workspace, (&alone, &seen), errors);
    println!("{}", figures.row());
    println!("{name}: {} s, skipped {:?}", begun.elapsed().as_secs(), seen.skipped);
    for fault in seen.invalid.iter().take(3) {
        println!("{name}: invalid: {fault}");
    }
    println!("{name}: over {:?}, lost {:?}", seen.over, figures.lost);
    assert!(alone.most > 40_000, "the session is long: {}", alone.most);
    assert_eq!((figures.invalid, figures.over, figures.errors), (0, 0, 0), "{figures:#?}");
    assert_eq!(figures.conversations, 1, "{figures:#?}");
    // After a kill a client may write its newest message anew.
    let breaks_max = figures.batches + figures.own_breaks as u64 + u64::from(agent.nature.resumes);
    assert!(figures.breaks as u64 <= breaks_max, "{figures:#?}");
    if agent.nature.rewrites {
        // Files that float before the newest messages are in no cache, with us or without.
        assert!(figures.read_anew <= figures.own_read_anew, "{figures:#?}");
    }
    assert!(figures.cached >= figures.own_cached - CACHED_LESS_MAX, "{figures:#?}");
    assert!(!alone.last.is_empty());
    assert!(figures.told >= TOLD_MIN, "{figures:#?}");
    assert_ne!(figures.has_tasks, Some(false), "{figures:#?}");
    assert!(figures.has_file, "{figures:#?}");
    assert!(figures.lost.is_empty() && figures.is_sound, "{figures:#?}");
}

macro_rules! agents {
    ($($test:ident $name:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            check($name);
        }
    )*};
}

agents! {
    claude "claude",
    codex "codex",
    opencode "opencode",
    pi "pi",
    aider "aider",
    mini_swe_agent "mini-swe-agent",
    llm "llm",
    openai_agents "openai-agents",
    langchain "langchain",
    pydantic_ai "pydantic-ai",
    ai "ai",
}
