//! See [`longhand_fuzz::stream`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhand_fuzz::stream(bytes));
