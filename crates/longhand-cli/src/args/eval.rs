//! What can be said to `longhand eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{MeterArgs, amount};

#[derive(Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    pub(crate) command: EvalCommand,
}

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Ask questions whose answers are known: does recall bring back what answers them?
    Recall(EvalRecallArgs),
}

#[derive(Args)]
#[command(after_help = "Example:
  longhand eval recall questions.json --budget 4k

The file: {\"conversations\": [{\"turns\": [{\"id\", \"speaker\", \"text\", \"timestamp\"}, …],
\"questions\": [{\"question\", \"evidence\": [ids of turns], \"category\"}, …]}, …]}
A speaker is user, assistant or the name of a person. Every question is asked as the next message of its
conversation, of which nothing else is in view. No model is\nasked, except the one of --embeddings, which runs here.")]
pub(crate) struct EvalRecallArgs {
    /// Conversations with questions
    pub(crate) file: PathBuf,
    /// The most tokens of what is brought back for one question
    #[arg(long, value_name = "N", default_value = "4k", value_parser = amount)]
    pub(crate) budget: u64,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
    /// A folder with all-MiniLM-L6-v2: what messages mean counts beside their words
    #[arg(long, value_name = "PATH")]
    pub(crate) embeddings: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
