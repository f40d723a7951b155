//! What is known about a model: vocabulary, limits, prices, picture formula.
//!
//! `tiktoken::pricing` is asked first. The tables here hold what it lacks and the few figures it has
//! wrong, from the notes on providers of November 2026. None was checked against a live provider, and
//! the few that are assumed say so; settings override windows and prices.

use longhand_core::{ModelFamily, ModelName, Tokens};
use tiktoken::pricing::{self, VisionPricing};

use crate::{ImageRule, MeterSpec, Price};

/// What is known about a model by its name.
///
/// ```
/// use longhand_core::Tokens;
/// use longhand_meter::ModelFacts;
///
/// let facts = ModelFacts::of("openai/gpt-5-2025-08-07");
/// assert_eq!((facts.window, facts.input_max), (Some(Tokens(400_000)), Some(Tokens(272_000))));
/// assert_eq!(facts.input_limit(Tokens(10_000)), Some(Tokens(272_000)));
/// assert_eq!(facts.input_limit(Tokens(200_000)), Some(Tokens(200_000)));
/// ```
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The name, with family and version.
    pub name: ModelName,
    /// The meter that counts best for it; [`MeterSpec::is_exact`] says how good that is.
    pub meter: MeterSpec,
    /// The most tokens of a request and its reply together.
    pub window: Option<Tokens>,
    /// The most tokens of a request, if the provider limits it apart from the window.
    pub input_max: Option<Tokens>,
    /// The most tokens of a reply.
    pub output_max: Option<Tokens>,
    /// List prices, without the surcharge of some providers for very long requests.
    pub price: Option<Price>,
    /// What a picture counts, if the family is known.
    pub images: Option<ImageRule>,
    /// Whether thinking is refused after an edit of anything before it.
    pub binds_thinking: bool,
    /// Whether tool calls are refused without the reasoning that led to them.
    pub demands_reasoning: bool,
}

impl ModelFacts {
    /// Looks up a model by the name that a request gives it.
    pub fn of(model: &str) -> Self {
        let name = ModelName::parse(model);
        let limits = limits(&name);
        Self {
            meter: meter(&name),
            window: limits.map(|limits| Tokens(limits.window)),
            input_max: limits.and_then(|limits| input_max(&name, limits)),
            output_max: limits.and_then(|limits| limits.output_max).map(Tokens),
            price: price(&name),
            images: images(&name),
            binds_thinking: name.binds_thinking(),
            demands_reasoning: name.demands_reasoning(),
            name,
        }
    }

    /// Replaces the window; a limit of the input that belongs to the old one no longer applies.
    #[must_use]
    pub fn with_window(self, window: Tokens) -> Self {
        Self { window: Some(window), input_max: None, ..self }
    }

    /// The most tokens of a request whose reply may have `reply` tokens.
    ///
    /// A reply that has no room beside any request takes none: to refuse it is up to the provider.
    pub fn input_limit(&self, reply: Tokens) -> Option<Tokens> {
        let beside = |window: Tokens| if reply < window { window - reply } else { window };
        let beside_reply = self.window.map(beside);
        beside_reply.into_iter().chain(self.input_max).min()
    }
}

#[derive(Clone, Copy)]
struct ModelLimits {
    window: u64,
    output_max: Option<u64>,
}

/// Limits that `tiktoken` has wrong: window, largest reply.
const LIMITS_CORRECTED: &[(&str, u64, u64)] = &[
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4.1-mini", 1_047_576, 32_768),
    ("gpt-4.1-nano", 1_047_576, 32_768),
    ("claude-sonnet-4.6", 1_000_000, 128_000),
    ("glm-4.7", 200_000, 128_000),
    ("glm-5", 200_000, 128_000),
    ("mistral-large", 262_144, 0),
];

/// Limits by how a name begins, for names that `tiktoken` does not know; the more special first. A
/// largest reply of 0 is unknown.
const LIMITS_BY_PREFIX: &[(&str, u64, u64)] = &[
    ("gpt-6", 1_050_000, 128_000),
    ("gpt-5.6", 1_050_000, 128_000),
    ("gpt-5.5", 1_050_000, 128_000),
    ("gpt-5.4", 1_050_000, 128_000),
    ("gpt-5", 400_000, 128_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("gpt-4-turbo", 128_000, 4_096),
    ("gpt-4", 8_192, 8_192),
    ("gpt-3.5", 16_385, 4_096),
    ("gpt-35", 16_385, 4_096),
    ("o3", 200_000, 100_000),
    ("o4", 200_000, 100_000),
    ("gemini-4", 1_048_576, 0),
    ("gemini-", 1_048_576, 65_536),
    ("deepseek-v4", 1_000_000, 0),
    ("deepseek-chat", 1_000_000, 0),
    ("deepseek-reasoner", 1_000_000, 0),
    ("grok-4.3", 1_000_000, 0),
    ("grok-4.5", 500_000, 0),
    ("grok-4", 256_000, 0),
    ("kimi-k2", 262_144, 0),
    ("glm-4.7", 200_000, 128_000),
    ("glm-5", 200_000, 128_000),
];

/// Claude since 4.6, and what is assumed of earlier models that are not listed.
const CLAUDE_LIMITS: ModelLimits = ModelLimits { window: 1_000_000, output_max: Some(128_000) };
const CLAUDE_LIMITS_BEFORE_4_6: ModelLimits = ModelLimits { window: 200_000, output_max: None };

fn limits(name: &ModelName) -> Option<ModelLimits> {
    let known = |output: u64| (output > 0).then_some(output);
    let row = |(_, window, output): &(&str, u64, u64)| ModelLimits {
        window: *window,
        output_max: known(*output),
    };
    let id = name.id();
    if let Some(corrected) = LIMITS_CORRECTED.iter().find(|(corrected, ..)| *corrected == id) {
        return Some(row(corrected));
    }
    if let Some(model) = listed(id).or_else(|| base_of(id)) {
        return Some(ModelLimits {
            window: u64::from(model.context_window),
            output_max: known(u64::from(model.max_output))
                .filter(|_| !has_placeholder_output(model.provider)),
        });
    }
    if let Some(prefix) = LIMITS_BY_PREFIX.iter().find(|(prefix, ..)| id.starts_with(prefix)) {
        return Some(row(prefix));
    }
    (name.family() == ModelFamily::Claude).then(|| {
        let is_late = name.is_since(ModelFamily::Claude, (4, 6))
            || ["fable", "mythos"].iter().any(|line| id.contains(line));
        if is_late { CLAUDE_LIMITS } else { CLAUDE_LIMITS_BEFORE_4_6 }
    })
}

/// `tiktoken` says of these that their largest replies are placeholders.
fn has_placeholder_output(provider: pricing::Provider) -> bool {
    use pricing::Provider::{DeepSeek, MiniMax, Moonshot, Zhipu};
    matches!(provider, DeepSeek | MiniMax | Moonshot | Zhipu)
}

/// GPT-5 and later refuse a request that leaves no room for the largest reply, whatever reply it asks for.
fn input_max(name: &ModelName, limits: ModelLimits) -> Option<Tokens> {
    let apart = name.is_since(ModelFamily::Gpt, (5, 0));
    limits.output_max.filter(|_| apart).map(|output| Tokens(limits.window.saturating_sub(output)))
}

fn listed(id: &str) -> Option<&'static pricing::Model> {
    pricing::resolve_model(id).map(|resolved| resolved.model)
}

/// The listed model that an id extends: `gpt-5.4` for `gpt-5.4-codex`. It shares the limits, not the
/// price.
fn base_of(id: &str) -> Option<&'static pricing::Model> {
    let extends = |base: &str| id.strip_prefix(base).is_some_and(|rest| rest.starts_with('-'));
    let bases = pricing::all_models().iter().filter(|model| extends(model.id));
    bases.max_by_key(|model| model.id.len())
}

/// List prices in millionths of a dollar per million tokens, for models that `tiktoken` lacks or has
/// wrong: input, cached input, output.
const PRICES: &[(&str, u64, u64, u64)] = &[
    ("claude-opus-4.1", 15_000_000, 1_500_000, 75_000_000),
    // The introductory price that `tiktoken` has ended in August 2026.
    ("claude-sonnet-5", 3_000_000, 300_000, 15_000_000),
    ("grok-4", 3_000_000, 750_000, 15_000_000),
    ("grok-4-fast", 200_000, 50_000, 500_000),
];

/// A model's own price, never that of a relative.
fn price(name: &ModelName) -> Option<Price> {
    if name.is_variant() {
        return None;
    }
    let priced = PRICES.iter().find(|(id, ..)| *id == name.id());
    let (input, cached_input, output) = if let Some((_, input, cached, output)) = priced {
        (*input, Some(*cached), *output)
    } else {
        let rates = listed(name.id())?.pricing;
        let cached = rates.cached_input_per_1m.map(micros);
        (micros(rates.input_per_1m), cached, micros(rates.output_per_1m))
    };
    let cached_by_rule = cached_per_mille(name).map(|per_mille| input * per_mille / 1_000);
    Some(Price {
        input,
        cached_input: cached_by_rule.or(cached_input).unwrap_or(input),
        cache_write: if charges_cache_writes(name) { input * 5 / 4 } else { input },
        output,
    })
}

fn micros(dollars: f64) -> u64 {
    (dollars * 1_000_000.0).round() as u64
}

/// The price of cached input in thousandths of the input price, for providers with one rule.
///
/// The figures of `tiktoken` for these are partly missing and partly those of a cache write.
fn cached_per_mille(name: &ModelName) -> Option<u64> {
    let claude = name.family() == ModelFamily::Claude;
    match name.family() {
        _ if claude && name.id().contains("fable") && name.binds_thinking() => Some(25),
        _ if claude && name.binds_thinking() => Some(50),
        // Claude 3 Haiku has a list price of 3 cents, which is 12%.
        ModelFamily::Claude if name.id() == "claude-3-haiku" => None,
        ModelFamily::Claude | ModelFamily::Gemini => Some(100),
        ModelFamily::DeepSeek if name.is_since(ModelFamily::DeepSeek, (4, 0)) => Some(20),
        _ => None,
    }
}

/// Claude for five minutes, and GPT since 5.6.
fn charges_cache_writes(name: &ModelName) -> bool {
    name.family() == ModelFamily::Claude || name.is_since(ModelFamily::Gpt, (5, 6))
}

/// Claude's vocabulary is not public. `o200k` counts 15–20% less than Claude up to 4.6 bills, which is a
/// factor of 1.18–1.25; from 4.7 on Claude typically counts 30% more than 4.6 (0–35%).
const CLAUDE_PERCENT: u32 = 120;
const CLAUDE_PERCENT_FROM_4_7: u32 = 156;

fn meter(name: &ModelName) -> MeterSpec {
    match tiktoken::model_to_encoding(name.id()) {
        Some("o200k_base" | "o200k_harmony") => MeterSpec::O200k,
        Some("cl100k_base") => MeterSpec::Cl100k,
        // Also for GPT-6: nobody has said that it kept the vocabulary.
        _ => MeterSpec::Approximate { percent: percent(name) },
    }
}

fn percent(name: &ModelName) -> u32 {
    match (name.family(), name.version()) {
        (ModelFamily::Claude, Some(version)) if version < (4, 7) => CLAUDE_PERCENT,
        (ModelFamily::Claude, _) => CLAUDE_PERCENT_FROM_4_7,
        _ => 100,
    }
}

/// Multiplier of patches in hundredths for the small models of GPT-4.1, assumed for those of GPT-5 too.
const PATCHES_MINI: u32 = 162;
const PATCHES_NANO: u32 = 246;

fn images(name: &ModelName) -> Option<ImageRule> {
    let version = name.version().unwrap_or_default();
    Some(match name.family() {
        ModelFamily::Gpt if version >= (5, 5) => ImageRule::OPENAI_PATCHES,
        ModelFamily::Gpt | ModelFamily::OSeries => openai_images(name)?,
        ModelFamily::Claude => match name.version() {
            Some(version) if version < (4, 7) => ImageRule::CLAUDE,
            _ => ImageRule::CLAUDE_FROM_4_7,
        },
        ModelFamily::Gemini if name.version().is_some_and(|version| version < (3, 0)) => {
            ImageRule::GeminiTiles
        }
        ModelFamily::Gemini => ImageRule::Flat(ImageRule::GEMINI_FROM_3),
        _ => return None,
    })
}

fn openai_images(name: &ModelName) -> Option<ImageRule> {
    match listed(name.id()).and_then(|model| model.extended.vision) {
        Some(VisionPricing::OpenAITileBased { base_tokens, per_tile_tokens, .. }) => {
            Some(ImageRule::OpenAiTiles { base: base_tokens, tile: per_tile_tokens })
        }
        Some(VisionPricing::OpenAIPatchBased { multiplier, .. }) => {
            Some(ImageRule::capped_patches((multiplier * 100.0).round() as u32))
        }
        _ if name.id().starts_with("gpt-5") && name.id().contains("-mini") => {
            Some(ImageRule::capped_patches(PATCHES_MINI))
        }
        _ if name.id().starts_with("gpt-5") && name.id().contains("-nano") => {
            Some(ImageRule::capped_patches(PATCHES_NANO))
        }
        _ => name.version().map(|_| ImageRule::OPENAI_TILES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_the_model_or_its_family() {
        for (model, window, input_max, output_max) in [
            ("gpt-5.4-mini-2026", 400_000, 272_000, 128_000),
            ("openai/GPT-5.4", 1_050_000, 922_000, 128_000),
            ("gpt-5.3-codex", 400_000, 272_000, 128_000),
            ("gpt-6-mini", 1_050_000, 922_000, 128_000),
            ("gpt-4.1-mini", 1_047_576, 0, 32_768),
            ("gpt-4o-mini", 128_000, 0, 16_384),
            ("gpt-4o-audio-preview", 128_000, 0, 16_384),
            ("o3", 200_000, 0, 100_000),
            ("claude-sonnet-4-5-20250929", 200_000, 0, 64_000),
            ("claude-opus-4-6", 1_000_000, 0, 128_000),
            ("claude-opus-5-5", 1_000_000, 0, 128_000),
            ("claude-haiku-5-5", 1_000_000, 0, 128_000),
            ("claude-fable", 1_000_000, 0, 128_000),
            ("claude-3-7-sonnet", 200_000, 0, 0),
            ("gemini-4-argon", 1_048_576, 0, 0),
            ("deepseek-v4", 1_000_000, 0, 0),
            ("grok-4-0709", 256_000, 0, 0),
            ("kimi-k2p6", 262_144, 0, 0),
            ("mistral-large-latest", 262_144, 0, 0),
            ("glm-5", 200_000, 0, 128_000),
        ] {
            let facts = ModelFacts::of(model);
            let tokens = |tokens: u64| (tokens > 0).then_some(Tokens(tokens));
            assert_eq!(facts.window, tokens(window), "{model}");
            assert_eq!(facts.input_max, tokens(input_max), "{model}");
            assert_eq!(facts.output_max, tokens(output_max), "{model}");
        }
        assert_eq!(ModelFacts::of("scripted").window, None);
        assert_eq!(ModelFacts::of("").window, None);
    }

    #[test]
    fn the_more_special_name_comes_first() {
        for (at, (later, ..)) in LIMITS_BY_PREFIX.iter().enumerate() {
            let hidden =
                LIMITS_BY_PREFIX[..at].iter().any(|(prefix, ..)| later.starts_with(prefix));
            assert!(!hidden, "{later} is never reached");
        }
    }

    #[test]
    fn a_set_window_has_no_input_limit_of_the_old_one() {
        let facts = ModelFacts::of("gpt-5").with_window(Tokens(900_000));
        assert_eq!(facts.input_limit(Tokens(100_000)), Some(Tokens(800_000)));
    }

    #[test]
    fn a_model_has_its_own_price_and_not_that_of_a_relative() {
        for (model, input) in [
            ("gpt-4o", Some(2_500_000)),
            ("gpt-4o-2024-08-06", Some(2_500_000)),
            ("gpt-4o-mini", Some(150_000)),
            ("gpt-5-nano-2025-08-07", Some(50_000)),
            ("gpt-5-pro", Some(15_000_000)),
            ("gpt-5.9", None),
            ("gpt-4o-audio-preview", None),
            ("ft:gpt-4o:acme::1", None),
            ("claude-haiku-4-5-20251001", Some(1_000_000)),
            ("claude-opus-4-20250514", Some(15_000_000)),
            ("claude-opus-4-1", Some(15_000_000)),
            ("claude-opus-4-5", Some(5_000_000)),
            ("claude-opus-4-9", None),
            ("claude-sonnet-5", Some(3_000_000)),
            ("anthropic/claude-sonnet-4-5", Some(3_000_000)),
            ("grok-4-0709", Some(3_000_000)),
            ("unheard-of", None),
        ] {
            assert_eq!(ModelFacts::of(model).price.map(|price| price.input), input, "{model}");
        }
    }

    #[test]
    fn caches_have_their_price() {
        for (model, cached, write) in [
            ("gpt-4o", 1_250_000, 2_500_000),
            ("gpt-5", 125_000, 1_250_000),
            ("gpt-5.6-terra", 200_000, 2_500_000),
            ("gpt-5.5-pro", 30_000_000, 30_000_000),
            ("claude-3-5-haiku", 80_000, 1_000_000),
            ("claude-3-haiku", 30_000, 312_500),
            ("claude-opus-5", 500_000, 6_250_000),
            ("gemini-2.5-flash", 30_000, 300_000),
            ("deepseek-v4-flash", 2_800, 140_000),
        ] {
            let price = ModelFacts::of(model).price.unwrap();
            assert_eq!((price.cached_input, price.cache_write), (cached, write), "{model}");
        }
    }

    #[test]
    fn pictures_have_the_formula_of_their_model() {
        for (model, rule) in [
            ("gpt-4o", Some(ImageRule::OPENAI_TILES)),
            ("gpt-4.1", Some(ImageRule::OPENAI_TILES)),
            ("gpt-5", Some(ImageRule::OPENAI_TILES)),
            ("gpt-4o-mini", Some(ImageRule::OpenAiTiles { base: 2_833, tile: 5_667 })),
            ("o3", Some(ImageRule::OpenAiTiles { base: 75, tile: 150 })),
            ("gpt-4.1-mini", Some(ImageRule::capped_patches(162))),
            ("openai/o4-mini", Some(ImageRule::capped_patches(172))),
            ("gpt-5.4-mini", Some(ImageRule::capped_patches(162))),
            ("gpt-5.5", Some(ImageRule::OPENAI_PATCHES)),
            ("openai/gpt-6-mini", Some(ImageRule::OPENAI_PATCHES)),
            ("claude-3-5-sonnet-20241022", Some(ImageRule::CLAUDE)),
            ("claude-opus-4-6", Some(ImageRule::CLAUDE)),
            ("claude-opus-4-7", Some(ImageRule::CLAUDE_FROM_4_7)),
            ("claude-fable", Some(ImageRule::CLAUDE_FROM_4_7)),
            ("gemini-2.5-pro", Some(ImageRule::GeminiTiles)),
            ("gemini-3.6-flash", Some(ImageRule::Flat(1_100))),
            ("olmo", None),
        ] {
            assert_eq!(ModelFacts::of(model).images, rule, "{model}");
        }
    }
}
