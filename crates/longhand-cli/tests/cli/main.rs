//! The `longhand` binary, end to end: what a user types, what comes back.
#![allow(clippy::unwrap_used)]

mod archive;
mod bad_input;
#[cfg(unix)]
mod chat;
mod compact;
#[cfg(unix)]
mod documents;
mod expand;
mod found;
mod models;
#[cfg(unix)]
mod owners;
#[cfg(unix)]
mod people;
mod replay;
mod run;
#[cfg(unix)]
mod running;
#[cfg(unix)]
mod serve;
mod sessions;
mod story;
#[cfg(unix)]
mod surroundings;
mod windows;
