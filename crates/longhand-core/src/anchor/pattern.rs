//! What the ids of a project look like.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use super::word::is_break;

/// The form of an id: `#` stands for digits, `@` for letters and digits, and `\` takes the next
/// character as it is.
///
/// ```
/// use longhand_core::anchor::Pattern;
///
/// let ticket: Pattern = "ACME-#".parse()?;
/// assert!(ticket.matches("ACME-4512"));
/// assert!(!ticket.matches("ACME-x"));
/// # Ok::<(), longhand_core::anchor::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<PatternPiece>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPiece {
    Literal(u8),
    Digits,
    Alphanumerics,
}

/// Why a pattern cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternError {
    /// It has no literal character, so that it would match any word.
    NoLiteral,
    /// It has a character that no id has: a space, a bracket, a quote, anything beyond ASCII.
    Character(char),
    /// What follows a class could be part of it, so that nobody knows where the class ends.
    Ambiguous {
        /// The place of what follows, in bytes.
        at: usize,
    },
    /// It ends with a `\`.
    Unfinished,
}

impl Pattern {
    /// Whether all of a word has this form.
    pub fn matches(&self, word: &str) -> bool {
        let mut rest = word.as_bytes();
        for piece in &self.0 {
            let taken = match piece {
                PatternPiece::Literal(byte) => usize::from(rest.first() == Some(byte)),
                class => rest.iter().take_while(|byte| class.has(**byte)).count(),
            };
            if taken == 0 {
                return false;
            }
            rest = &rest[taken..];
        }
        rest.is_empty()
    }

    /// Whether a word of this form can begin with a byte.
    pub(super) fn can_open_with(&self, byte: u8) -> bool {
        self.0.first().is_some_and(|piece| piece.has(byte))
    }
}

impl PatternPiece {
    fn has(self, byte: u8) -> bool {
        match self {
            PatternPiece::Literal(literal) => literal == byte,
            PatternPiece::Digits => byte.is_ascii_digit(),
            PatternPiece::Alphanumerics => byte.is_ascii_alphanumeric(),
        }
    }

    fn overlaps(self, next: Self) -> bool {
        match next {
            PatternPiece::Literal(byte) => {
                !matches!(self, PatternPiece::Literal(_)) && self.has(byte)
            }
            _ => !matches!(self, PatternPiece::Literal(_)),
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(pattern: &str) -> Result<Self, PatternError> {
        let mut pieces: Vec<PatternPiece> = Vec::new();
        let mut chars = pattern.char_indices();
        while let Some((at, c)) = chars.next() {
            let piece = match c {
                '#' => PatternPiece::Digits,
                '@' => PatternPiece::Alphanumerics,
                '\\' => match chars.next() {
                    Some((_, c)) => literal(c)?,
                    None => return Err(PatternError::Unfinished),
                },
                c => literal(c)?,
            };
            if pieces.last().is_some_and(|last| last.overlaps(piece)) {
                return Err(PatternError::Ambiguous { at });
            }
            pieces.push(piece);
        }
        if pieces.iter().any(|piece| matches!(piece, PatternPiece::Literal(_))) {
            Ok(Self(pieces))
        } else {
            Err(PatternError::NoLiteral)
        }
    }
}

fn literal(c: char) -> Result<PatternPiece, PatternError> {
    match u8::try_from(c) {
        Ok(byte) if byte.is_ascii() && !is_break(byte) => Ok(PatternPiece::Literal(byte)),
        _ => Err(PatternError::Character(c)),
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::NoLiteral => f.write_str("a pattern needs a literal character"),
            PatternError::Character(c) => write!(f, "no id has {c:?} in it"),
            PatternError::Ambiguous { at } => {
                write!(f, "what stands at {at} could be part of the class before it")
            }
            PatternError::Unfinished => f.write_str("a pattern cannot end with `\\`"),
        }
    }
}

impl Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let pattern: Pattern = pattern.parse().unwrap();
        for word in matching {
            assert!(pattern.matches(word), "{pattern:?} {word}");
        }
        for word in other {
            assert!(!pattern.matches(word), "{pattern:?} {word}");
        }
    }

    #[test]
    fn a_pattern_matches_whole_words() {
        check("ACME-#", &["ACME-1", "ACME-4512"], &["ACME-", "ACME-1a", "XACME-1", "acme-1", ""]);
        check("run_@:#", &["run_a9:1", "run_Z:22"], &["run_:1", "run_a", "run_a:"]);
        check("#-#", &["12-9"], &["12", "-9", "12-"]);
        check(r"\#@", &["#a1"], &["a1", "#"]);
    }

    #[test]
    fn a_pattern_that_means_nothing_is_refused() {
        for (pattern, error) in [
            ("", PatternError::NoLiteral),
            ("#", PatternError::NoLiteral),
            ("A B", PatternError::Character(' ')),
            ("ä#", PatternError::Character('ä')),
            ("A#@", PatternError::Ambiguous { at: 2 }),
            ("A#7", PatternError::Ambiguous { at: 2 }),
            ("A\\", PatternError::Unfinished),
        ] {
            assert_eq!(pattern.parse::<Pattern>(), Err(error), "{pattern}");
        }
    }
}
