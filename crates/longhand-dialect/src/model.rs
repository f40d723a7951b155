//! What a model's name says of what it asks of a conversation.

/// Since when models of a family bind their thinking to all that came before it.
const BINDING: [(&str, (u32, u32)); 5] = [
    ("fable", (5, 1)),
    ("mythos", (5, 1)),
    ("opus", (5, 5)),
    ("sonnet", (5, 5)),
    ("haiku", (5, 5)),
];

/// Whether a model of Anthropic refuses thinking once what came before it has changed.
pub(crate) fn binds_thinking(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let Some((_, name)) = model.split_once("claude") else { return false };
    BINDING.iter().any(|(family, since)| {
        let version = name.split_once(family).and_then(|(_, rest)| version(rest, &['-', '.']));
        version.is_some_and(|version| version >= *since)
    })
}

/// Whether a model that is reached through Chat Completions refuses calls without the reasoning that led
/// to them, though it may be empty.
pub(crate) fn demands_reasoning(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let name = model.rsplit('/').next().unwrap_or_default();
    let since = |prefix: &str, since: (u32, u32)| {
        let version = name.strip_prefix(prefix).and_then(|rest| version(rest, &['.', 'p']));
        version.is_some_and(|version| version >= since)
    };
    since("deepseek-v", (4, 0))
        || name.starts_with("deepseek-reasoner")
        || since("kimi-k", (2, 5))
        || name.starts_with("kimi-for-coding")
        || name.starts_with("kimi") && name.contains("thinking")
}

/// The version that a text begins with, such as 5.5 of `-5-5-20260901`; a date is none.
fn version(text: &str, separators: &[char]) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse().ok().filter(|number| *number < 100).map(|it| (it, digits))
    };
    let text = text.trim_start_matches(separators);
    let (major, digits) = number(text)?;
    let minor = text[digits..].strip_prefix(separators).and_then(number);
    Some((major, minor.map_or(0, |(minor, _)| minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_bound_by_new_models_of_anthropic() {
        for (model, binds) in [
            ("claude-fable-5-1", true),
            ("claude-fable-5", false),
            ("claude-mythos-5-1-20260901", true),
            ("claude-opus-5-5", true),
            ("claude-opus-5-20260301", false),
            ("claude-sonnet-5", false),
            ("claude-sonnet-5-6@20261001", true),
            ("claude-haiku-6", true),
            ("us.anthropic.claude-opus-5-5-v1:0", true),
            ("us.anthropic.claude-opus-5-v5:0", false),
            ("anthropic/claude-opus-5.5", true),
            ("claude-opus-4-8", false),
            ("claude-3-5-sonnet-20241022", false),
            ("claude-3-opus@20240229", false),
            ("opus-9", false),
            ("claude", false),
            ("", false),
        ] {
            assert_eq!(binds_thinking(model), binds, "{model}");
        }
    }

    #[test]
    fn some_models_want_reasoning_with_every_call() {
        for (model, demands) in [
            ("deepseek-v4", true),
            ("deepseek/deepseek-v4-flash", true),
            ("deepseek-ai/DeepSeek-V4.1-Pro", true),
            ("deepseek-reasoner", true),
            ("deepseek-chat", false),
            ("deepseek-v3.2", false),
            ("kimi-k2-thinking-turbo", true),
            ("moonshotai/kimi-k2.5", true),
            ("accounts/fireworks/models/kimi-k2p6", true),
            ("kimi-k2.5:cloud", true),
            ("kimi-for-coding", true),
            ("kimi-k2-0905-preview", false),
            ("kimi-k2", false),
            ("gpt-5.5", false),
        ] {
            assert_eq!(demands_reasoning(model), demands, "{model}");
        }
    }
}
