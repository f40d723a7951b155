//! Whether a summary may take the place of what it summarises.

use longhand_core::{Scale, Tokens};

/// Why a summary is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It says nothing.
    #[error("the summary is empty")]
    Empty,
    /// It is no shorter than what it replaces.
    #[error("the summary has {tokens} tokens and replaces only {replaced}")]
    NotShorter {
        /// The tokens of the summary.
        tokens: Tokens,
        /// The tokens of what it replaces.
        replaced: Tokens,
    },
    /// It is over its cap.
    #[error("the summary has {tokens} tokens, over its cap of {limit}")]
    OverCap {
        /// The tokens of the summary.
        tokens: Tokens,
        /// The most it may have.
        limit: Tokens,
    },
}

/// Accepts a summary that says something, is shorter than what it replaces and within its cap.
pub fn accept(
    summary: &str,
    replaced: Tokens,
    limit: Tokens,
    scale: &Scale,
) -> Result<(), Refusal> {
    if !summary.chars().any(char::is_alphanumeric) {
        return Err(Refusal::Empty);
    }
    let tokens = scale.text(summary);
    if tokens > limit {
        return Err(Refusal::OverCap { tokens, limit });
    }
    if tokens >= replaced {
        return Err(Refusal::NotShorter { tokens, replaced });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhand_meter::{Chars, CharsPerToken};

    use super::*;

    #[test]
    fn a_summary_is_refused_for_a_reason() {
        let meter = Chars::new("1".parse::<CharsPerToken>().unwrap());
        let scale = Scale::new(&meter);
        for (summary, replaced, limit, expected) in [
            ("abcd", 5, 4, Ok(())),
            ("", 5, 4, Err(Refusal::Empty)),
            (" .\n-- ", 50, 40, Err(Refusal::Empty)),
            ("字", 5, 4, Ok(())),
            ("abcd", 4, 4, Err(Refusal::NotShorter { tokens: Tokens(4), replaced: Tokens(4) })),
            ("abcde", 9, 4, Err(Refusal::OverCap { tokens: Tokens(5), limit: Tokens(4) })),
        ] {
            assert_eq!(
                accept(summary, Tokens(replaced), Tokens(limit), &scale),
                expected,
                "{summary}"
            );
        }
    }
}
