//! `longhand top`: sessions, the window of one of them, its requests and what was saved, at a glance.

mod ask;
mod draw;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::ask::{Asker, Snapshot};
use crate::args::TopArgs;
use crate::{CommandOutcome, hinted, store};

/// How long a key or a new answer waits at most until it is shown.
const TICK: Duration = Duration::from_millis(100);

/// What is on the screen.
#[derive(Default)]
struct Top {
    snapshot: Snapshot,
    /// The id of the session that is chosen; the newest one if nobody chose.
    chosen: Option<String>,
    /// Whether the chosen session has the screen to itself.
    is_alone: bool,
    /// Why the archive did not answer.
    trouble: Option<String>,
}

pub(crate) fn run(args: &TopArgs) -> Result<CommandOutcome> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(hinted(
            "top needs a terminal",
            "`longhand ls`, `longhand show SESSION` and `longhand usage` print the same",
        ));
    }
    let asker =
        Asker::start(store::app_existing(&args.archive)?, Duration::from_millis(args.every))?;
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let done = watch(&mut terminal, &asker);
    ratatui::restore();
    done?;
    Ok(CommandOutcome::Done)
}

fn watch(terminal: &mut DefaultTerminal, asker: &Asker) -> Result<()> {
    let mut top = Top::default();
    loop {
        while let Some(answer) = asker.answer() {
            match answer {
                Ok(snapshot) => {
                    top.snapshot = snapshot;
                    top.trouble = None;
                }
                Err(trouble) => top.trouble = Some(trouble),
            }
        }
        terminal.draw(|frame| draw::screen(frame, &top))?;
        if !event::poll(TICK)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            if is_end(key) {
                return Ok(());
            }
            top.pressed(key);
            asker.choose(top.chosen.clone());
        }
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || key.code == KeyCode::Char('q')
}

impl Top {
    /// The place of the chosen session in the list.
    fn place(&self) -> usize {
        let chosen = self.chosen.as_ref();
        let found = self.snapshot.sessions.iter().position(|session| Some(&session.id) == chosen);
        found.unwrap_or(0)
    }

    fn pressed(&mut self, key: KeyEvent) {
        let last = self.snapshot.sessions.len().saturating_sub(1);
        let place = match key.code {
            KeyCode::Down | KeyCode::Char('j') => (self.place() + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.place().saturating_sub(1),
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => last,
            KeyCode::Enter => {
                self.is_alone = !self.is_alone;
                return;
            }
            KeyCode::Esc => {
                self.is_alone = false;
                return;
            }
            _ => return,
        };
        // The first row is whichever session is the newest.
        self.chosen = if place == 0 {
            None
        } else {
            self.snapshot.sessions.get(place).map(|session| session.id.clone())
        };
    }
}
