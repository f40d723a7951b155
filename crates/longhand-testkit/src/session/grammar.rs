//! Templates: `$word` stands for a value, `«one¦other»` for a choice, a line after `? ` is optional.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::rng::Rng;

/// The values that `$words` already have.
pub(super) type Bindings = BTreeMap<String, String>;

/// Makes bindings of pairs.
#[cfg(test)]
pub(super) fn bind<const N: usize>(pairs: [(&str, &str); N]) -> Bindings {
    pairs.map(|(word, value)| (word.to_owned(), value.to_owned())).into()
}

/// Fills a template in; words without a value are drawn and added to `bindings`.
pub(super) fn expand(template: &str, rng: &mut Rng, bindings: &mut Bindings) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    for line in template.split('\n') {
        let indent = line.len() - line.trim_start().len();
        let wanted = match line[indent..].strip_prefix("? ") {
            Some(_) if rng.chance(0.5) => continue,
            Some(optional) => [&line[..indent], optional].concat(),
            None => line.to_owned(),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        expand_line(&wanted, rng, bindings, &mut text);
    }
    text
}

fn expand_line(mut rest: &str, rng: &mut Rng, bindings: &mut Bindings, text: &mut String) {
    while let Some(at) = rest.find(['$', '«']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('«') {
            let (choices, after) = after.split_once('»').expect("every « has its »");
            let choices: Vec<&str> = choices.split('¦').collect();
            let chosen = *rng.choose(&choices);
            expand_line(chosen, rng, bindings, text);
            rest = after;
        } else {
            let (word, after) = leading_word(&rest[1..]);
            let value = bindings.entry(word.to_owned()).or_insert_with(|| draw(word, rng)).as_str();
            text.push_str(value);
            rest = after;
        }
    }
    text.push_str(rest);
}

fn leading_word(text: &str) -> (&str, &str) {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').expect("every ${ has its }");
    }
    text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len()))
}

/// Draws a value; a digit at the end of the word only makes it another word.
fn draw(word: &str, rng: &mut Rng) -> String {
    let mut value = String::new();
    let number = match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "d" => 1..10,
        "few" => 3..13,
        "n" => 2..64,
        "gap" => 20..90,
        "ms" => 1..900,
        "slotno" => 0..512,
        "kb" => 48..200,
        "big" => 300..6_000,
        "bytes" => 512..99_000,
        "tickno" => 40_000..60_000,
        "ticket" => {
            value.push_str("TW-");
            204..990
        }
        "job" => {
            value.push_str("j-");
            rng.push_letters(&mut value, b"0123456789abcdef", 8);
            return value;
        }
        "commit" => {
            let length = rng.range(7..11);
            rng.push_letters(&mut value, b"0123456789abcdef", length);
            return value;
        }
        _ => panic!("a template uses the word ${word}, which nobody knows"),
    };
    let _ = write!(value, "{}", rng.range(number));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, possible: &[&str]) {
        for seed in 0..20 {
            let text = expand(template, &mut Rng::new(seed), &mut bind([("a", "x"), ("B", "y")]));
            assert!(possible.contains(&text.as_str()), "{template:?} gave {text:?}");
        }
    }

    #[test]
    fn words_choices_and_optional_lines() {
        check("$a-${a}s $B_z", &["x-xs y_z"]);
        check("«$a¦$B» «¦!»", &["x ", "y ", "x !", "y !"]);
        check("1\n  ? 2\n3", &["1\n3", "1\n  2\n3"]);
    }

    #[test]
    fn a_drawn_word_keeps_its_value() {
        let mut bindings = Bindings::new();
        let text = expand("$big $big $big2", &mut Rng::new(5), &mut bindings);
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[0], words[1]);
        assert_eq!(bindings["big2"], words[2]);
    }
}
