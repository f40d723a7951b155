//! Many session files: those that agents keep, of folders, or several that are named.

use std::collections::HashMap;
#[cfg(not(unix))]
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use longhand::agent_files::{self, Agent, AgentFile, FindFileError};
use longhand::app::{App, FileImport, FileOutcome, ImportRequest};
use serde_json::json;

use super::{explained, unread};
use crate::args::ImportArgs;
use crate::output::{counted, counted_as};
use crate::{CommandOutcome, output, progress, store};

/// How long a watch waits before it looks again.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// How deep a folder is searched.
const DEPTH_MAX: usize = 8;

/// The files that are imported together; `None` if it is one input of any kind.
pub(super) fn gathered(args: &ImportArgs) -> Result<Option<Vec<AgentFile>>> {
    let is_one = match args.files.as_slice() {
        [] => !args.dry_run && !args.watch && has_input(),
        [path] => {
            let is_text = matches!(agent_files::in_database(path), Ok(None));
            !args.dry_run && !args.watch && !path.is_dir() && is_text
        }
        _ => false,
    };
    if is_one {
        return Ok(None);
    }
    if args.id.is_some() || args.append {
        bail!("--id and --append are for one file");
    }
    Ok(Some(listed(args)?))
}

/// The session files that there are now.
fn listed(args: &ImportArgs) -> Result<Vec<AgentFile>> {
    if args.files.is_empty() {
        let mut files = Vec::new();
        for agent in Agent::ALL {
            match agent.files(|name| std::env::var(name).ok()) {
                Ok(found) => files.extend(found),
                Err(error @ FindFileError::NoHome) => return Err(error.into()),
                // Those of other agents are imported all the same.
                Err(error) => output::say(&format!("skipped: {error}")),
            }
        }
        return Ok(files);
    }
    let mut paths = Vec::new();
    for path in &args.files {
        gather(path, DEPTH_MAX, &mut paths)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    paths.sort();
    let mut files = Vec::new();
    for path in &paths {
        match agent_files::in_database(path)? {
            Some(sessions) => files.extend(sessions),
            None => files.push(AgentFile::of(Agent::Claude, path)),
        }
    }
    Ok(files)
}

/// Whether something is piped into the command.
fn has_input() -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = std::fs::metadata("/dev/stdin").map(|data| data.file_type());
        kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file() || kind.is_socket())
    }
    #[cfg(not(unix))]
    {
        !std::io::stdin().is_terminal()
    }
}

fn gather(path: &Path, depth: usize, paths: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        std::fs::metadata(path)?;
        paths.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let plain = if name.extension().is_some_and(|end| end == "zst") {
            name.with_extension("")
        } else {
            name
        };
        let is_session = plain.extension().is_some_and(|end| end == "jsonl");
        let kind = entry.file_type()?;
        if (kind.is_dir() && depth > 0) || (kind.is_file() && is_session) {
            gather(&entry.path(), depth - 1, paths)?;
        }
    }
    Ok(())
}

/// Imports files one by one. One that cannot be read is named, and the others are imported.
pub(super) fn import(args: &ImportArgs, files: &[AgentFile]) -> Result<CommandOutcome> {
    let app = if args.dry_run {
        match store::app_existing(&args.archive) {
            Ok(app) => app,
            Err(_) => App::new(std::sync::Arc::new(longhand::MemoryArchive::default())),
        }
    } else {
        store::app(&args.archive)?
    };
    let mut request = ImportRequest {
        redactor: store::redactor_if(args.redact && !args.dry_run, &args.archive)?,
        bytes_max: args.max_input,
        now_ms: store::now_ms(),
        ..ImportRequest::default()
    };
    if args.watch {
        return watch(args, &app, &mut request);
    }
    let imported = import_all(&app, files, &mut request, args.dry_run);
    let ImportedFiles { imports, failed } = imported;
    say_skipped(&failed);
    if args.json {
        let failed: Vec<_> =
            failed.iter().map(|(file, error)| json!({"file": file, "error": error})).collect();
        output::print_json(&json!({"files": imports, "skipped": failed}))?;
    } else {
        output::print(&told(&imports, args.dry_run))?;
    }
    Ok(if failed.is_empty() { CommandOutcome::Done } else { CommandOutcome::No })
}

/// What became of files.
struct ImportedFiles {
    imports: Vec<FileImport>,
    /// The files that could not be read, with the reason.
    failed: Vec<(String, String)>,
}

fn import_all(
    app: &App,
    files: &[AgentFile],
    request: &mut ImportRequest,
    is_dry: bool,
) -> ImportedFiles {
    let (mut imports, mut failed) = (Vec::new(), Vec::new());
    for (at, file) in files.iter().enumerate() {
        progress::rename(&format!("importing file {} of {}", at + 1, files.len()));
        let name = file.place();
        request.file.clone_from(&name);
        request.now_ms = store::now_ms();
        let import =
            if is_dry { app.weigh_agent_file(file) } else { app.import_agent_file(file, request) };
        match import {
            Ok(import) => {
                let unread = unread(&import.unread);
                if !unread.is_empty() {
                    output::say(&format!("{}: {}", import.file, unread.trim_end()));
                }
                imports.push(import);
            }
            // A file without a message is no fault: agents begin many.
            Err(longhand::app::AppError::NothingToImport) => {}
            Err(error) => failed.push((name.clone(), format!("{:#}", explained(error, &name)))),
        }
    }
    ImportedFiles { imports, failed }
}

fn say_skipped(failed: &[(String, String)]) {
    for (name, error) in failed {
        let named =
            if error.contains(name.as_str()) { error.clone() } else { format!("{name}: {error}") };
        output::say(&format!("skipped: {named}"));
    }
}

/// Imports what is new, again and again. A file that vanishes removes nothing.
fn watch(args: &ImportArgs, app: &App, request: &mut ImportRequest) -> Result<CommandOutcome> {
    progress::end();
    let mut known: HashMap<String, Option<FileStamp>> = HashMap::new();
    output::say("watching for new messages; Ctrl-C ends it");
    loop {
        let files = listed(args)?;
        let changed: Vec<AgentFile> = files
            .into_iter()
            .filter(|file| {
                let stamp = FileStamp::of(file);
                known.insert(file.place(), stamp.clone()) != Some(stamp)
            })
            .collect();
        let ImportedFiles { imports, failed } = import_all(app, &changed, request, false);
        // What failed is tried again when it has changed: it may have been written just then.
        say_skipped(&failed);
        for import in imports.iter().filter(|import| import.added > 0) {
            if args.json {
                output::print_json_line(import)?;
            } else {
                let added = counted_as(import.added as usize, "entry", "entries");
                output::print(&format!("{added} of {}", output::harmless_line(&import.file)))?;
            }
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// Tells whether a file has changed.
#[derive(Clone, PartialEq, Eq)]
struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// That of a file as it is now; `None` if it has vanished.
    fn of(file: &AgentFile) -> Option<Self> {
        if file.session.is_some() {
            return Some(Self { bytes: file.bytes, modified: file.modified });
        }
        let data = std::fs::metadata(&file.path).ok()?;
        Some(Self { bytes: data.len(), modified: data.modified().ok() })
    }
}

fn told(imports: &[FileImport], is_dry: bool) -> String {
    let mut text = String::new();
    let of = |outcome: FileOutcome| imports.iter().filter(move |import| import.outcome == outcome);
    if is_dry {
        for (outcome, what) in [(FileOutcome::New, "new"), (FileOutcome::Grown, "changed")] {
            for import in of(outcome) {
                let bytes = longhand_core::grouped(import.bytes as usize);
                let file = output::harmless_line(&import.file);
                text.push_str(&format!("{what:>8} {bytes:>13}  {file}\n"));
            }
        }
    }
    let count = |outcome| of(outcome).count();
    let (new, grown, same) =
        (count(FileOutcome::New), count(FileOutcome::Grown), count(FileOutcome::Same));
    let added: u64 = imports.iter().map(|import| import.added).sum();
    let done = if is_dry {
        "nothing was imported".to_owned()
    } else {
        format!("imported {}", counted_as(added as usize, "entry", "entries"))
    };
    let files = counted(imports.len(), "file");
    text.push_str(&format!("{done}; {files}: {new} new, {grown} changed, {same} as they were\n"));
    text
}
