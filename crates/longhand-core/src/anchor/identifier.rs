//! Strings that name something: what a model must spell right to use it again.

use super::block::{BLOCK, bit_pairs, bits, block_of, has};
use crate::Handle;

/// The fewest and the most bytes of an identifier.
const BYTES_MIN: usize = 3;
const BYTES_MAX: usize = 120;

/// The fewest digits of a number that may be an id.
const NUMBER_BYTES_MIN: usize = 6;

/// The identifiers of a text, repeats included: runs of letters, digits and `_./:@#-` with a digit or a mark inside.
pub fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    runs(text).filter_map(|run| run.name())
}

/// What may be an identifier, with the marks around it.
#[derive(Clone, Copy, Debug)]
pub struct IdentifierRun<'t> {
    /// As it stands in the text.
    pub text: &'t str,
    before: Option<u8>,
}

impl<'t> IdentifierRun<'t> {
    /// The identifier in it.
    pub fn name(&self) -> Option<&'t str> {
        // Most runs that are no names are numbers; a long number may be an id.
        if self.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return (self.text.len() >= NUMBER_BYTES_MIN).then_some(self.text);
        }
        let name = trimmed(without_prefix(self.text, self.before));
        is_name(name).then_some(name)
    }

    /// Whether the same run has the same name wherever it stands: no terminal or search put a number before it.
    #[inline]
    pub fn is_free(&self) -> bool {
        !self.text.as_bytes().first().is_some_and(u8::is_ascii_digit)
    }
}

/// The runs of a text in which [`identifiers`] looks for names, repeats included.
#[inline]
pub fn runs(text: &str) -> impl Iterator<Item = IdentifierRun<'_>> {
    let bytes = text.as_bytes();
    Runs::of(bytes).filter_map(move |(start, end)| {
        if !(BYTES_MIN..=BYTES_MAX).contains(&(end - start)) {
            return None;
        }
        // A key of JSON names no thing.
        let is_key = bytes[end..].starts_with(b"\":") || bytes[end..].starts_with(b"\\\":");
        // Nor does the tag of an element.
        let is_tag =
            start > 0 && bytes[start - 1] == b'<' && matches!(bytes.get(end), Some(b'>' | b' '));
        if is_key || is_tag {
            return None;
        }
        Some(IdentifierRun {
            text: &text[start..end],
            before: start.checked_sub(1).map(|at| bytes[at]),
        })
    })
}

/// Where runs of letters, digits and marks begin and end that have a digit or a mark in them.
///
/// It looks at blocks of 64 bytes, with a bit for each: most words are all letters, and are passed over
/// without a look at their bytes.
struct Runs<'t> {
    bytes: &'t [u8],
    /// Where the block begins.
    base: usize,
    /// Where the next block begins.
    next: usize,
    /// The bytes of the block that runs have.
    run: u64,
    /// Those among them that are digits or marks and were not looked at yet.
    telling: u64,
}

impl<'t> Runs<'t> {
    fn of(bytes: &'t [u8]) -> Self {
        Self { bytes, base: 0, next: 0, run: 0, telling: 0 }
    }

    fn load(&mut self) {
        let rest = &self.bytes[self.next..];
        let block = block_of(rest);
        self.base = self.next;
        self.next += BLOCK;
        [self.run, self.telling] = bit_pairs(&block, is_of_run, is_telling);
        if has(&block, b'\\') {
            self.leave_out_escapes(&block);
        }
        // A run that may go on belongs to the next block, unless it is all that there is.
        let cut = self.run.leading_ones() as usize;
        if (1..BLOCK).contains(&cut) && rest.len() >= BLOCK {
            self.next = self.base + BLOCK - cut;
            self.telling &= u64::MAX >> cut;
        }
    }
}

impl Runs<'_> {
    /// A run as long as a block or longer, if it has a digit or a mark: rare enough to be walked through.
    #[cold]
    fn long_run(&mut self) -> Option<(usize, usize)> {
        let rest = self.bytes[self.next..].iter();
        self.next += rest.take_while(|byte| is_of_run(**byte)).count();
        self.telling = 0;
        let has_telling = self.bytes[self.base..self.next].iter().any(|byte| is_telling(*byte));
        has_telling.then_some((self.base, self.next))
    }

    /// Leaves out the letter of an escape such as `\n`, which is not the first letter of a word.
    #[cold]
    fn leave_out_escapes(&mut self, block: &[u8; BLOCK]) {
        let mut slashes = bits(block, |byte| byte == b'\\');
        while slashes != 0 {
            let at = slashes.trailing_zeros();
            let pair = 0b11 << at;
            self.run &= !pair;
            self.telling &= !pair;
            slashes &= !pair;
            self.next += usize::from(at as usize + 1 == BLOCK);
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.telling == 0 {
            if self.next >= self.bytes.len() {
                return None;
            }
            self.load();
            if self.run == u64::MAX
                && let Some(run) = self.long_run()
            {
                return Some(run);
            }
        }
        let at = self.telling.trailing_zeros();
        let start = at + 1 - (self.run << (63 - at)).leading_ones();
        let end = at + (self.run >> at).trailing_ones();
        self.telling &= u64::MAX.checked_shl(end).unwrap_or(0);
        Some((self.base + start as usize, self.base + end as usize))
    }
}

/// Whether a byte may be part of a name: a letter, a digit or one of `_./:@#-`.
fn is_of_run(byte: u8) -> bool {
    // `:` follows the digits.
    byte.wrapping_sub(b'-') <= b':' - b'-'
        || (byte | 0x20).wrapping_sub(b'a') < 26
        || matches!(byte, b'_' | b'@' | b'#')
}

/// Whether a byte tells a name from a word: a digit or one of `_./-`.
fn is_telling(byte: u8) -> bool {
    // `-./` and the digits follow each other.
    byte.wrapping_sub(b'-') <= b'9' - b'-' || byte == b'_'
}

/// A run without what a terminal or a search put before it: `2mCompacted` after `[`, `24:import`.
fn without_prefix(run: &str, before: Option<u8>) -> &str {
    let rest = run.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == run.len() {
        return run;
    }
    let colour = rest.strip_prefix('m').filter(|_| matches!(before, Some(b'[' | b';')));
    let searched = rest.strip_prefix(':').filter(|rest| rest.starts_with(char::is_alphabetic));
    colour.or(searched).unwrap_or(run)
}

/// A run without the marks around it that belong to the sentence.
///
/// What a path, an id, a selector, an atom or an option begins with is part of its name (`/etc`, `#12`,
/// `.badge`, `:ok`, `--oneline`), and so is the slash at the end of a folder.
fn trimmed(run: &str) -> &str {
    if run
        .strip_prefix("--")
        .is_some_and(|option| option.starts_with(|c: char| c.is_ascii_lowercase()))
    {
        return run.trim_end_matches(['.', ':', '-', '#', '@', '/']);
    }
    let bytes = run.as_bytes();
    let is_edge = |byte: &&u8| matches!(byte, b'.' | b':' | b'-' | b'#' | b'@' | b'/');
    let rest = run.len() - bytes.iter().rev().take_while(is_edge).count();
    let start = bytes[..rest].iter().take_while(is_edge).count();
    if start == rest {
        return "";
    }
    let end = rest + usize::from(bytes.get(rest) == Some(&b'/'));
    let keeps_mark = start > 0 && bytes[start - 1] != b'-';
    // `::` and `..` lead from one name to another.
    let is_single = keeps_mark && (start < 2 || bytes[start - 1] != bytes[start - 2]);
    &run[start - usize::from(is_single)..end]
}

/// Whether a run names something, and is no number or duration.
fn is_name(run: &str) -> bool {
    // A method of something: `.map_err`.
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    if run.strip_prefix('.').is_some_and(|method| method.bytes().all(is_plain)) {
        return false;
    }
    // A mark in front makes no name of a word: `:ok`.
    let run = run.strip_prefix(['.', ':']).unwrap_or(run);
    if run.len() < 5 {
        // Short ids: `g-7`, `#12`.
        let mark = run.bytes().position(|byte| matches!(byte, b'-' | b'#'));
        let (head, number) = run.split_at(mark.unwrap_or(run.len()));
        return number.len() > 1
            && number[1..].bytes().any(|byte| byte.is_ascii_digit())
            && number[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
            && head.bytes().all(|byte| byte.is_ascii_alphabetic())
            && (!head.is_empty() || number.starts_with('#'));
    }
    // A handle of ours opens something, and names nothing.
    if run.starts_with("h:") && Handle::parse(run).is_some() {
        return false;
    }
    // A colour.
    if let Some(colour) = run.strip_prefix('#')
        && matches!(colour.len(), 6 | 8)
        && colour.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return true;
    }
    // A link to a heading: `#quick-start`.
    if run.starts_with('#') && !run.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    // What may be done with a file: `drwxr-xr-x`.
    if matches!(run.as_bytes()[0], b'd' | b'r' | b'-')
        && run.bytes().all(|byte| b"drwx-".contains(&byte))
    {
        return false;
    }
    let (mut letters, mut digits) = (0, 0);
    for byte in run.bytes() {
        letters += usize::from(byte.is_ascii_alphabetic());
        digits += usize::from(byte.is_ascii_digit());
    }
    if letters == 0 && is_date(run) {
        return true;
    }
    if letters == 0 {
        return digits == run.len() && digits >= NUMBER_BYTES_MIN;
    }
    let marks = run.len() - letters - digits;
    if digits == 0 {
        return marks > 0;
    }
    // The hash of a commit.
    if marks == 0 && run.len() >= 7 {
        return run.bytes().all(|byte| byte.is_ascii_hexdigit()) || letters > 2;
    }
    // `1.8s`, `75ms`, `0.75rem`, `2026-01-02T10:00:00Z`, `v0.9.1`.
    let unit = run.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_figure = unit.len() < run.len() && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_figure {
        return false;
    }
    letters > 2 || (run.starts_with(|c: char| c.is_ascii_alphabetic()) && !run.starts_with('v'))
}

/// `2026-05-12`: bookings and appointments are told apart by such.
fn is_date(run: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| {
        if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() }
    };
    run.len() == 10 && run.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn names_are_told_from_numbers() {
        let text = "see src/wheel.rs:40, TW-659 (commit 3785c574) in 1.8s, 75ms, 0.75rem, v0.9.1 at \
                    2026-01-02; max_retries, 128 bits, /etc/hosts. 1234567 and 12345, g-7, #12, a-b, 3-4 {\"in_json\":1} \\tin_tab <a-tag></a-tag>";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(
            found,
            [
                "src/wheel.rs:40",
                "TW-659",
                "3785c574",
                "2026-01-02",
                "max_retries",
                "/etc/hosts",
                "1234567",
                "g-7",
                "#12",
                "in_tab"
            ]
        );
    }

    #[test]
    fn options_and_colours_are_names() {
        let text = "git log --oneline, --from-main: #2E3440; ---- -- --- #80808 --Strict";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(found, ["--oneline", "--from-main", "#2E3440"]);
    }

    #[test]
    fn methods_and_links_to_headings_name_nothing() {
        let text = "x.map_err(.ok_or) [start](#quick-start) .badge-new .credo.exs #12";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(found, ["x.map_err", ".badge-new", ".credo.exs", "#12"]);
    }

    #[test]
    fn what_terminals_and_searches_add_is_left_out() {
        let text = "\u{1b}[2mCompacted\u{1b}[38;5;68mbatch_processor 24:import 57:read_all drwxr-xr-x -rw-r--r-- 2mmm_x";
        let found: Vec<&str> = identifiers(text).collect();
        assert_eq!(found, ["batch_processor", "read_all", "2mmm_x"]);
    }

    /// Byte by byte: what the blocks of 64 must find as well.
    fn runs(bytes: &[u8]) -> Vec<(usize, usize)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let run = bytes[at..].iter().take_while(|byte| is_of_run(**byte)).count();
            if bytes[at..at + run].iter().any(|byte| is_telling(*byte)) {
                found.push((at, at + run));
            }
            at += run;
            at += if bytes.get(at) == Some(&b'\\') { 2 } else { 1 };
        }
        found
    }

    proptest! {
        #[test]
        fn blocks_find_the_runs_that_a_walk_finds(
            pieces in vec("[a-z]{0,9}|[a-z]{50,70}|[a-z_./:@#0-9-]{1,140}|[ <>\"\\\\é]{1,4}", 0..60)
        ) {
            let text = pieces.concat();
            let found: Vec<_> = Runs::of(text.as_bytes()).collect();
            prop_assert_eq!(found, runs(text.as_bytes()));
        }
    }
}
