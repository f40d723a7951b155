//! What providers charge for a picture.

use longhand_core::{Image, Tokens};

use crate::ModelFacts;

/// Who prices the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageProvider {
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
    OpenAiTiles {
        /// The price of any picture, and of one in low detail.
        base: u32,
        /// The price of a tile.
        tile: u32,
    },
    /// `OpenAI`'s small models, and all from GPT-5.5 on: a price for each patch of 32 pixels.
    OpenAiPatches {
        /// The price of a hundred patches.
        percent: u32,
        /// The most patches, because larger pictures are scaled down; `None` if they are not.
        patches_max: Option<u32>,
    },
    /// The dearer of tiles and patches, for a model that we do not know.
    OpenAiDearer,
    /// Anthropic: one for each patch of 28 pixels, up to a cap.
    Anthropic {
        /// The most that a picture costs, because larger ones are scaled down.
        cap: u64,
    },
    /// Gemini before 3: 258 for a small picture and for each tile of a larger one.
    GeminiTiles,
    /// One price for every picture.
    Flat(u64),
}

impl ImageRule {
    /// GPT-4o and most models before GPT-5.5.
    pub const OPENAI_TILES: Self = Self::OpenAiTiles { base: 85, tile: 170 };
    /// GPT-5.5 and later: 1.2 for each patch, measured on pictures of up to 12 megapixels.
    pub const OPENAI_PATCHES: Self = Self::OpenAiPatches { percent: 120, patches_max: None };
    /// Claude before 4.7.
    pub const CLAUDE: Self = Self::Anthropic { cap: 1_568 };
    /// Claude from 4.7 on.
    pub const CLAUDE_FROM_4_7: Self = Self::Anthropic { cap: 4_784 };
    /// What a picture counts at Gemini from 3 on.
    pub(crate) const GEMINI_FROM_3: u64 = 1_100;

    /// `OpenAI`'s small models before GPT-5.5. That they scale pictures down to 1,536 patches is assumed.
    pub(crate) const fn capped_patches(percent: u32) -> Self {
        Self::OpenAiPatches { percent, patches_max: Some(1_536) }
    }

    /// Chooses the rule of a model, or the dearest of its provider for an unknown model.
    pub fn for_model(provider: ImageProvider, model: Option<&str>) -> Self {
        model.and_then(|model| ModelFacts::of(model).images).unwrap_or(match provider {
            ImageProvider::OpenAi => Self::OpenAiDearer,
            ImageProvider::Anthropic => Self::CLAUDE_FROM_4_7,
        })
    }

    /// Prices a picture; one of unknown size at the most that an ordinary picture costs.
    pub fn tokens(self, image: &Image) -> Tokens {
        let pixels = image.pixels.filter(|&(width, height)| width > 0 && height > 0);
        Tokens(match self {
            Self::OpenAiTiles { base, tile } => tiles_price(base, tile, pixels, image.low_detail),
            Self::OpenAiPatches { percent, patches_max } => {
                patches_price(percent, patches_max, pixels)
            }
            Self::OpenAiDearer => {
                let price = |rule: Self| rule.tokens(image).0;
                price(Self::OPENAI_TILES).max(price(Self::OPENAI_PATCHES))
            }
            Self::Anthropic { cap } => pixels.map_or(cap, |pixels| squares(pixels, 28).min(cap)),
            Self::GeminiTiles => gemini_price(pixels),
            Self::Flat(tokens) => tokens,
        })
    }
}

fn tiles_price(base: u32, tile: u32, pixels: Option<(u32, u32)>, low_detail: bool) -> u64 {
    // A picture is scaled into 2048 × 768 pixels, either way up.
    const LARGEST: (u32, u32) = (2048, 768);
    if low_detail {
        return u64::from(base);
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
    u64::from(base) + u64::from(tile) * tiles(long) * tiles(short)
}

fn patches_price(percent: u32, patches_max: Option<u32>, pixels: Option<(u32, u32)>) -> u64 {
    // Without a cap to fall back on, an unknown picture counts as a megapixel.
    let unknown = || patches_max.map_or_else(|| squares((1024, 1024), 32), u64::from);
    let patches = pixels.map_or_else(unknown, |pixels| squares(pixels, 32));
    let patches = patches_max.map_or(patches, |most| patches.min(u64::from(most)));
    (u128::from(patches) * u128::from(percent)).div_ceil(100).try_into().unwrap_or(u64::MAX)
}

fn gemini_price(pixels: Option<(u32, u32)>) -> u64 {
    const TILE: u64 = 258;
    const SMALL: u32 = 384;
    // A square is four tiles.
    let Some((width, height)) = pixels else { return 4 * TILE };
    if width <= SMALL && height <= SMALL {
        return TILE;
    }
    let side = (u64::from(width.min(height)) * 2 / 3).max(1);
    TILE * u64::from(width).div_ceil(side) * u64::from(height).div_ceil(side)
}

fn squares((width, height): (u32, u32), side: u32) -> u64 {
    u64::from(width.div_ceil(side)) * u64::from(height.div_ceil(side))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u32 = u32::MAX;

    fn check(rule: ImageRule, pixels: impl Into<Option<(u32, u32)>>, expected: u64) {
        let image = Image { pixels: pixels.into(), ..Image::default() };
        assert_eq!(rule.tokens(&image), Tokens(expected), "{rule:?} {image:?}");
    }

    #[test]
    fn tiles_are_counted_after_scaling() {
        let rule = ImageRule::OPENAI_TILES;
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
        assert_eq!(ImageRule::OPENAI_TILES.tokens(&image), Tokens(85));
        assert_eq!(ImageRule::OpenAiDearer.tokens(&image), Tokens(14_100));
    }

    #[test]
    fn patches_are_counted_as_measured() {
        let rule = ImageRule::OPENAI_PATCHES;
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
        check(ImageRule::CLAUDE, (28, 28), 1);
        check(ImageRule::CLAUDE, (1000, 1000), 1_296);
        check(ImageRule::CLAUDE, (4000, 3000), 1_568);
        check(ImageRule::CLAUDE, (MAX, MAX), 1_568);
        check(ImageRule::CLAUDE, None, 1_568);
    }

    #[test]
    fn flat_is_flat() {
        check(ImageRule::Flat(512), (4000, 3000), 512);
        check(ImageRule::Flat(512), None, 512);
    }

    #[test]
    fn small_models_have_a_cap_on_patches() {
        let rule = ImageRule::capped_patches(162);
        check(rule, (1024, 1024), 1_659);
        check(rule, (4000, 3000), 2_489);
        check(rule, None, 2_489);
    }

    #[test]
    fn gemini_has_tiles() {
        let rule = ImageRule::GeminiTiles;
        check(rule, (384, 384), 258);
        check(rule, (1000, 1000), 4 * 258);
        check(rule, (960, 540), 6 * 258);
        check(rule, (1, MAX), 258 * u64::from(MAX));
        check(rule, None, 4 * 258);
    }

    #[test]
    fn an_unknown_model_has_the_dearest_rule_of_its_provider() {
        for model in [None, Some("olmo"), Some("qwen3-vl")] {
            assert_eq!(ImageRule::for_model(ImageProvider::OpenAi, model), ImageRule::OpenAiDearer);
            assert_eq!(
                ImageRule::for_model(ImageProvider::Anthropic, model),
                ImageRule::CLAUDE_FROM_4_7
            );
        }
        let claude = ImageRule::for_model(ImageProvider::OpenAi, Some("claude-opus-4-6"));
        assert_eq!(claude, ImageRule::CLAUDE);
    }
}
