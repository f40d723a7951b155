//! Laws that hold for any conversation, budget and policy.

mod common;

use common::{POLICIES, cases, chars, check_contract, compact, count, graves, o200k, parse};
use longhand_core::{Budget, Policy, Role, Settings, Shown, Tokens, project};
use longhand_dialect::Dialect;
use longhand_testkit::arbitrary::{anthropic_json, chat_json, responses_json, text_action_json};
use proptest::prelude::*;

fn conversation() -> impl Strategy<Value = (String, Dialect)> {
    prop_oneof![
        3 => chat_json().prop_map(|json| (json, Dialect::Chat)),
        3 => anthropic_json().prop_map(|json| (json, Dialect::Anthropic)),
        3 => responses_json().prop_map(|json| (json, Dialect::Responses)),
        1 => text_action_json().prop_map(|json| (json, Dialect::Chat)),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        0..POLICIES.len(),
        prop::option::weighted(0.3, 0..12usize),
        prop_oneof![3 => Just(256usize), 1 => 0..600usize],
    )
        .prop_map(|(policy, keep_tail, chars_min)| Settings {
            policy: POLICIES[policy],
            keep_tail,
            chars_min,
            ..Settings::default()
        })
}

/// A budget as a share of what the conversation has, so that all of its range matters.
fn share() -> impl Strategy<Value = (u64, u64, Option<u64>)> {
    (
        1..1_300u64,
        prop_oneof![3 => Just(0u64), 1 => 0..400u64],
        prop::option::weighted(0.2, 1..1_000u64),
    )
}

fn budget(total: Tokens, (limit, reserve, target): (u64, u64, Option<u64>)) -> Budget {
    let limit = (total.0 * limit / 1_000).max(1);
    Budget {
        limit: Tokens(limit),
        reserve: Tokens(limit * reserve / 1_000),
        target: target.map(|target| Tokens(limit * target / 1_000)),
        bytes_max: None,
        images_max: None,
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

    /// Fit, pairing, validity, shrinking, and that expand(stub) is the original.
    #[test]
    fn a_window_fits_or_says_so_and_is_valid((json, dialect) in conversation(), settings in settings(), share in share()) {
        let before = parse(&json, Some(dialect));
        prop_assert_eq!(graves(&before), Vec::<String>::new());
        let budget = budget(count(&before, o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        check_contract(&compacted, &budget, &settings, o200k());
    }

    /// Compacting a compacted window changes nothing.
    #[test]
    fn compacting_is_idempotent((json, dialect) in conversation(), settings in settings(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), (share.0, share.1, None));
        let once = compact(&json, Some(dialect), &budget, &settings, o200k());
        let twice = compact(&once.text, Some(dialect), &budget, &settings, o200k());
        if once.plan.fits() {
            prop_assert_eq!(&twice.text, &once.text);
        } else {
            prop_assert!(twice.tokens <= once.tokens);
        }
    }

    /// Messages that no edit names come out byte for byte.
    #[test]
    fn the_untouched_is_byte_identical((json, dialect) in conversation(), settings in settings(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        let before = &compacted.before;
        let window = project(&before.path(), std::slice::from_ref(&compacted.plan.batch), before.wire());
        let mut touched: Vec<bool> = window.messages.iter().map(|shown| *shown != Shown::Unchanged).collect();
        // Where roles alternate, the turns beside a fold take its block in.
        if dialect == Dialect::Anthropic {
            for at in compacted.folded() {
                for beside in [at.wrapping_sub(1), at + 1] {
                    if before.messages.get(beside).is_some_and(|message| message.role == Role::User) {
                        touched[beside] = true;
                    }
                }
            }
        }
        for (message, _) in before.messages.iter().zip(&touched).filter(|(_, touched)| !**touched) {
            prop_assert!(compacted.text.contains(message.raw.raw()));
        }
    }

    /// What `auto` leaves alone for ever, and what until nothing else helps.
    #[test]
    fn auto_keeps_the_first_and_newest_user_message((json, dialect) in conversation(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &Settings::default(), o200k());
        let messages = &compacted.before.messages;
        let is_shown = |at: usize| {
            let mut texts = messages[at].parts.iter().filter_map(|part| match part {
                longhand_core::Part::Text(text) => Some(text.raw()),
                _ => None,
            });
            texts.all(|text| compacted.text.contains(text))
        };
        for at in (0..messages.len()).filter(|at| messages[*at].role == Role::System) {
            prop_assert!(is_shown(at), "{}", compacted.before.name_of(at));
        }
        let is_text_action = |at: usize| messages[at].raw.raw().contains("bash-$");
        let users: Vec<usize> = (0..messages.len()).filter(|at| messages[*at].is_user_turn()).collect();
        if let Some(&newest) = users.iter().rev().find(|at| !is_text_action(**at)) {
            prop_assert!(is_shown(newest), "{}", compacted.before.name_of(newest));
        }
        if let Some(&first) = users.first().filter(|first| !is_shown(**first)) {
            let whole = longhand_core::Scale::new(o200k()).message(&messages[first], Tokens::MAX);
            let room = budget.room();
            let reserved = Tokens(room.0 / 10 + 40);
            prop_assert!(compacted.plan.tokens() + whole + reserved > room, "{}", compacted.plan);
        }
    }

    /// The laws of the partition, over steps.
    #[test]
    fn partition_laws(sizes in prop::collection::vec(0..400u64, 0..40), budget in 0..4_000u64, reserve in 0..1_000u64) {
        let first = longhand_core::partition(sizes.len(), |at, _| Tokens(sizes[at]), Tokens(budget), Tokens(reserve));
        let limit = budget.saturating_sub(reserve);
        let (summarised, kept) = sizes.split_at(first);
        // Nothing is lost, doubled or reordered: the two parts are the history by construction.
        prop_assert_eq!([summarised, kept].concat(), sizes.clone());
        let sum: u64 = kept.iter().sum();
        prop_assert!(sum <= limit || kept.is_empty());
        if let Some(newest) = summarised.last() {
            prop_assert!(sum + newest > limit, "the newest summarised one did not fit");
        }
        prop_assert_eq!(first == 0, sizes.iter().sum::<u64>() <= limit || sizes.is_empty());
    }

    /// `trim` keeps a suffix of whole steps, and as much of it as fits.
    #[test]
    fn trim_is_a_partition_of_steps((json, dialect) in conversation(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), (share.0, share.1, None));
        let settings = Settings { policy: Policy::Trim, ..Settings::default() };
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        let folded = compacted.folded();
        for step in longhand_core::steps(&compacted.before.messages) {
            let inside = step.clone().filter(|at| folded.contains(at)).count();
            prop_assert!(inside == 0 || inside == step.len(), "cuts lie between steps");
        }
    }

    /// The same, in the reference's estimate.
    #[test]
    fn estimates_obey_the_same_contract((json, dialect) in conversation(), settings in settings(), share in share()) {
        let meter = chars();
        let budget = budget(count(&parse(&json, Some(dialect)), &*meter), share);
        let compacted = compact(&json, Some(dialect), &budget, &settings, &*meter);
        check_contract(&compacted, &budget, &settings, &*meter);
    }

    /// A request that goes on from another one is read as if it stood alone.
    #[test]
    fn what_was_read_before_is_taken_over((json, dialect) in conversation(), cut in 0..1_000usize, settings in settings()) {
        let whole = parse(&json, Some(dialect));
        let within = |message: &longhand_core::Message| {
            let start = (message.raw.raw().as_ptr() as usize).checked_sub(whole.bytes().as_ptr() as usize)?;
            Some(start..start + message.raw.raw().len()).filter(|span| span.end <= json.len())
        };
        let ends: Vec<usize> = whole
            .messages
            .iter()
            .filter(|message| message.raw.raw().starts_with('{'))
            .filter_map(|message| Some(within(message)?.end))
            .collect();
        let Some(last) = ends.last().copied() else { return Ok(()) };
        let end = ends[cut % ends.len()];
        let earlier = format!("{}{}", &json[..end], &json[last..]);
        let Ok(before) = longhand_dialect::read(earlier.into_bytes(), Some(dialect)) else { return Ok(()) };
        let after = longhand_dialect::read_after(std::sync::Arc::new(json.clone()), &before).unwrap();
        prop_assert_eq!(format!("{:?}", after.messages), format!("{:?}", whole.messages));
        let range = after.bytes().as_bytes().as_ptr_range();
        let is_own = |message: &longhand_core::Message| range.contains(&message.raw.raw().as_ptr());
        prop_assert!(after.messages.iter().all(is_own), "what was before is let go");
        prop_assert_eq!(&after.model, &whole.model);
        let budget = Budget::of(Tokens(count(&whole, o200k()).0 / 2));
        let window = |conversation: &longhand_dialect::Conversation| {
            let plan = longhand_core::plan(&conversation.history(Tokens::ZERO), &budget, &settings, o200k());
            conversation.apply(&[plan.batch])
        };
        prop_assert_eq!(window(&after), window(&whole));
        prop_assert_eq!(format!("{:?}", after.check()), format!("{:?}", whole.check()));
    }
}
