//! What a real model server does: `cargo xtask test-model` starts one and runs these.
//!
//! Without `LONGHAND_MODEL_URL` they say so and pass.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "these are tests")]

mod client;
mod common;
mod conversation;
mod counter;
mod folds;
mod overflow;
