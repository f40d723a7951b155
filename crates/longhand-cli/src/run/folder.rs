//! The private folder of a run: settings for the agent, which nobody else can read and which go back to where they
//! belong, however the run ends.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::values::{self, ValueChange};
use crate::output;

/// How the names of these folders begin.
const PREFIX: &str = "longhand-run-";

/// Held by the process that uses the folder.
const LOCK: &str = "lock";

/// Says where the settings belong. It is written when the lock is held, so a folder that has one and is not locked is
/// of a run that was killed.
const MANIFEST: &str = "manifest.json";

/// The folder that the agent gets.
const SETTINGS: &str = "settings";

/// The extension of a file that could not replace the user's own, because that was changed during the run.
const BESIDE: &str = "longhand-run";

/// A folder that only this user can read. Its settings are brought back when it is dropped.
pub(super) struct RunFolder {
    path: PathBuf,
    _lock: File,
}

impl RunFolder {
    pub(super) fn create() -> Result<Self> {
        let failed = "cannot make a private folder for the run";
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        let path = builder.tempdir().context(failed)?.keep();
        let lock = private_file(&path.join(LOCK)).context(failed)?;
        lock.lock().context(failed)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder that has links to everything in `user_folder`, and a JSON file `name` of its own with
    /// changed values.
    pub(super) fn shadow(
        &self,
        user_folder: &Path,
        name: &str,
        changes: Vec<ValueChange>,
    ) -> Result<PathBuf> {
        let failed = || format!("cannot make a private copy of {}", user_folder.display());
        let settings = self.path.join(SETTINGS);
        make_private(&settings).with_context(failed)?;
        let original = fs::read_to_string(user_folder.join(name)).ok();
        let mut value = match &original {
            Some(text) => serde_json::from_str(text)
                .with_context(|| format!("{} is not JSON", user_folder.join(name).display()))?,
            None => json!({}),
        };
        for change in &changes {
            values::set(&mut value, change);
        }
        let written = value.to_string();
        let mut stamps = BTreeMap::new();
        let mut linked = Vec::new();
        for entry in fs::read_dir(user_folder).with_context(failed)? {
            let entry_name = entry.with_context(failed)?.file_name();
            let key = entry_name.to_string_lossy().into_owned();
            stamps.insert(key.clone(), FileVersion::of(&user_folder.join(&entry_name)));
            if entry_name != name {
                linked.push((user_folder.join(&entry_name), settings.join(&entry_name)));
            }
        }
        let manifest = Manifest {
            user_folder: user_folder.to_owned(),
            name: name.to_owned(),
            original,
            written,
            changes,
            stamps,
        };
        // Before anything that has to be brought back.
        manifest.write(&self.path).with_context(failed)?;
        for (target, at) in linked {
            link(&target, &at).with_context(failed)?;
        }
        private_file(&settings.join(name))
            .and_then(|mut file| file.write_all(manifest.written.as_bytes()))
            .with_context(failed)?;
        Ok(settings)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        end(&self.path);
    }
}

/// Brings the settings of runs back that were killed, and removes their folders.
pub(super) fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_ours(&entry.path()) {
            end_if_left(&entry.path());
        }
    }
}

fn end_if_left(path: &Path) {
    // One that has no lock yet, or no manifest, may just be made.
    let Ok(lock) = OpenOptions::new().write(true).open(path.join(LOCK)) else { return };
    if lock.try_lock().is_ok() && (path.join(MANIFEST).exists() || is_old(path)) {
        end(path);
    }
}

/// Ends the folder of a process that is known to be gone.
#[cfg(target_os = "linux")]
pub(super) fn end_left(path: &Path) {
    let Ok(lock) = OpenOptions::new().write(true).open(path.join(LOCK)) else { return };
    if lock.lock().is_ok() {
        end(path);
    }
}

/// Whether a folder was made so long ago that nobody is still making it.
fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age.as_secs() > 60)
}

/// Whether a folder is this user's: others may make one of such a name.
#[cfg(unix)]
fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
}

#[cfg(not(unix))]
fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Brings the settings back and removes the folder. What cannot be brought back stays in it, and is named.
fn end(path: &Path) {
    if let Ok(manifest) = Manifest::read(path) {
        let (said, is_complete) = manifest.bring_back(&path.join(SETTINGS));
        for line in said {
            output::say(&format!("longhand: {}", output::harmless_line(&line)));
        }
        if !is_complete {
            return;
        }
    }
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        output::say(&format!("longhand: {} cannot be removed: {error}", path.display()));
    }
}

/// Where the settings of a run belong, and what they were.
struct Manifest {
    user_folder: PathBuf,
    /// The JSON file that has changed values.
    name: String,
    original: Option<String>,
    written: String,
    changes: Vec<ValueChange>,
    /// What the user's folder had when the run began.
    stamps: BTreeMap<String, Option<FileVersion>>,
}

impl Manifest {
    fn write(&self, folder: &Path) -> Result<()> {
        let stamps: BTreeMap<_, _> = self
            .stamps
            .iter()
            .map(|(name, stamp)| (name, stamp.map(FileVersion::to_json)))
            .collect();
        let changes: Vec<Value> =
            self.changes.iter().map(|change| json!([change.keys, change.value])).collect();
        let manifest = json!({
            "own": self.user_folder.to_str().context("its path is not UTF-8")?, "name": self.name,
            "original": self.original, "written": self.written, "changes": changes, "stamps": stamps,
        });
        private_file(&folder.join(MANIFEST))?.write_all(manifest.to_string().as_bytes())?;
        Ok(())
    }

    fn read(folder: &Path) -> Result<Self> {
        let value: Value = serde_json::from_slice(&fs::read(folder.join(MANIFEST))?)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let stamps = value["stamps"].as_object().context("no stamps")?.iter();
        let changes = value["changes"].as_array().context("no changes")?.iter();
        let change = |change: &Value| {
            let keys = change[0].as_array()?.iter().filter_map(text).collect();
            Some(ValueChange { keys, value: text(&change[1])? })
        };
        Ok(Self {
            user_folder: value["own"].as_str().context("no folder")?.into(),
            name: text(&value["name"]).context("no name")?,
            original: text(&value["original"]),
            written: text(&value["written"]).context("nothing written")?,
            changes: changes.filter_map(change).collect(),
            stamps: stamps
                .map(|(name, stamp)| (name.clone(), FileVersion::from_json(stamp)))
                .collect(),
        })
    }

    /// Copies what the agent made or replaced to the user's folder. What it wrote through a link is there already.
    ///
    /// Returns what the user must know, and whether all of it was copied.
    fn bring_back(&self, settings: &Path) -> (Vec<String>, bool) {
        let (mut said, mut is_complete) = (Vec::new(), true);
        for entry in fs::read_dir(settings).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let to = self.user_folder.join(entry.file_name());
            // The locks of programs that have ended are of no use to others.
            if to.extension().is_some_and(|extension| extension == "lock") {
                continue;
            }
            let known = self.stamps.get(&name).copied().flatten();
            let done = match self.restored(&entry.path(), &name) {
                Ok(true) => bring(&entry.path(), &to, known, &mut said),
                Ok(false) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                is_complete = false;
                let (from, to) = (entry.path(), to.display());
                said.push(format!("{} could not be copied to {to}: {error}", from.display()));
            }
        }
        for name in self.stamps.keys() {
            let user_folder = self.user_folder.join(name);
            if fs::symlink_metadata(settings.join(name)).is_err() && user_folder.exists() {
                said.push(format!(
                    "the agent removed {name}; {} is still there",
                    user_folder.display()
                ));
            }
        }
        (said, is_complete)
    }

    /// Takes our values out of the file that has them. Returns whether there is anything to bring back.
    fn restored(&self, path: &Path, name: &str) -> std::io::Result<bool> {
        if name != self.name {
            return Ok(true);
        }
        let text = fs::read_to_string(path)?;
        if text == self.written {
            return Ok(false);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else { return Ok(true) };
        let before = self.original.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let before: Value = before.unwrap_or_else(|| json!({}));
        for change in &self.changes {
            values::restore(&mut value, change, &before);
        }
        if value == before {
            return Ok(false);
        }
        fs::write(path, format!("{value:#}\n"))?;
        Ok(true)
    }
}

/// Copies a file or a folder that the agent made. If its place was changed since the run began, it goes beside it.
fn bring(
    from: &Path,
    to: &Path,
    known: Option<FileVersion>,
    said: &mut Vec<String>,
) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    if metadata.is_dir() {
        if !to.is_dir() {
            make_private(to)?;
        }
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            bring(&entry.path(), &to.join(entry.file_name()), None, said)?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        // Links are ours or lead to what is elsewhere; sockets and pipes end with their program.
        return Ok(());
    }
    let now = FileVersion::of(to);
    if now.is_none() || now == known {
        return copy(from, &fs::canonicalize(to).unwrap_or_else(|_| to.to_owned()));
    }
    if fs::read(from)? == fs::read(to)? {
        return Ok(());
    }
    let beside = free_name(to);
    copy(from, &beside)?;
    said.push(format!(
        "{} was changed during the run and is kept; what the agent wrote is in {}",
        to.display(),
        beside.display()
    ));
    Ok(())
}

/// Copies a file so that it is complete or absent, with its mode.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let mut aside = tempfile::Builder::new().prefix(".longhand-").tempfile_in(folder)?;
    let mut file = File::open(from)?;
    std::io::copy(&mut file, &mut aside)?;
    aside.as_file().set_permissions(file.metadata()?.permissions())?;
    aside.as_file().sync_all()?;
    aside.persist(to).map_err(|error| error.error)?;
    Ok(())
}

fn free_name(path: &Path) -> PathBuf {
    let name = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        let number = if number == 1 { String::new() } else { number.to_string() };
        name.push(format!(".{BESIDE}{number}"));
        PathBuf::from(name)
    };
    let mut number = 1;
    while fs::symlink_metadata(name(number)).is_ok() {
        number += 1;
    }
    name(number)
}

/// Size and time of a file, to see whether it was changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    bytes: u64,
    modified_ns: u64,
}

impl FileVersion {
    /// The stamp of a file; `None` if there is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self { bytes: metadata.len(), modified_ns: modified.as_nanos() as u64 })
    }

    fn to_json(self) -> Value {
        json!([self.bytes, self.modified_ns])
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self { bytes: value[0].as_u64()?, modified_ns: value[1].as_u64()? })
    }
}

/// Makes a file that only this user can read, from its first moment.
fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn make_private(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    if target.is_dir() {
        std::os::windows::fs::symlink_dir(target, at)
    } else {
        fs::copy(target, at).map(|_| ())
    }
}
