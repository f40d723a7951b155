//! A meter that costs next to nothing.

use longhand_core::{Framing, Image, Meter, Tokens};

/// Counts a token for every four bytes.
pub(crate) struct Quarter;

impl Meter for Quarter {
    fn weigh(&self, text: &str, _limit: u64) -> u64 {
        text.len() as u64
    }

    fn grains_per_token(&self) -> u64 {
        4
    }

    fn image(&self, _: &Image) -> Tokens {
        Tokens(85)
    }

    fn framing(&self) -> Framing {
        Framing { message: Tokens(4), name: Tokens(1), reply: Tokens(3), ids: true }
    }
}
