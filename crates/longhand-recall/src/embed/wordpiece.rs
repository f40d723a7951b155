//! Words as the pieces that a BERT model knows.

use rustc_hash::FxHashMap;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::ModelFileError;

/// A longer word has no pieces.
const WORD_CHARS_MAX: usize = 100;
/// So much of a text is looked at for each piece that is wanted: no piece is longer.
const PIECE_BYTES_MAX: usize = 64;

/// The pieces of a vocabulary with their numbers.
pub(super) struct WordPieces {
    numbers: FxHashMap<String, u32>,
    unknown: u32,
    first: u32,
    last: u32,
}

impl WordPieces {
    /// Reads `vocab.txt`, in which a piece has the number of its line, or `tokenizer.json`.
    pub(super) fn read(vocabulary: &str) -> Result<Self, ModelFileError> {
        let numbers = if vocabulary.trim_start().starts_with('{') {
            of_json(vocabulary)?
        } else {
            let lines = vocabulary.lines().enumerate();
            lines.map(|(number, piece)| (piece.to_owned(), number as u32)).collect()
        };
        let number = |piece: &str| {
            let missing = || ModelFileError::Vocabulary(format!("it has no {piece}"));
            numbers.get(piece).copied().ok_or_else(missing)
        };
        let (unknown, first, last) = (number("[UNK]")?, number("[CLS]")?, number("[SEP]")?);
        Ok(Self { numbers, unknown, first, last })
    }

    /// One more than the highest number.
    pub(super) fn count(&self) -> usize {
        self.numbers.values().max().map_or(0, |number| *number as usize + 1)
    }

    /// The pieces of a text between those that open and close it, at most so many.
    pub(super) fn of(&self, text: &str, limit: usize) -> Vec<u32> {
        let text = longhand_core::cut::head(text, limit.saturating_mul(PIECE_BYTES_MAX));
        let mut pieces = vec![self.first];
        let room = limit.saturating_sub(1);
        for word in words(text) {
            if pieces.len() >= room {
                break;
            }
            self.add(&word, &mut pieces);
        }
        pieces.truncate(room.max(1));
        pieces.push(self.last);
        pieces
    }

    /// The longest piece that a word begins with, then that of the rest.
    fn add(&self, word: &str, pieces: &mut Vec<u32>) {
        let known = pieces.len();
        let mut rest = word;
        while !rest.is_empty() {
            let is_first = rest.len() == word.len();
            let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
            let longest = ends.into_iter().find_map(|end| {
                let piece = &rest[..end];
                let number = if is_first {
                    self.numbers.get(piece)
                } else {
                    self.numbers.get(&format!("##{piece}"))
                };
                number.map(|number| (*number, end))
            });
            let Some((number, end)) = longest.filter(|_| word.chars().count() <= WORD_CHARS_MAX)
            else {
                pieces.truncate(known);
                pieces.push(self.unknown);
                return;
            };
            pieces.push(number);
            rest = &rest[end..];
        }
    }
}

fn of_json(vocabulary: &str) -> Result<FxHashMap<String, u32>, ModelFileError> {
    let broken = |why: String| ModelFileError::Vocabulary(why);
    let json: Value =
        serde_json::from_str(vocabulary).map_err(|error| broken(error.to_string()))?;
    let pieces = json["model"]["vocab"].as_object();
    let pieces = pieces.ok_or_else(|| broken("tokenizer.json has no word pieces".to_owned()))?;
    let number = |(piece, number): (&String, &Value)| {
        let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.ok_or_else(|| broken(format!("{piece} has no number")))?;
        Ok((piece.clone(), number))
    };
    pieces.iter().map(number).collect()
}

/// The words of a text in small letters without accents; signs are words of their own.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_open = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_open = false;
        } else if c == '\u{fffd}' || c.is_control() || is_format(c) {
            // Not there for the model.
        } else if is_sign(c) || is_ideograph(c) {
            words.push(c.to_string());
            is_open = false;
        } else {
            if !is_open {
                words.push(String::new());
                is_open = true;
            }
            if let Some(word) = words.last_mut() {
                let plain = c.nfd().filter(|c| !is_combining_mark(*c));
                word.extend(plain.flat_map(char::to_lowercase));
            }
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// Whether a character only says how others are written.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

fn is_sign(c: char) -> bool {
    c.is_ascii_punctuation()
        || matches!(
            c,
            '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
                | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}'
                | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff3d}'
                | '\u{ff5b}'..='\u{ff65}'
        )
}

fn is_ideograph(c: char) -> bool {
    matches!(
        u32::from(c),
        0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x2_a6df
            | 0x2_a700..=0x2_ceaf | 0x2_f800..=0x2_fa1f
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\ncafe\n,\n好\nplay\n##ing";

    fn pieces(text: &str, limit: usize) -> Vec<u32> {
        WordPieces::read(VOCABULARY).unwrap().of(text, limit)
    }

    #[test]
    fn words_come_in_their_longest_pieces() {
        for (text, expected) in [
            ("Unaffable", &[4, 5, 6][..]),
            ("CAFÉ, playing好 ", &[7, 8, 10, 11, 9]),
            ("un\u{ad}aff xyz\u{0}", &[4, 5, 1]),
            ("", &[]),
        ] {
            let expected: Vec<u32> = [&[2], expected, &[3]].concat();
            assert_eq!(pieces(text, 256), expected, "{text}");
        }
        assert_eq!(pieces(&"x".repeat(101), 256), [2, 1, 3]);
        assert_eq!(pieces("un un un un un", 4), [2, 4, 4, 3]);
    }

    #[test]
    fn both_kinds_of_files_are_read() {
        let pieces = VOCABULARY.lines().enumerate();
        let pieces: Vec<String> =
            pieces.map(|(number, piece)| format!("{piece:?}:{number}")).collect();
        let json = format!(r#"{{"model":{{"vocab":{{{}}}}}}}"#, pieces.join(","));
        let read = WordPieces::read(&json).unwrap();
        assert_eq!((read.of("unaffable", 9), read.count()), (vec![2, 4, 5, 6, 3], 12));
        for broken in ["", "{", "{}", r#"{"model":{"vocab":{"[UNK]":"one"}}}"#, "a\nb"] {
            assert!(WordPieces::read(broken).is_err(), "{broken}");
        }
    }
}
