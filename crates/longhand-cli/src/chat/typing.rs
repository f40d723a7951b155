//! The terminal between two prompts: keys wait for the next prompt and are not shown before.

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Holds back what is typed until it is dropped.
///
/// Keys are neither echoed nor gathered into lines, so the editor of the next prompt gets every one of them, Backspace and
/// Ctrl-D included. Ctrl-C still sends its signal.
pub(super) struct TypingHeld {
    #[cfg(unix)]
    before: Option<Termios>,
}

impl TypingHeld {
    #[cfg(unix)]
    pub(super) fn new() -> Self {
        let before = tcgetattr(std::io::stdin()).ok().filter(|_| !edits_by_itself());
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
        Self { before }
    }

    #[cfg(not(unix))]
    pub(super) fn new() -> Self {
        Self {}
    }
}

/// Whether the line editor leaves echo and Backspace to the terminal, as it does for one that can move no cursor.
#[cfg(unix)]
fn edits_by_itself() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    ["dumb", "cons25", "emacs"].iter().any(|name| term.eq_ignore_ascii_case(name))
}

#[cfg(unix)]
impl Drop for TypingHeld {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
