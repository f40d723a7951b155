//! The key by which marks in the place of secrets are made.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use longhand::Redactor;

use crate::{paths, store};

/// Makes marks for an archive, with the key that is kept beside it.
///
/// The key is not in the archive, so a copy of the archive does not help to guess passwords. If the key is lost, new marks
/// differ from old ones; nothing else is lost.
pub(crate) fn redactor(archive: &Path) -> Result<Redactor> {
    let path = if store::server_address(archive).is_none() {
        key_path(archive)
    } else {
        // Beside the user's own archive: nobody who reads the server finds it there.
        let name = blake3::hash(store::shown(archive).as_bytes()).to_hex();
        key_path(&paths::data()?.join(format!("server-{}", &name[..16])))
    };
    let read = || match std::fs::read(&path) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes)
            .map(Some)
            .or_else(|_| bail!("{} is not a redaction key: it must have 32 bytes", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if let Some(key) = read()? {
        return Ok(Redactor::new(key));
    }
    make(&path)?;
    let key = read()?.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Redactor::new(key))
}

fn key_path(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_owned();
    name.push(".redact-key");
    name.into()
}

/// Makes a key, unless another process makes one first: then that one is used.
fn make(path: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let mut key = [0; 32];
    getrandom::fill(&mut key)
        .map_err(|error| anyhow::anyhow!("cannot get random bytes: {error}"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(cannot)?;
    }
    // Written aside, so that nobody reads half a key; its permissions are those of its owner alone.
    let mut aside =
        tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(cannot)?;
    aside.write_all(&key).and_then(|()| aside.as_file().sync_all()).with_context(cannot)?;
    match aside.persist_noclobber(path) {
        Ok(_) => {}
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error).with_context(cannot),
    }
    // Without the name on disk, the key could be gone after a power cut while its marks are there.
    #[cfg(unix)]
    std::fs::OpenOptions::new()
        .read(true)
        .open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .with_context(cannot)?;
    Ok(())
}
