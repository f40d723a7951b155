//! The text files that people write.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file with its path from the root.
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

const EXTENSIONS: &[&str] = &["rs", "toml", "md", "txt", "yml", "yaml", "sh"];
const WRITTEN_BY_TOOLS: &[&str] = &["target", "corpus", "artifacts", "coverage"];
const HIDDEN_BUT_OURS: &[&str] = &[".ci", ".cargo", ".github"];

/// Collects the files under `root`, sorted by path.
pub(crate) fn text_files(root: &Path) -> Result<Vec<TextFile>, Failure> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let trouble = |error| Failure::new(format!("{}: {error}", directory.display()));
        for entry in fs::read_dir(&directory).map_err(trouble)? {
            let path = entry.map_err(trouble)?.path();
            if path.is_dir() {
                if is_ours(&path) {
                    directories.push(path);
                }
            } else if is_text(&path) {
                let text = fs::read_to_string(&path)
                    .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
                let path = path.strip_prefix(root).unwrap_or(&path).to_owned();
                files.push(TextFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_ours(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    HIDDEN_BUT_OURS.contains(&name) || !(name.starts_with('.') || WRITTEN_BY_TOOLS.contains(&name))
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some(extension) => EXTENSIONS.contains(&extension),
        None => path.ends_with(".ci/run"),
    }
}
