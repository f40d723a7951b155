//! How much a window may hold.

use crate::{Economy, Size, Tokens};

/// The room that a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What the model takes, reply included.
    pub limit: Tokens,
    /// What is kept free for the reply.
    pub reserve: Tokens,
    /// The size to come down to once the room is used up, if that costs nothing new; the whole room if
    /// not set.
    pub target: Option<Tokens>,
    /// The most bytes that the provider takes, if it has such a limit.
    pub bytes_max: Option<u64>,
    /// The most pictures that the provider takes, if it has such a limit.
    pub images_max: Option<u64>,
    /// What tokens cost and how the conversation goes on; without it a window grows until it is full.
    pub economy: Option<Economy>,
}

impl Budget {
    /// A budget of `limit` tokens, all of them for the window.
    pub fn of(limit: Tokens) -> Self {
        Self {
            limit,
            reserve: Tokens::ZERO,
            target: None,
            bytes_max: None,
            images_max: None,
            economy: None,
        }
    }

    /// Once the room is used up, brings the window down to `fixed` plus `percent` of the rest. `fixed` is what the
    /// request takes outside its messages.
    ///
    /// A provider bills a prefix that it has seen before at a fraction. So a window is changed seldom and
    /// then deeply, instead of a little with every request.
    #[must_use]
    pub fn with_low_water(self, percent: u64, fixed: Tokens) -> Self {
        let free = u128::from(self.room().saturating_sub(fixed).0);
        let share = Tokens((free * u128::from(percent.min(100)) / 100) as u64);
        Self { target: Some(fixed + share), ..self }
    }

    /// Brings a window down before it is full where that costs less than to carry it on.
    #[must_use]
    pub fn with_economy(self, economy: Economy) -> Self {
        Self { economy: Some(economy), ..self }
    }

    /// What a window may take: it fits if it is within this.
    pub fn room(&self) -> Tokens {
        self.limit.saturating_sub(self.reserve)
    }

    /// What a window is brought down to when it does not fit.
    pub fn goal(&self) -> Tokens {
        self.target.map_or(self.room(), |target| target.min(self.room()))
    }

    /// The size beyond which a window is brought down: all of the room, or less if that is cheaper.
    pub fn high(&self) -> Tokens {
        let room = self.room();
        match (self.economy, self.target) {
            (Some(economy), Some(_)) => economy.high_water(self.goal()).min(room),
            _ => room,
        }
    }

    /// All limits of a window.
    pub fn limits(&self) -> Size {
        let (bytes, images) = (self.bytes_max, self.images_max);
        Size {
            tokens: self.room(),
            bytes: bytes.unwrap_or(u64::MAX),
            images: images.unwrap_or(u64::MAX),
        }
    }
}
