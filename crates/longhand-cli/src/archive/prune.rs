//! `longhand archive prune`.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use longhand::app::{
    App, IdleConversation, PrunePlan, PruneRequest, PrunedConversation, Timestamp,
};
use longhand::time;
use serde_json::json;

use super::open_existing;
use crate::args::PruneArgs;
use crate::output::{counted, harmless_line, short_number};
use crate::search::time_of;
use crate::{CommandOutcome, hinted, history, manage, names, output, progress, store};

pub(super) fn run(args: &PruneArgs) -> Result<CommandOutcome> {
    let idle_since = time_of(&args.older_than, store::now_ms())?;
    let request = PruneRequest { idle_since: Timestamp(idle_since), bytes_max: args.max_size };
    let opened = open_existing(&args.archive)?;
    let app = App::new(opened.archive);
    progress::start("looking for idle conversations");
    let plan = app.prune_plan(&request)?;
    progress::end();
    if args.dry_run {
        if args.json {
            output::print_json(&json!({"plan": plan, "removed": []}))?;
        } else {
            output::print(&format!("{}nothing was removed\n", listed(&plan)))?;
        }
        return Ok(CommandOutcome::Done);
    }
    if !plan.conversations.is_empty() && !may_remove(args, &plan)? {
        output::say("nothing was removed");
        return Ok(CommandOutcome::No);
    }
    let removed = removed(&app, &plan, &request)?;
    if args.json {
        output::print_json(&json!({"plan": plan, "removed": removed}))?;
    } else {
        let list = if args.yes { listed(&plan) } else { rest(&plan) };
        output::print(&format!("{list}{}", told(&removed)))?;
    }
    if let Some(file) = opened.file.filter(|_| !removed.is_empty()) {
        manage::tell_what_is_left(&file, &store::path(&args.archive)?)?;
    }
    Ok(CommandOutcome::Done)
}

/// Whether the user agrees: by `--yes`, or by an answer.
fn may_remove(args: &PruneArgs, plan: &PrunePlan) -> Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if !std::io::stdin().is_terminal() || args.json {
        let count = counted(plan.conversations.len(), "conversation");
        return Err(hinted(
            format!("this would remove {count} for good"),
            "--dry-run lists them; --yes removes them without asking",
        ));
    }
    output::print(&listed(plan))?;
    let count = counted(plan.conversations.len(), "conversation");
    eprint!("remove {count} for good? [y/N] ");
    std::io::stderr().flush().ok();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("cannot read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Removes the conversations one by one. What the user typed in them leaves the history of prompts, too.
fn removed(app: &App, plan: &PrunePlan, request: &PruneRequest) -> Result<Vec<PrunedConversation>> {
    let mut removed = Vec::new();
    for (at, idle) in plan.conversations.iter().enumerate() {
        progress::start(&format!("removing {} of {}", at + 1, plan.conversations.len()));
        let mut typed = std::collections::BTreeSet::new();
        for session in &idle.sessions {
            typed.extend(app.said_by_user(session).unwrap_or_default());
        }
        let done = app.prune(idle, request)?;
        if done.removed
            && let Some(path) = history::path()
        {
            history::forget(&path, &typed)?;
        }
        removed.push(done);
    }
    progress::end();
    Ok(removed)
}

fn listed(plan: &PrunePlan) -> String {
    let lines: String = plan.conversations.iter().map(line).collect();
    format!("{lines}{}", rest(plan))
}

fn line(idle: &IdleConversation) -> String {
    let date = time::format_local(idle.last.0);
    let label = names::called(&idle.session.name, &idle.session.id);
    let bytes = short_number(idle.bytes);
    let line = format!("{date}  {bytes:>5}b  {label}  {}", idle.task);
    format!("{}\n", output::cut(&harmless_line(&line)))
}

/// What stays although it is idle.
fn rest(plan: &PrunePlan) -> String {
    let reasons = [
        (plan.pinned, "pinned"),
        (plan.named, "named by somebody"),
        (plan.spared, "not needed for the size"),
        (plan.damaged, "damaged"),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    let kept = if reasons.is_empty() {
        String::new()
    } else {
        format!("; idle, but kept: {}", reasons.join(", "))
    };
    let found = counted(plan.conversations.len(), "conversation");
    let bytes = counted(plan.bytes as usize, "byte");
    format!("{found} to remove with {bytes} of messages{kept}\n")
}

fn told(removed: &[PrunedConversation]) -> String {
    let done = removed.iter().filter(|conversation| conversation.removed).count();
    let used = removed.len() - done;
    let mut text = format!("removed {}\n", counted(done, "conversation"));
    if used > 0 {
        text.push_str(&format!("{} changed meanwhile and stay\n", counted(used, "conversation")));
    }
    text.push_str("exports, backups and the files of your agents are not touched\n");
    text
}
