//! The tests of `longhand-summary` from outside.
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod laws;
mod texts;
