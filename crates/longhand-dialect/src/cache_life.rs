//! How long a provider keeps a prefix that nobody asks for.

use crate::mark::marks;
use crate::{Conversation, Dialect};

const MINUTE_MS: u64 = 60_000;

/// What Anthropic keeps without a mark for an hour.
const SHORT_MS: u64 = 5 * MINUTE_MS;

/// What it keeps with that mark. Others say that they keep nothing for longer unless they are asked to.
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// What `OpenAI` keeps on request.
const DAY_MS: u64 = 24 * HOUR_MS;

/// How Claude Code's files say that something was cached for an hour; zero tokens say nothing.
const CACHED_FOR_AN_HOUR: &str = r#"ephemeral_1h_input_tokens":"#;

impl Conversation {
    /// How long its provider keeps its prefix if nobody asks for it, in milliseconds, as the request says or its agent's
    /// file.
    ///
    /// Where providers promise less than they do, this is the longer time: a break that was thought to be free costs
    /// much, and a pause that was missed costs nothing new.
    ///
    /// ```
    /// let read = |text: &str| longhand_dialect::read(text.into(), None).unwrap().cache_life_ms();
    /// let request = |mark: &str| read(&format!(
    ///     r#"{{"max_tokens":9,"system":[{{"type":"text","text":"a","cache_control":{mark}}}],
    ///         "messages":[{{"role":"user","content":[{{"type":"text","text":"hi"}}]}}]}}"#
    /// ));
    /// assert_eq!(request(r#"{"type":"ephemeral"}"#), 300_000);
    /// assert_eq!(request(r#"{"type":"ephemeral","ttl":"1h"}"#), 3_600_000);
    /// ```
    pub fn cache_life_ms(&self) -> u64 {
        match self.dialect {
            Dialect::Anthropic if marks(self.bytes()).iter().any(|mark| mark.hour) => HOUR_MS,
            Dialect::ClaudeCode if was_cached_for_an_hour(self.bytes()) => HOUR_MS,
            Dialect::Anthropic | Dialect::ClaudeCode => SHORT_MS,
            Dialect::Chat | Dialect::Responses | Dialect::Codex | Dialect::Pi => {
                let retention = self.field("prompt_cache_retention");
                if retention == Some(r#""24h""#) { DAY_MS } else { HOUR_MS }
            }
        }
    }
}

/// Whether a session file has an answer whose usage says so. In what tools printed, quotation marks are escaped.
fn was_cached_for_an_hour(lines: &str) -> bool {
    let after = lines.match_indices(CACHED_FOR_AN_HOUR);
    let tokens = after.map(|(at, found)| lines[at + found.len()..].trim_start());
    tokens.into_iter().any(|tokens| tokens.starts_with(|first: char| matches!(first, '1'..='9')))
}

#[cfg(test)]
mod tests {
    use crate::{Dialect, read};

    #[test]
    fn a_session_file_says_how_long_its_provider_kept_it() {
        let file = |tokens: u64| {
            let answer = format!(
                r#"{{"type":"assistant","uuid":"b","parentUuid":"a","message":{{"id":"m","role":"assistant","content":[{{"type":"text","text":"\"ephemeral_1h_input_tokens\":7"}}],"usage":{{"cache_creation":{{"ephemeral_1h_input_tokens":{tokens}}}}}}}}}"#
            );
            let asked = r#"{"type":"user","uuid":"a","parentUuid":null,"message":{"role":"user","content":"hi"}}"#;
            read(format!("{asked}\n{answer}\n").into(), Some(Dialect::ClaudeCode)).unwrap()
        };
        assert_eq!(file(0).cache_life_ms(), 300_000);
        assert_eq!(file(12).cache_life_ms(), 3_600_000);
    }

    #[test]
    fn others_keep_it_for_an_hour_or_as_asked() {
        let request = |more: &str| {
            let text = format!(r#"{{"model":"m","input":"hi"{more}}}"#);
            read(text.into(), Some(Dialect::Responses)).unwrap().cache_life_ms()
        };
        assert_eq!(request(""), 3_600_000);
        assert_eq!(request(r#","prompt_cache_retention":"24h""#), 86_400_000);
    }
}
