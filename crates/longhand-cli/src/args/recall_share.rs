//! What windows bring back unasked.

use clap::Args;

#[derive(Args, Clone, Copy)]
pub(crate) struct RecallShareArgs {
    /// The room for earlier messages that come back as quotes when a new one is about them, in percent of the budget
    /// [default: session.recall in the settings, or 10]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(crate) recall_percent: Option<u64>,
    /// Bring nothing back unasked
    #[arg(long, conflicts_with = "recall_percent")]
    pub(crate) no_recall: bool,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct ProxyRecallArgs {
    /// Bring earlier messages that were left out back as quotes when the user's new message is about them
    #[arg(long, overrides_with = "no_recall")]
    pub(crate) recall: bool,
    /// The room for these, in percent of the budget; with --recall
    #[arg(long, value_name = "PERCENT", requires = "recall", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) recall_percent: Option<u64>,
    /// Bring nothing back unasked, as without --recall
    #[arg(long)]
    pub(crate) no_recall: bool,
}
