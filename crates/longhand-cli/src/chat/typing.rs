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
        let before = tcgetattr(std::io::stdin()).ok();
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

#[cfg(unix)]
impl Drop for TypingHeld {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}
