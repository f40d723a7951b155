//! What the validator accepts and refuses, rule by rule, and that it notices broken conversations.
#![allow(clippy::unwrap_used)]

mod anthropic;
mod chat;
mod edit;
mod generators;
mod mutations;
mod responses;

use longhand_testkit::{WireFormat, validate};

/// A name, a request and every violation that is expected in it.
type Case = (&'static str, &'static str, &'static [&'static str]);

/// Checks a table; `words` stand for JSON that many requests share.
fn check(dialect: WireFormat, words: &[(&str, &str)], cases: &[Case]) {
    let mut wrong = String::new();
    for (name, request, expected) in cases {
        let json =
            words.iter().fold((*request).to_owned(), |text, (word, json)| text.replace(word, json));
        let found = validate(dialect, &json);
        if found != *expected {
            wrong.push_str(&format!("\n{name}\n  expected {expected:#?}\n  found {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
