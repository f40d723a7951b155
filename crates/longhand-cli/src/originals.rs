//! The file that keeps what windows leave out.
//!
//! One JSON record a line, only ever appended to, synced before the window that needs it is written.
//! A record's handle is the hash of its content, so every record can be checked by itself.

use std::collections::HashMap;
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
        match known.get(&handle) {
            Some(record) if record.content == content => {}
            Some(_) => bail!("{name} holds other content under {handle}"),
            None => {
                lines.push_str(
                    &json!({"handle": handle.to_string(), "form": form, "content": content})
                        .to_string(),
                );
                lines.push('\n');
                known.insert(handle, Record { form: form.to_owned(), content });
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
    let (mut records, _) = read(&mut file, path)?;
    records.remove(&handle).ok_or_else(|| {
        hinted(
            format!("{name} has nothing under {handle}"),
            "was the window made with `--archive` and this file?",
        )
    })
}

/// One original.
pub(crate) struct Record {
    pub(crate) form: String,
    pub(crate) content: String,
}

/// Reads all records; answers also with the length of the file up to its last whole record.
fn read(file: &mut File, path: &Path) -> Result<(HashMap<Handle, Record>, u64)> {
    let name = path.display();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    // What follows the last line break was cut off by a crash, perhaps inside a character.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    match lines.next() {
        None if HEADER.as_bytes().starts_with(&bytes) => return Ok((HashMap::new(), 0)),
        Some(line) if line == HEADER.as_bytes() => {}
        _ => {
            return Err(hinted(
                format!("{name} is not a file of originals"),
                "--archive takes a file that `longhand compact --archive` made, or a new one",
            ));
        }
    }
    let mut records = HashMap::new();
    for (index, line) in lines.enumerate() {
        let (handle, record) =
            record(line).with_context(|| format!("{name}: line {} is damaged", index + 2))?;
        records.insert(handle, record);
    }
    Ok((records, whole as u64))
}

fn record(line: &[u8]) -> Result<(Handle, Record)> {
    let value: Value = serde_json::from_slice(line)?;
    let field = |key: &str| value[key].as_str().with_context(|| format!("it has no `{key}`"));
    let handle = Handle::parse(field("handle")?).context("its handle is not one")?;
    let content = field("content")?.to_owned();
    if Handle::of([content.as_str()]) != handle {
        bail!("its content is not what {handle} stands for");
    }
    Ok((handle, Record { form: field("form")?.to_owned(), content }))
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
