//! What providers charge for a picture.

use longhand_core::{Image, Tokens};

use crate::model::version;

/// Who prices the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// `OpenAI`, and whoever copies its API.
    OpenAi,
    /// Anthropic.
    Anthropic,
}

/// A provider's formula for the tokens of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageRule {
    /// `OpenAI` before GPT-5.5: a base price and one for each tile of 512 pixels, after scaling.
    OpenAiTiles,
    /// `OpenAI` from GPT-5.5 on: 1.2 for each patch of 32 pixels, without a cap or a coarse reading.
    OpenAiPatches,
    /// The dearer of the two, for a model that we do not know.
    OpenAiDearer,
    /// Anthropic: one for each patch of 28 pixels, up to a cap.
    Anthropic {
        /// The most that a picture costs, because larger ones are scaled down.
        cap: u64,
    },
    /// One price for every picture.
    Flat(u64),
}

impl ImageRule {
    const ANTHROPIC_CAP: u64 = 1_568;
    const ANTHROPIC_CAP_FROM_4_7: u64 = 4_784;

    /// Chooses the rule of a model, the dearest of its provider where the model is unknown.
    pub fn for_model(provider: Provider, model: Option<&str>) -> Self {
        let model = model.unwrap_or_default();
        match provider {
            Provider::OpenAi => match version(model, "gpt") {
                Some(version) if version >= (5, 5) => Self::OpenAiPatches,
                Some(_) => Self::OpenAiTiles,
                None if is_o_series(model) => Self::OpenAiTiles,
                None => Self::OpenAiDearer,
            },
            Provider::Anthropic => match version(model, "claude") {
                Some(version) if version < (4, 7) => Self::Anthropic { cap: Self::ANTHROPIC_CAP },
                _ => Self::Anthropic { cap: Self::ANTHROPIC_CAP_FROM_4_7 },
            },
        }
    }

    /// Prices a picture; one of unknown size at the most that an ordinary picture costs.
    pub fn tokens(self, image: &Image) -> Tokens {
        let pixels = image.pixels.filter(|&(width, height)| width > 0 && height > 0);
        Tokens(match self {
            Self::OpenAiTiles => tiles_price(pixels, image.low_detail),
            Self::OpenAiPatches => patches_price(pixels),
            Self::OpenAiDearer => tiles_price(pixels, image.low_detail).max(patches_price(pixels)),
            Self::Anthropic { cap } => pixels.map_or(cap, |pixels| squares(pixels, 28).min(cap)),
            Self::Flat(tokens) => tokens,
        })
    }
}

fn is_o_series(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["o1", "o3", "o4"].iter().any(|series| name.starts_with(series))
}

fn tiles_price(pixels: Option<(u32, u32)>, low_detail: bool) -> u64 {
    const BASE: u64 = 85;
    const TILE: u64 = 170;
    // A picture is scaled into 2048 × 768 pixels, either way up.
    const LARGEST: (u32, u32) = (2048, 768);
    if low_detail {
        return BASE;
    }
    let (width, height) = pixels.unwrap_or(LARGEST);
    let (long, short) = (u64::from(width.max(height)), u64::from(width.min(height)));
    let (long_max, short_max) = (u64::from(LARGEST.0), u64::from(LARGEST.1));
    // One scale serves both bounds: the smaller of `long_max / long` and `short_max / short`.
    let (numerator, denominator) = if long <= long_max && short <= short_max {
        (1, 1)
    } else if long_max * short <= short_max * long {
        (long_max, long)
    } else {
        (short_max, short)
    };
    let tiles = |side: u64| (side * numerator).div_ceil(denominator * 512);
    BASE + TILE * tiles(long) * tiles(short)
}

fn patches_price(pixels: Option<(u32, u32)>) -> u64 {
    // There is no cap to fall back on, so an unknown picture counts as a megapixel.
    (squares(pixels.unwrap_or((1024, 1024)), 32) * 6).div_ceil(5)
}

fn squares((width, height): (u32, u32), side: u32) -> u64 {
    u64::from(width.div_ceil(side)) * u64::from(height.div_ceil(side))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: ImageRule = ImageRule::Anthropic { cap: 1_568 };
    const MAX: u32 = u32::MAX;

    fn check(rule: ImageRule, pixels: impl Into<Option<(u32, u32)>>, expected: u64) {
        let image = Image { pixels: pixels.into(), ..Image::default() };
        assert_eq!(rule.tokens(&image), Tokens(expected), "{rule:?} {image:?}");
    }

    #[test]
    fn tiles_are_counted_after_scaling() {
        let rule = ImageRule::OpenAiTiles;
        check(rule, (1024, 1024), 765);
        check(rule, (2048, 4096), 1_105);
        check(rule, (512, 512), 255);
        check(rule, (513, 512), 425);
        check(rule, (1, 1), 255);
        check(rule, (2048, 768), 1_445);
        check(rule, (3000, 2000), 85 + 170 * 3 * 2);
        check(rule, (1, MAX), 85 + 170 * 4);
        check(rule, (MAX, MAX), 765);
        check(rule, (0, 10), 1_445);
        check(rule, None, 1_445);
    }

    #[test]
    fn low_detail_is_cheap_where_there_are_tiles() {
        let image = Image { pixels: Some((4000, 3000)), low_detail: true, bytes: 0 };
        assert_eq!(ImageRule::OpenAiTiles.tokens(&image), Tokens(85));
        assert_eq!(ImageRule::OpenAiDearer.tokens(&image), Tokens(14_100));
    }

    #[test]
    fn patches_are_counted_as_measured() {
        let rule = ImageRule::OpenAiPatches;
        check(rule, (4032, 3024), 14_364);
        check(rule, (1024, 1024), 1_229);
        check(rule, (1, 1), 2);
        check(rule, (MAX, MAX), 21_617_278_211_378_381);
        check(rule, None, 1_229);
    }

    #[test]
    fn an_unknown_model_pays_the_dearer() {
        let rule = ImageRule::OpenAiDearer;
        check(rule, (512, 512), 308);
        check(rule, (256, 256), 255);
        check(rule, None, 1_445);
    }

    #[test]
    fn anthropic_has_a_cap() {
        check(CLAUDE, (28, 28), 1);
        check(CLAUDE, (1000, 1000), 1_296);
        check(CLAUDE, (4000, 3000), 1_568);
        check(CLAUDE, (MAX, MAX), 1_568);
        check(CLAUDE, None, 1_568);
    }

    #[test]
    fn flat_is_flat() {
        check(ImageRule::Flat(512), (4000, 3000), 512);
        check(ImageRule::Flat(512), None, 512);
    }

    #[test]
    fn models_have_their_rule() {
        let openai = |model| ImageRule::for_model(Provider::OpenAi, model);
        for model in ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-5.4-mini", "o3", "openai/o4-mini"] {
            assert_eq!(openai(Some(model)), ImageRule::OpenAiTiles, "{model}");
        }
        for model in ["gpt-5.5", "gpt-5.6-pro", "gpt-6", "openai/gpt-6-mini"] {
            assert_eq!(openai(Some(model)), ImageRule::OpenAiPatches, "{model}");
        }
        for model in [None, Some("olmo"), Some("qwen3-vl")] {
            assert_eq!(openai(model), ImageRule::OpenAiDearer, "{model:?}");
        }
        let anthropic = |model| ImageRule::for_model(Provider::Anthropic, model);
        for model in ["claude-3-5-sonnet-20241022", "claude-opus-4-20250514", "claude-opus-4-6"] {
            assert_eq!(anthropic(Some(model)), CLAUDE, "{model}");
        }
        for model in [None, Some("claude-opus-4-7"), Some("claude-haiku-5-5"), Some("claude-fable")]
        {
            assert_eq!(anthropic(model), ImageRule::Anthropic { cap: 4_784 }, "{model:?}");
        }
    }
}
