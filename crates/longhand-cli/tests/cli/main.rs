//! The `longhand` binary, end to end: what a user types, what comes back.
#![allow(clippy::unwrap_used)]

mod agent_files;
mod app;
mod archive;
mod bad_input;
#[cfg(unix)]
mod chat;
mod compact;
mod copy;
#[cfg(unix)]
mod documents;
mod expand;
mod export_as;
mod found;
#[cfg(unix)]
mod hostile;
mod mcp;
#[cfg(unix)]
mod mcp_install;
mod models;
#[cfg(unix)]
mod names;
#[cfg(unix)]
mod newcomer;
mod other_agents;
#[cfg(unix)]
mod owners;
#[cfg(unix)]
mod people;
#[cfg(target_os = "linux")]
mod private;
mod prune;
mod replay;
mod resume;
mod run;
#[cfg(unix)]
mod running;
#[cfg(unix)]
mod serve;
mod sessions;
mod story;
#[cfg(unix)]
mod surroundings;
#[cfg(unix)]
mod top;
mod transfer;
mod windows;
