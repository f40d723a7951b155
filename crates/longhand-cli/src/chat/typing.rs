//! Keys that are pressed while an answer is written: they wait for the prompt and are not shown before.

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Holds back what is typed until it is dropped. Ctrl-C works meanwhile.
pub(super) struct TypingHeld {
    #[cfg(unix)]
    before: Option<Termios>,
}

impl TypingHeld {
    #[cfg(unix)]
    pub(super) fn new() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
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
