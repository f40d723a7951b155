//! The tests of `longhand-dialect` from outside, in one binary so that they link once.
#![allow(clippy::unwrap_used, clippy::cast_possible_wrap, reason = "these are tests")]

mod behaviour;
mod bytes;
mod clear;
mod common;
mod damaged;
mod entering;
mod fold;
mod formats;
mod found;
mod growing;
mod json_mode;
mod judge;
mod laws;
mod marks;
mod parts;
mod project;
mod repair;
mod rich;
mod session_files;
mod texts;
mod thinking;
mod traces;
mod turns;
mod wire;
