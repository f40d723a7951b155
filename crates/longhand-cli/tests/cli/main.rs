//! The `longhand` binary, end to end: what a user types, what comes back.
#![allow(clippy::unwrap_used)]

mod archive;
mod bad_input;
#[cfg(unix)]
mod chat;
mod compact;
mod expand;
mod found;
mod models;
mod run;
#[cfg(unix)]
mod serve;
mod sessions;
mod story;
mod windows;
