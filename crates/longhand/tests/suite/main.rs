//! The tests of `longhand` from outside, in one binary so that they link once.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "these are tests")]

mod app;
mod background;
mod behaviour;
mod copy;
mod digest;
mod drivers;
mod examples;
mod fold;
mod golden;
mod memory;
mod regret;
mod replay;
mod size;
mod texts;
mod transfer;
mod windows;
