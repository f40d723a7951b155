//! The file that keeps what windows leave out.
//!
//! One JSON record a line, only ever appended to, synced before the window that needs it is written.
//! A record's handle is the hash of its content, so every record can be checked by itself.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use longhand_core::{Handle, Original};
use serde_json::{Value, json};

use crate::hinted;

/// The first line of the file.
const HEADER: &str = r#"{"longhand":"originals","version":1}"#;

/// Appends the originals that the file does not have yet.
pub(crate) fn keep(
    path: &Path,
    originals: impl IntoIterator<Item = (Handle, Original)>,
) -> Result<()> {
    let name = path.display();
    let mut file = open(path).with_context(|| format!("cannot open {name}"))?;
    // Two commands may keep their originals in one file.
    file.lock().with_context(|| format!("cannot lock {name}"))?;
    let (mut known, whole) = read(&mut file, path)?;
    let mut lines = if whole == 0 { format!("{HEADER}\n") } else { String::new() };
    for (handle, original) in originals {
        let (form, content) = match original {
            Original::Text(text) => ("text", text),
            Original::Json(text) => ("json", text),
        };
        match known.iter().find(|record| record.handle == handle) {
            Some(record) if record.content == content => {}
            Some(_) => bail!("{name} holds other content under {handle}"),
            None => {
                lines.push_str(
                    &json!({"handle": handle.to_string(), "form": form, "content": content})
                        .to_string(),
                );
                lines.push('\n');
                known.push(Record { handle, form: form.to_owned(), content });
            }
        }
    }
    let write = || -> std::io::Result<()> {
        // A record that was cut off by a crash was never relied on.
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()
    };
    let mut write = write;
    write().with_context(|| format!("cannot write {name}"))
}

/// Finds an original by its handle.
pub(crate) fn find(path: &Path, handle: Handle) -> Result<Record> {
    let name = path.display();
    let mut file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let (records, _) = read(&mut file, path)?;
    records.into_iter().find(|record| record.handle == handle).ok_or_else(|| {
        hinted(
            format!("{name} has nothing under {handle}"),
            "was the window made with `--archive` and this file?",
        )
    })
}

/// One original.
pub(crate) struct Record {
    pub(crate) handle: Handle,
    pub(crate) form: String,
    pub(crate) content: String,
}

/// Reads all records; answers also with the length of the file up to its last whole record.
fn read(file: &mut File, path: &Path) -> Result<(Vec<Record>, u64)> {
    let name = path.display();
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = text[..whole].lines();
    match lines.next() {
        None if text.is_empty() || HEADER.starts_with(&text) => return Ok((Vec::new(), 0)),
        Some(HEADER) => {}
        _ => {
            return Err(hinted(
                format!("{name} is not a file of originals"),
                "--archive takes a file that `longhand compact --archive` made, or a new one",
            ));
        }
    }
    let mut records = Vec::new();
    for (index, line) in lines.enumerate() {
        let record =
            record(line).with_context(|| format!("{name}: line {} is damaged", index + 2))?;
        records.push(record);
    }
    Ok((records, whole as u64))
}

fn record(line: &str) -> Result<Record> {
    let value: Value = serde_json::from_str(line)?;
    let field = |key: &str| value[key].as_str().with_context(|| format!("it has no `{key}`"));
    let handle = Handle::parse(field("handle")?).context("its handle is not one")?;
    let content = field("content")?.to_owned();
    if Handle::of([content.as_str()]) != handle {
        bail!("its content is not what {handle} stands for");
    }
    Ok(Record { handle, form: field("form")?.to_owned(), content })
}

fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
