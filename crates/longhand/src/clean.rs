//! Text that cannot control a terminal: everything that is printed for people goes through here.
//!
//! Session names, file names, headers, answers and errors of servers are written by others. Control characters in them
//! could clear the screen, set its title or answer for the user; bidirectional controls could show a name or a command
//! in another order than it has.

/// Cleans a text of several lines: line breaks and tabs stay.
pub fn text(text: &str) -> String {
    cleaned(text, |out, white| out.push(if white == '\t' { '\t' } else { '\n' }))
}

/// Cleans a text that must stay on its line, such as a name: line breaks and tabs become spaces.
pub fn line(text: &str) -> String {
    cleaned(text, |out, _| out.push(' '))
}

/// Writes JSON so that it means the same and cannot control a terminal.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Outside of strings JSON has line breaks only; in strings these are escaped already.
        if c != '\n' && is_harmful(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Removes control characters and shows those that are invisible but change what is seen as `<U+202E>`.
fn cleaned(text: &str, white: impl Fn(&mut String, char)) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\u{2028}' | '\u{2029}' => white(&mut out, c),
            c if c.is_control() => {}
            c if is_harmful(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn is_harmful(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    ) || c.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_loses_control_characters() {
        assert_eq!(text("a\u{1b}[2Jb\n\tc\u{7}\u{9b}d\r\ne\u{7f}\u{2028}f"), "a[2Jb\n\tcd\ne\nf");
        assert_eq!(line("a\u{1b}b\nc\td\u{2029}e\u{85}"), "ab c d e");
    }

    #[test]
    fn what_turns_text_around_is_shown_as_such() {
        assert_eq!(line("gpj.\u{202e}exe"), "gpj.<U+202E>exe");
        assert_eq!(text("\u{2066}a\u{2069}\u{200f}\u{feff}"), "<U+2066>a<U+2069><U+200F><U+FEFF>");
        // Letters of any script and emoji with joiners are what people write.
        assert_eq!(text("שלום 日本 e\u{301} 👩\u{200d}💻"), "שלום 日本 e\u{301} 👩\u{200d}💻");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"name": "a\u{1b}\u{9b}\u{7f}\u{202e}\u{feff}\u{2028}é\n"});
        let written = json(&format!("{value:#}"));
        assert!(written.chars().all(|c| c == '\n' || !is_harmful(c)), "{written:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
    }
}
