//! `longhand ls`.

mod forks;

use std::sync::Arc;

use anyhow::Result;
use longhand::Archive;
use longhand_archive::{Page, RequestRecord, SessionInfo};
use longhand_core::Seq;
use serde_json::{Value, json};

use self::forks::{Fork, forks};
use crate::args::LsArgs;
use crate::conversation::{self, Labels, SessionChain};
use crate::output::{harmless_line, short_number};
use crate::{CommandOutcome, output, store};

/// The most columns of the task.
const TASK_COLUMNS: usize = 40;

/// The columns that all figures of a session need on one line.
const ONE_LINE_COLUMNS: usize = 16 + TASK_COLUMNS + 28 + 10 + 14 + 12 + 16 + 7;

/// The most forks of one session that are listed for people; JSON has them all.
const FORKS_MAX: usize = 20;

/// What a session was used for, from its request log.
#[derive(Default)]
struct SessionUsage {
    agent: String,
    model: String,
    /// Tokens of the newest request, and what it would have without edits.
    now: u64,
    ever: u64,
    saved: u64,
    requests: usize,
}

pub(crate) fn ls(args: &LsArgs) -> Result<CommandOutcome> {
    if !store::exists(&args.archive)? {
        output::print(if args.json { "[]" } else { NOTHING })?;
        return Ok(CommandOutcome::Done);
    }
    let archive = store::open(&args.archive)?;
    let conversations = conversation::all(&archive)?;
    if args.json {
        let list = conversations.iter().map(|found| value(&archive, found, args.all));
        let list: Vec<Value> = list.collect::<Result<_>>()?;
        output::print_json(&Value::Array(list))?;
        return Ok(CommandOutcome::Done);
    }
    let labels = Labels::of(&conversations);
    let mut text = String::new();
    for found in &conversations {
        text.push_str(&line(&archive, &labels, found.main(), "", &found.sessions));
        if !args.all {
            continue;
        }
        push_forks(&archive, found.main(), 1, &mut text)?;
        let before = found.sessions[..found.sessions.len() - 1].iter().rev();
        let before = before.map(|info| (info, "  ↑ "));
        for (info, branch) in before.chain(found.aside.iter().map(|info| (info, "  └ "))) {
            text.push_str(&line(&archive, &labels, info, branch, std::slice::from_ref(info)));
            push_forks(&archive, info, 2, &mut text)?;
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
    Ok(CommandOutcome::Done)
}

const NOTHING: &str =
    "no sessions yet; `longhand run -- AGENT` and `longhand record SESSION` make some\n";

/// Adds a line for each other path of a session.
fn push_forks(
    archive: &Arc<dyn Archive>,
    info: &SessionInfo,
    depth: usize,
    text: &mut String,
) -> Result<()> {
    let forks = forks(&archive.tree(info.id)?);
    let mut lines = flat(&forks, depth);
    let hidden = lines.len().saturating_sub(FORKS_MAX);
    lines.truncate(FORKS_MAX);
    for (depth, fork) in lines {
        text.push_str(&fork_line(archive, info, fork, &branch(depth)));
    }
    if hidden > 0 {
        let more = output::counted_as(hidden, "older fork", "older forks");
        text.push_str(&format!("{}… {more}; --json lists all\n", branch(depth)));
    }
    Ok(())
}

/// Forks with their depth, each before those that leave it.
fn flat(forks: &[Fork], depth: usize) -> Vec<(usize, &Fork)> {
    let mut lines = Vec::new();
    for fork in forks {
        lines.push((depth, fork));
        lines.extend(flat(&fork.forks, depth + 1));
    }
    lines
}

fn branch(depth: usize) -> String {
    format!("{}└ ", "  ".repeat(depth))
}

fn fork_line(archive: &Arc<dyn Archive>, info: &SessionInfo, fork: &Fork, branch: &str) -> String {
    let place = fork.after.map_or("side path".to_owned(), |seq| format!("fork at {}", seq.0));
    let (words, last_ms) = read(archive, info, fork);
    let row = ListedSession {
        id: format!("{branch}{place}"),
        task: harmless_line(&words),
        count: output::counted_as(fork.entries.len(), "entry", "entries"),
        last: minute(last_ms),
        ..ListedSession::default()
    };
    row.text()
}

/// The user's first words on a fork, and the time of its newest entry.
fn read(archive: &Arc<dyn Archive>, info: &SessionInfo, fork: &Fork) -> (String, i64) {
    let entry = |seq: &Seq| {
        let found = archive.entries(info.id, seq.0..seq.0 + 1);
        // A damaged entry has no words; `verify` tells of it.
        found.unwrap_or_default().into_iter().next()
    };
    let opening = fork.entries.iter().take(conversation::OPENING_ENTRIES as usize);
    let words =
        opening.filter_map(entry).find_map(|entry| longhand::user_words(&entry.form, &entry.raw));
    let last_ms = fork.entries.last().and_then(entry).map_or(info.last_ms, |entry| entry.at_ms);
    (words.unwrap_or_default(), last_ms)
}

fn fork_values(archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<Value> {
    let forks = forks(&archive.tree(info.id)?);
    Ok(forks.iter().map(|fork| fork_value(archive, info, fork)).collect())
}

fn fork_value(archive: &Arc<dyn Archive>, info: &SessionInfo, fork: &Fork) -> Value {
    let (words, last_ms) = read(archive, info, fork);
    let below = fork.forks.iter().map(|fork| fork_value(archive, info, fork));
    json!({
        "after": fork.after.map(|seq| seq.0), "first": fork.entries.first().map(|seq| seq.0),
        "last": fork.entries.last().map(|seq| seq.0), "entries": fork.entries.len(), "task": words,
        "at": longhand::time::format(last_ms), "forks": below.collect::<Vec<_>>(),
    })
}

/// A time as lists show it.
fn minute(ms: i64) -> String {
    longhand::time::format_local(ms)
}

fn line(
    archive: &Arc<dyn Archive>,
    labels: &Labels,
    info: &SessionInfo,
    branch: &str,
    sessions: &[SessionInfo],
) -> String {
    let used = used(archive, sessions);
    let id = format!("{branch}{}", labels.label(info));
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
    let last = minute(info.last_ms);
    let damaged = if info.is_damaged { "  damaged" } else { "" };
    let row = ListedSession {
        id,
        task,
        of: of.join(" "),
        count: output::counted(rounds as usize, "round"),
        tokens,
        saved,
        last: format!("{last}{damaged}"),
    };
    row.text()
}

/// What the list says of a session or a fork.
#[derive(Default)]
struct ListedSession {
    id: String,
    task: String,
    /// The agent and the model.
    of: String,
    count: String,
    tokens: String,
    saved: String,
    last: String,
}

impl ListedSession {
    /// One line where there are enough columns, or else what it is about and, below it, the figures.
    fn text(&self) -> String {
        let ListedSession { id, task, of, count, tokens, saved, last } = self;
        if output::columns() >= ONE_LINE_COLUMNS {
            return format!(
                "{id:<16} {:<TASK_COLUMNS$} {:<28} {count:>10} {tokens:>14} {saved:>12}  {last}\n",
                clipped(task, TASK_COLUMNS),
                clipped(of, 28),
            );
        }
        let figures = [last, count, tokens, saved, of].map(String::as_str);
        let figures: Vec<&str> = figures.into_iter().filter(|figure| !figure.is_empty()).collect();
        let indent = " ".repeat(id.chars().take_while(|c| " └↑".contains(*c)).count() + 2);
        let room = output::columns().saturating_sub(id.chars().count() + 2).max(8);
        let line = output::wrapped(&figures.join(", "), &indent);
        format!("{id}  {}\n{line}\n", clipped(task, room))
    }
}

/// Cuts a text to at most `columns` columns.
pub(crate) fn clipped(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

fn value(archive: &Arc<dyn Archive>, found: &SessionChain, all: bool) -> Result<Value> {
    let mut main = session(archive, found.main(), &found.sessions);
    if all {
        let one = |info: &SessionInfo| {
            let mut value = session(archive, info, std::slice::from_ref(info));
            value["forks"] = fork_values(archive, info)?;
            Ok(value)
        };
        let earlier = found.sessions[..found.sessions.len() - 1].iter().map(one);
        main["earlier"] = earlier.collect::<Result<_>>()?;
        main["aside"] = found.aside.iter().map(one).collect::<Result<_>>()?;
        main["forks"] = fork_values(archive, found.main())?;
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

fn used(archive: &Arc<dyn Archive>, sessions: &[SessionInfo]) -> SessionUsage {
    let mut used = SessionUsage::default();
    for info in sessions {
        let requests = archive.requests(info.id, Page::ALL).map_or(Vec::new(), |found| found.items);
        used.requests += requests.len();
        used.saved += requests.iter().map(saved).sum::<u64>();
        // Sub-agents and titles of a named session are no measure of it.
        let turns: Vec<&RequestRecord> =
            requests.iter().filter(|request| !request.is_aside).collect();
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
pub(crate) fn saved(request: &RequestRecord) -> u64 {
    request.before.saturating_sub(request.window)
}
