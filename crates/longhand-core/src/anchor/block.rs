//! Blocks of 64 bytes, with a bit for each: most of a text is passed over without a look at its bytes.

/// The bytes of a block.
pub(super) const BLOCK: usize = 64;

/// The first block of a text; what is beyond its end is 0.
pub(super) fn block_of(bytes: &[u8]) -> [u8; BLOCK] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut block = [0; BLOCK];
        block[..bytes.len()].copy_from_slice(bytes);
        block
    })
}

/// A bit for each byte of which something holds.
#[inline]
pub(super) fn bits(block: &[u8; BLOCK], holds: impl Fn(u8) -> bool) -> u64 {
    gathered(&block.map(|byte| u8::from(holds(byte))), 0)
}

/// A bit for each byte of which one thing holds, and for each of which another does.
#[inline]
pub(super) fn bit_pairs(
    block: &[u8; BLOCK],
    one: impl Fn(u8) -> bool,
    other: impl Fn(u8) -> bool,
) -> [u64; 2] {
    let flags = block.map(|byte| u8::from(one(byte)) | u8::from(other(byte)) << 1);
    [gathered(&flags, 0), gathered(&flags, 1)]
}

/// Whether a block has a byte.
#[inline]
pub(super) fn has(block: &[u8; BLOCK], byte: u8) -> bool {
    // Without an early end, the compiler looks at many bytes at once.
    block.iter().fold(0, |found, other| found | u8::from(*other == byte)) != 0
}

/// One of the bits of each byte.
#[inline]
fn gathered(flags: &[u8; BLOCK], bit: u32) -> u64 {
    // Each of eight bytes that are 0 or 1 moves to its place in the highest.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    const LOWEST: u64 = 0x0101_0101_0101_0101;
    let (eights, _) = flags.as_chunks::<8>();
    let eights = eights.iter().zip((0..64).step_by(8));
    eights.fold(0, |bits, (eight, at)| {
        let eight = u64::from_le_bytes(*eight) >> bit & LOWEST;
        bits | (eight.wrapping_mul(GATHER) >> 56) << at
    })
}
