//! See [`longhand_fuzz::session`].
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| longhand_fuzz::session(bytes));

fuzz_mutator!(|buffer: &mut [u8], size: usize, size_max: usize, seed: u32| {
    longhand_fuzz::mutate(buffer, 1, size, seed)
        .unwrap_or_else(|| fuzzer_mutate(buffer, size, size_max))
});
