//! Secrets, taken out of what is stored.
//!
//! A message is redacted where it is admitted, before anything is made of it: entries, links, handles, folds,
//! names and the search index are then made of text that has no secret. What is sent to a provider comes
//! from the bytes of the request itself.

mod rules;
#[cfg(test)]
mod tests;
mod view;

use std::borrow::Cow;
use std::ops::Range;

use longhand_core::{Meter, Scale, Tokens};
use longhand_dialect::{Conversation, DialectError, read};
use regex::Regex;

use self::rules::{RULES, Rule};
use self::view::UnescapedView;

/// The beginning of every mark that replaces a secret.
const MARK: &str = "[redacted ";

/// What lies between the texts of two neighbouring parts of a message: the keys around them.
const GAP: &str = concat!(
    r#"""#,
    r#"(?:\s*,\s*"(?:type|cache_control|annotations|logprobs|citations|id|index|status)"\s*:\s*"#,
    r#"(?:"[^"]{0,80}"|null|[0-9]{1,20}|\{[^{}]{0,80}\}|\[\s*\]))*"#,
    r#"\s*\}\s*,\s*\{"#,
    r#"(?:\s*"(?:type|cache_control|annotations|logprobs|citations|id|index|status)"\s*:\s*"#,
    r#"(?:"[^"]{0,80}"|null|[0-9]{1,20}|\{[^{}]{0,80}\}|\[\s*\])\s*,)*"#,
    r#"\s*"(?:text|content|thinking|refusal)"\s*:\s*""#,
);

/// Finds secrets and puts marks in their place.
///
/// A mark names the kind of secret and a hash of it, made with a key: `[redacted github 1f0c3a77]`. So two
/// messages that differ only in a secret stay different, a secret can be followed through an archive, and
/// passwords cannot be guessed from the archive without the key.
pub struct Redactor {
    key: [u8; 32],
    rules: Vec<(&'static Rule, Regex)>,
    gap: Option<Regex>,
}

/// A secret in a text: where its pieces are, and the mark that replaces the first.
struct FoundSecret {
    pieces: Vec<Range<usize>>,
    mark: String,
}

impl Redactor {
    /// A redactor whose marks depend on a key. Use the same key for all texts of an archive.
    pub fn new(key: [u8; 32]) -> Self {
        // Unicode's idea of a word is slow, and keys have none of it.
        let compiled = |pattern: &str| Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")).ok();
        let rules = RULES.iter().filter_map(|rule| Some((rule, compiled(rule.pattern)?))).collect();
        Self { key, rules, gap: compiled(GAP) }
    }

    /// Replaces secrets by marks, whether the text is plain, JSON or JSON within JSON.
    ///
    /// JSON stays JSON with the same structure. A text that was redacted before stays as it is.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let secrets = self.secrets(text);
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut splices: Vec<(Range<usize>, &str)> = Vec::new();
        for secret in &secrets {
            for (index, piece) in secret.pieces.iter().enumerate() {
                splices.push((piece.clone(), if index == 0 { &secret.mark } else { "" }));
            }
        }
        splices.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (range, mark) in splices {
            // Where two rules found the same text, the first mark stands for all of it.
            if range.start >= at {
                out.push_str(&text[at..range.start]);
                out.push_str(mark);
            }
            at = at.max(range.end);
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    /// A conversation as it is stored; `None` if it has no secret.
    pub fn twin(&self, conversation: &Conversation) -> Result<Option<Conversation>, DialectError> {
        match self.redact(conversation.bytes()) {
            Cow::Borrowed(_) => Ok(None),
            Cow::Owned(text) => read(text.into_bytes(), Some(conversation.dialect)).map(Some),
        }
    }

    fn secrets(&self, text: &str) -> Vec<FoundSecret> {
        let view = UnescapedView::unescaped(text);
        let mut secrets = Vec::new();
        for (range, mark) in self.found(&view.text) {
            secrets.push(FoundSecret { pieces: view.sources(&range), mark });
        }
        let gaps: Vec<Range<usize>> = self
            .gap
            .iter()
            .flat_map(|gap| gap.find_iter(&view.text))
            .map(|gap| gap.range())
            .collect();
        if gaps.is_empty() {
            return secrets;
        }
        // A secret may be cut into two parts of a message.
        let joined = UnescapedView::without(&view.text, &gaps);
        for (range, mark) in self.found(&joined.text) {
            let pieces = joined.sources(&range);
            if pieces.len() > 1 {
                let pieces = pieces.iter().flat_map(|piece| view.sources(piece)).collect();
                secrets.push(FoundSecret { pieces, mark });
            }
        }
        secrets
    }

    /// The secrets of a text without escapes.
    fn found<'s>(&'s self, text: &'s str) -> impl Iterator<Item = (Range<usize>, String)> + 's {
        self.rules.iter().flat_map(move |(rule, regex)| {
            regex.captures_iter(text).filter_map(move |captures| {
                let found = captures.get(1).or_else(|| captures.get(0))?;
                let secret = found.as_str();
                let is_mark = secret.contains(MARK.trim()) || MARK.starts_with(secret);
                // A quote may be where a string of the JSON ends.
                let is_secret = !is_mark && !secret.contains('"') && (rule.accepts)(secret);
                is_secret.then(|| (found.range(), self.mark(rule.name, secret)))
            })
        })
    }

    fn mark(&self, name: &str, secret: &str) -> String {
        let hash = blake3::keyed_hash(&self.key, secret.as_bytes()).to_hex();
        format!("{MARK}{name} {}]", &hash[..8])
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// The tokens that a conversation may have in addition to its redacted copy, which plans are made from.
pub fn hidden_tokens(original: &Conversation, twin: &Conversation, meter: &dyn Meter) -> Tokens {
    let scale = Scale::new(meter);
    let messages = original.messages.iter().zip(&twin.messages);
    let in_messages =
        messages.filter(|(one, other)| one.raw.raw() != other.raw.raw()).map(|(one, other)| {
            scale.message(one, Tokens::MAX).saturating_sub(scale.message(other, Tokens::MAX))
        });
    let attributes = original.attributes.iter().zip(&twin.attributes);
    let in_attributes = attributes
        .filter(|(one, other)| one.raw() != other.raw())
        .map(|(one, other)| scale.text(&one.decode()).saturating_sub(scale.text(&other.decode())));
    in_messages.chain(in_attributes).sum()
}
