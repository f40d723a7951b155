//! What a person sees.

use std::io::{IsTerminal, Write};

use longhand_core::Tokens;

use crate::output::harmless;

/// The terminal. Whatever models and archives say loses what a terminal would obey.
pub(super) struct Screen {
    colour: bool,
}

/// The cells of the gauge.
const GAUGE: u64 = 10;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_is_full_when_the_window_is() {
        assert_eq!(gauge(Tokens(0), Tokens(100)), "░░░░░░░░░░ 0% › ");
        assert_eq!(gauge(Tokens(31), Tokens(100)), "████░░░░░░ 31% › ");
        assert_eq!(gauge(Tokens(250), Tokens(100)), "██████████ 250% › ");
    }
}
