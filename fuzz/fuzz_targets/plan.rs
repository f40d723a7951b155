//! See [`longhand_fuzz::plan`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhand_fuzz::plan(bytes));
