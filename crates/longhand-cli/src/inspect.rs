//! `longhand show` and `log`.

use anyhow::Result;
use longhand::app::{LogLine, LoggedEdits, RegretSums, SessionView, UnreadLine};
use longhand::receipt::ReceiptCause;
use longhand_core::grouped;

use crate::args::{LogArgs, ShowArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, ls, map, names, output, store, usage};

/// The most that is shown of the task: agents begin with pages of instructions.
const TASK_COLUMNS_MAX: usize = 300;

pub(crate) fn show(args: &ShowArgs) -> Result<CommandOutcome> {
    let app = store::app_existing(&args.archive)?;
    let found = store::readable(&app, &args.id)?;
    let view = app.show(&found.id, &store::view(&args.session)?)?;
    if args.json {
        output::print_json(&view)?;
    } else {
        output::print_wrapped(&view_text(&view))?;
    }
    Ok(CommandOutcome::Done)
}

fn view_text(view: &SessionView) -> String {
    let size = |rounds: u64, entries: u64| {
        let entries = counted_as(entries as usize, "entry", "entries");
        format!("{}, {entries}", counted(rounds as usize, "round"))
    };
    let name = names::called(&view.name, &view.id);
    let mut text = format!("{name}: {}\n", size(view.rounds, view.entries));
    if !view.task.is_empty() {
        let task = ls::clipped(&harmless_line(&view.task), TASK_COLUMNS_MAX);
        text.push_str(&format!("  {task}\n"));
    }
    for session in &view.continues {
        let name = names::called(&session.name, &session.id);
        let size = size(session.rounds, session.entries);
        text.push_str(&format!("  continues {name}: {size}\n"));
    }
    if let Some(newest) = view.newest {
        text.push_str(&format!(
            "  newest request: {} of {} tokens, {} without Longhand, {}\n",
            grouped(newest.tokens as usize),
            grouped(view.budget as usize),
            grouped(newest.tokens_ever as usize),
            counted(newest.edits as usize, "edit"),
        ));
    }
    if view.unread > 0 {
        text.push_str(&format!(
            "  {} could not be read, or not all of it; {} says why\n",
            counted(view.unread as usize, "answer"),
            store::command(&format!("log {name}")),
        ));
    }
    if let Some(regrets) = usage::regrets(&view.edits) {
        text.push_str(&format!("  {regrets}\n"));
    }
    text.push_str(&map::of_session(&view.map));
    text.push('\n');
    if !view.pins.is_empty() {
        let pins: Vec<String> = view.pins.iter().map(u64::to_string).collect();
        text.push_str(&format!("  pinned: {}\n", pins.join(", ")));
    }
    if let Some(summary) = &view.summary {
        let lines: Vec<String> = summary.lines().map(harmless_line).collect();
        text.push_str(&format!("\n{}\n", lines.join("\n")));
    }
    text
}

pub(crate) fn log(args: &LogArgs) -> Result<CommandOutcome> {
    let app = store::app_existing(&args.archive)?;
    let found = store::readable(&app, &args.id)?;
    let log = app.log(&found.id)?;
    if args.json {
        output::print_json(&log)?;
        return Ok(CommandOutcome::Done);
    }
    let (mut edits, mut unread) = (Vec::new(), Vec::new());
    let mut regretted = RegretSums::default();
    for line in &log {
        match line {
            LogLine::Edits(line) => {
                regretted.add(line);
                edits.push(edits_line(line));
            }
            LogLine::Unread(line) => unread.push(unread_line(line)),
            _ => {}
        }
    }
    if edits.is_empty() {
        edits.push("nothing was left out yet\n".to_owned());
    }
    edits.reverse();
    let regretted = usage::regrets(&regretted).map(|text| format!("{text}\n"));
    output::print_wrapped(
        &[edits.concat(), regretted.unwrap_or_default(), unread.concat()].concat(),
    )?;
    Ok(CommandOutcome::Done)
}

fn edits_line(line: &LoggedEdits) -> String {
    let receipt = &line.receipt;
    let why = match receipt.why {
        // No window shows it, so there is nothing to undo.
        Some(ReceiptCause::Compaction) => "  (the summary that the client ordered)",
        _ if line.undone => "  (undone)",
        Some(ReceiptCause::Pause) => "  (in a pause, when the provider's cache had run out)",
        _ => "",
    };
    let mut what = edits(line);
    if let Some(fold) = &receipt.fold {
        let summariser = match fold.summary.summariser.as_str() {
            "extractive" => "the built-in summariser".to_owned(),
            model => harmless_line(model),
        };
        let kept = fold.anchors.kept + fold.anchors.restored;
        what.push_str(&format!(
            " by {summariser}; names and statements: {kept} kept, {} left out",
            fold.anchors.dropped
        ));
    }
    let tokens = |tokens: u64| grouped(tokens as usize);
    let size = match (receipt.tokens_before, receipt.tokens_after) {
        (Some(before), Some(after)) => format!("{} -> {} tokens", tokens(before), tokens(after)),
        (None, Some(after)) => format!("{} tokens", tokens(after)),
        (_, None) => "not counted".to_owned(),
    };
    let at = longhand::time::format_local(line.at.0);
    let mut text = format!("{:>5}  {at}  {size}  {what}{why}\n", line.number);
    for regret in &line.regrets {
        let by = regret.by.map(|by| format!(" by entry {by}")).unwrap_or_default();
        text.push_str(&format!(
            "       regretted: {} was {}{by}, {} tokens\n",
            regret.handle,
            harmless_line(&regret.how),
            tokens(regret.tokens),
        ));
    }
    text
}

/// What a batch did, in words.
pub(crate) fn edits(line: &LoggedEdits) -> String {
    let counts =
        [(line.stubs, "stub", ""), (line.clips, "clip", ""), (line.folded, "message", " folded")];
    let done: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, what)| format!("{}{what}", counted(*count as usize, noun)))
        .collect();
    if done.is_empty() { "no edits".to_owned() } else { done.join(", ") }
}

/// What is told of an answer that could not be read.
fn unread_line(answer: &UnreadLine) -> String {
    let command = || store::command(&format!("expand {}", answer.unread));
    let kept = match answer.form.as_deref() {
        None => "it was not kept".to_owned(),
        Some("text") => format!("{} shows it", command()),
        Some(form) => format!("{} shows it as {form}", command()),
    };
    format!(
        "       {}  an answer of {} bytes could not be read, or not all of it: {}; {kept}\n",
        longhand::time::format_local(answer.at_ms),
        grouped(answer.bytes as usize),
        harmless_line(&answer.why),
    )
}
