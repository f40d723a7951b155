//! A vocabulary that stands in for one that nobody has.

use longhand_core::{Framing, Image, Meter, Tokens};

/// Counts with another model's vocabulary, times a factor.
///
/// Text is weighed in hundredths of a token, so that a message is rounded once. Pictures and framing
/// have figures of their own and are not scaled.
pub struct Scaled<M> {
    meter: M,
    percent: u64,
}

impl<M: Meter> Scaled<M> {
    /// Scales what `meter` counts to `percent` hundredths, never to less than it counts.
    pub fn new(meter: M, percent: u32) -> Self {
        Self { meter, percent: u64::from(percent.max(100)) }
    }
}

impl<M: Meter> Meter for Scaled<M> {
    fn weigh(&self, text: &str, limit: u64) -> u64 {
        // For whole numbers, `grains * percent > limit` is the same as `grains > limit / percent`.
        self.meter.weigh(text, limit / self.percent).saturating_mul(self.percent)
    }

    fn grains_per_token(&self) -> u64 {
        self.meter.grains_per_token() * 100
    }

    fn image(&self, image: &Image) -> Tokens {
        self.meter.image(image)
    }

    fn framing(&self) -> Framing {
        self.meter.framing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ImageRule, Vocabulary};
    use longhand_core::Scale;

    #[test]
    fn text_is_scaled_and_rounded_once() {
        let plain = Vocabulary::o200k(ImageRule::CLAUDE);
        let scaled = Scaled::new(plain, 156);
        for words in [0, 1, 3, 10, 1_000] {
            let text = "All work, no play. ".repeat(words);
            let expected = (plain.weigh(&text, u64::MAX) * 156).div_ceil(100);
            assert_eq!(Scale::new(&scaled).text(&text), Tokens(expected));
        }
        assert_eq!(scaled.image(&Image::default()), plain.image(&Image::default()));
        assert_eq!(scaled.framing(), plain.framing());
    }

    #[test]
    fn a_factor_below_one_is_not_applied() {
        let plain = Vocabulary::o200k(ImageRule::CLAUDE);
        assert_eq!(Scale::new(&Scaled::new(plain, 50)).text("one two three"), Tokens(3));
    }

    #[test]
    fn a_limit_is_only_ever_exceeded_truly() {
        let scaled = Scaled::new(Vocabulary::o200k(ImageRule::CLAUDE), 120);
        let text = "All work, no play; 12 times a day.\n".repeat(400);
        let exact = scaled.weigh(&text, u64::MAX);
        for limit in [0, 1, exact / 2, exact - 1, exact, exact + 1, exact + 119] {
            let weight = scaled.weigh(&text, limit);
            assert!(weight == exact || (exact > limit && weight > limit), "{limit}");
        }
    }
}
