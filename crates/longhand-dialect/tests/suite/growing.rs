//! Conversations that grow, turn by turn, with the windows that they had before.

use crate::common::generate::conversation;
use crate::common::{POLICIES, cases, count, fixed, graves, never, o200k, parse};
use longhand_core::{
    Batch, Budget, CachePrices, Economy, History, Plan, PlanSettings, Policy, Tokens, plan,
    requests,
};
use longhand_dialect::{Conversation, Dialect, read};
use proptest::prelude::*;

/// A request cut after some of its messages, and what closes it.
struct Growing {
    json: String,
    /// Where the messages end after which a request is made.
    ends: Vec<usize>,
    /// Where the last message ends.
    last: usize,
}

impl Growing {
    /// Cuts a conversation into at most `turns` requests; `None` if it has no messages in a list.
    fn of(json: &str, dialect: Dialect, turns: usize) -> Option<Self> {
        let whole = parse(json, Some(dialect));
        let end = |message: &longhand_core::Message| {
            let raw = message.raw.raw();
            let start = (raw.as_ptr() as usize).checked_sub(whole.bytes().as_ptr() as usize)?;
            (raw.starts_with('{') && start < json.len()).then_some(start + raw.len())
        };
        let ends: Vec<usize> = whole.messages.iter().filter_map(end).collect();
        let last = *ends.last()?;
        let is_request = |end: &usize| {
            let text = format!("{}{}", &json[..*end], &json[last..]);
            read(text.into_bytes(), Some(dialect)).is_ok_and(|request| {
                use longhand_core::Role;
                graves(&request).is_empty()
                    && request.messages.last().is_some_and(|last| last.role != Role::Assistant)
            })
        };
        let mut ends: Vec<usize> = ends.into_iter().filter(is_request).collect();
        ends.truncate(turns);
        Some(Self { json: json.to_owned(), ends, last })
    }

    fn request(&self, turn: usize) -> String {
        format!("{}{}", &self.json[..self.ends[turn]], self.close())
    }

    fn close(&self) -> &str {
        &self.json[self.last..]
    }
}

fn blocks(window: &str) -> usize {
    window.matches("[longhand fold h:").count()
}

fn check(window: &str, dialect: Dialect, plan: &Plan) -> Result<Tokens, TestCaseError> {
    let shown = parse(window, Some(dialect));
    prop_assert_eq!(graves(&shown), Vec::<String>::new());
    let tokens = count(&shown, o200k());
    prop_assert!(
        tokens <= plan.tokens(),
        "the plan says {} and it is {}: {}\n{}",
        plan.tokens(),
        tokens,
        plan,
        crate::common::show(&shown)
    );
    prop_assert!(window.len() as u64 <= plan.size.bytes);
    prop_assert!(blocks(window) <= 1, "{}", window);
    Ok(tokens)
}

fn only_never_is_too_big(conversation: &Conversation, plan: &Plan, budget: &Budget) -> bool {
    plan.fits() || never(conversation, &[], o200k()) > budget.room()
}

proptest! {
    #![proptest_config(cases(64))]

    /// Plan, commit, append, plan again.
    #[test]
    fn batches_pile_up((json, dialect) in conversation(), percent in 15..90u64, low in prop::option::weighted(0.5, 20..80u64), policy in 0..POLICIES.len(), cached in prop::option::weighted(0.5, 1..60u64)) {
        let Some(growing) = Growing::of(&json, dialect, 20) else { return Ok(()) };
        let limit = Tokens(count(&parse(&json, Some(dialect)), o200k()).0 * percent / 100);
        let settings = PlanSettings { policy: POLICIES[policy], ..PlanSettings::default() };
        let mut live: Vec<Batch> = Vec::new();
        let mut sent: Option<String> = None;
        for turn in 0..growing.ends.len() {
            let request = parse(&growing.request(turn), Some(dialect));
            let fixed = fixed(&request, o200k());
            let budget = Budget::of(limit);
            let budget = low.map_or(budget, |low| budget.with_low_water(low, fixed));
            let prices = cached.map(|cached| CachePrices { cached, uncached: 100 });
            let size = || count(&request, o200k()).saturating_sub(fixed);
            let economy = prices.map(|prices| Economy::of(prices, size(), requests(&request.messages)));
            let budget = economy.map_or(budget, |economy| budget.with_economy(economy));
            let history = History { live: &live, ..request.history(fixed) };
            let plan = plan(&history, &budget, &settings, o200k());
            let before = request.apply(&live);
            if plan.is_noop() {
                let as_sent = sent.as_ref().is_none_or(|sent| before.starts_with(sent.as_str()));
                prop_assert!(as_sent, "turn {}: the prefix changed", turn);
                check(&before, dialect, &plan)?;
            } else {
                live.push(plan.batch.clone());
                let tokens = check(&request.apply(&live), dialect, &plan)?;
                let was = count(&parse(&before, Some(dialect)), o200k());
                prop_assert!(tokens < was, "turn {}: {} is not less than {}: {:?}", turn, tokens, was, plan.batch);
                let has_room = was <= budget.high() && !matches!(settings.policy, Policy::Rolling(_));
                prop_assert!(!has_room, "turn {}: there was room for {} of {}", turn, was, budget.high());
            }
            if settings.policy == Policy::Auto {
                prop_assert!(only_never_is_too_big(&request, &plan, &budget), "turn {}: {}", turn, plan);
            }
            let window = request.apply(&live);
            prop_assert!(window.ends_with(growing.close()));
            sent = Some(window[..window.len() - growing.close().len()].to_owned());
        }
    }

    /// Each window is the input of the next turn, and nobody remembers the batches.
    #[test]
    fn windows_come_back_as_input((json, dialect) in conversation(), percent in 15..90u64, policy in 0..POLICIES.len()) {
        let Some(growing) = Growing::of(&json, dialect, 20) else { return Ok(()) };
        let budget = Budget::of(Tokens(count(&parse(&json, Some(dialect)), o200k()).0 * percent / 100));
        let settings = PlanSettings { policy: POLICIES[policy], ..PlanSettings::default() };
        let mut window = String::new();
        for turn in 0..growing.ends.len() {
            let input = if turn == 0 { growing.request(0) } else {
                let new = &growing.json[growing.ends[turn - 1]..growing.ends[turn]];
                let (open, close) = window.split_at(window.len() - growing.close().len());
                format!("{open}{new}{close}")
            };
            let request = parse(&input, Some(dialect));
            let plan = plan(&request.history(fixed(&request, o200k())), &budget, &settings, o200k());
            window = request.apply(std::slice::from_ref(&plan.batch));
            check(&window, dialect, &plan)?;
            if settings.policy == Policy::Auto {
                prop_assert!(only_never_is_too_big(&request, &plan, &budget), "turn {}: {}, floor {}", turn, plan, plan.floor);
            }
        }
    }
}
