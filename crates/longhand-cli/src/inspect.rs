//! `longhand show` and `log`.

use std::sync::Arc;

use anyhow::Result;
use longhand::unread::{self, UnreadAnswer, UnreadContent};
use longhand::{Archive, Receipt, preamble};
use longhand_archive::{Page, RequestRecord, SessionInfo};
use longhand_core::{Edit, Scale, Tally, Tokens, grouped};
use serde_json::{Value, json};

use crate::args::{LogArgs, ShowArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, conversation, ls, map, output, store};

/// The most that is shown of the task: agents begin with pages of instructions.
const TASK_COLUMNS_MAX: usize = 300;

pub(crate) fn show(args: &ShowArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let head = archive.head(info.id)?.unwrap_or_default();
    let pins: Vec<u64> = head.pins.iter().map(|seq| seq.0).collect();
    let session = store::shown(&archive, &info, &args.session)?;
    let earlier = conversation::up_to(&archive, &info)?;
    let earlier = &earlier[..earlier.len() - 1];
    let newest = archive.requests(info.id, Page::first(1))?.items.into_iter().next();
    let prompt = prompt_tokens(&archive, &info, newest.as_ref())?;
    let verbatim = session.verbatim();
    let summary = session.summary().unwrap_or_default();
    let total = session.tokens();
    let summary_tokens = session.summary_tokens();
    if args.json {
        let report = json!({
            "id": info.id.to_string(), "name": info.name, "entries": head.entries, "rounds": head.rounds, "pins": pins,
            "budget": session.budget().0, "earlier": earlier.iter().map(|info| info.id.to_string()).collect::<Vec<_>>(),
            "task": conversation::task(&archive, earlier.first().unwrap_or(&info)),
            "verbatim": [verbatim.start, verbatim.end], "tokens": total.0, "summary_tokens": summary_tokens.0,
            "prompt_tokens": prompt.map(|prompt| prompt.0), "summary": session.summary(),
        });
        output::print_json(&report)?;
        return Ok(CommandOutcome::Done);
    }
    let mut text = format!(
        "{}: {}, {}\n",
        conversation::short_id(&info),
        counted(head.rounds as usize, "round"),
        counted_as(head.entries as usize, "entry", "entries")
    );
    let task = conversation::task(&archive, earlier.first().unwrap_or(&info));
    if !task.is_empty() {
        let task = ls::clipped(&harmless_line(&task), TASK_COLUMNS_MAX);
        text.push_str(&format!("  {task}\n"));
    }
    for info in earlier {
        text.push_str(&format!(
            "  continues {}: {}, {}\n",
            conversation::short_id(info),
            counted(info.rounds as usize, "round"),
            counted_as(info.entries as usize, "entry", "entries")
        ));
    }
    if let Some(newest) = newest {
        text.push_str(&format!(
            "  newest request: {} of {} tokens, {} without Longhand, {}\n",
            grouped(newest.window as usize),
            grouped(session.budget().0 as usize),
            grouped(newest.before as usize),
            counted(newest.edits as usize, "edit"),
        ));
    }
    let unread = unread::answers(&*archive, info.id)?;
    if !unread.is_empty() {
        text.push_str(&format!(
            "  {} could not be read, or not all of it; `longhand log` says why\n",
            counted(unread.len(), "answer"),
        ));
    }
    text.push_str(&map::of_session(&session, prompt));
    text.push('\n');
    if !pins.is_empty() {
        text.push_str(&format!(
            "  pinned: {}\n",
            pins.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        ));
    }
    if !summary.is_empty() {
        text.push_str(&format!(
            "\n{}\n",
            summary.lines().map(harmless_line).collect::<Vec<_>>().join("\n")
        ));
    }
    output::print_wrapped(&text)?;
    Ok(CommandOutcome::Done)
}

/// How many tokens the system prompt and the tools of the newest request have, if the archive has them.
fn prompt_tokens(
    archive: &Arc<dyn Archive>,
    info: &SessionInfo,
    newest: Option<&RequestRecord>,
) -> Result<Option<Tokens>> {
    let Some((newest, id)) = newest.and_then(|newest| Some((newest, newest.preamble?))) else {
        return Ok(None);
    };
    let Some(written) = archive.preamble(info.owner, id)? else { return Ok(None) };
    let meter = store::meter_of(info, newest)?;
    Ok(preamble::tokens(&written, &Scale::new(&*meter)))
}

/// What a batch did, in words.
pub(crate) fn edits(edits: &[Edit]) -> String {
    let Tally { stubs, clips, folded, .. } = Tally::of(edits);
    let counts =
        [(stubs, "stub", ""), (clips, "clip", ""), (folded as usize, "message", " folded")];
    let done: Vec<String> = counts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, what)| format!("{}{what}", counted(*count, noun)))
        .collect();
    if done.is_empty() { "no edits".to_owned() } else { done.join(", ") }
}

/// What is told of an answer that could not be read.
fn unread_line(answer: &UnreadAnswer) -> String {
    let kept = match answer.content {
        UnreadContent::Text(_) => format!("`longhand expand {}` shows it", answer.handle()),
        UnreadContent::Base64(_) => {
            format!("`longhand expand {}` shows it as base64", answer.handle())
        }
        UnreadContent::Withheld => "it was not kept".to_owned(),
    };
    format!(
        "       {}  an answer of {} bytes could not be read, or not all of it: {}; {kept}\n",
        longhand::time::format_local(answer.at_ms),
        grouped(answer.bytes as usize),
        harmless_line(&answer.why),
    )
}

pub(crate) fn log(args: &LogArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    let (mut batches, mut unread) = (Vec::new(), Vec::new());
    for info in conversation::of(&archive, &info)?.iter().rev() {
        batches.extend(archive.batches(info.id, Page::ALL)?.items);
        unread.extend(unread::answers(&*archive, info.id)?);
    }
    if args.json {
        let answers = unread.iter().map(|answer| {
            json!({
                "unread": answer.handle().to_string(), "at_ms": answer.at_ms, "why": answer.why,
                "type": answer.kind, "coding": answer.coding, "bytes": answer.bytes,
                "kept": answer.content != UnreadContent::Withheld,
            })
        });
        let list: Vec<Value> = batches
            .iter()
            .rev()
            .map(|logged| {
                let tally = Tally::of(&logged.batch.edits);
                json!({
                    "number": logged.number, "undone": !logged.is_live, "stubs": tally.stubs,
                    "clips": tally.clips, "folded": tally.folded, "receipt": Receipt::read(&logged.receipt),
                })
            })
            .chain(answers)
            .collect();
        output::print_json(&Value::Array(list))?;
        return Ok(CommandOutcome::Done);
    }
    let mut text = String::new();
    for logged in &batches {
        let receipt = Receipt::read(&logged.receipt);
        let undone = if logged.is_live { "" } else { "  (undone)" };
        let number = |tokens: Option<u64>| grouped(tokens.unwrap_or(0) as usize);
        let mut what = edits(&logged.batch.edits);
        if let Some(fold) = &receipt.fold {
            let summariser = match fold.summary.summariser.as_str() {
                "extractive" => "the built-in summariser".to_owned(),
                model => harmless_line(model),
            };
            let kept = fold.anchors.kept + fold.anchors.restored;
            let dropped = fold.anchors.dropped;
            what.push_str(&format!(
                " by {summariser}; names and statements: {kept} kept, {dropped} left out"
            ));
        }
        text.push_str(&format!(
            "{:>5}  {}  {} -> {} tokens  {what}{undone}\n",
            logged.number,
            longhand::time::format_local(logged.at_ms),
            number(receipt.tokens_before),
            number(receipt.tokens_after),
        ));
    }
    if batches.is_empty() {
        text.push_str("nothing was left out yet\n");
    }
    for answer in &unread {
        text.push_str(&unread_line(answer));
    }
    output::print_wrapped(&text)?;
    Ok(CommandOutcome::Done)
}
