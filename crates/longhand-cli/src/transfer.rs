//! `longhand export` and `longhand import`.

mod converted;
mod files;

use std::fs::File;

use anyhow::{Context, Result};
use longhand::app::{AppError, ImportOutcome, ImportReport, ImportRequest, ImportedSession};

use crate::args::{ExportArgs, ExportFormat, ImportArgs};
use crate::output::{counted, counted_as, harmless_line};
use crate::{CommandOutcome, input, names, output, store};

pub(crate) fn export(args: &ExportArgs) -> Result<CommandOutcome> {
    if let Some(form) = args.form {
        return converted::export(args, form.into());
    }
    let app = store::app_existing(&args.archive)?;
    let found = store::readable(&app, &args.id)?;
    let path = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    if let ExportFormat::State = args.format {
        let state = app.state(&found.id, &store::view(&args.session)?)?;
        let state = format!("{}\n", serde_json::to_string_pretty(&state)?);
        match path {
            Some(path) => output::write_file(path, &state)?,
            None => output::print_data(&state)?,
        }
        return Ok(CommandOutcome::Done);
    }
    let write = |out: &mut dyn std::io::Write| Ok(app.export(&found.id, out).map(drop)?);
    match path {
        Some(path) => output::write_file_with(path, write)?,
        None => output::print_data_with(write)?,
    }
    Ok(CommandOutcome::Done)
}

pub(crate) fn import(args: &ImportArgs) -> Result<CommandOutcome> {
    if let Some(files) = files::gathered(args)? {
        return files::import(args, &files);
    }
    let first = args.files.first().map(std::path::PathBuf::as_path);
    let path = first.filter(|path| path.as_os_str() != "-");
    let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
    let file = path.map_or_else(spooled, File::open);
    let file = file.with_context(|| format!("cannot read {name}"))?;
    if args.redact {
        // The key of the marks lies beside the archive.
        drop(store::open(&args.archive)?);
    }
    let stem = path.and_then(|path| path.file_stem());
    let request = ImportRequest {
        name: args.id.clone(),
        file: name.clone(),
        name_default: stem.map(|stem| stem.to_string_lossy().into_owned()),
        append: args.append,
        redactor: store::redactor_if(args.redact, &args.archive)?,
        bytes_max: args.max_input,
        now_ms: store::now_ms(),
    };
    let checked = request.check(&file).map_err(|error| explained(error, &name))?;
    let report = store::app(&args.archive)?.import(checked, &request)?;
    if args.json {
        output::print_json(&report)?;
    } else {
        output::print_wrapped(&told(&report))?;
    }
    Ok(CommandOutcome::Done)
}

/// What became of all that was imported.
fn told(report: &ImportReport) -> String {
    let mut text: String = report.sessions.iter().map(told_of).collect();
    if report.system_messages_left > 0 {
        text.push_str("the system prompt is not imported: every request brings its own\n");
    }
    text.push_str(&unread(&report.unread));
    text
}

/// Which lines of a file are not in the archive.
fn unread(lines: &[u32]) -> String {
    match lines {
        [] => String::new(),
        [line] => format!("line {line} cannot be read and stays out\n"),
        [first, ..] => {
            let count = counted(lines.len(), "line");
            format!("{count} cannot be read and stay out; the first of them is line {first}\n")
        }
    }
}

fn told_of(session: &ImportedSession) -> String {
    let name = harmless_line(&session.name);
    let called = || names::called(&session.name, &session.id);
    let added = counted_as(session.added as usize, "entry", "entries");
    let told = match session.outcome {
        ImportOutcome::Extended => format!("added {added} to {name}; the archive had the rest"),
        ImportOutcome::Same => {
            format!("the archive has {name} already, just so; nothing was added")
        }
        ImportOutcome::Older => {
            format!("the archive has all of {name} and more; nothing was added")
        }
        ImportOutcome::Rejoined if session.added == 0 => {
            format!("nothing to import: session {} has all of it already", called())
        }
        ImportOutcome::Rejoined => {
            format!("imported {added} into {}, which has the rest of it", called())
        }
        _ => {
            let rounds = counted(session.rounds as usize, "round");
            format!("imported {rounds}, {added} into {name}")
        }
    };
    format!("{told}\n")
}

/// What is wrong with a file, with its name.
pub(super) fn explained(error: AppError, name: &str) -> anyhow::Error {
    match error {
        AppError::TooLarge { max } => input::too_large(name, max),
        AppError::NotText => anyhow::anyhow!("{name} is not UTF-8"),
        AppError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {name}")),
        error => error.into(),
    }
}

/// Standard input in a file that has no name.
fn spooled() -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    std::io::copy(&mut input::standard_input(), &mut file)?;
    Ok(file)
}
