//! The terms of a text for the index: its words, each once.

use longhand_core::cut;

use crate::words::{fold, words};

/// Longer words are cut to this length.
pub(crate) const TERM_BYTES_MAX: usize = 64;

/// A word as the index knows it.
pub(crate) fn term(word: &str) -> &str {
    cut::head(word, TERM_BYTES_MAX)
}

/// Returns `before`, then the terms of a text with a space before each.
pub(crate) fn terms(before: &str, text: &str) -> String {
    let mut terms = Terms::new(before, text.len());
    if text.is_ascii() {
        terms.add_ascii(text);
    } else {
        for (_, word) in words(&fold(text)) {
            terms.add(&Word::of(term(word)));
        }
    }
    String::from_utf8(terms.joined).unwrap_or_default()
}

/// Letters and digits of ASCII, the letters small; 0 for all else.
const SMALL: [u8; 256] = {
    let mut small = [0; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            small[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    small
};

/// Terms side by side, and a table of where each is. Most words of a text are there already, so they are
/// looked up before anything is copied.
struct Terms {
    joined: Vec<u8>,
    /// Open addressing: a term is in the first free slot from the one that its hash names.
    slots: Vec<Slot>,
    count: usize,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    start: usize,
    /// 0 if the slot is free.
    length: usize,
}

/// The hash of a word that has zeros after it, up to a multiple of eight bytes.
fn hash(padded: &[u8]) -> u64 {
    let (pieces, _) = padded.as_chunks();
    let mixed = pieces.iter().fold(0, |hash: u64, piece| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*piece)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    // The highest bits are the best mixed.
    mixed ^ (mixed >> 32)
}

/// A word in small letters, with zeros after it.
struct Word {
    bytes: [u8; TERM_BYTES_MAX],
    length: usize,
}

impl Word {
    fn of(word: &str) -> Self {
        let mut bytes = [0; TERM_BYTES_MAX];
        bytes[..word.len()].copy_from_slice(word.as_bytes());
        Self { bytes, length: word.len() }
    }

    fn push(&mut self, byte: u8) {
        if self.length < TERM_BYTES_MAX {
            self.bytes[self.length] = byte;
            self.length += 1;
        }
    }

    fn hash(&self) -> u64 {
        hash(&self.bytes[..self.length.next_multiple_of(8)])
    }

    fn clear(&mut self) {
        self.bytes[..self.length].fill(0);
        self.length = 0;
    }
}

impl Terms {
    fn new(before: &str, text_bytes: usize) -> Self {
        let mut joined = Vec::with_capacity(before.len() + text_bytes / 2);
        joined.extend_from_slice(before.as_bytes());
        // Room for a word every sixteen bytes, in a table that is half full.
        let slots = (text_bytes / 8).next_power_of_two().max(16);
        Self { joined, slots: vec![Slot::default(); slots], count: 0 }
    }

    /// Adds the words of a text that is ASCII.
    fn add_ascii(&mut self, text: &str) {
        let mut word = Word::of("");
        for byte in text.bytes() {
            match SMALL[usize::from(byte)] {
                0 if word.length == 0 => {}
                0 => {
                    self.add(&word);
                    word.clear();
                }
                small => word.push(small),
            }
        }
        if word.length > 0 {
            self.add(&word);
        }
    }

    /// Adds a word unless it is there.
    fn add(&mut self, word: &Word) {
        let hash = word.hash();
        let letters = &word.bytes[..word.length];
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.length == 0 {
                break;
            }
            if slot.hash == hash
                && self.joined.get(slot.start..slot.start + slot.length) == Some(letters)
            {
                return;
            }
            at = (at + 1) & mask;
        }
        self.joined.push(b' ');
        self.slots[at] = Slot { hash, start: self.joined.len(), length: letters.len() };
        self.joined.extend_from_slice(letters);
        self.count += 1;
        if self.count * 2 > self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let larger = vec![Slot::default(); self.slots.len() * 2];
        let mask = larger.len() - 1;
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot.length > 0 {
                let mut at = slot.hash as usize & mask;
                while self.slots[at].length > 0 {
                    at = (at + 1) & mask;
                }
                self.slots[at] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word of the folded text, the first time that it comes.
    fn plainly(text: &str) -> String {
        let folded = fold(text);
        let mut known: Vec<&str> = Vec::new();
        for (_, word) in words(&folded) {
            if !known.contains(&term(word)) {
                known.push(term(word));
            }
        }
        known.iter().map(|term| format!(" {term}")).collect()
    }

    #[test]
    fn words_come_once_in_small_letters() {
        assert_eq!(terms("m", "The cat. the CAT2 cat"), "m the cat cat2");
        assert_eq!(terms("", "Café cafe CAF\u{e9} x"), " cafe x");
        assert_eq!(terms("m", " .- \n"), "m");
        let long = "A".repeat(TERM_BYTES_MAX + 9);
        assert_eq!(
            terms("", &format!("{long} {long}b")),
            format!(" {}", "a".repeat(TERM_BYTES_MAX))
        );
    }

    #[test]
    fn many_words_find_room() {
        let text: String = (0..5_000).map(|word| format!("w{} ", word % 4_000)).collect();
        assert_eq!(terms("", &text), plainly(&text));
        assert_eq!(terms("", "").len(), 0);
    }

    proptest::proptest! {
        #[test]
        fn ascii_has_the_terms_that_any_text_has(text in "[a-cA-C0-1 ._\n-]{0,200}") {
            proptest::prop_assert_eq!(terms("", &text), plainly(&text));
            let beyond = format!("{text} \u{e9}");
            proptest::prop_assert_eq!(terms("", &beyond), plainly(&beyond));
        }
    }
}
