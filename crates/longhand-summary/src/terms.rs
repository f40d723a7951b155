//! The words that carry a sentence, as numbers that can be compared.

/// The distinct terms of a text, sorted.
pub(crate) fn terms(text: &str) -> Vec<u64> {
    let mut all = all_terms(text);
    all.sort_unstable();
    all.dedup();
    all
}

/// The terms of a text with their repeats, in order.
///
/// Words lose their endings; words that any sentence may have are left out. A script without spaces
/// gives pairs of characters.
pub(crate) fn all_terms(text: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if word.is_ascii() {
            push_ascii(word, &mut all);
        } else {
            push_other(word, &mut all);
        }
    }
    all
}

/// How many terms two sorted lists share.
pub(crate) fn shared(one: &[u64], other: &[u64]) -> usize {
    let (mut at, mut with, mut count) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(at), other.get(with)) {
        count += usize::from(a == b);
        at += usize::from(a <= b);
        with += usize::from(b <= a);
    }
    count
}

fn push_ascii(word: &str, into: &mut Vec<u64>) {
    const BYTES_MAX: usize = 40;
    if word.len() < 2 || word.len() > BYTES_MAX {
        // A digit alone still tells one sentence from another.
        if word.len() == 1 && word.as_bytes()[0].is_ascii_digit() {
            into.push(hash(word.as_bytes()));
        }
        return;
    }
    let mut low = [0; BYTES_MAX];
    let low = &mut low[..word.len()];
    low.copy_from_slice(word.as_bytes());
    low.make_ascii_lowercase();
    if !is_common(low) {
        into.push(hash(stem(low)));
    }
}

fn push_other(word: &str, into: &mut Vec<u64>) {
    let low = word.to_lowercase();
    let mut chars = low.chars().peekable();
    if !low.chars().any(is_dense) {
        into.push(hash(low.as_bytes()));
        return;
    }
    let mut pair = String::new();
    while let Some(c) = chars.next() {
        pair.clear();
        pair.push(c);
        pair.extend(chars.peek());
        into.push(hash(pair.as_bytes()));
    }
}

/// Whether a character is from a script without spaces.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Takes the commonest endings off.
fn stem(word: &[u8]) -> &[u8] {
    if word.iter().any(|byte| !byte.is_ascii_lowercase()) {
        return word;
    }
    for (ending, rest_min) in [(&b"ing"[..], 4), (b"ies", 3), (b"ed", 4), (b"es", 4), (b"s", 3)] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= rest_min
            && !(ending == b"s"
                && (rest.ends_with(b"s") || rest.ends_with(b"u") || rest.ends_with(b"i")))
        {
            return rest.strip_suffix(b"e").unwrap_or(rest);
        }
    }
    if word.len() > 4 {
        word.strip_suffix(b"e").or(word.strip_suffix(b"y")).unwrap_or(word)
    } else {
        word
    }
}

/// FNV-1a: the same on every machine.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn is_common(word: &[u8]) -> bool {
    const BYTES_MAX: usize = 9;
    word.len() <= BYTES_MAX && COMMON.binary_search_by(|common| common.as_bytes().cmp(word)).is_ok()
}

/// Words of any sentence, and those that only say what kind of statement it is.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "about", "after", "again", "all", "also", "always", "am", "an", "and", "answer", "answered",
    "any", "are", "as", "at", "be", "because", "been", "before", "being", "blocked", "blocker",
    "blocking", "both", "but", "by", "can", "cannot", "closed", "could", "decided", "decision",
    "did", "do", "does", "doing", "don", "done", "down", "each", "ever", "for", "from", "get",
    "had", "has", "have", "he", "her", "here", "him", "his", "how", "if", "in", "into", "is", "it",
    "its", "just", "let", "ll", "longer", "may", "me", "more", "most", "must", "my", "need",
    "needs", "never", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "open", "or",
    "other", "our", "out", "over", "own", "please", "question", "re", "resolved", "same", "shall",
    "she", "should", "since", "so", "some", "still", "such", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "too", "unblocked", "under", "until",
    "up", "us", "use", "ve", "very", "was", "we", "were", "what", "when", "where", "which", "while",
    "who", "why", "will", "with", "would", "yes", "yet", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_words_are_sorted() {
        assert!(COMMON.is_sorted());
        assert!(COMMON.iter().all(|word| is_common(word.as_bytes())));
    }

    #[test]
    fn terms_see_through_endings_and_order() {
        for (one, other, count) in [
            ("The wheel keeps 512 slots.", "slots: keep 512 of a WHEEL", 4),
            ("deciding retries", "retry decide", 2),
            ("Is it blocked?", "the open question was answered", 0),
            ("使用端口", "用端口的", 2),
            ("Größe", "größe", 1),
            ("src/wheel.rs", "wheel", 1),
            ("", "x", 0),
        ] {
            assert_eq!(shared(&terms(one), &terms(other)), count, "{one} / {other}");
        }
    }
}
