//! Texts of every kind are counted, and counted exactly.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use longhand_core::Meter;
use longhand_meter::{Chars, CharsPerToken, ImageRule, MeterSpec, ModelFacts, Scaled, Vocabulary};
use longhand_testkit::texts::{Taker, call_all, mixed, seen};

use crate::oracle::check;

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

#[test]
fn odd_texts_are_counted_exactly() {
    for seed in 0..100 {
        check(&mixed(seed));
    }
}

const TAKERS: &[Taker] = &[
    ("Chars", |text| weigh(&Chars::new("3.5".parse::<CharsPerToken>().unwrap()), text)),
    ("MeterSpec", |text| seen((text.parse::<MeterSpec>().is_ok(), MeterSpec::for_model(text)))),
    ("ModelFacts", |text| seen(ModelFacts::of(text))),
    ("Scaled", |text| weigh(&Scaled::new(Vocabulary::o200k(ImageRule::OPENAI_TILES), 110), text)),
];

fn weigh(meter: &dyn Meter, text: &str) {
    for limit in [0, 3, 300, u64::MAX] {
        seen(meter.weigh(text, limit));
    }
}
