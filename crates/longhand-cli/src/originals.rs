//! What windows leave out, kept in an archive.

use std::path::Path;

use anyhow::{Context, Result};
use longhand::{Archive, SqliteArchive};
use longhand_archive::{Content, Form};
use longhand_core::{Handle, Original};

/// Keeps originals; they are on disk when this returns.
pub(crate) fn keep(path: &Path, originals: Vec<(Handle, Original)>) -> Result<()> {
    let archive = SqliteArchive::open(path)?;
    let originals: Vec<_> =
        originals.into_iter().map(|(handle, original)| (handle, archived(original))).collect();
    archive.keep(&originals).with_context(|| format!("cannot keep originals in {}", path.display()))
}

fn archived(original: Original) -> longhand_archive::Original {
    let (form, text) = match original {
        Original::Text(text) => (Form::Text, text),
        Original::Json(text) => (Form::Json, text),
    };
    longhand_archive::Original { session: None, form, content: Content::Text(text) }
}
