//! Laws that hold for any conversation, budget and policy.
use crate::common::generate::{budget, conversation, settings, share};
use crate::common::{
    Compacted, POLICIES, cases, chars, check_contract, compact, count, fixed, graves, never, o200k,
    parse, pictures,
};
use longhand_core::{
    Batch, Budget, Change, Edit, History, Original, PlanSettings, Policy, Role, Seq, Shown, Tokens,
    Wire, original, plan, project,
};
use longhand_dialect::Dialect;
use proptest::prelude::*;
use serde_json::Value;

proptest! {
    #![proptest_config(cases(1_200))]

    /// Fit, pairing, validity, shrinking, and that expand(stub) is the original; then what stays as it is.
    #[test]
    fn a_window_fits_or_says_so_and_is_valid((json, dialect) in conversation(), settings in settings(), share in share()) {
        let before = parse(&json, Some(dialect));
        prop_assert_eq!(graves(&before), Vec::<String>::new());
        let budget = budget(count(&before, o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        check_contract(&compacted, &budget, &settings, o200k());
        cuts_lie_between_steps(&compacted)?;
        the_untouched_is_byte_identical(&compacted, dialect)?;
        if share.2.is_none() {
            compacting_is_idempotent(&compacted, dialect, &budget, &settings)?;
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
}

/// A fold takes whole steps, whatever the policy.
fn cuts_lie_between_steps(compacted: &Compacted) -> Result<(), TestCaseError> {
    let folded = compacted.folded();
    for step in longhand_core::steps(&compacted.before.messages) {
        let inside = step.clone().filter(|at| folded.contains(at)).count();
        prop_assert!(inside == 0 || inside == step.len(), "{inside} of {step:?}");
    }
    Ok(())
}

/// Messages that no edit names come out byte for byte.
fn the_untouched_is_byte_identical(
    compacted: &Compacted,
    dialect: Dialect,
) -> Result<(), TestCaseError> {
    let Compacted { before, plan, text, .. } = compacted;
    let window = project(&before.path(), std::slice::from_ref(&plan.batch), before.wire());
    let mut touched: Vec<bool> =
        window.messages.iter().map(|shown| *shown != Shown::Unchanged).collect();
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
        prop_assert!(text.contains(message.raw.raw()));
    }
    Ok(())
}

/// Compacting a compacted window changes nothing.
fn compacting_is_idempotent(
    once: &Compacted,
    dialect: Dialect,
    budget: &Budget,
    settings: &PlanSettings,
) -> Result<(), TestCaseError> {
    let twice = compact(&once.text, Some(dialect), budget, settings, o200k());
    if once.plan.fits() {
        prop_assert_eq!(&twice.text, &once.text);
    } else {
        prop_assert!(twice.tokens <= once.tokens);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    /// What `auto` leaves alone for ever, and what until nothing else helps.
    #[test]
    fn auto_keeps_the_first_and_newest_user_message((json, dialect) in conversation(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &PlanSettings::default(), o200k());
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
        // What follows a command may be its output.
        let acts = |raw: &str| ["```", ">", "Action", "$ "].iter().any(|mark| raw.contains(mark));
        let is_text_action = |at: usize| at > 0 && acts(messages[at - 1].raw.raw());
        let users: Vec<usize> = (0..messages.len()).filter(|at| messages[*at].is_user_turn()).collect();
        if let Some(newest) = users.iter().rposition(|at| !is_text_action(*at)) {
            prop_assert!(users[newest..].iter().any(|at| is_shown(*at)), "{}", compacted.before.name_of(users[newest]));
        }
        // Where thinking alone is too much, it takes an edit to be rid of it.
        let first = users.first().filter(|first| !is_shown(**first) && !compacted.before.wire().binds_thinking);
        if let Some(&first) = first {
            let whole = longhand_core::Scale::new(o200k()).message(&messages[first], Tokens::MAX);
            let room = budget.room();
            let reserved = Tokens(room.0 / 10 + 40);
            prop_assert!(compacted.plan.tokens() + whole + reserved > room, "{} + {} of {}: {}", compacted.plan, whole, room, crate::common::show(&compacted.after));
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

proptest! {
    #![proptest_config(cases(64))]

    /// `auto` fits whenever another policy does; only what never goes can be too big for it.
    #[test]
    fn auto_fits_whenever_another_policy_does((json, dialect) in conversation(), share in share()) {
        let before = parse(&json, Some(dialect));
        let budget = budget(count(&before, o200k()), share);
        let run = |policy| compact(&json, Some(dialect), &budget, &PlanSettings { policy, ..PlanSettings::default() }, o200k());
        let auto = run(Policy::Auto);
        let users: Vec<usize> = (0..before.messages.len()).filter(|at| before.messages[*at].is_user_turn()).collect();
        for policy in [Policy::Trim, Policy::Elide, POLICIES[3]] {
            let other = run(policy);
            // What follows a command may be its output, and the newest words of the user those before it.
            let follows_command = |at: usize| at > 0 && before.messages[at - 1].raw.raw().contains("```");
            let newest = users.iter().rev().find(|at| !follows_command(**at));
            let keeps_newest = users.last().into_iter().chain(newest).all(|at| !other.folded().contains(at));
            prop_assert!(auto.plan.fits() || !other.plan.fits() || !keeps_newest, "{:?}: {} but {}", policy, other.plan, auto.plan);
        }
        let most = never(&before, &[], o200k());
        prop_assert!(auto.plan.fits() || most > budget.room(), "{} though {} would do", auto.plan, most);
    }

    /// Pinned entries are neither edited nor folded.
    #[test]
    fn pins_stay((json, dialect) in conversation(), settings in settings(), share in share(), picks in prop::collection::vec(0..100usize, 1..4)) {
        let before = parse(&json, Some(dialect));
        let path = before.path();
        prop_assume!(!path.seqs.is_empty());
        let mut pins: Vec<Seq> = picks.iter().map(|pick| path.seqs[pick % path.seqs.len()]).collect();
        pins.sort_unstable();
        pins.dedup();
        let budget = budget(count(&before, o200k()), share);
        let history = History { pins: &pins, ..before.history(fixed(&before, o200k())) };
        let plan = plan(&history, &budget, &settings, o200k());
        let window = project(&path, std::slice::from_ref(&plan.batch), before.wire());
        for message in pins.iter().filter_map(|pin| path.message(*pin)) {
            match &window.messages[message] {
                Shown::Folded => prop_assert!(false, "{} is folded", before.name_of(message)),
                Shown::Changed(changes) => {
                    prop_assert!(changes.iter().all(|(_, change)| *change == Change::Removed), "{} is edited", before.name_of(message));
                }
                Shown::Unchanged => {}
            }
        }
        let text = before.apply(std::slice::from_ref(&plan.batch));
        let after = parse(&text, Some(dialect));
        prop_assert_eq!(graves(&after), Vec::<String>::new());
        prop_assert!(count(&after, o200k()) <= plan.tokens());
        let pinned: Vec<usize> = pins.iter().filter_map(|pin| path.message(*pin)).collect();
        if settings.policy == Policy::Auto {
            prop_assert!(plan.fits() || never(&before, &pinned, o200k()) > budget.room(), "{}", plan);
        }
    }

    /// Limits in bytes and pictures are planned for like those in tokens.
    #[test]
    fn bytes_and_pictures_are_limited((json, dialect) in conversation(), settings in settings(), share in share(), bytes in prop::option::weighted(0.7, 20..1_100u64), images in prop::option::weighted(0.7, 0..4u64)) {
        let before = parse(&json, Some(dialect));
        let budget = Budget {
            bytes_max: bytes.map(|bytes| json.len() as u64 * bytes / 1_000),
            images_max: images,
            ..budget(count(&before, o200k()), share)
        };
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        check_contract(&compacted, &budget, &settings, o200k());
        if compacted.plan.fits() {
            prop_assert!(budget.bytes_max.is_none_or(|most| compacted.text.len() as u64 <= most));
            prop_assert!(budget.images_max.is_none_or(|most| pictures(&compacted.after) <= most));
        }
    }

    /// Whatever was taken away can be put back.
    #[test]
    fn putting_every_original_back_gives_the_input((json, dialect) in conversation(), settings in settings(), share in share()) {
        let budget = budget(count(&parse(&json, Some(dialect)), o200k()), share);
        let compacted = compact(&json, Some(dialect), &budget, &settings, o200k());
        put_back(&compacted)?;
    }

    /// The same input makes the same window, and a fold swallows the edits inside it.
    #[test]
    fn projections_are_pure((json, dialect) in conversation(), share in share()) {
        let before = parse(&json, Some(dialect));
        let total = count(&before, o200k());
        let run = |policy, budget: Budget| compact(&json, Some(dialect), &budget, &PlanSettings { policy, ..PlanSettings::default() }, o200k());
        let stubs = run(Policy::Elide, Budget::of(Tokens(1))).plan.batch;
        let fold = run(Policy::Trim, budget(total, (share.0.min(900), 0, None))).plan.batch;
        let path = before.path();
        let live = [stubs.clone(), fold.clone()];
        let window = project(&path, &live, before.wire());
        prop_assert_eq!(&window, &project(&path, &live, before.wire()));
        let Some(folded) = fold.fold().cloned() else { return Ok(()) };
        let edits = stubs.edits.into_iter().filter(|edit| !folded.contains(edit.first())).collect();
        let outside = [Batch { edits, ..stubs }, fold];
        // Where nothing is bound, only the edits themselves count.
        let free = Wire { binds_thinking: false, ..before.wire() };
        prop_assert_eq!(project(&path, &live, free), project(&path, &outside, free));
    }
}

/// Rebuilds the input from a window and what its edits took away.
fn put_back(compacted: &Compacted) -> Result<(), TestCaseError> {
    let Compacted { before, plan, after, .. } = compacted;
    let path = before.path();
    let window = project(&path, std::slice::from_ref(&plan.batch), before.wire());
    if let Some(fold) = plan.batch.fold() {
        let raws = compacted.folded().into_iter().map(|at| path.messages[at].raw.raw());
        let kept = original(&path, &Edit::Fold(fold.clone())).map(|kept| kept.as_str().to_owned());
        prop_assert_eq!(kept, Some(raws.collect::<Vec<_>>().join("\n")));
    }
    // Turns that a fold makes neighbours are joined where roles alternate.
    if before.wire().alternates && window.block.is_some() {
        return Ok(());
    }
    let mut shown = after.messages.iter();
    for (at, message) in path.messages.iter().enumerate() {
        if window.block.as_ref().is_some_and(|block| block.before == at) {
            prop_assert!(shown.next().is_some_and(longhand_core::is_fold));
        }
        if window.is_folded(at) {
            continue;
        }
        let now = shown.next().map_or("", |message| message.raw.raw());
        if window.messages[at] == Shown::Unchanged {
            prop_assert_eq!(now, message.raw.raw());
            continue;
        }
        let edits = plan.batch.edits.iter().filter(|edit| path.message(edit.first()) == Some(at));
        let mut value: Value = serde_json::from_str(now).unwrap();
        for edit in edits {
            let (Edit::Stub { text, .. } | Edit::Clip { text, .. }) = edit else { continue };
            let found = put(&mut value, text, &original(&path, edit).unwrap());
            prop_assert_eq!(found, 1, "{} in {}", text, now);
        }
        let mut was: Value = serde_json::from_str(message.raw.raw()).unwrap();
        without_thinking(&mut value);
        without_thinking(&mut was);
        prop_assert_eq!(value, was);
    }
    prop_assert!(shown.next().is_none());
    Ok(())
}

/// Puts an original in the place of the text that stands for it. Returns in how many places it stood.
fn put(value: &mut Value, text: &str, kept: &Original) -> usize {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let is_object = value.is_object() && parsed(text).as_ref() == Some(value);
    // A result that was no single text is a list; anything else is a string, or was an object.
    if value.as_str() == Some(text) || is_object {
        *value = match kept {
            Original::Json(json) if is_object || json.starts_with('[') => parsed(json).unwrap(),
            kept => Value::String(kept.as_str().to_owned()),
        };
        return 1;
    }
    let mut found = 0;
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| found += put(value, text, kept)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| found += put(value, text, kept));
        }
        _ => {}
    }
    found
}

fn without_thinking(value: &mut Value) {
    // A result of one text may be a list of one block.
    if let Some(list) = value.get_mut("content").and_then(Value::as_array_mut) {
        list.retain(|block| !block["type"].as_str().unwrap_or_default().contains("thinking"));
        list.iter_mut().for_each(without_thinking);
    }
    for key in ["content", "output"] {
        if let Some([block]) = value.get(key).and_then(Value::as_array).map(Vec::as_slice)
            && let (Some(text), Some(2)) =
                (block["text"].as_str(), block.as_object().map(serde_json::Map::len))
        {
            value[key] = Value::String(text.to_owned());
        }
    }
}
