//! An estimate for models whose tokenizer nobody has.

use std::fmt;
use std::str::FromStr;

use longhand_core::{Framing, Image, Meter, Tokens};

use crate::MeterError;

/// How many characters make a token, as a decimal: 3.5 is 35 tenths.
///
/// Kept in whole numbers, so that an estimate is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharsPerToken {
    digits: u32,
    places: u32,
}

impl CharsPerToken {
    const DIGITS_MAX: usize = 9;
}

impl FromStr for CharsPerToken {
    type Err = MeterError;

    fn from_str(number: &str) -> Result<Self, MeterError> {
        let parts: Vec<&str> = number.split('.').collect();
        let digits = parts.concat();
        let is_decimal = parts.len() <= 2
            && digits.len() <= Self::DIGITS_MAX
            && parts.iter().all(|part| !part.is_empty())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        let places = parts.get(1).map_or(0, |fraction| fraction.len() as u32);
        match digits.parse() {
            Ok(digits) if is_decimal && digits > 0 => Ok(Self { digits, places }),
            _ => Err(MeterError::CharsPerToken { number: number.to_owned() }),
        }
    }
}

impl fmt::Display for CharsPerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = 10_u32.pow(self.places);
        write!(f, "{}", self.digits / unit)?;
        if self.places > 0 {
            write!(f, ".{:0width$}", self.digits % unit, width = self.places as usize)?;
        }
        Ok(())
    }
}

/// Estimates tokens as characters over a constant.
#[derive(Clone, Copy, Debug)]
pub struct Chars {
    per_token: CharsPerToken,
}

impl Chars {
    const MESSAGE: Tokens = Tokens(8);
    const IMAGE: Tokens = Tokens(512);
    const CHAR_BYTES_MAX: u64 = 4;

    /// Estimates with so many characters to a token.
    pub fn new(per_token: CharsPerToken) -> Self {
        Self { per_token }
    }

    fn grains_per_char(self) -> u64 {
        10_u64.pow(self.per_token.places)
    }
}

impl Meter for Chars {
    fn weigh(&self, text: &str, limit: u64) -> u64 {
        let at_least =
            (text.len() as u64 / Self::CHAR_BYTES_MAX).saturating_mul(self.grains_per_char());
        if at_least > limit {
            return at_least;
        }
        (text.chars().count() as u64).saturating_mul(self.grains_per_char())
    }

    fn grains_per_token(&self) -> u64 {
        u64::from(self.per_token.digits)
    }

    fn image(&self, _: &Image) -> Tokens {
        Self::IMAGE
    }

    fn framing(&self) -> Framing {
        Framing { message: Self::MESSAGE, name: Tokens(0), reply: Tokens(0), ids: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhand_core::Scale;

    fn check(per_token: &str, text: &str, expected: u64) {
        let meter = Chars::new(per_token.parse().unwrap());
        assert_eq!(Scale::new(&meter).text(text), Tokens(expected), "{per_token} {text:?}");
    }

    #[test]
    fn characters_are_rounded_up_once() {
        check("3.5", "", 0);
        check("3.5", "a", 1);
        check("3.5", "abcdefg", 2);
        check("3.5", "abcdefgh", 3);
        check("4", "abcdefgh", 2);
        check("4.00", "abcdefgh", 2);
        check("0.5", "ab", 4);
        check("0.1", "ab", 20);
        check("2", "äöü字😀", 3);
    }

    #[test]
    fn three_and_a_half_is_exact() {
        let meter = Chars::new("3.5".parse().unwrap());
        assert_eq!((meter.weigh("a", u64::MAX), meter.grains_per_token()), (10, 35));
    }

    #[test]
    fn a_limit_is_only_ever_exceeded_truly() {
        let meter = Chars::new("3.5".parse().unwrap());
        for text in ["", "abc", "字字字字", "😀😀😀", &"x".repeat(1000)] {
            let exact = meter.weigh(text, u64::MAX);
            for limit in 0..exact + 20 {
                let weight = meter.weigh(text, limit);
                assert!(weight == exact || (exact > limit && weight > limit), "{text:?} {limit}");
            }
        }
    }

    #[test]
    fn the_finest_number_stays_in_range() {
        let meter = Chars::new("0.00000001".parse().unwrap());
        assert_eq!(Scale::new(&meter).text("ab"), Tokens(200_000_000));
    }
}
