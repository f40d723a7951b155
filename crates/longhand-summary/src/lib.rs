//! What a fold says: a work log that is derived from the messages without a model, and the seam to
//! models that tell the story.
//!
//! A fold reads its messages into a [`Log`] and shows a [`LogPage`] of it; the log is kept for the next
//! fold. Quoted text is made safe: it cannot pass for one of our lines.
#![forbid(unsafe_code)]

mod accept;
mod input;
mod log;
mod quote;
mod summariser;
mod terms;

pub use accept::{Refusal, accept};
pub use input::{Input, SummaryRound, ToolTrace};
pub use log::{Log, LogPage, user_words};
pub use quote::line as quoted_line;
pub use summariser::{Extractive, Summariser, Summary, SummaryError};
