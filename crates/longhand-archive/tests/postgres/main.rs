//! Archives on a real PostgreSQL: the contract of every storage, directly and through a pooler, and what only many nodes do.
//!
//! `cargo xtask test-postgres` runs them. They start a server of their own; where none can be had, they say so and pass,
//! unless `LONGHAND_POSTGRES=required` asks for it.

#![expect(clippy::unwrap_used, reason = "all of it is tests")]

mod bench;
mod cluster;
mod command;
mod contract;
mod faults;
mod large;
mod nodes;
mod plans;
mod requests;
mod roles;
mod same;
mod schema;
mod server;
mod wire;
