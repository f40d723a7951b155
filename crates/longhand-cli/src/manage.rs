//! `longhand pin`, `undo`, `verify` and `rm`.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use longhand::SqliteArchive;
use longhand::app::{Access, App, RemoveReport};
use longhand_archive::Unwiped;

use crate::args::{PinArgs, RenameArgs, RmArgs, UndoArgs, VerifyArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, archive, hinted, history, inspect, names, output, store};

/// How long a command waits without progress until it leaves wiping to the next one.
const WIPE_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn pin(args: &PinArgs) -> Result<CommandOutcome> {
    let app = store::app_existing(&args.archive)?;
    let report = app.pin(&args.id, args.entry, !args.remove)?;
    if args.json {
        output::print_json(&report)?;
    } else if !args.quiet {
        let done = if report.pinned { "pinned" } else { "unpinned" };
        output::print(&format!("{done} entry {}", report.entry))?;
    }
    Ok(CommandOutcome::Done)
}

pub(crate) fn undo(args: &UndoArgs) -> Result<CommandOutcome> {
    let report = store::app_existing(&args.archive)?.undo(&args.id)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print(&match &report.undone {
            None => "there is nothing to undo".to_owned(),
            Some(undone) => format!(
                "undid batch {} ({}); what it left out is sent again if it fits",
                undone.number,
                inspect::edits(undone)
            ),
        })?;
    }
    Ok(if report.undone.is_some() { CommandOutcome::Done } else { CommandOutcome::No })
}

pub(crate) fn rename(args: &RenameArgs) -> Result<CommandOutcome> {
    let report = store::app_existing(&args.archive)?.rename(&args.id, &args.name)?;
    if args.json {
        output::print_json(&report)?;
    } else if !args.quiet {
        let session = &report.session;
        let (before, now) =
            (names::called(&report.before, &session.id), names::called(&session.name, &session.id));
        output::print(&format!("{before} is {now} now"))?;
    }
    Ok(CommandOutcome::Done)
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<CommandOutcome> {
    let opened = archive::open_existing(&args.archive)?;
    // What is damaged may be in the way of wiping, and is reported below.
    let _ = opened.file.map(|file| file.wipe(WIPE_WAIT));
    let app = App::new(opened.archive);
    let only = args.id.as_deref().map(|name| store::readable(&app, name)).transpose()?;
    let report = app.verify(only.as_ref().map(|session| session.id.as_str()))?;
    if args.json {
        output::print_json(&report)?;
    } else if report.sound {
        output::print(&format!(
            "sound: {}, {}\n",
            counted(report.sessions as usize, "session"),
            counted_as(report.entries as usize, "entry", "entries")
        ))?;
    } else {
        let damage = report.damage.iter();
        let lines = damage.map(|damage| format!("damaged: {}\n", harmless_line(&damage.what)));
        output::print(&lines.collect::<String>())?;
    }
    Ok(if report.sound { CommandOutcome::Done } else { CommandOutcome::No })
}

pub(crate) fn rm(args: &RmArgs) -> Result<CommandOutcome> {
    let opened = archive::open_existing(&args.archive)?;
    let app = App::new(opened.archive);
    let found = app.find(&args.id, Access::Change)?.session;
    if !args.yes {
        let export = store::command(&format!("export {}", names::called(&found.name, &found.id)));
        return Err(hinted(
            format!("this would remove {} for good", names::described(&found)),
            format!("{export} keeps a copy; --yes removes it"),
        ));
    }
    let typed = app.said_by_user(&found.id)?;
    let removed = app.remove(&found.id)?;
    let prompts = history::path().map(|path| history::forget(&path, &typed)).transpose()?;
    if args.json {
        output::print_json(&removed)?;
    } else {
        output::print(&removed_text(args, &removed, prompts.unwrap_or(0))?)?;
    }
    if let Some(file) = opened.file {
        tell_what_is_left(&file, &store::path(&args.archive)?)?;
    }
    Ok(CommandOutcome::Done)
}

fn removed_text(args: &RmArgs, removed: &RemoveReport, prompts: usize) -> Result<String> {
    let archive = store::path(&args.archive)?;
    let session = names::described(&removed.session);
    let mut text = format!("removed {session} from {}\n", store::shown(&archive));
    let history = history::path().filter(|path| path.exists());
    if let Some(path) = history.as_ref().filter(|_| prompts > 0) {
        let prompts = counted(prompts, "prompt");
        text.push_str(&format!("removed {prompts} from {}\n", path.display()));
    }
    text.push_str("exports, backups and the files of your agents are not touched\n");
    if let Some(path) = history {
        text.push_str(&format!("commands such as /search stay in {}\n", path.display()));
    }
    Ok(text)
}

/// Waits until the texts of removed sessions are wiped; says what is left of them, and how to be rid of it.
pub(crate) fn tell_what_is_left(file: &SqliteArchive, path: &Path) -> Result<()> {
    let (what, why) = match file.wipe(WIPE_WAIT)? {
        Unwiped::Nothing => return Ok(()),
        Unwiped::Log(log) => (format!("in the log {}", log.display()), "reads from it"),
        Unwiped::Content => (format!("in {}", path.display()), "keeps it locked"),
    };
    let verify = store::command("verify");
    output::say(&format!(
        "warning: texts of what was removed are still {what}, since another program {why}\n\
         hint: end that program, then run {verify}, which wipes what is left"
    ));
    Ok(())
}
