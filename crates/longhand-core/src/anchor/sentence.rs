//! Sentences: what can be read by itself in prose, lists, code and logs.

use memchr::{memchr, memchr3};

/// A stretch of text that can be read by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence<'t> {
    /// Its form.
    pub form: SentenceForm,
    /// The words, without white space or list marks around them; a sentence that was wrapped has line
    /// breaks in it.
    pub text: &'t str,
}

/// What a sentence is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentenceForm {
    /// Running text.
    Prose,
    /// An item of a list.
    Item,
    /// A heading.
    Heading,
    /// A line of a program, of a table or of a log.
    Line,
}

/// Splits a text into sentences, in order; nothing but white space, list marks and code fences is left
/// out.
pub fn sentences(text: &str) -> impl Iterator<Item = Sentence<'_>> {
    Sentences { rest: text, fence: None, paragraph: "", form: SentenceForm::Prose }
}

/// The fewest bytes of a line that a writer would wrap, and the fewest spaces that tell it from a log.
const WRAPPED_BYTES_MIN: usize = 40;
const WRAPPED_SPACES_MIN: usize = 5;

struct Sentences<'t> {
    rest: &'t str,
    fence: Option<&'t str>,
    paragraph: &'t str,
    form: SentenceForm,
}

impl<'t> Iterator for Sentences<'t> {
    type Item = Sentence<'t>;

    fn next(&mut self) -> Option<Sentence<'t>> {
        loop {
            if !self.paragraph.is_empty() {
                let (sentence, rest) = self.paragraph.split_at(first_end(self.paragraph));
                self.paragraph = rest.trim_start();
                return Some(Sentence { form: self.form, text: sentence.trim_end() });
            }
            if self.rest.is_empty() {
                return None;
            }
            let (line, rest) = split_line(self.rest);
            let (bare, all) = (line.trim(), self.rest);
            self.rest = rest;
            if let Some(fence) = self.fence {
                if bare.starts_with(fence) && bare.trim_start_matches(&fence[..1]).is_empty() {
                    self.fence = None;
                } else if !bare.is_empty() {
                    return Some(Sentence { form: SentenceForm::Line, text: bare });
                }
                continue;
            }
            self.fence = fence_of(bare);
            if self.fence.is_some() || bare.is_empty() {
                continue;
            }
            let (form, words) = form_of(bare);
            if matches!(form, SentenceForm::Line | SentenceForm::Heading) {
                return Some(Sentence { form, text: words });
            }
            let offset = |part: &str| part.as_ptr().addr() - all.as_ptr().addr();
            let start = offset(words);
            let mut end = start + words.len();
            let mut last = bare;
            while wraps(last, split_line(self.rest).0) {
                let (line, rest) = split_line(self.rest);
                last = line.trim();
                end = offset(last) + last.len();
                self.rest = rest;
            }
            self.form = form;
            self.paragraph = &all[start..end];
        }
    }
}

fn split_line(text: &str) -> (&str, &str) {
    match memchr(b'\n', text.as_bytes()) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

/// The marks that open or close a block of code.
pub(super) fn fence_of(line: &str) -> Option<&str> {
    let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark))?;
    // "```code``` in a line" opens nothing.
    (!line[3..].trim_start_matches(&mark[..1]).contains(mark)).then(|| &line[..3])
}

/// What a line is, and the words on it.
fn form_of(line: &str) -> (SentenceForm, &str) {
    let words = line.trim_start_matches('#');
    if words.len() < line.len() && words.starts_with(' ') {
        return (SentenceForm::Heading, words.trim());
    }
    let mark = item_mark(line);
    let words = line[mark..].trim_start();
    // A box to tick is not an index.
    let bare = words.strip_prefix("[x] ").or(words.strip_prefix("[ ] ")).unwrap_or(words);
    if line.starts_with(['|', '@', '}', ')']) || line.starts_with("//") || is_code(bare) {
        return (SentenceForm::Line, line);
    }
    (if mark == 0 { SentenceForm::Prose } else { SentenceForm::Item }, words)
}

/// The length of `- `, `* ` or `12. ` at the start of a line.
fn item_mark(line: &str) -> usize {
    let mark = match line.as_bytes() {
        [b'-' | b'*' | b'+', ..] => 1,
        [b'0'..=b'9', ..] => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            let dotted = matches!(line.as_bytes().get(digits), Some(b'.' | b')'));
            if dotted && digits <= 3 { digits + 1 } else { 0 }
        }
        _ if line.starts_with('•') => '•'.len_utf8(),
        _ => 0,
    };
    // A mark without words is no item.
    if line[mark..].starts_with(' ') { mark } else { 0 }
}

/// Whether a line looks like code: it ends like a statement or has more marks than prose has.
fn is_code(line: &str) -> bool {
    if line.ends_with(['{', '}', ';']) || line.ends_with("=>") {
        return true;
    }
    let head = &line.as_bytes()[..line.len().min(160)];
    let marks: u8 = head.iter().map(|byte| u8::from(is_code_mark(*byte))).sum();
    usize::from(marks) * 8 > head.len()
}

fn is_code_mark(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'<' | b'>')
        || matches!(byte, b'=' | b';' | b'&' | b'|' | b'\\' | b'$' | b'^' | b'_')
}

/// Whether a writer broke a sentence after `line`, to go on with `next`.
pub(super) fn wraps(line: &str, next: &str) -> bool {
    let (line, next) = (line.trim(), next.trim());
    line.len() >= WRAPPED_BYTES_MIN
        && next.starts_with(|c: char| c.is_lowercase() || c == '`' || c == '(')
        && !line.ends_with(['.', '!', '?', ':', ';'])
        && memchr::memchr_iter(b' ', line.as_bytes()).count() >= WRAPPED_SPACES_MIN
        && matches!(form_of(next).0, SentenceForm::Prose)
}

/// Where the first sentence of a paragraph ends.
fn first_end(paragraph: &str) -> usize {
    let bytes = paragraph.as_bytes();
    let mut from = 0;
    while let Some(found) = next_stop(&bytes[from..]) {
        let at = from + found;
        let (stop, width) = match bytes[at] {
            stop @ (b'.' | b'?' | b'!') => (stop, 1),
            0xe2 => (b'.', 3),
            _ => (b'!', 3),
        };
        let mut end = at + width;
        while let Some(more) = closing(&paragraph[end..]) {
            end += more;
        }
        let rest = &paragraph[end..];
        if rest.is_empty() {
            return paragraph.len();
        }
        // Scripts with wide stops have no spaces.
        let apart = (width > 1 && stop == b'!') || rest.starts_with(char::is_whitespace);
        if apart && !(stop == b'.' && goes_on(&paragraph[..at], rest)) {
            return end;
        }
        from = end;
    }
    paragraph.len()
}

/// The next byte that may end a sentence: `.`, `?`, `!`, `…`, or the first of a wide stop.
fn next_stop(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let narrow = memchr3(b'.', b'?', b'!', &bytes[from..]).map(|at| from + at);
        let wide = memchr3(0xe2, 0xe3, 0xef, &bytes[from..narrow.unwrap_or(bytes.len())]);
        let at = wide.map(|at| from + at).or(narrow)?;
        let wide = |tail: &[u8]| bytes[at + 1..].starts_with(tail);
        match bytes[at] {
            0xe2 if !wide(b"\x80\xa6") => from = at + 1,
            0xe3 if !wide(b"\x80\x82") => from = at + 1,
            0xef if !wide(b"\xbc\x81") && !wide(b"\xbc\x9f") => from = at + 1,
            _ => return Some(at),
        }
    }
}

/// The length of a mark that still belongs to the sentence before it.
fn closing(rest: &str) -> Option<usize> {
    let c = rest.chars().next()?;
    ".?!\"')]*_`»”’".contains(c).then(|| c.len_utf8())
}

/// Whether a sentence goes on after a dot.
fn goes_on(before: &str, rest: &str) -> bool {
    // Dots that stand alone are a pause: "test a ... ok".
    before.ends_with(char::is_whitespace)
        || rest.trim_start().starts_with(char::is_lowercase)
        || is_shortened(before)
}

/// Whether the dot after `before` ends an abbreviation or a number in a list.
fn is_shortened(before: &str) -> bool {
    const SHORT: &[&str] =
        &["e.g", "i.e", "vs", "cf", "mr", "mrs", "ms", "dr", "fig", "approx", "resp", "no", "al"];
    let start = before.trim_end_matches(|c: char| !c.is_whitespace() && c != '(').len();
    let word = &before[start..];
    let initial = word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let number = start == 0 && !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    initial || number || SHORT.iter().any(|short| word.eq_ignore_ascii_case(short))
}

#[cfg(test)]
mod tests {
    use super::*;
    use SentenceForm::{Heading, Item, Line, Prose};

    #[track_caller]
    fn check(text: &str, expected: &[(SentenceForm, &str)]) {
        let found: Vec<_> =
            sentences(text).map(|sentence| (sentence.form, sentence.text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn prose_is_split_at_its_stops() {
        check(
            "It took 3.5 ms, e.g. Tuesday. \"Really?\" he said. See src/a.rs. Done! (Yes.) and so on",
            &[
                (Prose, "It took 3.5 ms, e.g. Tuesday."),
                (Prose, "\"Really?\""),
                (Prose, "he said."),
                (Prose, "See src/a.rs."),
                (Prose, "Done!"),
                (Prose, "(Yes.) and so on"),
            ],
        );
        check(
            "第一句。第二句？ 三！",
            &[(Prose, "第一句。"), (Prose, "第二句？"), (Prose, "三！")],
        );
        check(" \n\t\n", &[]);
    }

    #[test]
    fn wrapped_lines_are_one_sentence() {
        check(
            "The wheel keeps its slots, because the lateness comes from\n  the order of cascade and drain.\nNext",
            &[
                (
                    Prose,
                    "The wheel keeps its slots, because the lateness comes from\n  the order of cascade and drain.",
                ),
                (Prose, "Next"),
            ],
        );
    }

    #[test]
    fn lists_code_and_logs_keep_their_lines() {
        check(
            "# Plan\n- one. Two\n* [x] three\n12. four\n```rust\nlet a = 1. Max(2);\n\n```\n| a | b |\ntest wheel::x ... ok\ntest wheel::y ... FAILED\nfn main() {\n-\n",
            &[
                (Heading, "Plan"),
                (Item, "one."),
                (Item, "Two"),
                (Item, "[x] three"),
                (Item, "four"),
                (Line, "let a = 1. Max(2);"),
                (Line, "| a | b |"),
                (Prose, "test wheel::x ... ok"),
                (Prose, "test wheel::y ... FAILED"),
                (Line, "fn main() {"),
                (Prose, "-"),
            ],
        );
    }
}
