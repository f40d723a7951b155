//! The client and the summariser against a server that plays scripts.
#![allow(clippy::unwrap_used)]

mod breaker;
mod client;
mod common;
mod embedder;
mod secrets;
mod summariser;
