//! Which texts the messages of a window hold, kept up to date from one window to the next.

use memchr::memmem;

/// The readable texts of a window's messages, and where other texts were found in them.
#[derive(Default)]
pub(super) struct WindowTexts {
    messages: Vec<String>,
    /// By the number of the text that was looked for.
    found: Vec<TextPosition>,
}

/// Where a text was found, and where it need not be looked for again.
#[derive(Clone, Copy, Default)]
struct TextPosition {
    /// The first message that holds it, if one does.
    at: Option<usize>,
    /// How many of the first messages are known not to hold it.
    without: usize,
}

impl WindowTexts {
    /// Goes on to a window that shares its first messages with the one before.
    pub(super) fn advance(&mut self, shared: usize, new: impl Iterator<Item = String>) {
        self.messages.truncate(shared);
        for found in &mut self.found {
            if found.at.is_some_and(|at| at >= shared) {
                found.at = None;
            }
            found.without = found.without.min(shared);
        }
        self.messages.extend(new);
    }

    /// The first message that holds a text; `number` stands for the text from the first call on.
    pub(super) fn first(&mut self, number: usize, text: &str) -> Option<usize> {
        if self.found.len() <= number {
            self.found.resize(number + 1, TextPosition::default());
        }
        let found = &mut self.found[number];
        if found.at.is_none() {
            let finder = memmem::Finder::new(text);
            let rest = self.messages[found.without..].iter();
            let at = rest.clone().position(|message| finder.find(message.as_bytes()).is_some());
            found.at = at.map(|at| at + found.without);
            found.without = found.at.unwrap_or(self.messages.len());
        }
        found.at
    }

    /// Whether one of some messages holds a text.
    pub(super) fn holds(&self, messages: std::ops::Range<usize>, text: &str) -> bool {
        let finder = memmem::Finder::new(text);
        self.messages[messages].iter().any(|message| finder.find(message.as_bytes()).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advance(seen: &mut WindowTexts, shared: usize, new: &[&str]) {
        seen.advance(shared, new.iter().map(|text| (*text).to_owned()));
    }

    #[test]
    fn what_was_found_is_found_again_only_where_it_still_is() {
        let mut seen = WindowTexts::default();
        advance(&mut seen, 0, &["a", "b", "a c"]);
        assert_eq!(
            [seen.first(0, "a"), seen.first(1, "c"), seen.first(2, "d")],
            [Some(0), Some(2), None]
        );
        // The last message is gone, and two new ones are there.
        advance(&mut seen, 2, &["d", "b"]);
        assert_eq!(
            [seen.first(0, "a"), seen.first(1, "c"), seen.first(2, "d")],
            [Some(0), None, Some(2)]
        );
        advance(&mut seen, 0, &["c"]);
        assert_eq!(
            [seen.first(0, "a"), seen.first(1, "c"), seen.first(2, "d")],
            [None, Some(0), None]
        );
        assert!(seen.holds(0..1, "c") && !seen.holds(0..1, "a"));
    }
}
