//! `longhand ls`.

use std::sync::Arc;

use anyhow::Result;
use longhand::Archive;
use longhand_archive::{Page, Request, SessionInfo};
use serde_json::{Value, json};

use crate::args::LsArgs;
use crate::conversation::{self, Conversation};
use crate::output::{harmless_line, short_number};
use crate::{Outcome, output, store};

/// The most columns of the task.
const TASK_COLUMNS: usize = 40;

/// What a session was used for, from its request log.
#[derive(Default)]
struct Used {
    agent: String,
    model: String,
    /// Tokens of the newest request, and what it would have without edits.
    now: u64,
    ever: u64,
    saved: u64,
    requests: usize,
}

pub(crate) fn ls(args: &LsArgs) -> Result<Outcome> {
    if !store::exists(&args.archive)? {
        output::print(if args.json { "[]" } else { NOTHING })?;
        return Ok(Outcome::Done);
    }
    let archive = store::open(&args.archive)?;
    let conversations = conversation::all(&archive)?;
    if args.json {
        let list = conversations.iter().map(|found| value(&archive, found, args.all));
        let list: Vec<Value> = list.collect::<Result<_>>()?;
        output::print(&format!("{:#}", Value::Array(list)))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for found in &conversations {
        text.push_str(&line(&archive, found.main(), "", &found.sessions));
        if !args.all {
            continue;
        }
        let before = found.sessions[..found.sessions.len() - 1].iter().rev();
        for info in before {
            text.push_str(&line(&archive, info, "  ↑ ", std::slice::from_ref(info)));
        }
        for info in &found.aside {
            text.push_str(&line(&archive, info, "  └ ", std::slice::from_ref(info)));
        }
        let forks = forks(&archive, found.main())?;
        if forks > 0 {
            text.push_str(&format!("  └ {}\n", output::counted(forks, "other path")));
        }
    }
    let hidden: usize = conversations.iter().map(|found| found.aside.len()).sum();
    if conversations.is_empty() {
        text.push_str(NOTHING);
    } else if hidden > 0 && !args.all {
        let calls = output::counted(hidden, "side call");
        text.push_str(&format!("({calls} and sub-agents are not listed; --all lists them)\n"));
    }
    output::print(&text)?;
    Ok(Outcome::Done)
}

const NOTHING: &str =
    "no sessions yet; `longhand run -- AGENT` and `longhand record ID` make some\n";

/// How many other paths a session has.
fn forks(archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<usize> {
    let nodes = archive.tree(info.id)?;
    let parents: std::collections::HashSet<_> =
        nodes.iter().filter_map(|node| node.parent).collect();
    Ok(nodes.iter().filter(|node| !parents.contains(&node.seq)).count().saturating_sub(1))
}

fn line(
    archive: &Arc<dyn Archive>,
    info: &SessionInfo,
    branch: &str,
    sessions: &[SessionInfo],
) -> String {
    let used = used(archive, sessions);
    let id = format!("{branch}{}", harmless_line(&conversation::short_id(info)));
    let task = harmless_line(&conversation::task(archive, &sessions[0]));
    let rounds: u64 = sessions.iter().map(|info| info.rounds).sum();
    let tokens = match used.requests {
        0 => format!("{} bytes", short_number(info.bytes)),
        _ => format!("{} of {}", short_number(used.now), short_number(used.ever)),
    };
    let saved = match used.saved {
        0 => String::new(),
        saved => format!("{} saved", short_number(saved)),
    };
    let of = [used.agent.as_str(), used.model.as_str()];
    let of: Vec<String> =
        of.into_iter().filter(|word| !word.is_empty()).map(harmless_line).collect();
    let last = longhand::time::format(info.last_ms);
    let last = last.get(..16).map_or(last.clone(), |minute| minute.replace('T', " "));
    format!(
        "{id:<16} {:<TASK_COLUMNS$} {:<28} {:>10} {tokens:>14} {saved:>12}  {last}{}\n",
        clipped(&task, TASK_COLUMNS),
        clipped(&of.join(" "), 28),
        output::counted(rounds as usize, "round"),
        if info.is_damaged { "  damaged" } else { "" }
    )
}

fn clipped(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

fn value(archive: &Arc<dyn Archive>, found: &Conversation, all: bool) -> Result<Value> {
    let mut main = session(archive, found.main(), &found.sessions);
    if all {
        let one = |info: &SessionInfo| session(archive, info, std::slice::from_ref(info));
        let earlier = found.sessions[..found.sessions.len() - 1].iter().map(one);
        main["earlier"] = earlier.collect();
        main["aside"] = found.aside.iter().map(one).collect();
        main["forks"] = forks(archive, found.main())?.into();
    }
    Ok(main)
}

fn session(archive: &Arc<dyn Archive>, info: &SessionInfo, sessions: &[SessionInfo]) -> Value {
    let used = used(archive, sessions);
    let sum = |count: fn(&SessionInfo) -> u64| sessions.iter().map(count).sum::<u64>();
    json!({
        "id": info.id.to_string(), "name": info.name, "dialect": info.dialect,
        "task": conversation::task(archive, &sessions[0]), "agent": used.agent, "model": used.model,
        "rounds": sum(|info| info.rounds), "entries": sum(|info| info.entries),
        "batches": sum(|info| info.batches), "bytes": sum(|info| info.bytes),
        "requests": used.requests, "tokens": used.now, "tokens_ever": used.ever, "saved": used.saved,
        "last": longhand::time::format(info.last_ms), "damaged": info.is_damaged,
    })
}

fn used(archive: &Arc<dyn Archive>, sessions: &[SessionInfo]) -> Used {
    let mut used = Used::default();
    for info in sessions {
        let requests = archive.requests(info.id, Page::ALL).map_or(Vec::new(), |found| found.items);
        used.requests += requests.len();
        used.saved += requests.iter().map(saved).sum::<u64>();
        // Sub-agents and titles of a named session are no measure of it.
        let turns: Vec<&Request> = requests.iter().filter(|request| !request.is_aside).collect();
        if let Some(newest) = turns.first() {
            used.agent.clone_from(&newest.agent);
            used.model.clone_from(&newest.model);
            used.now = newest.window;
            used.ever = newest.before;
        }
    }
    used
}

/// Tokens that a request did not send.
pub(crate) fn saved(request: &Request) -> u64 {
    request.before.saturating_sub(request.window)
}
