//! How much a window may hold.

use crate::{Economy, Size, Tokens};

/// How far a window must have grown from its target to the size of the next batch, for that batch to be made in a pause.
///
/// An earlier one would save more still, but hide what the model may need.
const COLD_WAY_PERCENT: u128 = 60;

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
    ///
    /// After a pause the provider reads the window anew in any case. So a batch that would be due soon is made then: it
    /// costs no break of its own.
    pub fn high(&self) -> Tokens {
        let (high, goal) = (self.high_of_warm(), self.goal());
        if !self.economy.is_some_and(|economy| economy.is_cold()) {
            return high;
        }
        let way = u128::from(high.saturating_sub(goal).0) * COLD_WAY_PERCENT / 100;
        goal + Tokens(u64::try_from(way).unwrap_or(u64::MAX))
    }

    /// The same as long as the provider has the prefix.
    fn high_of_warm(&self) -> Tokens {
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
