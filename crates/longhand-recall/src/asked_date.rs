//! Dates that a question names: `in May 2023`, `on 8 May`, `on October 13`, `2023-05-08`.

use crate::words::Folded;

/// A day in the calendar: year, month from 1 and day from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day {
    /// The year.
    pub year: i16,
    /// The month, from 1.
    pub month: i8,
    /// The day of the month, from 1.
    pub day: i8,
}

/// What a question says about when something was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AskedDate {
    months: Vec<i8>,
    days: Vec<i8>,
    years: Vec<i16>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// What a day of the month adds to the month.
const DAY: f32 = 0.5;

impl AskedDate {
    pub(crate) fn of(question: &str) -> Self {
        let mut asked = Self::default();
        let folded = Folded::of(question);
        let words: Vec<&str> = folded.words().map(|word| word.text).collect();
        for (at, word) in words.iter().enumerate() {
            let near_number = || {
                let around = [at.checked_sub(1), at.checked_add(1)];
                let around = around.into_iter().flatten().filter_map(|at| words.get(at));
                around.into_iter().any(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
            };
            if let Some(month) = month(word) {
                // These are words of other meanings, too.
                let is_plain = !matches!(*word, "may" | "march" | "mar" | "dec" | "sep");
                let is_name = question.contains("May") || question.contains("March");
                if is_plain || is_name || near_number() {
                    asked.months.push(month);
                }
            }
            let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
            match digits.parse::<i16>() {
                Ok(year @ 1900..=2199) if digits.len() == word.len() => {
                    asked.years.push(year);
                    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
                    if let (Some(month @ 1..=12), Some(1..=31)) = (number(at + 1), number(at + 2)) {
                        asked.months.push(month);
                    }
                }
                Ok(day @ 1..=31) => asked.days.push(day as i8),
                _ => {}
            }
        }
        asked
    }

    /// How well a day fits: 0 if nothing was asked, or something else.
    pub(crate) fn fits(&self, day: Day) -> f32 {
        let is_year = self.years.is_empty() || self.years.contains(&day.year);
        if self.months.is_empty() || !is_year || !self.months.contains(&day.month) {
            return 0.0;
        }
        if self.days.contains(&day.day) { 1.0 + DAY } else { 1.0 }
    }
}

/// The month that a word names, also by its first three letters.
fn month(word: &str) -> Option<i8> {
    let found = MONTHS.iter().position(|month| *month == word || month[..3] == *word)?;
    Some(found as i8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_fit_what_was_asked() {
        let day = |year, month, day| Day { year, month, day };
        for (question, fits, expected) in [
            ("What happened in May 2023?", day(2023, 5, 8), 1.0),
            ("What happened in May 2023?", day(2022, 5, 8), 0.0),
            ("on October 13th, 2023", day(2023, 10, 13), 1.5),
            ("since 2023-05-08", day(2023, 5, 8), 1.5),
            ("what may I march for?", day(2023, 5, 8), 0.0),
            ("since 3 may", day(2023, 5, 3), 1.5),
            ("how many of 12 were there?", day(2023, 12, 12), 0.0),
        ] {
            assert!((AskedDate::of(question).fits(fits) - expected).abs() < 0.01, "{question}");
        }
    }
}
