//! The arguments of `doctor` and `trust`.

use std::path::PathBuf;

use clap::Args;

use super::ArchiveArgs;

#[derive(Args)]
#[command(
    after_help = "A longhand.toml in the working directory or above may have come with a checkout. \
Until you trust it, only its budgets and policies count, not its endpoints, models, prices or archive. \
Your own ~/.config/longhand/longhand.toml is always trusted."
)]
pub(crate) struct TrustArgs {
    /// The folder, or its longhand.toml
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Stop trusting it
    #[arg(long)]
    pub(crate) forget: bool,
    /// List the files that are trusted
    #[arg(long, conflicts_with_all = ["folder", "forget"])]
    pub(crate) list: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand doctor")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) archive: ArchiveArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
