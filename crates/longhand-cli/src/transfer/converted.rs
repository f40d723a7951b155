//! `longhand export --as`.

use std::io::Write;
use std::sync::Arc;

use anyhow::Result;
use longhand::app::{
    Access, App, AppError, ExportAsRequest, ExportForm, ExportedAs, ImportRequest,
};
use longhand::{MemoryArchive, agent_files};

use crate::args::ExportArgs;
use crate::output::counted;
use crate::{CommandOutcome, names, output, session_file, store};

/// The most bytes of a session file that is exported without being in the archive.
const FILE_BYTES_MAX: u64 = 1 << 30;

pub(super) fn export(args: &ExportArgs, form: ExportForm) -> Result<CommandOutcome> {
    let (app, name) = source(args)?;
    let folder = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
    let request =
        ExportAsRequest { form, id: session_file::new_id()?, folder, now_ms: store::now_ms() };
    let mut report = None;
    let mut write = |out: &mut dyn Write| {
        report = Some(app.export_as(&name, &request, out)?);
        Ok(())
    };
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => output::write_file_with(path, &mut write)?,
        None => output::print_data_with(&mut write)?,
    }
    if let Some(report) = report {
        output::say(told(&report).trim_end());
    }
    Ok(CommandOutcome::Done)
}

/// Where the session is: in the archive, or else in a file of an agent, which is read into memory.
fn source(args: &ExportArgs) -> Result<(App, String)> {
    if store::exists(&args.archive)? {
        let app = store::app(&args.archive)?;
        match app.find(&args.id, Access::Read) {
            Ok(found) => {
                names::say_taken(&found);
                return Ok((app, found.session.id));
            }
            Err(AppError::UnknownSession { .. }) if session_file::find(&args.id).is_ok() => {}
            Err(error) => return Err(error.into()),
        }
    }
    let Ok(path) = session_file::find(&args.id) else {
        // The error says what there is.
        let app = store::app_existing(&args.archive)?;
        let found = app.find(&args.id, Access::Read)?;
        return Ok((app, found.session.id));
    };
    let app = App::new(Arc::new(MemoryArchive::default()));
    let file = agent_files::AgentFile::of(agent_files::Agent::Claude, &path);
    let request = ImportRequest {
        bytes_max: FILE_BYTES_MAX,
        now_ms: store::now_ms(),
        ..ImportRequest::default()
    };
    let import = app.import_agent_file(&file, &request)?;
    Ok((app, import.session))
}

fn told(report: &ExportedAs) -> String {
    let mut text = format!("wrote {}", counted(report.messages as usize, "message"));
    if report.attachments_left > 0 {
        let attachments = counted(report.attachments_left as usize, "attachment");
        text.push_str(&format!("; a note stands for {attachments}"));
    }
    if report.system_left > 0 {
        let system = counted(report.system_left as usize, "system message");
        text.push_str(&format!("; {system} left out, since the agent brings its own"));
    }
    text.push('\n');
    let Some(name) = &report.file_name else { return text };
    let folder = match report.form {
        ExportForm::Codex => "~/.codex/sessions, in folders of year, month and day,",
        ExportForm::Pi => "the folder of its project in ~/.pi/agent/sessions",
        _ => "the folder of its project in ~/.claude/projects",
    };
    let command = match &report.command {
        Some(command) => command.line.clone(),
        None => "pi --session FILE".to_owned(),
    };
    text.push_str(&format!("save it as {name} in {folder} and go on with: {command}\n"));
    text
}
