//! `longhand expand`.

use anyhow::{Context, Result};
use longhand::recall::{self, Recalled};
use longhand::unread::{self, UnreadContent};
use longhand_archive::Scope;
use longhand_core::{Handle, Original};
use serde_json::json;

use crate::args::ExpandArgs;
use crate::{CommandOutcome, hinted, output, store};

pub(crate) fn run(args: &ExpandArgs) -> Result<CommandOutcome> {
    let handle = Handle::parse(&args.handle).ok_or_else(|| {
        hinted(
            format!("{:?} is not a handle", args.handle),
            "a handle is `h:` and twelve letters and digits",
        )
    })?;
    let original = match &args.from {
        Some(path) => from_file(path, handle)?,
        None => from_archive(args, handle)?,
    };
    if args.json {
        let form = match original {
            Original::Text(_) => "text",
            Original::Json(_) => "json",
        };
        let content = original.as_str();
        let report = json!({"handle": handle.to_string(), "form": form, "content": content});
        output::print_json(&report)?;
    } else {
        output::print_data(original.as_str())?;
    }
    Ok(CommandOutcome::Done)
}

fn from_file(path: &std::path::Path, handle: Handle) -> Result<Original> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let conversation = longhand_dialect::read(bytes, None)
        .with_context(|| format!("{} is not a conversation", path.display()))?;
    recall::open_from(&conversation, handle).ok_or_else(|| {
        hinted(
            format!("nothing in {} has the handle {handle}", path.display()),
            "give the file that was shortened, or --archive if it was kept in one",
        )
    })
}

fn from_archive(args: &ExpandArgs, handle: Handle) -> Result<Original> {
    let archive = store::open_existing(&args.archive)?;
    let recalled = recall::open(&*archive, &Scope::All, handle)?;
    if recalled.is_none()
        && let Some(answer) = unread::open(&*archive, handle)?
    {
        return unread_answer(answer.content);
    }
    let recalled = recalled.ok_or_else(|| {
        hinted(
            format!("the archive has nothing with the handle {handle}"),
            "--archive names another archive, --from the file that was shortened",
        )
    })?;
    match args.round {
        Some(round) => round_of(&recalled, round),
        None => Ok(recalled.original),
    }
}

/// An answer that could not be read, as it came; one that is no text comes as base64.
fn unread_answer(content: UnreadContent) -> Result<Original> {
    match content {
        UnreadContent::Text(text) | UnreadContent::Base64(text) => Ok(Original::Text(text)),
        UnreadContent::Withheld => Err(hinted(
            "this answer was not kept: it is no text, in which secrets could be found and taken out",
            "`longhand log` has its time and its size",
        )),
    }
}

/// The messages of one round of a fold, a line each.
fn round_of(recalled: &Recalled, round: u64) -> Result<Original> {
    if recalled.entries.is_empty() {
        return Err(hinted(
            "this handle stands for a single text, which has no rounds",
            "leave out --round",
        ));
    }
    let entries = recalled.entries.iter().filter(|entry| entry.round == round);
    let lines: Vec<&str> = entries.map(|entry| entry.raw.as_str()).collect();
    if lines.is_empty() {
        let rounds = || recalled.entries.iter().map(|entry| entry.round);
        let (first, last) = (rounds().min().unwrap_or(0), rounds().max().unwrap_or(0));
        return Err(hinted(
            format!("round {round} is not in this fold"),
            format!("it has rounds {first} to {last}"),
        ));
    }
    Ok(Original::Json(lines.join("\n")))
}
