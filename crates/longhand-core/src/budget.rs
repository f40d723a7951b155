//! How much a window may hold.

use crate::Tokens;

/// The room that a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What the model takes, reply included.
    pub limit: Tokens,
    /// What is kept free: for the reply, and under `trim` for the note on what went.
    pub reserve: Tokens,
    /// The size to come down to once the room is used up, if that costs nothing new; the whole room if
    /// not set.
    pub target: Option<Tokens>,
}

impl Budget {
    /// A budget of `limit` tokens, all of them for the window.
    pub fn of(limit: Tokens) -> Self {
        Self { limit, reserve: Tokens::ZERO, target: None }
    }

    /// What a window may take: it fits if it is within this.
    pub fn room(&self) -> Tokens {
        self.limit.saturating_sub(self.reserve)
    }

    /// What a window is brought down to when it does not fit.
    pub fn goal(&self) -> Tokens {
        self.target.map_or(self.room(), |target| target.min(self.room()))
    }
}
