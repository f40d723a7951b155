//! Short stable addresses of archived content.

use std::fmt;

use twox_hash::XxHash3_128;

/// The address of content that a window left out; the same content has the same address.
///
/// Sixty bits of a hash, in letters and digits that nobody mixes up. So few bits keep no attacker from
/// making two contents with one address, however strong the hash: whoever stores content under a handle
/// checks that it is the same content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle([u8; 12]);

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl Handle {
    /// Names the content that `pieces` joined make.
    pub fn of<'p>(pieces: impl IntoIterator<Item = &'p str>) -> Self {
        let mut hasher = XxHash3_128::with_seed(0);
        for piece in pieces {
            hasher.write(piece.as_bytes());
        }
        Self::from_hash(hasher.finish_128())
    }

    /// Names a set of contents by the sum of their [`content_hash`]es.
    ///
    /// A fold grows by new entries whose bytes are at hand, while its old ones stay in the archive: a sum
    /// can be added to without them.
    pub fn of_sum(sum: u128) -> Self {
        Self::from_hash(XxHash3_128::oneshot(&sum.to_le_bytes()))
    }

    fn from_hash(hash: u128) -> Self {
        let mut bits = (hash >> 64) as u64;
        let mut name = [0; 12];
        for letter in &mut name {
            *letter = ALPHABET[(bits >> 59) as usize];
            bits <<= 5;
        }
        Self(name)
    }

    /// Reads a handle as a person or a model would quote it, with or without `h:`.
    pub fn parse(quoted: &str) -> Option<Self> {
        let name = quoted.trim().strip_prefix("h:").unwrap_or(quoted.trim()).to_ascii_lowercase();
        let name: [u8; 12] = name.as_bytes().try_into().ok()?;
        name.iter().all(|letter| ALPHABET.contains(letter)).then_some(Self(name))
    }
}

/// The hash of one content, to be added to the sum of a fold.
pub fn content_hash(content: &str) -> u128 {
    XxHash3_128::oneshot(content.as_bytes())
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("h:")?;
        self.0.iter().try_for_each(|&letter| fmt::Write::write_char(f, letter as char))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_has_the_same_handle() {
        let handle = Handle::of(["one ", "two"]);
        assert_eq!(handle, Handle::of(["one two"]));
        assert_ne!(handle, Handle::of(["one two "]));
        assert_eq!(Handle::parse(&handle.to_string()), Some(handle));
        assert_eq!(Handle::parse(&handle.to_string()[2..].to_uppercase()), Some(handle));
        for bad in ["", "h:", "h:../../x", "h:il0000000000", "h:0000000000000"] {
            assert_eq!(Handle::parse(bad), None, "{bad}");
        }
    }
}
