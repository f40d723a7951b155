//! What the tests of whole compactions share.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::OnceLock;

use longhand_core::{Budget, Edit, Meter, Plan, Policy, Scale, Settings, Tokens, plan};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
use proptest::prelude::ProptestConfig;

/// The exact meter, loaded once.
pub fn o200k() -> &'static (dyn Meter + Send + Sync) {
    static METER: OnceLock<Box<dyn Meter + Send + Sync>> = OnceLock::new();
    &**METER.get_or_init(|| MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap())
}

/// The estimate of the reference elider.
pub fn chars() -> Box<dyn Meter + Send + Sync> {
    "chars:3.5".parse::<MeterSpec>().unwrap().open(ImageRule::OPENAI_TILES).unwrap()
}

/// How many cases a law is tried on; `LONGHAND_CASES` asks for more.
pub fn cases(least: u32) -> ProptestConfig {
    let cases =
        std::env::var("LONGHAND_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(least);
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

pub const POLICIES: [Policy; 4] = [Policy::Auto, Policy::Elide, Policy::Trim, Policy::Rolling(3)];

pub fn parse(json: &str, dialect: Option<Dialect>) -> Conversation {
    read(json.as_bytes().to_vec(), dialect).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Counts a whole request.
pub fn count(conversation: &Conversation, meter: &dyn Meter) -> Tokens {
    let scale = Scale::new(meter);
    let messages: Tokens =
        conversation.messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
    messages + fixed(conversation, meter) + scale.framing().reply
}

pub fn fixed(conversation: &Conversation, meter: &dyn Meter) -> Tokens {
    let scale = Scale::new(meter);
    conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum()
}

/// A compaction and what came of it.
pub struct Compacted {
    pub before: Conversation,
    pub plan: Plan,
    pub text: String,
    pub after: Conversation,
    pub tokens: Tokens,
}

pub fn compact(
    json: &str,
    dialect: Option<Dialect>,
    budget: &Budget,
    settings: &Settings,
    meter: &dyn Meter,
) -> Compacted {
    let before = parse(json, dialect);
    let plan = plan(&before.history(fixed(&before, meter)), budget, settings, meter);
    let text = before.apply(&plan.edits);
    let after = parse(&text, Some(before.dialect));
    let tokens = count(&after, meter);
    Compacted { before, plan, text, after, tokens }
}

pub fn graves(conversation: &Conversation) -> Vec<String> {
    conversation.check().iter().filter(|finding| finding.grave).map(ToString::to_string).collect()
}

/// Checks what holds for every compaction of a valid conversation.
pub fn check_contract(
    compacted: &Compacted,
    budget: &Budget,
    settings: &Settings,
    meter: &dyn Meter,
) {
    let Compacted { before, plan, text, after, tokens } = compacted;
    let room = if settings.policy == Policy::Trim { budget.limit } else { budget.room() };
    assert_eq!(graves(after), Vec::<String>::new(), "valid");
    assert!(*tokens <= plan.tokens, "the plan says {} and it is {tokens}", plan.tokens);
    assert_eq!(plan.fits(), plan.tokens <= room);
    assert!(
        plan.fits() || plan.floor + Tokens(4) >= plan.tokens,
        "the best there is: {plan}, floor {}",
        plan.floor
    );
    assert!(
        plan.floor > room || plan.fits(),
        "a reachable budget is reached: {plan}, floor {}",
        plan.floor
    );
    if plan.is_noop() {
        assert_eq!(text, before.bytes());
    } else {
        assert!(*tokens < count(before, meter) || !plan.fits(), "a compaction frees something");
    }
    for edit in &plan.edits {
        if let Some((
            handle,
            longhand_core::Original::Text(content) | longhand_core::Original::Json(content),
        )) = edit.original(&before.messages)
        {
            assert_eq!(
                longhand_core::Handle::of([content.as_str()]),
                handle,
                "the original is under its handle"
            );
        } else {
            assert!(matches!(edit, Edit::Unthink { .. }));
        }
    }
}

/// Prints a window, one line per message.
pub fn show(conversation: &Conversation) -> String {
    use longhand_core::Part;
    let mut out = String::new();
    for (at, message) in conversation.messages.iter().enumerate() {
        let parts: Vec<String> = message
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) | Part::Other(text) => gist(&text.decode()),
                Part::Call(call) => {
                    format!("call:{} {}", call.name.decode(), gist(&call.arguments.decode()))
                }
                Part::Result(result) => match result.content.first() {
                    Some(Part::Text(text)) => format!("-> {}", gist(&text.decode())),
                    _ => "->".to_owned(),
                },
                other => format!("{other:?}").chars().take(12).collect(),
            })
            .collect();
        out.push_str(&format!("{at} {} {}\n", message.role.as_str(), parts.join(" + ")));
    }
    out
}

fn gist(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > 90 {
        line.chars().take(30).collect::<String>() + "…"
    } else {
        line.to_owned()
    }
}
