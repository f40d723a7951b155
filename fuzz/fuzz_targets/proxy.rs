//! See [`longhand_fuzz::proxy`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| longhand_fuzz::proxy(bytes));

fuzz_mutator!(|buffer: &mut [u8], size: usize, size_max: usize, seed: u32| {
    let start = longhand_fuzz::body_start(&buffer[..size]);
    longhand_fuzz::mutate(buffer, start, size, seed)
        .unwrap_or_else(|| fuzzer_mutate(buffer, size, size_max))
});
