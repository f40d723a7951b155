//! The text of a name, kept where it is compared: a look at another place in memory for each of thousands of names
//! took longer than all else.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The bytes of a name that has no memory of its own.
const SHORT_BYTES_MAX: usize = 22;

/// The text of a name.
#[derive(Clone)]
pub(super) enum NameText {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Box<str>),
}

impl NameText {
    fn as_bytes(&self) -> &[u8] {
        match self {
            NameText::Short { length, bytes } => &bytes[..usize::from(*length)],
            NameText::Long(text) => text.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            NameText::Short { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            NameText::Long(text) => text,
        }
    }
}

impl From<&str> for NameText {
    fn from(text: &str) -> Self {
        match u8::try_from(text.len()) {
            Ok(length) if text.len() <= SHORT_BYTES_MAX => {
                let mut bytes = [0; SHORT_BYTES_MAX];
                bytes[..text.len()].copy_from_slice(text.as_bytes());
                NameText::Short { length, bytes }
            }
            _ => NameText::Long(text.into()),
        }
    }
}

impl Borrow<[u8]> for NameText {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for NameText {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for NameText {}

impl Hash for NameText {
    /// As slices are hashed, which names are looked up by.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;

    #[test]
    fn a_name_of_any_length_is_found_by_its_text() {
        let texts = ["", "a", "größe_max", "a_name_of_22_bytes_abc", "a_name_of_23_bytes_abcd"];
        let names: FxHashMap<NameText, usize> =
            texts.iter().enumerate().map(|(at, text)| (NameText::from(*text), at)).collect();
        for (at, text) in texts.iter().enumerate() {
            assert_eq!(names.get(text.as_bytes()), Some(&at), "{text}");
            assert_eq!(NameText::from(*text).as_str(), *text);
        }
        assert_eq!(size_of::<NameText>(), 24);
    }
}
