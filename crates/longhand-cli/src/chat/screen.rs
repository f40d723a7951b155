//! Output of `chat`.

use std::io::{IsTerminal, Write};

use longhand_core::Tokens;

use super::command;
use super::markdown::Markdown;
use super::wrap::Wrap;
use crate::output::{self, harmless};
use crate::search;

/// The terminal. Control characters are removed from everything that models and archives contain.
pub(super) struct Screen {
    colour: bool,
    /// Whether Markdown is rendered.
    renders: bool,
    /// Whether standard input is a terminal: if not, only answers go to standard output.
    is_live: bool,
}

/// The cells of the gauge.
const GAUGE: u64 = 10;

impl Screen {
    pub(super) fn new(is_plain: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let to_terminal = std::io::stdout().is_terminal();
        Self {
            colour: wanted && to_terminal,
            renders: wanted && to_terminal && !is_plain,
            is_live: std::io::stdin().is_terminal(),
        }
    }

    pub(super) fn has_colour(&self) -> bool {
        self.colour
    }

    /// Says something that is not part of the conversation.
    pub(super) fn notice(&self, text: &str) {
        let text = harmless(text);
        if !self.is_live {
            output::say(&text);
            return;
        }
        let lines: Vec<String> = text.lines().map(|line| hanging("· ", line)).collect();
        let text = lines.join("\n");
        let _ = if self.colour {
            writeln!(std::io::stdout().lock(), "\u{1b}[2m{text}\u{1b}[0m")
        } else {
            writeln!(std::io::stdout().lock(), "{text}")
        };
    }

    /// Shows a message that was found, with the words marked.
    pub(super) fn found(&self, line: &str, words: &str) {
        let line = output::wrapped(&harmless(line), "");
        let line = if self.colour { search::highlighted(&line, words) } else { line };
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    }

    /// An answer, to be shown as it comes.
    pub(super) fn answer(&self) -> ShownAnswer {
        let columns = output::columns();
        let renderer = || (Markdown::new(columns), Wrap::new(columns));
        ShownAnswer { renderer: self.renders.then(renderer), has_ended: true }
    }

    pub(super) fn problem(&self, error: &anyhow::Error) {
        self.notice(&format!("error: {}", crate::text(error)));
        if let Some(hint) = crate::hint(error) {
            self.notice(&format!("hint: {hint}"));
        }
    }
}

/// The prompt: how full the window is.
pub(super) fn gauge(tokens: Tokens, budget: Tokens) -> String {
    let share = |of: u64| u128::from(tokens.0) * u128::from(of) / u128::from(budget.0.max(1));
    let full = share(GAUGE).min(u128::from(GAUGE)) as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(GAUGE as usize - full));
    match share(100) {
        0 if tokens > Tokens::ZERO => format!("{bar} <1% › "),
        percent @ 101.. => format!("{bar} {percent}% (over) › "),
        100 if tokens > budget => format!("{bar} 100% (over) › "),
        percent => format!("{bar} {percent}% › "),
    }
}

/// An answer on its way to standard output.
pub(super) struct ShownAnswer {
    renderer: Option<(Markdown, Wrap)>,
    /// Whether the last line has its end.
    has_ended: bool,
}

impl ShownAnswer {
    /// Shows a piece.
    pub(super) fn push(&mut self, piece: &str) {
        let piece = harmless(piece);
        let shown = match &mut self.renderer {
            Some((markdown, wrap)) => wrap.push(&markdown.push(&piece)),
            None => piece,
        };
        self.write(&shown);
    }

    /// Shows what is left, and ends the line.
    pub(super) fn end(&mut self) {
        if let Some((mut markdown, mut wrap)) = self.renderer.take() {
            let rest = wrap.push(&markdown.end()) + &wrap.end();
            self.write(&rest);
        }
        if !self.has_ended {
            self.write("\n");
        }
    }

    fn write(&mut self, text: &str) {
        if !text.is_empty() {
            self.has_ended = text.ends_with('\n');
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

pub(super) fn show(text: &str) {
    let lines: Vec<String> = harmless(text).lines().map(|line| output::wrapped(line, "")).collect();
    let _ = writeln!(std::io::stdout().lock(), "{}", lines.join("\n"));
}

/// Shows the list of commands: what each does, beside its name.
pub(super) fn show_help() {
    let line = |line: &str| match line.split_at_checked(command::HELP_COLUMN) {
        Some((name, what)) if name.starts_with('/') => hanging(name, what),
        _ => output::wrapped(line, ""),
    };
    let lines: Vec<String> = command::HELP.lines().map(line).collect();
    let _ = writeln!(std::io::stdout().lock(), "{}", lines.join("\n"));
}

/// A line that begins with a mark or a name, wrapped so that nothing stands below these.
fn hanging(first: &str, rest: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let text = output::wrapped(rest.trim_start(), &indent);
    format!("{first}{}", &text[indent.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gauge_is_full_when_the_window_is() {
        assert_eq!(gauge(Tokens(0), Tokens(100)), "░░░░░░░░░░ 0% › ");
        assert_eq!(gauge(Tokens(1), Tokens(1_000)), "░░░░░░░░░░ <1% › ");
        assert_eq!(gauge(Tokens(31), Tokens(100)), "███░░░░░░░ 31% › ");
        assert_eq!(gauge(Tokens(99), Tokens(100)), "█████████░ 99% › ");
        assert_eq!(gauge(Tokens(100), Tokens(100)), "██████████ 100% › ");
        assert_eq!(gauge(Tokens(1_001), Tokens(1_000)), "██████████ 100% (over) › ");
        assert_eq!(gauge(Tokens(250), Tokens(100)), "██████████ 250% (over) › ");
        assert_eq!(gauge(Tokens(5), Tokens(0)), "██████████ 500% (over) › ");
    }
}
