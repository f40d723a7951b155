//! Messages, steps, plans and edits: the part of Longhand that decides.
//!
//! Nothing here does I/O, reads a clock or knows a provider's JSON. A dialect hands in messages, a
//! [`Meter`] counts, and [`plan`] answers with a [`Plan`] that is inert until a dialect applies it.
#![forbid(unsafe_code)]

pub mod anchor;
mod auto;
mod budget;
mod clear;
mod clip;
mod draft;
mod elide;
mod engine;
mod fold;
mod handle;
pub mod json;
mod message;
mod meter;
mod model_name;
mod observation;
mod plan;
mod rolling;
mod step;
mod stub;
mod text;
mod tokens;
mod trim;

pub use budget::Budget;
pub use clear::{Clear, Trigger, clear};
pub use engine::{Effect, Engine, Event, FoldId, Rolling, State};
pub use fold::{Digest, Index, earlier, is_fold};
pub use handle::Handle;
pub use message::{Call, File, Image, Message, Part, Role, Thinking, ToolResult};
pub use meter::{Framing, Meter, Scale};
pub use model_name::{ModelFamily, ModelName, undated};
pub use plan::{Edit, History, Original, Place, Plan, Policy, Settings, Wire, plan, plan_with};
pub use step::steps;
pub use stub::{STUB_CHARS_MAX, grouped};
pub use text::{Text, unescape};
pub use tokens::Tokens;
pub use trim::partition;
