//! Files that are whole or not there.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use longhand_core::grouped;

/// Writes a file aside and renames it into its place; a link is followed, a device is written to.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    // The name of the file aside would mean nothing to anybody.
    let bare = |error: std::io::Error| std::io::Error::from(error.kind());
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = std::fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        return std::fs::write(&target, text).with_context(failed);
    }
    let folder =
        target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = aside().tempfile_in(folder).map_err(bare).with_context(failed)?;
    aside
        .write_all(text.as_bytes())
        .and_then(|()| aside.as_file().sync_all())
        .map_err(bare)
        .with_context(failed)?;
    if let Some(old) = old {
        // A file that keeps its contents but not its mode is no reason to fail.
        let _ = aside.as_file().set_permissions(old.permissions());
    }
    aside.persist(&target).map_err(|error| bare(error.error)).with_context(failed)?;
    Ok(())
}

/// A file that is not yet in its place, with the mode that any new file would have.
fn aside() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".longhand-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder
}

/// Writes a report to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    print_exactly(&format!("{text}{end}"))
}

/// Writes to standard output, not one byte more.
pub(crate) fn print_exactly(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Says something to the person; if nobody can hear it, that is no reason to fail.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Takes out what a terminal would obey, but for line breaks and tabs: archived text is hostile.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

/// The same on one line.
pub(crate) fn harmless_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A number with its noun.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_loses_its_teeth() {
        assert_eq!(harmless("a\u{1b}[2Jb\n\tc\u{7}\u{9b}d\r"), "a[2Jb\n\tcd");
        assert_eq!(harmless_line("a\u{1b}b\n\tc"), "abc");
    }
}
