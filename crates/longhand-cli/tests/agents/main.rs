//! Real agents, as they are published, through `longhand run`, against a model that plays a long task.
//!
//! `cargo xtask test-agents` installs them and runs these tests; without it they say that they were skipped.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod agent;
mod compact;
mod deferred;
mod figures;
mod kit;
mod mcp;
mod model;
mod request;
mod resume;
mod task;
mod tests;
mod workspace;
