//! `longhand pin`, `undo`, `verify` and `rm`.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use longhand::{Archive, SqliteArchive, recall, searchable};
use longhand_archive::{Page, SessionInfo, Unwiped};
use longhand_core::{Role, Seq};
use serde_json::json;

use crate::args::{PinArgs, RmArgs, UndoArgs, VerifyArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, archive, hinted, history, inspect, lookup, output, store};

/// How long a command waits without progress until it leaves wiping to the next one.
const WIPE_WAIT: Duration = Duration::from_secs(5);

/// How many entries are read at a time.
const ENTRIES_AT_A_TIME: u64 = 1_000;

pub(crate) fn pin(args: &PinArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = lookup::writable(&archive, &args.id)?;
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
    Ok(CommandOutcome::Done)
}

pub(crate) fn undo(args: &UndoArgs) -> Result<CommandOutcome> {
    let archive = store::open_existing(&args.archive)?;
    let info = lookup::writable(&archive, &args.id)?;
    let Some(undone) = archive.undo(info.id, None)? else {
        output::print("there is nothing to undo")?;
        return Ok(CommandOutcome::No);
    };
    output::print(&format!(
        "undid batch {} ({}); what it left out is sent again if it fits",
        undone.number,
        inspect::edits(&undone.batch.edits)
    ))?;
    Ok(CommandOutcome::Done)
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<CommandOutcome> {
    let file = archive::open_file(&args.archive)?;
    // What is damaged may be in the way of wiping, and is reported below.
    let _ = file.wipe(WIPE_WAIT);
    let archive: Arc<dyn Archive> = file;
    let only = args.id.as_deref().map(|name| store::known(&archive, name)).transpose()?;
    let damages = archive.verify(only.map(|info| info.id))?;
    if args.json {
        let list: Vec<_> = damages
            .iter()
            .map(|damage| json!({"session": damage.session.map(|id| id.to_string()), "what": damage.to_string()}))
            .collect();
        output::print_json(&json!({"sound": damages.is_empty(), "damage": list}))?;
    } else {
        let mut text: String = damages
            .iter()
            .map(|damage| format!("damaged: {}\n", harmless_line(&damage.to_string())))
            .collect();
        if damages.is_empty() {
            let sessions = archive.sessions(None, Page::ALL)?.items;
            let entries: u64 = sessions.iter().map(|info| info.entries).sum();
            text = format!(
                "sound: {}, {}\n",
                counted(sessions.len(), "session"),
                counted_as(entries as usize, "entry", "entries")
            );
        }
        output::print(&text)?;
    }
    Ok(if damages.is_empty() { CommandOutcome::Done } else { CommandOutcome::No })
}

pub(crate) fn rm(args: &RmArgs) -> Result<CommandOutcome> {
    let file = archive::open_file(&args.archive)?;
    let archive: Arc<dyn Archive> = file.clone();
    let info = lookup::writable(&archive, &args.id)?;
    if !args.yes {
        return Err(hinted(
            format!("this would remove {} for good", lookup::described(&info)),
            "`longhand export` keeps a copy; --yes removes it",
        ));
    }
    let typed = typed(&archive, &info)?;
    archive.remove(info.id)?;
    let mut text = format!(
        "removed {} from {}\n",
        lookup::described(&info),
        store::path(&args.archive)?.display()
    );
    if let Some(path) = history::path() {
        let lines = history::forget(&path, &typed)?;
        if lines > 0 {
            text.push_str(&format!(
                "removed {} from {}\n",
                counted(lines, "prompt"),
                path.display()
            ));
        }
    }
    text.push_str("exports, backups and the files of your agents are not touched\n");
    if let Some(path) = history::path().filter(|path| path.exists()) {
        text.push_str(&format!("commands such as /search stay in {}\n", path.display()));
    }
    output::print(&text)?;
    tell_what_is_left(&file, &store::path(&args.archive)?)?;
    Ok(CommandOutcome::Done)
}

/// Waits until the texts of removed sessions are wiped; says what is left of them, and how to be rid of it.
fn tell_what_is_left(file: &SqliteArchive, path: &Path) -> Result<()> {
    let (what, why) = match file.wipe(WIPE_WAIT)? {
        Unwiped::Nothing => return Ok(()),
        Unwiped::Log(log) => (format!("in the log {}", log.display()), "reads from it"),
        Unwiped::Content => (format!("in {}", path.display()), "keeps it locked"),
    };
    output::say(&format!(
        "warning: texts of the removed session are still {what}, since another program {why}\n\
         hint: end that program, then run `longhand verify`, which wipes what is left"
    ));
    Ok(())
}

/// What the user said in a session.
fn typed(archive: &Arc<dyn Archive>, info: &SessionInfo) -> Result<HashSet<String>> {
    let mut typed = HashSet::new();
    let mut start = 0;
    while start < info.entries {
        let end = info.entries.min(start + ENTRIES_AT_A_TIME);
        for entry in archive.entries(info.id, start..end)? {
            if recall::role(&entry) == Some(Role::User) {
                typed.insert(searchable(&entry.form, &entry.raw).trim().to_owned());
            }
        }
        start = end;
    }
    Ok(typed)
}
