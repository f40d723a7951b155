//! `longhand repair`.

use anyhow::{Context, Result, bail};
use longhand_dialect::{FileFault, MendedFile, mend};
use serde_json::json;

use crate::args::RepairArgs;
use crate::output::counted;
use crate::{CommandOutcome, input, output, session_file};

pub(crate) fn run(args: &RepairArgs) -> Result<CommandOutcome> {
    let path = session_file::find(&args.session)?;
    let name = path.display().to_string();
    let bytes = std::fs::metadata(&path).map_or(0, |data| data.len());
    if bytes > args.max_input {
        return Err(input::too_large(&name, args.max_input));
    }
    let old = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
    let old = String::from_utf8(old)
        .map_err(|error| error.utf8_error())
        .with_context(|| format!("{name} is not text; is it compressed?"))?;
    let mended = mend(old.clone()).with_context(|| name.clone())?;
    let is_changed = mended.text != old;
    let mut copy = None;
    if is_changed && !args.dry_run {
        check(&mended)?;
        session_file::check_unchanged(&path, &old)?;
        copy = Some(output::keep_copy(&path)?);
        output::write_file(&path, &mended.text)?;
    }
    if args.json {
        let fault = |fault: &FileFault| json!({"line": fault.line, "what": fault.kind.as_str(), "mended": fault.kind.is_mended()});
        let faults: Vec<_> = mended.faults.iter().map(fault).collect();
        let copy = copy.as_ref().map(|copy| copy.display().to_string());
        output::print_json(&json!({"file": name, "faults": faults, "copy": copy}))?;
    } else {
        let mut text: String = mended.faults.iter().map(|fault| format!("{fault}\n")).collect();
        text.push_str(&match (&copy, mended.faults.len()) {
            (_, 0) => format!("{name} has no fault\n"),
            (Some(copy), faults) => {
                let faults = counted(faults, "fault");
                format!("{name}: {faults}; the old file is kept as {}\n", copy.display())
            }
            (None, faults) => {
                format!("{name}: {}; nothing was written\n", counted(faults, "fault"))
            }
        });
        output::print(&text)?;
    }
    let has_faults = if args.dry_run { !mended.faults.is_empty() } else { false };
    Ok(if has_faults { CommandOutcome::No } else { CommandOutcome::Done })
}

/// What we write is read back: nothing that is mended may be found again.
fn check(mended: &MendedFile) -> Result<()> {
    let again = mend(mended.text.clone())?;
    if let Some(fault) = again.faults.iter().find(|fault| fault.kind.is_mended()) {
        bail!("the file would not be mended ({fault}); this is a bug, and nothing was written");
    }
    Ok(())
}
