//! Words of others, made safe to stand among ours.

/// How every mark of ours begins.
const MARK: &str = "longhand";

/// How many bytes are looked at together.
const CHUNK_BYTES: usize = 32;

/// Puts a text on one line that cannot pass for anything but text: no breaks, no control or hidden
/// characters, none of our marks and none of a chat template's.
///
/// Everything else stays as it is.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    write_line(&mut out, text, usize::MAX);
    unmarked(out)
}

/// Writes a text on one line, and stops after `bytes_max` bytes.
fn write_line(out: &mut String, text: &str, bytes_max: usize) {
    let mut chars = text.chars();
    loop {
        // Most of a text is plain.
        let rest = chars.as_str();
        let before = out.as_bytes().last().copied().unwrap_or(b' ');
        let (plain, rest) = rest.split_at(plain_len(rest.as_bytes(), before));
        out.push_str(plain);
        chars = rest.chars();
        let Some(c) = chars.next().filter(|_| out.len() < bytes_max) else { break };
        if c == '\u{1b}' && chars.as_str().starts_with('[') {
            // The rest of a colour sequence would be left as text.
            chars.by_ref().skip(1).find(|c| !c.is_ascii_digit() && *c != ';');
        } else if c.is_whitespace() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
        } else if c == '|' && out.ends_with('<') || c == '>' && out.ends_with('|') {
            out.push(' ');
            out.push(c);
        } else if !c.is_control() && !is_hidden(c) {
            out.push(c);
        }
    }
    if out.ends_with(' ') {
        out.pop();
    }
}

/// How many bytes at the start of a text are plain, with single spaces between them and no part of a chat template's
/// mark; `before` is the byte that they follow.
fn plain_len(bytes: &[u8], before: u8) -> usize {
    let (mut length, mut before) = (0, before);
    let (chunks, rest) = bytes.as_chunks::<CHUNK_BYTES>();
    let mut last = [b'x'; CHUNK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    for chunk in chunks.iter().chain([&last]) {
        if !is_plain_chunk(chunk, before) {
            break;
        }
        before = chunk[CHUNK_BYTES - 1];
        length += CHUNK_BYTES;
    }
    if length > bytes.len() {
        return bytes.len();
    }
    let rest = bytes[length..].iter().take_while(|byte| {
        let is_odd = is_odd_pair(std::mem::replace(&mut before, **byte), **byte);
        is_plain(**byte) && !is_odd
    });
    length + rest.count()
}

/// Whether all bytes of a chunk are plain. Without an early end, the compiler looks at many of them at once.
fn is_plain_chunk(chunk: &[u8; CHUNK_BYTES], before: u8) -> bool {
    let odd = chunk.iter().fold(0, |found, byte| found | u8::from(!is_plain(*byte)));
    let pairs = chunk.iter().zip(&chunk[1..]);
    let pairs = pairs.fold(0, |found, (one, two)| found | u8::from(is_odd_pair(*one, *two)));
    odd | pairs == 0 && !is_odd_pair(before, chunk[0])
}

/// Whether a byte is a visible character of ASCII or a space.
fn is_plain(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

/// Whether two bytes are spaces, or begin or end a mark of a chat template.
fn is_odd_pair(one: u8, two: u8) -> bool {
    matches!((one, two), (b' ', b' ') | (b'<', b'|') | (b'|', b'>'))
}

/// Like [`line`], in at most `chars_max` characters.
pub(crate) fn line_within(text: &str, chars_max: usize) -> String {
    // Hidden and blank characters are dropped, but no real text has ten of them for each other one.
    let head = within(text, chars_max * 10).unwrap_or(text);
    let mut out = String::with_capacity(head.len().min(chars_max + 2 * MARK.len()));
    // Leaves room to recognise one of our marks that would be cut.
    write_line(&mut out, head, 4 * (chars_max + 2 * MARK.len()));
    let mut out = unmarked(out);
    if let Some(head) = within(&out, chars_max) {
        let keep = head.char_indices().next_back().map_or(0, |(last, _)| last);
        let space = out[..keep].rfind(' ').filter(|space| *space > keep / 2).unwrap_or(keep);
        out.truncate(space);
        out.push('…');
    }
    out
}

/// The first characters of a text that has more of them.
fn within(text: &str, chars_max: usize) -> Option<&str> {
    // A character has a byte at least.
    let (end, _) = (text.len() > chars_max).then(|| text.char_indices().nth(chars_max))??;
    Some(&text[..end])
}

/// Makes a summary that somebody else wrote safe, line by line.
pub(crate) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(line) {
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        if names_a_role(&line) {
            out.push_str("- ");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a line begins like a turn of a transcript.
fn names_a_role(line: &str) -> bool {
    const ROLES: &[&str] =
        &["user", "human", "system", "assistant", "developer", "tool", "function", "ai"];
    let bare = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let end = bare.find(|c: char| !c.is_alphanumeric()).unwrap_or(bare.len());
    let header = bare[end..].trim_start_matches(['*', '_', ']', ')', ' ', '>']);
    let listed = line.starts_with("- ") || line.starts_with('[');
    !listed
        && header.starts_with(':')
        && ROLES.iter().any(|role| bare[..end].eq_ignore_ascii_case(role))
}

/// Turns the brackets before a mark of ours into harmless ones.
fn unmarked(mut line: String) -> String {
    if memchr::memchr(b'[', line.as_bytes()).is_none() {
        return line;
    }
    let is_mark = |at: usize| {
        line.get(at..at + MARK.len()).is_some_and(|start| start.eq_ignore_ascii_case(MARK))
    };
    let marks: Vec<usize> =
        memchr::memchr2_iter(b'l', b'L', line.as_bytes()).filter(|at| is_mark(*at)).collect();
    for mark in marks {
        let before = line[..mark].char_indices().rev().take_while(|(_, c)| !c.is_alphanumeric());
        let brackets: Vec<usize> = before.filter(|(_, c)| *c == '[').map(|(at, _)| at).collect();
        for at in brackets {
            line.replace_range(at..=at, "(");
        }
    }
    line
}

/// Characters that show nothing and may reorder or smuggle text.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line() {
        for (text, expected) in [
            ("  a\r\n\tb\u{2028}c\u{85}d  ", "a b c d"),
            ("\u{1b}[1;32mgreen\u{1b}[0m \u{1b}[", "green"),
            ("x\u{7}y\u{202e}z\u{200b}", "xyz"),
            (
                "[longhand facts] and [ /LongHand] but [x]",
                "(longhand facts] and ( /LongHand] but [x]",
            ),
            ("[[longhand", "((longhand"),
            ("<|im_start|>system", "< |im_start| >system"),
            ("<\u{200b}|x|\u{7}>", "< |x| >"),
            (
                "a -> b | c => d, all on one line of more than 32 bytes <|x",
                "a -> b | c => d, all on one line of more than 32 bytes < |x",
            ),
            ("31 bytes, and then two of them <|", "31 bytes, and then two of them < |"),
            ("32 bytes, and then a second one  x", "32 bytes, and then a second one x"),
            ("\"quoted\" `code` ünï 字", "\"quoted\" `code` ünï 字"),
            ("", ""),
        ] {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_words() {
        assert_eq!(line_within("one two three", 20), "one two three");
        assert_eq!(line_within("one two three", 10), "one two…");
        assert_eq!(line_within("onetwothree", 5), "onet…");
        assert_eq!(line_within("ab", 1), "…");
    }

    #[test]
    fn lines_cannot_take_a_role() {
        assert_eq!(
            lines("\n\nGoal: x\n\n\nUser: rm\n**System**: y\n- Human: z\nuser story: ok\n\n"),
            "Goal: x\n\n- User: rm\n- **System**: y\n- Human: z\nuser story: ok"
        );
    }
}
