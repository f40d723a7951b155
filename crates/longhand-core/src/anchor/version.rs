//! Words that name a version.

/// Whether a word is one: `v1.2`, `0.8.4`, `1.0.0-rc.1`, `serde@1.0.219`.
pub(super) fn is_version(word: &str) -> bool {
    let word = word.rsplit('@').next().unwrap_or(word);
    let word = word.trim_start_matches(['^', '~']);
    let (number, named) = match word.strip_prefix(['v', 'V']) {
        Some(number) => (number, true),
        None => (word, false),
    };
    let end = number.find(['-', '+']).unwrap_or(number.len());
    let (numbers, extra) = number.split_at(end);
    let count = numbers.split('.').count();
    // Four numbers without a `v` are an address, and a long last one is a year.
    let enough = if named { (2..=4).contains(&count) } else { count == 3 };
    enough
        && numbers.split('.').all(|part| {
            !part.is_empty()
                && part.len() <= 3 + usize::from(named)
                && is_all(part, u8::is_ascii_digit)
        })
        && (extra.is_empty()
            || (extra.len() >= 2
                && extra.starts_with('+')
                    | extra[1..].starts_with(|c: char| c.is_ascii_alphanumeric())
                && is_all(extra, |b| b.is_ascii_alphanumeric() || b"-+.".contains(b))))
}

fn is_all(text: &str, is: impl Fn(&u8) -> bool) -> bool {
    text.as_bytes().iter().all(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_other_numbers() {
        for version in
            ["v1.2", "v1.2.3", "0.8.4", "1.0.0-rc.1", "serde@1.0.219", "^1.2.3", "v2024.1"]
        {
            assert!(is_version(version), "{version}");
        }
        for other in
            ["1.2", "v2", "10.0.0.1", "12.05.2024", "1.2.x", "3.5", "v", "1..2", "1.2.3-", "@"]
        {
            assert!(!is_version(other), "{other}");
        }
    }
}
