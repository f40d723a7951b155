//! Every function that takes text, called with texts of every kind.

use std::sync::Arc;

use longhand::driver::{searchable, user_words};
use longhand::replay::{BudgetShare, Method, ReplaySettings, Trace, replay};
use longhand::{Policy, Redactor, Round, Tokens, expand, fit, time};
use longhand_core::json;
use longhand_dialect::read;
use longhand_meter::{Chars, CharsPerToken};
use longhand_testkit::texts::{Taker, call_all, conversation, seen};

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

/// Whole conversations of such texts, which take longer.
#[test]
fn no_conversation_is_too_odd() {
    for seed in 0..4 {
        let conversation = conversation(seed);
        for budget in [300, 3_000, 30_000] {
            let window = fit(&conversation, Tokens(budget)).unwrap();
            read(window.json.into_bytes(), None).unwrap();
        }
        let meter = Arc::new(Chars::new("4".parse::<CharsPerToken>().unwrap()));
        let trace = Trace::new(&read(conversation.into_bytes(), None).unwrap(), &*meter).unwrap();
        let settings = ReplaySettings::new(BudgetShare::Tokens(Tokens(3_000)), meter);
        seen(replay(&trace, Method::Standing(Policy::Auto), &settings, |_| {}).unwrap());
    }
}

const TAKERS: &[Taker] = &[
    ("fit", |text| {
        seen(fit(text, Tokens(50)));
        seen(expand(text, text));
    }),
    ("Redactor", |text| {
        let redactor = Redactor::new([7; 32]);
        let once = redactor.redact(text);
        assert_eq!(redactor.redact(&once), once);
        let quoted = redactor.redact(&json::quote(text)).into_owned();
        assert!(json::JsonCursor::new(&quoted).value().is_ok(), "{quoted}");
    }),
    ("Round", |text| {
        seen(Round::parse(text, 0));
        seen(Round::new(text, text, 0).with_trace(text, text).entries());
        seen(Round::split_conversation(text.as_bytes().to_vec(), 0));
    }),
    ("searchable", |text| {
        let raw = format!("{{\"role\":\"user\",\"content\":{}}}", json::quote(text));
        for form in ["chat", "responses", "anthropic", "claude-code", text] {
            seen((searchable(form, text), user_words(form, text)));
            seen((searchable(form, &raw), user_words(form, &raw)));
        }
    }),
    ("time", |text| seen((time::parse(text), time::parse_local(text)))),
];
