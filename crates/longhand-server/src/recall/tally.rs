//! What a client is told of the tokens that its answer took.

use super::json;

/// The fields of a usage that tell what was read.
const INPUT: [&str; 8] = [
    "prompt_tokens",
    "prompt_tokens_details",
    "prompt_cache_hit_tokens",
    "prompt_cache_miss_tokens",
    "input_tokens",
    "input_tokens_details",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
];

/// Counts over all answers that a client sees as one.
///
/// What was read is that of the first, since the others have in them what the client never gets; what
/// was written is that of all.
#[derive(Debug, Default)]
pub(super) struct Tally {
    first: Option<String>,
    output: u64,
}

impl Tally {
    /// Takes note of a usage as it stands in an answer.
    pub(super) fn saw(&mut self, usage: Option<&str>) {
        if let (None, Some(usage)) = (&self.first, usage) {
            self.first = Some(usage.to_owned());
        }
    }

    /// Adds what an answer has written that another one follows.
    pub(super) fn add(&mut self, output: u64) {
        self.output += output;
    }

    /// The usage of the last answer as the client is to see it.
    pub(super) fn told(&self, last: &str) -> String {
        let mut usage = last.to_owned();
        for key in INPUT {
            let first = self.first.as_deref().and_then(|first| json::get(first, &[key]));
            if let (Some(first), Some(_)) = (first, json::get(last, &[key])) {
                usage = json::with(&usage, &[key], first);
            }
        }
        let mut output = 0;
        for key in ["completion_tokens", "output_tokens"] {
            if let Some(own) = json::number(last, &[key]) {
                output = own + self.output;
                usage = json::with(&usage, &[key], &output.to_string());
            }
        }
        if json::get(last, &["total_tokens"]).is_some() {
            let input = ["prompt_tokens", "input_tokens"];
            let input = input.iter().find_map(|key| json::number(&usage, &[key])).unwrap_or(0);
            usage = json::with(&usage, &["total_tokens"], &(input + output).to_string());
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_once_and_what_was_written_always() {
        let mut tally = Tally::default();
        tally.saw(Some(r#"{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}"#));
        tally.add(2);
        tally.saw(Some(r#"{"prompt_tokens":50}"#));
        assert_eq!(
            tally.told(r#"{"prompt_tokens":30,"completion_tokens":3,"total_tokens":33,"x":1}"#),
            r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"x":1}"#
        );
        assert_eq!(tally.told(r#"{"output_tokens":3}"#), r#"{"output_tokens":5}"#);
    }
}
