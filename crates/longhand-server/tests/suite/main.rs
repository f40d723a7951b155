//! The tests of `longhand-server` from outside, in one binary so that they link once.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "these are tests")]

mod agents;
mod answers;
mod archive;
mod common;
mod compactions;
mod console;
mod cuts;
mod editions;
mod failure;
mod forgetting;
mod habits;
mod laws;
mod library;
mod mcp;
mod memory;
mod operations;
mod owners;
mod pass;
mod pauses;
mod pitfalls;
mod provider;
mod questions;
mod recall;
mod redaction;
mod replay;
mod seeded;
mod slow;
mod traces;
mod waiting;
mod window;
