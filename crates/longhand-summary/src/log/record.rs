//! A JSON result on one line: a booking, a customer, a ticket.

use longhand_core::json::{JsonCursor, JsonKind, JsonValue};

use crate::quote;

/// The most bytes of a line.
const LINE_BYTES_MAX: usize = 500;

/// How deep objects and lists are followed.
const DEPTH_MAX: usize = 4;

/// A value of at least this many bytes is not repeated.
const REPEAT_BYTES_MIN: usize = 6;

/// The values of a JSON object in the order in which they stand; `None` if it is something else.
///
/// Values that `known` already has are left out.
pub(super) fn record_line(answer: &str, known: &str) -> Option<String> {
    let answer = answer.trim();
    if !answer.starts_with('{') {
        return None;
    }
    let mut cursor = JsonCursor::new(answer);
    let value = cursor.value().ok()?;
    cursor.end().ok()?;
    let mut line = RecordLine { source: answer, known, text: String::new() };
    line.inside(&value, 0);
    Some(line.text).filter(|text| !text.is_empty())
}

struct RecordLine<'a> {
    source: &'a str,
    known: &'a str,
    text: String,
}

impl RecordLine<'_> {
    /// Writes what an object or a list holds.
    fn inside(&mut self, value: &JsonValue, depth: usize) {
        if depth == DEPTH_MAX {
            return;
        }
        let mut cursor = JsonCursor::at(self.source, value.span().start);
        // It was checked when it was read as a whole, so it cannot fail.
        let _ = match value.kind {
            JsonKind::Object => cursor.node().map(|node| {
                for (key, field) in &node.fields {
                    let key = key.str(self.source).unwrap_or_default();
                    self.field(&quote::line_within(&key, 60), field, depth);
                }
            }),
            _ => cursor.elements(|cursor| {
                let element = cursor.value()?;
                cursor.skip(&element);
                self.field("", &element, depth);
                Ok(())
            }),
        };
    }

    /// Writes a field: an object or a list in brackets, and a value that needs an explanation with its key.
    fn field(&mut self, key: &str, value: &JsonValue, depth: usize) {
        if self.text.len() > LINE_BYTES_MAX {
            return;
        }
        match value.kind {
            JsonKind::Null => {}
            JsonKind::Object | JsonKind::Array => {
                let before = self.text.len();
                self.part(key);
                self.text.push_str(if key.is_empty() { "(" } else { " (" });
                let opened = self.text.len();
                self.inside(value, depth + 1);
                if self.text.len() == opened {
                    self.text.truncate(before);
                } else {
                    self.text.push(')');
                }
            }
            JsonKind::String => {
                let text = value.str(self.source).unwrap_or_default();
                let text = quote::line_within(&text, 120);
                if text.is_empty() || (text.len() >= REPEAT_BYTES_MIN && self.has(&text)) {
                    return;
                }
                if key.is_empty() || explains_itself(&text) {
                    self.part(&text);
                } else {
                    self.part(&format!("{key}={text}"));
                }
            }
            JsonKind::Number | JsonKind::Bool => {
                let text = &self.source[value.span()];
                self.part(&if key.is_empty() { text.to_owned() } else { format!("{key}={text}") });
            }
        }
    }

    fn part(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('(') {
            self.text.push_str(", ");
        }
        self.text.push_str(text);
    }

    fn has(&self, text: &str) -> bool {
        self.text.contains(text) || self.known.contains(text)
    }
}

/// The ids, dates and the like in a line of a record.
pub(super) fn ids(record: &str) -> impl Iterator<Item = &str> {
    let values = record.split([',', '(', ')']).map(str::trim);
    let has_digit = |value: &str| value.bytes().any(|byte| byte.is_ascii_digit());
    values.filter(move |value| has_digit(value) && !value.contains(['=', ' ', ':', '…']))
}

/// Whether a value needs no key: an id, a date, an address, a text of several words.
fn explains_itself(text: &str) -> bool {
    text.contains(['_', '@', ' ']) || text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, known: &str, expected: Option<&str>) {
        assert_eq!(record_line(answer, known).as_deref(), expected, "{answer}");
    }

    #[test]
    fn values_are_told_with_the_keys_that_they_need() {
        check(
            r#"{"id":"R-1882","user_id":"mia_li_3668","cabin":"economy","bags":2,"insured":false,"note":null,
                "flights":[{"number":"HAT078","price":52},{"number":"HAT118","price":61}],"tags":[],
                "pays":{"gift_card_7":{"id":"gift_card_7","amount":40}}}"#,
            "get_booking id=R-1882",
            Some(
                "mia_li_3668, cabin=economy, bags=2, insured=false, flights ((HAT078, price=52), (HAT118, price=61)), \
                 pays (gift_card_7 (amount=40))",
            ),
        );
    }

    #[test]
    fn ids_are_told_from_words_and_figures() {
        let line = "mia_li_3668, cabin=economy, bags=2, flights ((HAT078, 2024-05-27, 04:00:00), one_way), Mia Li 2";
        let found: Vec<&str> = ids(line).collect();
        assert_eq!(found, ["mia_li_3668", "HAT078", "2024-05-27"]);
    }

    #[test]
    fn what_is_no_record_is_none() {
        check("plain text", "", None);
        check("{not json}", "", None);
        check("{}", "", None);
        check(r#"[{"date":"2024-05-27"}]"#, "", None);
        check("{} and more", "", None);
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(3_000), "]".repeat(3_000));
        check(&deep, "", None);
        let long = format!("{{\"a\":[{}1]}}", "\"abc def\",1,".repeat(5_000));
        assert!(record_line(&long, "").unwrap().len() < LINE_BYTES_MAX + 200);
    }
}
