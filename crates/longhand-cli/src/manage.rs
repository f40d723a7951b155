//! `longhand pin`, `undo`, `verify` and `rm`.

use anyhow::Result;
use longhand::Archive;
use longhand_archive::Batch;
use longhand_core::grouped;
use serde_json::json;

use crate::args::{PinArgs, RmArgs, UndoArgs, VerifyArgs};
use crate::output::harmless_line;
use crate::{Outcome, hinted, output, store};

pub(crate) fn pin(args: &PinArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let head = store::known(&archive, &args.id)?;
    if args.entry >= head.entries {
        let hint = format!("`longhand search --session {} WORDS` shows entries by number", args.id);
        return Err(hinted(
            format!("session {} has entries 0 to {}", args.id, head.entries.saturating_sub(1)),
            hint,
        ));
    }
    archive.pin(&args.id, args.entry, !args.remove)?;
    if !args.quiet {
        output::print(&format!(
            "{} entry {}",
            if args.remove { "unpinned" } else { "pinned" },
            args.entry
        ))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn undo(args: &UndoArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    store::known(&archive, &args.id)?;
    let Some(batch) = archive.undo(&args.id)? else {
        output::print("there is nothing to undo")?;
        return Ok(Outcome::No);
    };
    output::print(&format!(
        "took back batch {}; its {} entries are verbatim again for as long as there is room",
        batch.number,
        grouped(newly_folded(&*archive, &args.id, &batch)? as usize)
    ))?;
    Ok(Outcome::Done)
}

/// How many entries a batch folded that the one before it had not.
fn newly_folded(archive: &dyn Archive, id: &str, batch: &Batch) -> Result<u64> {
    let before = archive.head(id)?.and_then(|head| head.batch).map_or(0, |batch| batch.entries.end);
    Ok(batch.entries.end.saturating_sub(before))
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    if let Some(id) = &args.id {
        store::known(&archive, id)?;
    }
    let damages = archive.verify(args.id.as_deref())?;
    if args.json {
        let list: Vec<_> = damages
            .iter()
            .map(|damage| json!({"session": damage.session, "what": damage.to_string()}))
            .collect();
        output::print(&format!("{:#}", json!({"sound": damages.is_empty(), "damage": list})))?;
    } else {
        let mut text: String = damages
            .iter()
            .map(|damage| format!("damaged: {}\n", harmless_line(&damage.to_string())))
            .collect();
        if damages.is_empty() {
            let sessions = archive.sessions()?;
            let entries: u64 = sessions.iter().map(|info| info.entries).sum();
            text = format!(
                "sound: {} sessions, {} entries\n",
                grouped(sessions.len()),
                grouped(entries as usize)
            );
        }
        output::print(&text)?;
    }
    Ok(if damages.is_empty() { Outcome::Done } else { Outcome::No })
}

pub(crate) fn rm(args: &RmArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let head = store::known(&archive, &args.id)?;
    if !args.yes {
        let rounds = grouped(head.rounds as usize);
        return Err(hinted(
            format!("this would remove {rounds} rounds of {:?} for good", args.id),
            "`longhand export` keeps a copy; --yes removes it",
        ));
    }
    archive.remove(&args.id)?;
    output::print(&format!("removed {}", harmless_line(&args.id)))?;
    Ok(Outcome::Done)
}
