//! How a vocabulary lies in a file; the build script writes it and [`Table`](super::table::Table) reads it.
//!
//! A token's hash names a bucket. `buckets` has the place in `tokens` where each bucket begins, and one
//! more for the end of the last. A bucket is a sequence of entries: the length in one byte, the rank in
//! three, the token. `pairs` has the rank of each token of two bytes. Numbers are little-endian.

/// The length of the longest token.
pub(crate) const TOKEN_BYTES_MAX: usize = 128;

/// The rank of a pair that is no token.
pub(crate) const NO_RANK: u32 = u32::MAX;

/// Hashes a token; the upper bits name its bucket.
#[inline]
pub(crate) fn hash(token: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let length = token.len() as u64;
    let state = length.wrapping_mul(0xA24B_AED4_963E_E407);
    // Words may overlap, which saves a loop over the last bytes.
    let state = match token {
        [] => state,
        [first, .., last] if token.len() < 4 => {
            let middle = u64::from(token[token.len() / 2]);
            mix(state, u64::from(*first) | middle << 8 | u64::from(*last) << 16)
        }
        [only] => mix(state, u64::from(*only)),
        _ if token.len() <= 8 => {
            let (head, tail) = (token.first_chunk::<4>(), token.last_chunk::<4>());
            let word =
                |bytes: Option<&[u8; 4]>| bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes));
            mix(state, u64::from(word(head)) | u64::from(word(tail)) << 32)
        }
        _ => {
            let (words, _) = token.as_chunks::<8>();
            let state =
                words.iter().fold(state, |state, word| mix(state, u64::from_le_bytes(*word)));
            mix(state, token.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word)))
        }
    };
    let state = state.wrapping_mul(FACTOR);
    state ^ state >> 32 ^ state << 32
}

/// What a character is to the patterns, as bits.
pub(crate) mod class {
    /// `\p{Lu}`, `\p{Lt}`, and letters without case.
    pub(crate) const UPPER: u8 = 1;
    /// `\p{Ll}`, and letters without case.
    pub(crate) const LOWER: u8 = 2;
    /// `\p{M}`.
    pub(crate) const MARK: u8 = 4;
    /// `\p{N}`.
    pub(crate) const NUMBER: u8 = 8;
    /// `\s`, line breaks included.
    pub(crate) const SPACE: u8 = 16;
    /// Anything else.
    pub(crate) const OTHER: u8 = 32;
}
