//! `longhand expand`.

use anyhow::{Context, Result};
use longhand::app::{AppError, ExpandRequest, Expanded};

use crate::args::ExpandArgs;
use crate::{CommandOutcome, hinted, output, store};

pub(crate) fn run(args: &ExpandArgs) -> Result<CommandOutcome> {
    let request = ExpandRequest {
        round: args.round,
        raw: args.raw,
        grep: args.grep.clone(),
        ..ExpandRequest::of(&args.handle)
    };
    let expanded = if let Some(path) = &args.from {
        from_file(path, &request)?
    } else {
        request.check()?;
        store::app_existing(&args.archive)?.expand(&request)?
    };
    if args.json {
        output::print_json(&expanded)?;
    } else {
        output::print_data(&expanded.content)?;
    }
    Ok(CommandOutcome::Done)
}

fn from_file(path: &std::path::Path, request: &ExpandRequest) -> Result<Expanded> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // A window of a session file was made of what its agent loads.
    let loaded = longhand_dialect::read_as_loaded(bytes.clone(), None)
        .with_context(|| format!("{} is not a conversation", path.display()))?;
    let mut found = Expanded::from_conversation(&loaded, request);
    if matches!(found, Err(AppError::UnknownHandle(_)))
        && loaded.loaded().is_some()
        && let Ok(everything) = longhand_dialect::read(bytes, None)
    {
        found = Expanded::from_conversation(&everything, request);
    }
    found.map_err(|error| match error {
        AppError::UnknownHandle(handle) => hinted(
            format!("nothing in {} has the handle {handle}", path.display()),
            "give the file that was shortened, or --archive if it was kept in one",
        ),
        error => error.into(),
    })
}
