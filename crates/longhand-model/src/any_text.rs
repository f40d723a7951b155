//! Every function that takes text, called with texts of every kind.

use longhand_core::{Scale, Tokens};
use longhand_meter::{Chars, CharsPerToken};
use longhand_summary::SummaryRound;
use longhand_testkit::texts::{Taker, call_all, seen};

use crate::clean::{clean, finished, is_refusal};
use crate::pieces::{segments, take};
use crate::prompt::{fold, quote};
use crate::secret::{Secret, presentable};

#[test]
fn no_text_is_too_odd() {
    call_all(TAKERS);
}

const TAKERS: &[Taker] = &[
    ("clean", |text| seen((clean(text), finished(text), is_refusal(text)))),
    ("pieces", |text| {
        let meter = Chars::new("1".parse::<CharsPerToken>().unwrap());
        let scale = Scale::new(&meter);
        let round = SummaryRound { user: text, ..SummaryRound::default() };
        let mut segments = segments(&[round]);
        for _ in 0..40 {
            seen(take(&mut segments, Some(Tokens(90)), &scale));
        }
    }),
    ("presentable", |text| seen(presentable(text, Secret::new(text).as_ref()))),
    ("prompt", |text| seen((quote(text, text), fold(Tokens(9), Some(text))))),
];
