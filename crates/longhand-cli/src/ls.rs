//! `longhand ls`.

use anyhow::Result;
use longhand::app::{Fork, ListRequest, ListedSession, SessionPage};

use crate::args::LsArgs;
use crate::output::{harmless_line, short_number};
use crate::{CommandOutcome, names, output, store};

/// How many conversations people see unless they ask for more.
const LISTED_MAX: usize = 100;

/// The most columns of the task.
const TASK_COLUMNS: usize = 40;

/// The columns that all figures of a session need on one line.
const ONE_LINE_COLUMNS: usize = 16 + TASK_COLUMNS + 28 + 10 + 14 + 12 + 16 + 7;

/// The most forks of one session that are listed for people; JSON has them all.
const FORKS_MAX: usize = 20;

const NOTHING: &str =
    "no sessions yet; `longhand run -- AGENT` and `longhand record SESSION` make some\n";

pub(crate) fn ls(args: &LsArgs) -> Result<CommandOutcome> {
    if !store::exists(&args.archive)? {
        output::print(&if args.json { "[]".to_owned() } else { store::addressed(NOTHING) })?;
        return Ok(CommandOutcome::Done);
    }
    let limit = args.limit.or((!args.json).then_some(LISTED_MAX));
    let request = ListRequest {
        all: args.all,
        limit: limit.filter(|limit| *limit > 0),
        ..ListRequest::default()
    };
    let page = store::app(&args.archive)?.sessions(&request)?;
    if args.json {
        output::print_json(&page.items)?;
    } else {
        output::print(&text(&page, args.all))?;
    }
    Ok(CommandOutcome::Done)
}

fn text(page: &SessionPage, all: bool) -> String {
    if page.items.is_empty() {
        return store::addressed(NOTHING);
    }
    let mut text = String::new();
    for found in &page.items {
        push_session(page, found, "", 1, &mut text);
        let earlier = found.earlier.iter().flatten().rev().map(|session| (session, "  ↑ "));
        let aside = found.aside.iter().flatten().map(|session| (session, "  └ "));
        for (session, branch) in earlier.chain(aside) {
            push_session(page, session, branch, 2, &mut text);
        }
    }
    if page.next.is_some() {
        text.push_str("(there are older conversations; --limit 0 lists all)\n");
    }
    if page.aside > 0 && !all {
        let calls = output::counted(page.aside as usize, "side call");
        text.push_str(&format!("({calls} and sub-agents are not listed; --all lists them)\n"));
    }
    text
}

/// Adds the line of a session, and a line for each of its other paths.
fn push_session(
    page: &SessionPage,
    session: &ListedSession,
    branch: &str,
    depth: usize,
    text: &mut String,
) {
    let label = names::label(&session.name, &session.id, &page.shared_names);
    text.push_str(&row(session, format!("{branch}{label}")).text());
    let mut forks = flat(session.forks.as_deref().unwrap_or_default(), depth);
    let hidden = forks.len().saturating_sub(FORKS_MAX);
    forks.truncate(FORKS_MAX);
    for (depth, fork) in forks {
        text.push_str(&fork_row(fork, &indent(depth)).text());
    }
    if hidden > 0 {
        let more = output::counted_as(hidden, "older fork", "older forks");
        text.push_str(&format!("{}… {more}; --json lists all\n", indent(depth)));
    }
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

fn indent(depth: usize) -> String {
    format!("{}└ ", "  ".repeat(depth))
}

fn fork_row(fork: &Fork, branch: &str) -> ListRow {
    let place = fork.after.map_or("side path".to_owned(), |seq| format!("fork at {seq}"));
    ListRow {
        id: format!("{branch}{place}"),
        task: harmless_line(&fork.task),
        count: output::counted_as(fork.entries as usize, "entry", "entries"),
        last: longhand::time::format_local(fork.at.0),
        ..ListRow::default()
    }
}

fn row(session: &ListedSession, id: String) -> ListRow {
    let tokens = match session.tokens_ever {
        // Nothing was counted: it was recorded, or no request of it was a turn.
        0 => format!("{} bytes", short_number(session.bytes)),
        ever => format!("{} of {}", short_number(session.tokens), short_number(ever)),
    };
    let saved = match session.saved {
        0 => String::new(),
        saved => format!("{} saved", short_number(saved)),
    };
    let of = [session.agent.as_str(), session.model.as_str()];
    let of: Vec<String> =
        of.into_iter().filter(|word| !word.is_empty()).map(harmless_line).collect();
    let last = longhand::time::format_local(session.last.0);
    let damaged = if session.damaged { "  damaged" } else { "" };
    ListRow {
        id,
        task: harmless_line(&session.task),
        of: of.join(" "),
        count: output::counted(session.rounds as usize, "round"),
        tokens,
        saved,
        last: format!("{last}{damaged}"),
    }
}

/// What the list says of a session or a fork.
#[derive(Default)]
struct ListRow {
    id: String,
    task: String,
    /// The agent and the model.
    of: String,
    count: String,
    tokens: String,
    saved: String,
    last: String,
}

impl ListRow {
    /// One line where there are enough columns, or else what it is about and, below it, the figures.
    fn text(&self) -> String {
        let ListRow { id, task, of, count, tokens, saved, last } = self;
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
