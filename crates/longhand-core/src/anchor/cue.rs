//! Words that hint at a statement, found in one pass.

use super::block::{BLOCK, bits, block_of, has};

/// The places in a text where a sentence may state something, in order.
pub(super) struct Cues<'t> {
    text: &'t str,
    at: usize,
    heads_only: bool,
    /// Where words begin, and question marks, in the block that ends at `next` and were not looked at yet.
    places: u64,
    next: usize,
}

/// The beginnings of phrases that make a sentence worth reading; none has fewer than four bytes.
#[rustfmt::skip]
const CUES: &[&str] = &[
    "agreed", "always", "answer", "at all times", "block", "cannot proceed", "can't proceed",
    "chose", "closed", "constraint", "decided", "decision", "do not ever", "don't ever",
    "from now on", "go with", "going forward", "going with", "must", "never", "no longer blocked",
    "open question", "opted for", "question:", "resolved", "rule:", "rules:", "settled on",
    "standing order", "stuck on", "unblocked", "under no circumstances", "unresolved",
];

impl<'t> Cues<'t> {
    /// Looks for cues and question marks, or for such cues only as open a line.
    pub(super) fn new(text: &'t str, heads_only: bool) -> Self {
        Self { text, at: 0, heads_only, places: 0, next: 0 }
    }

    /// Goes on from a place further on, where a word has ended.
    pub(super) fn skip_to(&mut self, at: usize) {
        self.at = self.at.max(at);
    }

    fn next_head(&mut self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let blank = bytes[self.at..].iter().take_while(|byte| is_head_mark(**byte)).count();
            let head = self.at + blank;
            self.at =
                memchr::memchr(b'\n', &bytes[head..]).map_or(bytes.len(), |end| head + end + 1);
            if is_cue(&bytes[head..]) {
                return Some(head);
            }
        }
        None
    }

    fn next_anywhere(&mut self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        loop {
            while self.places == 0 {
                self.next = self.next.max(self.at);
                if self.next >= bytes.len() {
                    return None;
                }
                self.load();
            }
            let at = self.next - BLOCK + self.places.trailing_zeros() as usize;
            self.places &= self.places - 1;
            let is_place =
                if bytes[at] == b'?' { ends_question(bytes, at) } else { is_cue(&bytes[at..]) };
            if is_place && at >= self.at {
                self.at = at + 1;
                return Some(at);
            }
        }
    }

    fn load(&mut self) {
        let bytes = self.text.as_bytes();
        let block = block_of(&bytes[self.next..]);
        let words = bits(&block, |byte| byte.is_ascii_alphanumeric());
        let before = self.next.checked_sub(1).is_some_and(|at| bytes[at].is_ascii_alphanumeric());
        let starts = words & !(words << 1 | u64::from(before));
        self.places = starts;
        if has(&block, b'?') {
            self.places |= bits(&block, |byte| byte == b'?');
        }
        self.next += BLOCK;
    }
}

fn is_head_mark(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"-*+>#_".contains(&byte)
}

impl Iterator for Cues<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.heads_only { self.next_head() } else { self.next_anywhere() }
    }
}

fn is_cue(rest: &[u8]) -> bool {
    let Some(head) = rest.first_chunk::<4>() else { return false };
    let slot = slot(*head);
    FILTER[slot / 64] & (1 << (slot % 64)) != 0
        && CUES.iter().any(|cue| {
            rest.get(..cue.len()).is_some_and(|start| start.eq_ignore_ascii_case(cue.as_bytes()))
        })
}

/// Whether the question mark at a place ends words, and not a term of a program.
fn ends_question(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    let after = bytes.get(at + 1);
    before
        .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"\"'`".contains(&byte))
        && after.is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`*_)?!".contains(byte))
}

const FILTER_BITS: usize = 1024;

/// One bit for the first four letters of each cue.
const FILTER: [u64; FILTER_BITS / 64] = {
    let mut filter = [0; FILTER_BITS / 64];
    let mut at = 0;
    while at < CUES.len() {
        let cue = CUES[at].as_bytes();
        let slot = slot([cue[0], cue[1], cue[2], cue[3]]);
        filter[slot / 64] |= 1 << (slot % 64);
        at += 1;
    }
    filter
};

const fn slot(head: [u8; 4]) -> usize {
    let letters = u32::from_le_bytes(head) | 0x2020_2020;
    (letters.wrapping_mul(0x9e37_79b1) >> 22) as usize
}
