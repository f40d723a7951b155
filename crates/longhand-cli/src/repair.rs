//! `longhand repair`.

use anyhow::{Context, Result, bail};
use longhand_dialect::{FileFault, MendedFile, mend, read_as_loaded};
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
        let (before, after) = (OffPath::of(&old), OffPath::of(&mended.text));
        let off = json!({"before": before.map(OffPath::json), "after": after.map(OffPath::json)});
        output::print_json(
            &json!({"file": name, "faults": faults, "copy": copy, "off_path": off}),
        )?;
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
        text.push_str(&off_path(&old, &mended.text));
        output::print(&text)?;
    }
    let has_faults = if args.dry_run { !mended.faults.is_empty() } else { false };
    Ok(if has_faults { CommandOutcome::No } else { CommandOutcome::Done })
}

/// How much of a file its agent does not load.
#[derive(Clone, Copy, PartialEq, Eq)]
struct OffPath {
    lines: usize,
    bytes: usize,
    percent: usize,
}

impl OffPath {
    /// `None` if the text cannot be read.
    fn of(text: &str) -> Option<Self> {
        let conversation = read_as_loaded(text.as_bytes().to_vec(), None).ok()?;
        let loaded = conversation.loaded()?;
        let percent = (loaded.bytes_off * 100).div_ceil(text.len().max(1));
        Some(Self { lines: loaded.lines_off, bytes: loaded.bytes_off, percent })
    }

    fn json(self) -> serde_json::Value {
        json!({"lines": self.lines, "bytes": self.bytes})
    }
}

/// What of a file its agent does not load, before it is mended and after it.
fn off_path(old: &str, mended: &str) -> String {
    let (Some(before), Some(after)) = (OffPath::of(old), OffPath::of(mended)) else {
        return String::new();
    };
    let told = |off: OffPath| match off.lines {
        0 => "the agent loads all messages".to_owned(),
        lines => {
            let lines = counted(lines, "line");
            format!("the agent does not load {lines} with messages, {}% of the file", off.percent)
        }
    };
    if before == after {
        return format!("{}\n", told(after));
    }
    format!("as it was: {}\nmended: {}\n", told(before), told(after))
}

/// What we write is read back: nothing that is mended may be found again.
fn check(mended: &MendedFile) -> Result<()> {
    let again = mend(mended.text.clone())?;
    if let Some(fault) = again.faults.iter().find(|fault| fault.kind.is_mended()) {
        bail!("the file would not be mended ({fault}); this is a bug, and nothing was written");
    }
    Ok(())
}
