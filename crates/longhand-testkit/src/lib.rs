//! Transcript notation, generators and made-up sessions for Longhand's tests.

pub mod arbitrary;
pub mod filler;
pub mod history;
mod json;
pub mod notation;
pub mod rng;
pub mod session;
