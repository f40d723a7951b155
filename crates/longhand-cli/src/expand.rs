//! `longhand expand`.

use anyhow::{Context, Result};
use longhand::app::{AppError, ExpandRequest, Expanded};

use crate::args::ExpandArgs;
use crate::{CommandOutcome, hinted, output, store};

pub(crate) fn run(args: &ExpandArgs) -> Result<CommandOutcome> {
    let expanded = if let Some(path) = &args.from {
        from_file(path, &args.handle)?
    } else {
        let request = ExpandRequest { round: args.round, ..ExpandRequest::of(&args.handle) };
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

fn from_file(path: &std::path::Path, handle: &str) -> Result<Expanded> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let conversation = longhand_dialect::read(bytes, None)
        .with_context(|| format!("{} is not a conversation", path.display()))?;
    Expanded::from_conversation(&conversation, handle).map_err(|error| match error {
        AppError::UnknownHandle(handle) => hinted(
            format!("nothing in {} has the handle {handle}", path.display()),
            "give the file that was shortened, or --archive if it was kept in one",
        ),
        error => error.into(),
    })
}
