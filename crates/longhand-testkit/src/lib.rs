//! Transcript notation, generators, made-up sessions and a validator of requests for Longhand's tests.

pub mod arbitrary;
pub mod cluster;
#[cfg(feature = "storage")]
pub mod contract;
#[cfg(feature = "storage")]
pub mod faulty;
pub mod filler;
pub mod gate;
pub mod history;
mod json;
pub mod notation;
pub mod picture;
pub mod rng;
#[cfg(feature = "server")]
pub mod scripted;
pub mod session;
pub mod texts;
#[cfg(feature = "storage")]
pub mod two_writers;
pub mod validator;

pub use self::validator::{WireFormat, validate, validate_edit};
