//! What holds for any query and any texts.

use proptest::prelude::*;

use crate::{Best, Expansion, Query, Question, Ranker, ReadEntry, Strictness, Texts};

const WORDS: &[&str] = &[
    "the",
    "why",
    "trace",
    "tracing",
    "exporter",
    "OrderSerializer",
    "processed_events",
    "数据库",
    "Rechnung",
    "ไทย",
    "4d8461b77aa1",
    "user",
    "said",
    "queue",
    "full",
];

fn ranker(texts: &Texts, query: &str) -> Ranker {
    let mut expansion = Expansion::new(Question::parse(query));
    expansion.know(expansion.first().iter().map(|sought| texts.known(sought, |_| true)).collect());
    let similar = expansion.second().iter().map(|sought| texts.known(sought, |_| true)).collect();
    expansion.know_similar(similar);
    expansion.ranker(texts.totals(|_| true))
}

/// The numbers of the texts that fit, best first.
fn found(said: &[String], query: &str) -> Vec<usize> {
    let mut texts = Texts::default();
    for text in said {
        texts.add(text);
    }
    let ranker = ranker(&texts, query);
    let mut best = Best::new(100);
    for (number, measure) in texts.walked(&ranker, 100, |_| true) {
        let score = ranker.score(&measure);
        assert!(score.is_finite() && score >= 0.0, "{query}: {score}");
        best.add(score, number as u64);
    }
    best.into_sorted().into_iter().map(|(_, number)| number as usize).collect()
}

fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(proptest::sample::select(WORDS), count)
}

proptest! {
    /// Beside a text with some words of a query, a newer one with one more of them comes first.
    #[test]
    fn more_words_of_the_query_never_rank_lower(asked in words(1..6), filling in 0..20_usize) {
        // A word that is asked for twice is one word.
        let mut asked = asked;
        asked.sort_unstable();
        asked.dedup();
        let first = filling % asked.len();
        asked.swap(0, first);
        let query = asked.join(" ");
        let hay = |count: usize| (0..count).map(|at| format!("hay{at} ")).collect::<String>();
        let has = asked[1..].join(" ");
        let less = format!("{}straw {has}", hay(filling));
        let more = format!("{}{} {has}", hay(filling), asked[0]);
        let found = found(&[less.clone(), more.clone()], &query);
        prop_assert_eq!(found.first(), Some(&1), "{} in {} and {}", query, more, less);
    }

    /// Never nothing while something has a word of the query.
    #[test]
    fn what_has_a_word_is_found(asked in words(1..6), at in 0..5_usize, rest in "[a-z ]{0,60}") {
        let has = format!("{rest} {} {rest}", asked[at.min(asked.len() - 1)]);
        let found = found(&[has, "straw".to_owned()], &asked.join(" "));
        prop_assert_eq!(found.first(), Some(&0));
    }

    #[test]
    fn any_string_is_a_query(query in any::<String>(), said in any::<String>()) {
        let texts = vec![said.clone(), format!("{said} {query}"), String::new()];
        let found = found(&texts, &query);
        // What is no word is left to the search for the very text.
        if Query::parse(&query).is_some_and(|asked| asked.find(&said, Strictness::Words).is_some()) {
            prop_assert!(Question::parse(&query).is_empty() || found.contains(&0), "{query:?} in {said:?}");
        }
        let texts = { let mut all = Texts::default(); all.add(&said); all };
        let place = ranker(&texts, &query).passage_in(&said);
        prop_assert!(said.get(place.clone()).is_some(), "{place:?}");
    }
}

#[test]
fn a_hostile_query_is_bounded() {
    let said: Vec<String> = (0..50).map(|at| format!("word{at} the ( ) * \" {at}")).collect();
    for query in ["\" ( ) * OR ".repeat(1_000), "a\"b*".repeat(3_000), "word ".repeat(5_000)] {
        let mut texts = Texts::default();
        for text in &said {
            texts.add(text);
        }
        let ranker = ranker(&texts, &query);
        assert!(ranker.terms().len() <= 64);
        assert!(ranker.walks(20).len() <= 8);
    }
}

#[test]
fn who_said_it_and_when_counts() {
    let mut texts = Texts::default();
    texts.add("the needle is here");
    let entry = |text, speaker, at_ms| ReadEntry { score: 1.0, text, speaker, at_ms };
    let first =
        |query: &str, entries: &[ReadEntry<'_>]| ranker(&texts, query).order(entries)[0].entry;
    let (user, tool) = (Some(longhand_core::Role::User), Some(longhand_core::Role::Tool));
    let day = 24 * 3_600_000;
    assert_eq!(first("needle", &[entry("a", tool, 0), entry("b", user, 0)]), 1);
    assert_eq!(first("needle", &[entry("a", None, 0), entry("b", None, 90 * day)]), 1);
    assert_eq!(first("why needle", &[entry("a", None, 0), entry("because b", None, 0)]), 1);
    let repeated = [entry("a", None, 0), entry("b", user, 0), entry(" a", None, 0)];
    let order = ranker(&texts, "needle").order(&repeated);
    let counts: Vec<(usize, u64)> =
        order.iter().map(|place| (place.entry, place.repeats)).collect();
    assert_eq!(counts, [(1, 1), (0, 2)]);
}

#[test]
fn forms_parts_slips_and_phrases_are_found() {
    let said: Vec<String> = [
        "the exporters crashed",
        "a name like OrderSerializer here",
        "it was a concurrent write",
        "nach dem Verbindungsabbruch",
        "build is broken",
        "broken is the build",
        "连接池因此耗尽",
        "连续的水池，接着",
    ]
    .map(str::to_owned)
    .to_vec();
    for (query, expected) in [
        ("crash of the exporter", 0),
        ("serializer", 1),
        ("order_serializer", 1),
        ("concurent", 2),
        ("abbruch", 3),
        ("\"build is\"", 4),
        ("\"broken is\"", 5),
        ("连接池", 6),
        ("expo*", 0),
    ] {
        assert_eq!(found(&said, query).first(), Some(&expected), "{query}");
    }
}
