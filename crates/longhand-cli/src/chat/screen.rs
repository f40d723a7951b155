//! What a person sees.

use std::io::{IsTerminal, Write};
use std::ops::Range;

use longhand_core::{Tokens, grouped};

/// The terminal. Whatever models and archives say loses what a terminal would obey.
pub(super) struct Screen {
    colour: bool,
}

/// The cells of the gauge.
const GAUGE: u64 = 10;
const MAP: u64 = 48;

impl Screen {
    pub(super) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { colour: wanted && std::io::stdout().is_terminal() }
    }

    /// Something that is not part of the conversation.
    pub(super) fn notice(&self, text: &str) {
        let text = harmless(text);
        let _ = if self.colour {
            writeln!(std::io::stdout().lock(), "\u{1b}[2m· {text}\u{1b}[0m")
        } else {
            writeln!(std::io::stdout().lock(), "· {text}")
        };
    }

    pub(super) fn problem(&self, error: &anyhow::Error) {
        self.notice(&format!("error: {error:#}"));
        if let Some(hinted) = error.downcast_ref::<crate::Hinted>() {
            self.notice(&format!("hint: {}", hinted.hint));
        }
    }
}

/// The prompt: how full the window is.
pub(super) fn gauge(tokens: Tokens, budget: Tokens) -> String {
    let percent = tokens.0 * 100 / budget.0.max(1);
    let full = (tokens.0 * GAUGE).div_ceil(budget.0.max(1)).min(GAUGE) as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(GAUGE as usize - full));
    format!("{bar} {percent}% › ")
}

/// A piece of an answer.
pub(super) fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush());
}

pub(super) fn end_answer() {
    let _ = writeln!(std::io::stdout().lock());
}

pub(super) fn show(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", harmless(text));
}

/// A picture of the window: what is folded, what is verbatim, what is free.
pub(super) fn map(total: Tokens, summary: Tokens, verbatim: &Range<u64>, budget: Tokens) -> String {
    let cells = |tokens: Tokens| (tokens.0 * MAP).div_ceil(budget.0.max(1)).min(MAP) as usize;
    let kept = total.saturating_sub(summary);
    let (folded, shown) = (cells(summary), cells(kept));
    let free = (MAP as usize).saturating_sub(folded + shown);
    let tokens = |tokens: Tokens| grouped(tokens.0 as usize);
    format!(
        "[{}{}{}]\nf folded   {:>9} tokens, {} rounds\nV verbatim {:>9} tokens, {} rounds\n· free     {:>9} tokens",
        "f".repeat(folded),
        "V".repeat(shown),
        "·".repeat(free),
        tokens(summary),
        verbatim.start,
        tokens(kept),
        verbatim.end - verbatim.start,
        tokens(budget.saturating_sub(total)),
    )
}

/// Takes out what a terminal would obey, but for line breaks and tabs.
fn harmless(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_lines_and_loses_its_teeth() {
        assert_eq!(harmless("a\u{1b}[2Jb\n\tc\u{7}\u{9b}d\r"), "a[2Jb\n\tcd");
    }

    #[test]
    fn the_gauge_is_full_when_the_window_is() {
        assert_eq!(gauge(Tokens(0), Tokens(100)), "░░░░░░░░░░ 0% › ");
        assert_eq!(gauge(Tokens(31), Tokens(100)), "████░░░░░░ 31% › ");
        assert_eq!(gauge(Tokens(250), Tokens(100)), "██████████ 250% › ");
    }
}
