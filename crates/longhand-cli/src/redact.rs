//! Secrets that look like keys, taken out before anything is stored.

/// How the well-known kinds of keys begin.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "npm_",
    "pypi-",
    "eyJ",
];

/// The least that follows such a beginning in a key.
const KEY_CHARS_MIN: usize = 16;

/// Replaces what looks like a key by a note of its kind; the rest stays as it is.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word_start = None;
    let is_key_char =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    let flush = |out: &mut String, word: &str| match PREFIXES
        .iter()
        .find(|prefix| looks_like(word, prefix))
    {
        Some(prefix) => out.push_str(&format!("[redacted {prefix}…]")),
        None => out.push_str(word),
    };
    for (at, c) in text.char_indices() {
        match (is_key_char(c), word_start) {
            (true, None) => word_start = Some(at),
            (false, Some(start)) => {
                flush(&mut out, &text[start..at]);
                out.push(c);
                word_start = None;
            }
            (false, None) => out.push(c),
            (true, Some(_)) => {}
        }
    }
    if let Some(start) = word_start {
        flush(&mut out, &text[start..]);
    }
    out
}

fn looks_like(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() >= KEY_CHARS_MIN
            && rest.bytes().any(|b| b.is_ascii_digit())
            && rest.bytes().any(|b| b.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn keys_go_and_words_stay() {
        let key = format!("sk-{}", "a1B2c3D4e5F6g7H8i9");
        assert_eq!(redact(&format!("use {key}, please")), "use [redacted sk-…], please");
        assert_eq!(redact(&format!("{{\"key\":\"{key}\"}}")), "{\"key\":\"[redacted sk-…]\"}");
        for plain in
            ["sk-short1", "a sk-ill is no key", "src/sk-abcdefghijklmnopqrstuvwxyz", "é sk- x", ""]
        {
            assert_eq!(redact(plain), plain);
        }
    }
}
