#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| longhand_fuzz::anthropic(bytes));
