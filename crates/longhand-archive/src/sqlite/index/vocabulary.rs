//! The words of a segment, one after the other, so that all of them are looked through at once.

use longhand_recall::is_opaque;

use super::block::BLOCK_BYTES_MAX;

/// What ends a word.
const END: u8 = b'\n';

/// Gathers words in blocks.
#[derive(Debug, Default)]
pub(super) struct VocabularyWriter {
    pub(super) full: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl VocabularyWriter {
    /// Adds a term if parts of it are to be found.
    pub(super) fn add(&mut self, term: &[u8]) {
        if !str::from_utf8(term).is_ok_and(|term| !is_opaque(term)) {
            return;
        }
        if self.current.len() + term.len() + 1 > BLOCK_BYTES_MAX {
            self.finish_block();
        }
        self.current.extend_from_slice(term);
        self.current.push(END);
    }

    pub(super) fn finish_block(&mut self) {
        if !self.current.is_empty() {
            self.full.push(std::mem::take(&mut self.current));
        }
    }
}

/// The first word of a block.
pub(super) fn first(words: &[u8]) -> &[u8] {
    &words[..word_at(words, 0).1]
}

/// All words of a block.
pub(super) fn words(words: &[u8]) -> impl Iterator<Item = &[u8]> {
    words.split(|byte| *byte == END).filter(|word| !word.is_empty())
}

/// Where the word around a place begins and ends.
pub(super) fn word_at(words: &[u8], at: usize) -> (usize, usize) {
    let start = memchr::memrchr(END, &words[..at]).map_or(0, |end| end + 1);
    let end = memchr::memchr(END, &words[at..]).map_or(words.len(), |end| at + end);
    (start, end)
}

/// The block without a word; `None` if it does not have it.
pub(super) fn without(words: &[u8], word: &[u8]) -> Option<Vec<u8>> {
    let mut rest: Vec<u8> = Vec::with_capacity(words.len());
    let mut has = false;
    for line in words.split_inclusive(|byte| *byte == END) {
        if line.strip_suffix(&[END]) == Some(word) {
            has = true;
        } else {
            rest.extend_from_slice(line);
        }
    }
    has.then_some(rest)
}
