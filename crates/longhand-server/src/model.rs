//! What is known of models by their names.

use longhand::Tokens;

/// Windows by how a name begins, the more special first.
const WINDOWS: &[(&str, u64)] = &[
    ("gpt-6", 922_000),
    ("gpt-5.6", 922_000),
    ("gpt-5.5", 922_000),
    ("gpt-5.4-mini", 272_000),
    ("gpt-5.4", 922_000),
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("claude-fable", 1_000_000),
    ("claude-opus-4-5", 200_000),
    ("claude-sonnet-4-5", 200_000),
    ("claude-haiku-4-5", 200_000),
    ("claude-haiku-5-5", 1_000_000),
    ("claude-opus-4-6", 1_000_000),
    ("claude-opus-4-7", 1_000_000),
    ("claude-opus-4-8", 1_000_000),
    ("claude-opus-5", 1_000_000),
    ("claude-sonnet-4-6", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("claude-", 200_000),
    ("gemini-", 1_048_576),
    ("deepseek-v4", 1_000_000),
    ("grok-4.3", 1_000_000),
    ("grok-4.5", 500_000),
    ("grok-4", 256_000),
    ("kimi-k2", 262_144),
    ("mistral-large", 262_144),
    ("glm-4.7", 200_000),
    ("glm-5", 200_000),
];

/// The window of a model, where it is known; the provider's name before a slash does not matter.
pub(crate) fn window(model: &str) -> Option<Tokens> {
    let model = model.rsplit('/').next()?.to_ascii_lowercase();
    let known = WINDOWS.iter().find(|(start, _)| model.starts_with(start));
    known.map(|(_, window)| Tokens(*window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_special_name_comes_first() {
        for (name, tokens) in [
            ("gpt-5.4-mini-2026", Some(272_000)),
            ("openai/GPT-5.4", Some(922_000)),
            ("claude-sonnet-4-5-20250929", Some(200_000)),
            ("gpt-4o-mini", Some(128_000)),
            ("scripted", None),
        ] {
            assert_eq!(window(name), tokens.map(Tokens), "{name}");
        }
        for (at, (later, _)) in WINDOWS.iter().enumerate() {
            let hidden = WINDOWS[..at].iter().any(|(start, _)| later.starts_with(start));
            assert!(!hidden, "{later} is never reached");
        }
    }
}
