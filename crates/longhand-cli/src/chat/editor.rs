//! The prompt: a line editor with a history, which offers a message that failed once more.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Editor, Helper};

use super::screen::Screen;
use crate::{history, output};

/// Reads lines, and keeps them in the history file.
pub(super) struct LineEditor {
    editor: Editor<OfferHelper, FileHistory>,
    history: Option<PathBuf>,
}

/// What was done at a prompt.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// Ctrl-D was pressed.
    End,
}

impl LineEditor {
    pub(super) fn new(screen: &Screen) -> Result<Self> {
        let mut editor = Editor::new().context("cannot use this terminal")?;
        let history = history::path();
        if let Some(path) = &history {
            let _ = editor.load_history(path);
        }
        editor.set_helper(Some(OfferHelper { message: None, colour: screen.has_colour() }));
        Ok(Self { editor, history })
    }

    /// Reads a line. A message that is offered stands at the empty prompt; the right arrow key makes it the line.
    pub(super) fn read(&mut self, prompt: &str, offered: Option<&str>) -> Result<Typed> {
        if let Some(offer) = self.editor.helper_mut() {
            let room = output::columns().saturating_sub(prompt.chars().count() + 1);
            offer.message = offered.map(|text| OfferedMessage::new(text, room));
        }
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(error) => Err(error).context("cannot read the terminal"),
        }
    }

    /// Adds a line to the history, on disk at once: it can be called back whatever happens next.
    pub(super) fn remember(&mut self, line: String) {
        let _ = self.editor.add_history_entry(line);
        if let Some(path) = &self.history {
            let _ = self.editor.append_history(path);
        }
    }
}

/// Shows the offered message at an empty prompt.
struct OfferHelper {
    message: Option<OfferedMessage>,
    colour: bool,
}

#[derive(Clone)]
struct OfferedMessage {
    text: String,
    /// As much of its first line as there is room for.
    shown: String,
}

impl OfferedMessage {
    fn new(text: &str, columns_max: usize) -> Self {
        let line = output::harmless_line(text.lines().next().unwrap_or_default());
        let is_cut = line.chars().count() > columns_max || text.lines().count() > 1;
        let shown = if is_cut {
            line.chars().take(columns_max.saturating_sub(1)).chain(['…']).collect()
        } else {
            line
        };
        Self { text: text.to_owned(), shown }
    }
}

impl Hint for OfferedMessage {
    fn display(&self) -> &str {
        &self.shown
    }

    fn completion(&self) -> Option<&str> {
        Some(&self.text)
    }
}

impl Hinter for OfferHelper {
    type Hint = OfferedMessage;

    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<OfferedMessage> {
        self.message.clone().filter(|_| line.is_empty())
    }
}

impl Highlighter for OfferHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.colour { format!("\u{1b}[2m{hint}\u{1b}[0m").into() } else { hint.into() }
    }
}

impl Completer for OfferHelper {
    type Candidate = String;
}

impl Validator for OfferHelper {}

impl Helper for OfferHelper {}

#[cfg(test)]
mod tests {
    use super::OfferedMessage;

    #[test]
    fn an_offered_message_takes_one_line() {
        let shown = |text, columns| OfferedMessage::new(text, columns).shown;
        assert_eq!(shown("Why?", 10), "Why?");
        assert_eq!(shown("Why is that so?", 10), "Why is th…");
        assert_eq!(shown("first\nsecond", 10), "first…");
    }
}
