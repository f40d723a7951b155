//! Texts as they are stored: compressed where that makes them shorter.
//!
//! Each is compressed alone. Blocks of neighbours would take a third less, but every reader would have to find and
//! unpack a block for one message, a damaged byte would cost thirty messages, and blocks can only be made afterwards,
//! which writes everything twice. What most messages have in common is in a dictionary, which saves an eighth. It is
//! made by hand of the field names of the formats: one made of an archive's own texts would repeat words of sessions
//! that were removed.

use std::cell::RefCell;
use std::sync::LazyLock;

use zstd::bulk::{Compressor, Decompressor};

use zstd::dict::{DecoderDictionary, EncoderDictionary};

use crate::number::{push_number, take_number};

/// How the rest is to be read.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Level 3 saves another thirtieth of recorded messages, and takes a fifth more time.
const LEVEL: i32 = 1;
/// Shorter texts do not get any shorter.
const PACKED_MIN: usize = 64;
/// SQLite stores no longer value.
const BYTES_MAX: u64 = 1_000_000_000;

/// It belongs to the format: what was packed with it cannot be read without it, or with another one.
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

static PACKING: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static UNPACKING: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Returns bytes as they are to be stored.
pub(crate) fn pack(plain: &[u8]) -> Vec<u8> {
    if plain.len() >= PACKED_MIN
        && let Some(packed) = compressed(plain)
        && packed.len() < plain.len()
    {
        return packed;
    }
    [&[PLAIN], plain].concat()
}

fn compressed(plain: &[u8]) -> Option<Vec<u8>> {
    PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => none.insert(new_packer()?),
        };
        let mut stored = vec![ZSTD];
        push_number(&mut stored, plain.len() as u64);
        stored.extend(packer.compress(plain).ok()?);
        Some(stored)
    })
}

fn new_packer() -> Option<Compressor<'static>> {
    let mut packer = Compressor::with_prepared_dictionary(&PACKING).ok()?;
    // The length is stored before the frame, and what is stored has checksums of its own.
    packer.include_contentsize(false).ok()?;
    packer.include_dictid(false).ok()?;
    Some(packer)
}

/// Returns the bytes that were stored; `None` if they cannot be told.
///
/// Never takes more memory than the length that was stored with them, which is bounded.
pub(crate) fn unpack(stored: &[u8]) -> Option<Vec<u8>> {
    match stored.split_first()? {
        (&PLAIN, plain) => Some(plain.to_vec()),
        (&ZSTD, mut frame) => {
            let length = take_number(&mut frame).filter(|length| *length <= BYTES_MAX)?;
            let length = usize::try_from(length).ok()?;
            let mut plain = Vec::new();
            plain.try_reserve_exact(length).ok()?;
            UNPACKER.with_borrow_mut(|unpacker| {
                let unpacker = match unpacker {
                    Some(unpacker) => unpacker,
                    none => none.insert(Decompressor::with_prepared_dictionary(&UNPACKING).ok()?),
                };
                unpacker.decompress_to_buffer(frame, &mut plain).ok()
            })?;
            (plain.len() == length).then_some(plain)
        }
        _ => None,
    }
}

/// Returns the text that was stored; `None` if it cannot be told.
pub(crate) fn unpack_text(stored: &[u8]) -> Option<String> {
    String::from_utf8(unpack(stored)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_comes_back(text in "(.{0,40}|(ab ){0,200})") {
            let stored = pack(text.as_bytes());
            prop_assert_eq!(unpack_text(&stored), Some(text.clone()));
            prop_assert!(stored.len() <= text.len() + 1);
        }

        #[test]
        fn any_bytes_are_unpacked_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
            let _ = unpack(&bytes);
            let _ = unpack(&[&[ZSTD], &bytes[..]].concat());
        }
    }

    /// Every file of the format needs it as it is.
    #[test]
    fn the_dictionary_is_frozen() {
        let hash = blake3::hash(DICTIONARY).to_hex();
        assert_eq!(&hash[..16], "4ff48ee87a055497");
        let message = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_7","type":"function","function":{"name":"run","arguments":"{}"}}]}"#;
        assert!(pack(message.as_bytes()).len() < 50);
    }

    #[test]
    fn what_cannot_be_compressed_stays_as_it_is() {
        let noise: Vec<u8> =
            (0_u32..100).flat_map(|n| *blake3::hash(&n.to_le_bytes()).as_bytes()).collect();
        assert_eq!(pack(&noise), [&[PLAIN], &noise[..]].concat());
    }

    /// A frame of a few bytes can stand for gigabytes.
    #[test]
    fn nothing_unpacks_to_more_than_it_says() {
        let zeros = vec![0; 64 << 20];
        let stored = pack(&zeros);
        assert!(stored.len() < 8_192, "{}", stored.len());
        let mut frame = &stored[1..];
        assert_eq!(take_number(&mut frame), Some(64 << 20));
        for claimed in [0, 1_000, (64 << 20) - 1, (64 << 20) + 1, BYTES_MAX + 1, u64::MAX] {
            let mut hostile = vec![ZSTD];
            push_number(&mut hostile, claimed);
            hostile.extend_from_slice(frame);
            assert_eq!(unpack(&hostile), None, "{claimed}");
        }
        assert_eq!(unpack(&stored).map(|plain| plain.len()), Some(64 << 20));
        assert_eq!(unpack(&stored[..stored.len() - 1]), None);
    }
}
