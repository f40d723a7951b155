//! The words around what was found, on one line.

use std::ops::Range;

use longhand_core::cut;

const BYTES_MAX: usize = 200;
/// A snippet goes on for so many more bytes if a sentence ends there.
const BYTES_TO_SENTENCE_END: usize = 80;

/// Returns the text around a place, on one line. It ends with a sentence if one ends soon after the place.
pub fn snippet(text: &str, place: &Range<usize>) -> String {
    excerpt(text, place, BYTES_MAX)
}

/// The same with about as many bytes as are wanted.
pub fn excerpt(text: &str, place: &Range<usize>, bytes_max: usize) -> String {
    let start = cut::head(text, place.start.saturating_sub(bytes_max * 3 / 10)).len();
    let end = end(text, start, place.end, bytes_max);
    let start = if start == 0 { 0 } else { start + gap(&text[start..place.start.max(start)]) };
    let mut line = String::new();
    if start > 0 {
        line.push('…');
    }
    let mut is_blank = true;
    for letter in text[start..end].chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if !(is_blank && letter.is_whitespace()) {
            line.push(letter);
        }
        is_blank = letter.is_whitespace();
    }
    line.truncate(line.trim_end().len());
    if end < text.trim_end().len() && !line.ends_with(is_sentence_end) {
        line.push('…');
    }
    line
}

/// Where a snippet ends that begins at `start`: after a sentence that ends between the place and the most bytes or a
/// little later, otherwise after a word.
fn end(text: &str, start: usize, place_end: usize, bytes_max: usize) -> usize {
    let most = start + cut::head(&text[start..], bytes_max).len();
    if most == text.len() {
        return most;
    }
    let last = start + cut::head(&text[start..], bytes_max + BYTES_TO_SENTENCE_END).len();
    let middle = start + cut::head(&text[start..], bytes_max / 2).len();
    let first = cut::head(text, place_end.max(middle).min(last)).len();
    sentence_ends(text, first, last)
        .last()
        .unwrap_or_else(|| text[first..most.max(first)].rfind(' ').map_or(most, |at| first + at))
        .max(first)
}

/// Where sentences end between two places.
fn sentence_ends(text: &str, first: usize, last: usize) -> impl Iterator<Item = usize> {
    let ends = text[first..last].char_indices().filter(|(_, letter)| is_sentence_end(*letter));
    ends.map(move |(at, letter)| (first + at + letter.len_utf8(), letter)).filter_map(
        move |(end, letter)| {
            let next = text[end..].chars().next();
            (!letter.is_ascii() || next.is_none_or(char::is_whitespace)).then_some(end)
        },
    )
}

fn is_sentence_end(letter: char) -> bool {
    matches!(letter, '.' | '!' | '?' | '。' | '！' | '？')
}

/// Where the first whole word begins.
fn gap(text: &str) -> usize {
    let mut letters = text.char_indices().skip_while(|(_, letter)| !letter.is_whitespace());
    letters.next().map_or(0, |(at, letter)| at + letter.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(text: &str, words: &str) -> String {
        let start = text.find(words).unwrap();
        snippet(text, &(start..start + words.len()))
    }

    #[test]
    fn a_snippet_is_one_line_around_the_match() {
        let text = format!("{}the\n\n  needle\tis here {}", "hay ".repeat(50), "straw ".repeat(50));
        let snippet = around(&text, "needle");
        assert!(snippet.starts_with("…hay "), "{snippet}");
        assert!(snippet.contains("hay the needle is here straw"), "{snippet}");
        assert!(snippet.ends_with("straw…"), "{snippet}");
    }

    #[test]
    fn a_snippet_ends_with_a_sentence_where_one_ends() {
        let text =
            format!("The needle is here. {}It ends. {}", "hay ".repeat(40), "straw ".repeat(90));
        assert!(around(&text, "needle").ends_with("hay It ends."), "{}", around(&text, "needle"));
        let text = format!("针在这里。{}", "草".repeat(200));
        assert!(around(&text, "针").ends_with('…'));
        let text = format!("{}针在这里。{}", "草".repeat(30), "草".repeat(200));
        assert!(around(&text, "针").ends_with('…'), "too short otherwise: {}", around(&text, "针"));
        assert_eq!(around("a needle.", "needle"), "a needle.");
    }

    proptest::proptest! {
        #[test]
        fn any_place_of_any_text_has_one(text in "[a-z. \n数。é]{0,500}", from in 0..400_usize, length in 0..40_usize) {
            let start = cut::head(&text, from).len();
            let end = start + cut::head(&text[start..], length).len();
            let snippet = snippet(&text, &(start..end));
            assert!(snippet.len() <= BYTES_MAX + BYTES_TO_SENTENCE_END + 6, "{snippet}");
        }
    }
}
