//! Files that are whole or not there.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes a file aside and renames it into its place.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    let name = path.display();
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new()
        .prefix(".longhand-")
        .tempfile_in(folder)
        .with_context(|| format!("cannot write {name}"))?;
    aside
        .write_all(text.as_bytes())
        .and_then(|()| aside.as_file().sync_all())
        .with_context(|| format!("cannot write {name}"))?;
    share_mode(aside.as_file(), path);
    aside
        .persist(path)
        .map_err(|error| error.error)
        .with_context(|| format!("cannot write {name}"))?;
    Ok(())
}

/// Gives the new file the mode of the one it replaces, or what others of the user's files have.
#[cfg(unix)]
fn share_mode(file: &std::fs::File, path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_or(0o644, |data| data.permissions().mode() & 0o777);
    // A file that is only less readable than it could be is no reason to fail.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(mode));
}

#[cfg(not(unix))]
fn share_mode(_: &std::fs::File, _: &Path) {}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}
