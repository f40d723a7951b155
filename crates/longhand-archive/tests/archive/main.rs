//! Archives from outside: what each promises, and what happens when the world does its worst.

#![expect(clippy::unwrap_used, reason = "all of it is tests")]

mod backup;
mod common;
mod contract;
mod crash;
mod faults;
mod files;
mod frozen;
mod model;
mod money;
#[cfg(target_os = "linux")]
mod power;
mod removal;
mod replaced;
mod search;
mod sharing;
mod size;
mod writers;
