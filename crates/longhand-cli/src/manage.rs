//! `longhand pin`, `undo`, `verify` and `rm`.

use anyhow::Result;
use longhand_archive::Page;
use longhand_core::{Seq, Tally, grouped};
use serde_json::json;

use crate::args::{PinArgs, RmArgs, UndoArgs, VerifyArgs};
use crate::output::{counted, harmless_line};
use crate::{Outcome, hinted, output, store};

pub(crate) fn pin(args: &PinArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = store::known(&archive, &args.id)?;
    if args.entry >= info.entries {
        let hint = format!("`longhand search --session {} WORDS` shows entries by number", args.id);
        return Err(hinted(
            format!("session {} has entries 0 to {}", args.id, info.entries.saturating_sub(1)),
            hint,
        ));
    }
    archive.pin(info.id, Seq(args.entry), !args.remove)?;
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
    let info = store::known(&archive, &args.id)?;
    let Some(undone) = archive.undo(info.id, None)? else {
        output::print("there is nothing to undo")?;
        return Ok(Outcome::No);
    };
    let Tally { stubs, clips, folded, .. } = Tally::of(&undone.batch.edits);
    output::print(&format!(
        "took back batch {}: {} stubs, {} clips, a fold of {} entries; what it left out is shown again for as long as there is room",
        undone.number,
        grouped(stubs),
        grouped(clips),
        grouped(folded as usize)
    ))?;
    Ok(Outcome::Done)
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<Outcome> {
    let archive = store::open_existing(&args.archive)?;
    let only = args.id.as_deref().map(|name| store::known(&archive, name)).transpose()?;
    let damages = archive.verify(only.map(|info| info.id))?;
    if args.json {
        let list: Vec<_> = damages
            .iter()
            .map(|damage| json!({"session": damage.session.map(|id| id.to_string()), "what": damage.to_string()}))
            .collect();
        output::print(&format!("{:#}", json!({"sound": damages.is_empty(), "damage": list})))?;
    } else {
        let mut text: String = damages
            .iter()
            .map(|damage| format!("damaged: {}\n", harmless_line(&damage.to_string())))
            .collect();
        if damages.is_empty() {
            let sessions = archive.sessions(None, Page::ALL)?.items;
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
    let info = store::known(&archive, &args.id)?;
    if !args.yes {
        let rounds = counted(info.rounds as usize, "round");
        return Err(hinted(
            format!("this would remove {rounds} of {:?} for good", args.id),
            "`longhand export` keeps a copy; --yes removes it",
        ));
    }
    archive.remove(info.id)?;
    output::print(&format!("removed {}", harmless_line(&args.id)))?;
    Ok(Outcome::Done)
}
