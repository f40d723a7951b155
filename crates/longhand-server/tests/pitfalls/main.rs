//! What has gone wrong in proxies, case by case; each test is named after the case's number.
#![allow(clippy::unwrap_used)]

mod bytes;
mod cache;
#[path = "../common/mod.rs"]
mod common;
mod counting;
mod hostile;
mod keeping;
mod lineage;
mod overflow;
mod pairing;
mod recall;
mod secrets;
mod streams;
mod undo;
