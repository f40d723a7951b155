//! Arguments of calls: JSON objects as text, with numbers that a parser would rewrite.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::text;
use crate::json::quote;

/// The text of a JSON object.
pub(super) fn arguments() -> impl Strategy<Value = String> {
    (fields(), proptest::option::weighted(0.15, bulk()), any::<bool>()).prop_map(
        |(mut fields, bulk, spaced)| {
            fields.extend(bulk.map(|bulk| ("content", quote(&bulk))));
            object(&fields, spaced)
        },
    )
}

fn fields() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    vec((select(NAMES), value()), 0..5)
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => text::text().prop_map(|text| quote(&text)),
        4 => select(NUMBERS).prop_map(str::to_owned),
        1 => select(&["true", "false", "null", "\"\"", "[]", "{}", "\"\\u00e9\\/\""][..])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            (vec((select(NAMES), inner), 0..4), any::<bool>())
                .prop_map(|(fields, spaced)| object(&fields, spaced)),
        ]
    })
}

/// A file or a patch, as agents write them.
fn bulk() -> impl Strategy<Value = String> {
    (text::text(), 10..120_usize).prop_map(|(text, lines)| {
        let line = text.lines().next().unwrap_or("x");
        let line: String = line.chars().take(60).collect();
        let lines = (0..lines).map(|n| format!("+    let line_{n} = \"{line}\";"));
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Numbers the names that occur twice: what a duplicate means is up to the reader.
fn object(fields: &[(&'static str, String)], spaced: bool) -> String {
    let (colon, comma) = if spaced { (" : ", ",\n ") } else { (":", ",") };
    let fields = fields.iter().enumerate().map(|(place, (name, value))| {
        let doubled = fields[..place].iter().any(|(earlier, _)| earlier == name);
        let number = if doubled { place.to_string() } else { String::new() };
        format!("\"{name}{number}\"{colon}{value}")
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(comma))
}

const NAMES: &[&str] =
    &["path", "patch", "query", "from", "to", "options", "items", "naïve", "a b"];

#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "0", "-0", "1", "-17", "1.0", "1.50", "1e5", "1E+2", "-2.5e-3", "0.1", "1152921504606846976",
    "9007199254740993", "18446744073709551615", "3.141592653589793", "100000000000000000000",
];

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn arguments_are_objects(text in arguments()) {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert!(value.is_object());
        }
    }
}
