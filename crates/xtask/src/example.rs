//! The example session, which is made and never edited.

use std::fs;

use longhand_testkit::session;

use crate::failure::Failure;
use crate::run::root;

const PATH: &str = "examples/long-session.json";

/// Writes the example anew.
pub(crate) fn write() -> Result<(), Failure> {
    let text = session::example_file();
    let path = root().join(PATH);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)
            .map_err(|error| Failure::new(format!("{}: {error}", directory.display())))?;
    }
    fs::write(&path, &text).map_err(|error| Failure::new(format!("{PATH}: {error}")))?;
    println!("xtask: wrote {PATH}, {} bytes", text.len());
    Ok(())
}

/// Returns a complaint if the file is not what would be written.
pub(crate) fn complaint() -> Option<String> {
    let current = fs::read_to_string(root().join(PATH)).unwrap_or_default();
    (current != session::example_file())
        .then(|| format!("{PATH} is not what `cargo xtask example` writes"))
}
