//! What a model's name tells.

/// Reads the version from names such as `gpt-5.5-mini`, `gpt-4o` and `claude-opus-4-7-20260101`.
pub(crate) fn version(model: &str, family: &str) -> Option<(u32, u32)> {
    let model = model.to_ascii_lowercase();
    let (_, rest) = model.split_once(family)?;
    let mut words = rest.split(|char: char| !char.is_ascii_alphanumeric());
    let major = words.find_map(|word| number(word.strip_suffix('o').unwrap_or(word)))?;
    Some((major, words.next().and_then(number).unwrap_or(0)))
}

/// Longer numbers are dates, and numbers with letters are sizes.
fn number(word: &str) -> Option<u32> {
    if word.len() <= 2 { word.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (model, expected) in [
            ("gpt-4o", Some((4, 0))),
            ("gpt-4.1-mini", Some((4, 1))),
            ("gpt-4-0613", Some((4, 0))),
            ("gpt-4-32k", Some((4, 0))),
            ("gpt-5-2025-08-07", Some((5, 0))),
            ("openai/GPT-5.5-Pro", Some((5, 5))),
            ("gpt-oss-20b", None),
            ("o3", None),
        ] {
            assert_eq!(version(model, "gpt"), expected, "{model}");
        }
        for (model, expected) in [
            ("claude-3-5-sonnet-20241022", Some((3, 5))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("us.anthropic.claude-opus-4-7-20260101-v1:0", Some((4, 7))),
            ("claude-sonnet-4-6[1m]", Some((4, 6))),
            ("anthropic/claude-haiku-5.5", Some((5, 5))),
            ("claude-fable", None),
        ] {
            assert_eq!(version(model, "claude"), expected, "{model}");
        }
    }
}
