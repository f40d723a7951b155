//! The tokens of a vocabulary, looked up where they lie.

use super::layout::{NO_RANK, hash};

/// A vocabulary in the form that the build script wrote.
pub(crate) struct Table {
    buckets: &'static [[u8; 4]],
    tokens: &'static [u8],
    pairs: &'static [[u8; 4]],
}

macro_rules! table {
    ($name:literal) => {
        Table {
            buckets: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".buckets")).as_chunks().0,
            tokens: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".tokens")),
            pairs: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".pairs")).as_chunks().0,
        }
    };
}

pub(crate) static O200K: Table = table!("o200k");
pub(crate) static CL100K: Table = table!("cl100k");

impl Table {
    /// The rank of a token, if it is one.
    #[inline]
    pub(crate) fn rank(&self, token: &[u8]) -> Option<u32> {
        let bits = (self.buckets.len() - 1).trailing_zeros();
        let bucket = (hash(token) >> (64 - bits)) as usize;
        let place = |bucket: usize| u32::from_le_bytes(self.buckets[bucket]) as usize;
        let mut entries = &self.tokens[place(bucket)..place(bucket + 1)];
        while let [length, low, middle, high, rest @ ..] = entries {
            let (found, after) = rest.split_at(usize::from(*length));
            if is_same(found, token) {
                return Some(u32::from_le_bytes([*low, *middle, *high, 0]));
            }
            entries = after;
        }
        None
    }

    /// The rank of a token of two bytes.
    #[inline]
    pub(crate) fn pair_rank(&self, first: u8, second: u8) -> u32 {
        u32::from_le_bytes(self.pairs[usize::from(first) << 8 | usize::from(second)])
    }

    /// The rank of a token, or [`NO_RANK`].
    #[inline]
    pub(crate) fn rank_or_none(&self, token: &[u8]) -> u32 {
        match *token {
            [first, second] => self.pair_rank(first, second),
            _ => self.rank(token).unwrap_or(NO_RANK),
        }
    }
}

/// Compares short texts without a call.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match one.len() {
            0 => true,
            1..4 => {
                let middle = one.len() / 2;
                one.first() == other.first()
                    && one[middle] == other[middle]
                    && one.last() == other.last()
            }
            4..8 => {
                one.first_chunk::<4>() == other.first_chunk::<4>()
                    && one.last_chunk::<4>() == other.last_chunk::<4>()
            }
            8..=16 => {
                one.first_chunk::<8>() == other.first_chunk::<8>()
                    && one.last_chunk::<8>() == other.last_chunk::<8>()
            }
            _ => one == other,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_its_rank() {
        for (table, name) in [(&O200K, "o200k_base"), (&CL100K, "cl100k_base")] {
            let encoding = tiktoken::get_encoding(name).unwrap();
            for rank in 0..encoding.vocab_size() as u32 {
                let token = encoding.decode(&[rank]);
                assert_eq!(table.rank(&token), Some(rank), "{token:?}");
                assert_eq!(table.rank_or_none(&token), rank, "{token:?}");
            }
            for text in ["<|endoftext|>", "", "qqqqqqq", "\u{1}\u{2}\u{3}"] {
                assert_eq!(table.rank(text.as_bytes()), None, "{text:?}");
            }
        }
    }
}
