//! Where the user's own files are.

use std::path::PathBuf;

use anyhow::{Context, Result};
use etcetera::{BaseStrategy, choose_base_strategy};

/// The folder of the user's data: `~/.local/share/longhand`, or as `XDG_DATA_HOME` says.
pub(crate) fn data() -> Result<PathBuf> {
    let strategy = choose_base_strategy()
        .context("cannot find your home folder: HOME is not set; --archive names the archive")?;
    Ok(strategy.data_dir().join("longhand"))
}

/// The folder of the user's settings: `~/.config/longhand`, or as `XDG_CONFIG_HOME` says.
pub(crate) fn settings() -> Option<PathBuf> {
    Some(choose_base_strategy().ok()?.config_dir().join("longhand"))
}
