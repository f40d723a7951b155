//! `longhand archive copy`.

use std::path::Path;

use anyhow::Result;
use longhand::app::{App, CopyReport};

use crate::args::CopyArgs;
use crate::output::{counted, counted_as, harmless_line, short_number};
use crate::{CommandOutcome, hinted, output, progress, store};

pub(super) fn copy(args: &CopyArgs) -> Result<CommandOutcome> {
    if store::server_address(&args.from).is_none() && !args.from.exists() {
        return Err(hinted(
            format!("there is no archive at {}", store::shown(&args.from)),
            "`longhand archive copy FROM TO` reads FROM and writes TO",
        ));
    }
    if is_same(&args.from, &args.to) {
        return Err(hinted(
            format!("{} cannot be copied into itself", store::shown(&args.from)),
            "name another archive as TO",
        ));
    }
    let from = App::new(store::open_at(&args.from)?);
    let to = App::new(store::open_at(&args.to)?);
    let report = from.copy_to(&to, |at| {
        let again = if at.pass > 1 { "what was written meanwhile, " } else { "" };
        progress::rename(&format!(
            "copying, {again}session {} of {}, {} bytes",
            at.done + 1,
            at.sessions,
            short_number(at.bytes)
        ));
    })?;
    for session in &report.uncopied {
        let (name, id) = (harmless_line(&session.name), &session.id);
        output::say(&format!("not copied: {name} ({id}): {}", harmless_line(&session.reason)));
    }
    if args.json {
        output::print_json(&report)?;
    } else if !args.quiet {
        output::print(&told(&report, &args.to))?;
    }
    Ok(if report.is_complete() { CommandOutcome::Done } else { CommandOutcome::No })
}

fn told(report: &CopyReport, to: &Path) -> String {
    let sessions = counted(report.sessions as usize, "session");
    let entries = counted_as(report.entries as usize, "entry", "entries");
    let new = counted_as(report.new_entries as usize, "entry was", "entries were");
    let to = store::shown(to);
    format!("{to} has {sessions} with {entries}, compared with the originals; {new} new")
}

/// Whether two names are of one archive.
fn is_same(one: &Path, other: &Path) -> bool {
    if let (Some(_), Some(_)) = (store::server_address(one), store::server_address(other)) {
        return store::shown(one) == store::shown(other);
    }
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|path| Some(path) == real(other))
}
