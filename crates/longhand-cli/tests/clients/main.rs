//! The providers' own clients, from Python and Node, through the real binary.
//!
//! `cargo xtask test-clients` installs them and runs these tests; without it they say that they were
//! skipped.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod client;
mod facts;
mod features;
mod loops;
mod mcp;
mod model;
mod proxy;
