//! Messages, steps, plans and edits: the part of Longhand that decides.
//!
//! Nothing here does I/O, reads a clock or knows a provider's JSON. A dialect hands in messages, a
//! [`Meter`] counts, and [`plan`] answers with a [`Plan`] that is inert until a dialect applies it.
#![forbid(unsafe_code)]

pub mod anchor;
#[cfg(test)]
mod any_text;
mod arguments;
mod auto;
mod budget;
mod chain;
mod clear;
mod clip;
pub mod cut;
mod draft;
mod economy;
mod edit;
mod elide;
mod entering;
mod fold;
mod hand_over;
mod handle;
mod in_view;
pub mod json;
mod json_word;
mod message;
mod meter;
mod model_name;
mod observation;
mod opening;
mod plan;
mod project;
mod protect;
mod reference;
mod regret;
mod rescue;
mod rolling;
pub mod session;
mod size;
mod step;
mod stub;
mod subject;
mod text;
mod tokens;
mod touched;
mod trim;
mod worth;

pub use arguments::Arguments;
pub use budget::Budget;
pub use chain::{Link, Meaning};
pub use clear::{Clear, Trigger, clear};
pub use economy::{CachePause, CachePrices, Economy, requests};
pub use edit::{Batch, Edit, EditKind, Fold, Place, Seq, Span};
pub use entering::clipped_on_entry;
pub use fold::{
    Digest, Digested, Folded, FoldedPlaces, IndexDigest, earlier, find_fold, fold_ahead,
    folded_messages, is_fold,
};
pub use hand_over::handed_over;
pub use handle::{Handle, content_hash};
pub use in_view::InView;
pub use json_word::says_json;
pub use message::{
    File, Image, Media, MediaKind, Message, Other, Part, PartLink, Role, Thinking, ToolCall,
    ToolResult,
};
pub use meter::{Framing, Meter, Scale};
pub use model_name::{ModelFamily, ModelName, undated};
pub use observation::{acts_in_text, reads_like_output};
pub use plan::{
    HandleOpener, History, Original, Plan, PlanSettings, Policy, Rolling, Tally, Wire, content,
    original, plan, plan_with,
};
pub use project::{Change, Path, Projection, Shown, ShownBlock, project, shown_edits};
pub use reference::brought_back;
pub use regret::{Regret, Regretted, UNASKED, regrets};
pub use size::Size;
pub use step::steps;
pub use stub::{STUB_CHARS_MAX, grouped};
pub use text::{Text, unescape};
pub use tokens::Tokens;
pub use trim::partition;
pub use worth::{Reason, reasons};
