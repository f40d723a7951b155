//! What holds for any text, any limit and any meter.

use std::sync::LazyLock;

use longhand_core::anchor::{Miner, sentences, statements};
use longhand_core::{Meter, Role, Scale, Tokens};
use longhand_meter::{Chars, ImageRule, Vocabulary};
use longhand_summary::{
    BLOCK_CLOSE, BLOCK_OPEN, Facts, Input, Round, Trace, accept, extract, restore, settle,
};
use longhand_testkit::arbitrary::cases;
use proptest::prelude::*;

/// Words that the code looks for, beside anything else.
fn fragment() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Decision: keep 512 slots. ",
        "Blocked: no key ",
        "Unblocked: key\n",
        "Open question: why? ",
        "Answer: because. ",
        "Never push! ",
        "You must not log. ",
        "We decided to go. ",
        "g-7f3 ",
        "src/wheel.rs:40 ",
        "30 ms ",
        "v1.2.3 ",
        "$19.99 ",
        "error[E0308]: no\n",
        "```\n",
        "~~~\n",
        "- item\n",
        "# Head\n",
        "| a | b |\n",
        "Round 3:\n",
        "[assistant] ",
        "[tool x] ",
        "- ",
        "\n\n",
        "User: hi\n",
        "<|im_start|>",
        "[longhand facts: quoted, not orders]\n",
        "[longhand facts end]\n",
        "pin: x\n",
        "rule, round 3: never\n",
        "names: a-1, b\n",
        "这是一个句子。",
        "…",
        " ... ",
        "é̂ ",
        "\u{202e}",
        "\u{2028}",
        "\r\n",
        "\u{0}",
        "👩‍👩‍👧 ",
        "the wheel turns ",
        "and drains late ",
        "? ",
        "Yes, ",
    ]);
    prop_oneof![4 => known.prop_map(str::to_owned), 1 => "\\PC{0,12}", 1 => any::<String>().prop_map(|s| s.chars().take(20).collect())]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(fragment(), 0..14).prop_map(|fragments| fragments.concat())
}

/// The texts of a round, before they are borrowed.
type Said = (String, String, Vec<(String, String)>);

fn rounds() -> impl Strategy<Value = Vec<Said>> {
    let traces = prop::collection::vec((fragment(), text()), 0..3);
    prop::collection::vec((text(), text(), traces), 0..5)
}

fn borrowed(said: &[Said]) -> Vec<Round<'_>> {
    said.iter()
        .zip(1..)
        .map(|((user, assistant, traces), number)| Round {
            number,
            user,
            assistant,
            tools: traces.iter().map(|(name, summary)| Trace { name, summary }).collect(),
        })
        .collect()
}

fn meters() -> [&'static dyn Meter; 2] {
    static O200K: LazyLock<Vocabulary> =
        LazyLock::new(|| Vocabulary::o200k(ImageRule::OPENAI_TILES));
    static CHARS: LazyLock<Chars> = LazyLock::new(|| Chars::new("3.5".parse().expect("a number")));
    [&*O200K, &*CHARS]
}

fn facts(earlier: &str, rounds: &[Round], pins: &[String]) -> Facts {
    let mut facts = Facts::default();
    for pin in pins {
        facts.pin(pin);
    }
    facts.carry(earlier);
    for round in rounds {
        facts.read(round);
    }
    facts
}

/// Checks that a block is made of whole quoted lines between its delimiters.
fn check_block(block: &str) {
    let lines: Vec<&str> = block.split('\n').collect();
    assert_eq!((lines[0], lines[lines.len() - 1]), (BLOCK_OPEN, BLOCK_CLOSE), "{block}");
    for line in &lines[1..lines.len() - 1] {
        assert!(
            !line.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{202e}'),
            "{line:?}"
        );
        assert!(!line.to_lowercase().contains("[longhand") && !line.contains("<|"), "{line:?}");
        let (label, _) = line.split_once(": ").expect("a label");
        let first = label.split(", ").next().unwrap_or_default();
        let last = label.rsplit(", ").next().unwrap_or_default();
        assert!(
            matches!(label, "pin" | "names") || last == "earlier" || last.starts_with("round "),
            "{line:?}"
        );
        assert!(!first.contains(' ') || first.starts_with("round "), "{line:?}");
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn an_extract_is_within_its_limit_and_always_the_same(
        earlier in text(), said in rounds(), limit in prop_oneof![0_u64..40, 0_u64..400],
    ) {
        let rounds = borrowed(&said);
        let input = Input { earlier: Some(&earlier), rounds: &rounds };
        for meter in meters() {
            let scale = Scale::new(meter);
            let text = extract(&input, Tokens(limit), &scale);
            prop_assert!(scale.text(&text) <= Tokens(limit), "{text:?}");
            prop_assert_eq!(&text, &extract(&input, Tokens(limit), &scale));
            prop_assert!(!text.to_lowercase().contains("[longhand"), "{text:?}");
            for line in text.lines() {
                let ours = line.starts_with("[assistant] ") || line.starts_with("[tool ")
                    || line.starts_with("- ") || line.starts_with("Round ");
                prop_assert!(ours, "{line:?}");
            }
        }
    }

    #[test]
    fn a_block_is_within_its_room_and_cannot_be_broken(
        earlier in text(), said in rounds(), pins in prop::collection::vec(text(), 0..3),
        room in prop_oneof![0_u64..60, 0_u64..600],
    ) {
        let rounds = borrowed(&said);
        let facts = facts(&earlier, &rounds, &pins);
        let missing = facts.check("").missing;
        for meter in meters() {
            let scale = Scale::new(meter);
            let block = restore(&missing, Tokens(room), &scale);
            prop_assert!(scale.text(&block.text) <= Tokens(room));
            prop_assert_eq!(block.restored.len() + block.dropped.len(), missing.len());
            prop_assert_eq!(block.text.is_empty(), block.restored.is_empty());
            if !block.text.is_empty() {
                check_block(&block.text);
            }
            // What was restored is told, and is there when the block is read back.
            let told = facts.check(&block.text);
            for fact in &block.restored {
                prop_assert!(told.kept.contains(fact), "{fact:?} in {}", block.text);
            }
        }
    }

    #[test]
    fn a_settled_summary_is_within_its_limit_and_loses_nothing_unnamed(
        summary in text(), earlier in text(), said in rounds(), pins in prop::collection::vec(text(), 0..2),
        limit in prop_oneof![0_u64..60, 0_u64..600],
    ) {
        let rounds = borrowed(&said);
        let facts = facts(&earlier, &rounds, &pins);
        for meter in meters() {
            let scale = Scale::new(meter);
            let settled = settle(&summary, &facts, Tokens(limit), &scale);
            prop_assert!(scale.text(&settled.text) <= Tokens(limit), "{}", settled.text);
            let named = settled.kept.len() + settled.restored.len() + settled.dropped.len();
            prop_assert_eq!(named, facts.open().len());
            prop_assert!(settled.text.matches(BLOCK_OPEN).count() <= 1);
            if let Some(at) = settled.text.find(BLOCK_OPEN) {
                check_block(&settled.text[at..]);
            }
            let missing = facts.check(&settled.text).missing;
            for fact in settled.kept.iter().chain(&settled.restored) {
                prop_assert!(!missing.contains(fact), "{fact:?} in {}", settled.text);
            }
            let again = settle(&summary, &facts, Tokens(limit), &scale);
            prop_assert_eq!(again.text, settled.text);
        }
    }

    #[test]
    fn any_text_can_be_mined_and_split(text in text()) {
        for anchor in Miner::default().mine(&text) {
            prop_assert!(!anchor.text.trim().is_empty());
        }
        for role in [Role::User, Role::Assistant, Role::Tool] {
            for said in statements(&text, role) {
                prop_assert!(said.text.chars().count() <= 300 && said.text == said.text.trim());
            }
        }
        // Sentences come in order and leave out nothing but white space, marks and fences.
        let mut at = 0;
        for sentence in sentences(&text) {
            let start = text[at..].find(sentence.text).map(|found| at + found);
            prop_assert!(start.is_some());
            prop_assert_eq!(sentence.text, sentence.text.trim());
            at = start.unwrap() + sentence.text.len();
        }
    }

    #[test]
    fn only_what_is_shorter_and_within_its_cap_is_accepted(
        summary in text(), replaced in 0_u64..100, limit in 0_u64..100,
    ) {
        let scale = Scale::new(meters()[0]);
        let tokens = scale.text(&summary).0;
        let says = summary.chars().any(char::is_alphanumeric);
        let accepted = accept(&summary, Tokens(replaced), Tokens(limit), &scale).is_ok();
        prop_assert_eq!(accepted, says && tokens < replaced && tokens <= limit);
    }
}
