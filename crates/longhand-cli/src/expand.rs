//! `longhand expand`.

use anyhow::Result;
use longhand::Archive;
use longhand_archive::{Content, Form, Original};
use longhand_core::Handle;
use serde_json::json;

use crate::args::ExpandArgs;
use crate::{Outcome, hinted, output, store};

pub(crate) fn run(args: &ExpandArgs) -> Result<Outcome> {
    let handle = Handle::parse(&args.handle).ok_or_else(|| {
        hinted(
            format!("{:?} is not a handle", args.handle),
            "a handle is `h:` and twelve letters and digits",
        )
    })?;
    let archive = store::open_existing(&args.archive)?;
    let original = archive.expand(handle)?.ok_or_else(|| {
        hinted(
            format!("the archive has nothing under {handle}"),
            "was the window made with this archive? --archive names another",
        )
    })?;
    let content = match args.round {
        Some(round) => round_of(&*archive, &original, round)?,
        None => archive.text_of(&original)?,
    };
    if args.json {
        let form = match original.form {
            Form::Text => "text",
            Form::Json => "json",
        };
        let report = json!({"handle": handle.to_string(), "form": form, "content": content});
        output::print(&format!("{report:#}"))?;
    } else {
        output::print_exactly(&content)?;
    }
    Ok(Outcome::Done)
}

/// The messages of one round of a fold, a line each.
fn round_of(archive: &dyn Archive, original: &Original, round: u64) -> Result<String> {
    let (Content::Entries(range), Some(session)) = (&original.content, &original.session) else {
        return Err(hinted("this handle stands for no rounds", "leave out --round"));
    };
    let entries = archive.entries(session, range.clone())?;
    let own = entries.iter().filter(|entry| entry.round == round).map(|entry| entry.raw.as_str());
    let own: Vec<&str> = own.collect();
    if own.is_empty() {
        let last = entries.last().map_or(0, |entry| entry.round);
        return Err(hinted(
            format!("round {round} is not in it"),
            format!("it holds rounds 0 to {last}"),
        ));
    }
    Ok(own.join("\n"))
}
