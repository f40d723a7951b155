//! Texts of every kind, stored and searched for.

use longhand_archive::Scope;
use longhand_testkit::texts::{mixed, shifted};

use crate::common::{check, record, reply, user};

#[test]
fn any_text_is_stored_and_found() {
    let texts: Vec<String> = (0..60).map(mixed).chain(shifted().step_by(3)).collect();
    check(|archive| {
        for text in &texts {
            record(archive, "a", &[user(text), reply(&format!("{text} needle {text}"))]);
        }
        for query in
            texts.iter().map(String::as_str).chain(["needle", "error", "→", "\u{3000}", "é"])
        {
            archive.search(&Scope::All, query, 9).unwrap();
        }
        // What surrounds a hit is cut on both sides.
        assert_eq!(archive.search(&Scope::All, "needle", 500).unwrap().len(), texts.len());
    });
}

#[test]
fn a_hit_after_a_wide_space_is_quoted_from_the_word_after_it() {
    for space in ["\u{3000}", "\u{a0}", "\u{2028}", " "] {
        let text = format!("{}{space}needle", "→".repeat(30));
        check(|archive| {
            record(archive, "a", &[user(&text)]);
            let hits = archive.search(&Scope::All, "needle", 9).unwrap();
            assert_eq!(hits[0].snippet, "…needle");
        });
    }
}
