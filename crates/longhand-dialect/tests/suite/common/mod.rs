//! What the tests of whole compactions share.
pub(crate) mod generate;

use std::ops::Range;
use std::sync::OnceLock;

use longhand_core::{
    Budget, Change, Edit, Handle, Meter, Part, Plan, PlanSettings, Policy, Projection, Role,
    Rolling, Scale, Shown, ShownBlock, Tokens, content_hash, original, plan,
};
use longhand_dialect::{Conversation, Dialect, read};
use longhand_meter::{ImageRule, MeterSpec};
pub(crate) use longhand_testkit::arbitrary::cases;

/// The exact meter, loaded once.
pub(crate) fn o200k() -> &'static dyn Meter {
    static METER: OnceLock<Box<dyn Meter>> = OnceLock::new();
    &**METER.get_or_init(|| MeterSpec::O200k.open(ImageRule::OPENAI_TILES).unwrap())
}

/// The estimate of the reference elider.
pub(crate) fn chars() -> Box<dyn Meter> {
    "chars:3.5".parse::<MeterSpec>().unwrap().open(ImageRule::OPENAI_TILES).unwrap()
}

pub(crate) const POLICIES: [Policy; 4] = [
    Policy::Auto,
    Policy::Elide,
    Policy::Trim,
    Policy::Rolling(Rolling { rounds_max: 3, summary_max: Tokens(4_000) }),
];

pub(crate) fn parse(json: &str, dialect: Option<Dialect>) -> Conversation {
    read(json.as_bytes().to_vec(), dialect).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Counts a whole request.
pub(crate) fn count(conversation: &Conversation, meter: &dyn Meter) -> Tokens {
    let scale = Scale::new(meter);
    let messages: Tokens =
        conversation.messages.iter().map(|message| scale.message(message, Tokens::MAX)).sum();
    messages + fixed(conversation, meter) + scale.framing().reply
}

pub(crate) fn fixed(conversation: &Conversation, meter: &dyn Meter) -> Tokens {
    let scale = Scale::new(meter);
    conversation.attributes.iter().map(|text| scale.text(&text.decode())).sum()
}

/// A compaction and what came of it.
pub(crate) struct Compacted {
    pub(crate) before: Conversation,
    pub(crate) plan: Plan,
    pub(crate) text: String,
    pub(crate) after: Conversation,
    pub(crate) tokens: Tokens,
}

pub(crate) fn compact(
    json: &str,
    dialect: Option<Dialect>,
    budget: &Budget,
    settings: &PlanSettings,
    meter: &dyn Meter,
) -> Compacted {
    let before = parse(json, dialect);
    let plan = plan(&before.history(fixed(&before, meter)), budget, settings, meter);
    let text = before.apply(std::slice::from_ref(&plan.batch));
    let after = parse(&text, Some(before.dialect));
    let tokens = count(&after, meter);
    Compacted { before, plan, text, after, tokens }
}

/// The pictures in a conversation.
pub(crate) fn pictures(conversation: &Conversation) -> u64 {
    fn of(part: &Part) -> u64 {
        match part {
            Part::Image(_) => 1,
            Part::Result(result) => result.content.iter().map(of).sum(),
            _ => 0,
        }
    }
    conversation.messages.iter().flat_map(|message| &message.parts).map(of).sum()
}

/// The most that must stay whatever the budget: system prompt, newest user message, newest step, open calls
/// and pins, with the steps that they are in, and the shortest block.
pub(crate) fn never(conversation: &Conversation, pins: &[usize], meter: &dyn Meter) -> Tokens {
    let messages = &conversation.messages;
    let scale = Scale::new(meter);
    let follows_command = |at: usize| at > 0 && messages[at - 1].raw.raw().contains("```");
    let users: Vec<usize> = (0..messages.len()).filter(|at| messages[*at].is_user_turn()).collect();
    // What looks like the output of a command may be a user's words.
    let newest = users.iter().rev().find(|at| !follows_command(**at));
    let answered: Vec<String> = messages
        .iter()
        .flat_map(|message| message.results().map(|result| result.call.decode().into_owned()))
        .collect();
    let is_open = |at: usize| {
        messages[at].calls().any(|call| !answered.contains(&call.id.decode().into_owned()))
    };
    let must_stay = |at: usize| {
        messages[at].role == Role::System
            || newest == Some(&at)
            || users.last() == Some(&at)
            || pins.contains(&at)
            || is_open(at)
    };
    let alternates = conversation.wire().alternates;
    let mut total = fixed(conversation, meter) + scale.framing().reply + Tokens(60);
    let steps = longhand_core::steps(messages);
    let speaks = |at: usize| messages[at].role != Role::System;
    let newest_step = steps.iter().rposition(|step| step.clone().any(speaks));
    let mut after_reply = false;
    for (number, step) in steps.into_iter().enumerate() {
        // Where roles alternate, a later system message keeps its neighbours.
        let is_system =
            |at: usize| messages.get(at).is_some_and(|message| message.role == Role::System);
        let beside = alternates && (is_system(step.end) || is_system(step.start.wrapping_sub(1)));
        let stays = beside
            || after_reply
            || newest_step == Some(number)
            || step.clone().any(must_stay)
            || follows_command(step.start)
            || follows_command(step.end);
        after_reply = alternates && stays && messages[step.end - 1].role == Role::Assistant;
        if stays {
            total += step.map(|at| scale.message(&messages[at], Tokens::MAX)).sum();
        }
    }
    total
}

/// One change to a window, by the positions of messages and parts.
pub(crate) enum Operation {
    /// The body of a part becomes this text.
    Replace(usize, usize, String),
    /// A part is taken out.
    Remove(usize, usize),
    /// Messages make way for a block.
    Fold(Vec<Range<usize>>, String),
}

pub(crate) fn replace(message: usize, part: usize, text: &str) -> Operation {
    Operation::Replace(message, part, text.to_owned())
}

pub(crate) fn remove(message: usize, part: usize) -> Operation {
    Operation::Remove(message, part)
}

pub(crate) fn fold(ranges: &[(usize, usize)], text: &str) -> Operation {
    Operation::Fold(ranges.iter().map(|(start, end)| *start..*end).collect(), text.to_owned())
}

/// Writes a conversation with these changes; the handle of a fold is that of "x".
pub(crate) fn render(conversation: &Conversation, operations: &[Operation]) -> String {
    conversation.render(&window(conversation, operations))
}

/// The window of a conversation with these changes.
pub(crate) fn window(conversation: &Conversation, operations: &[Operation]) -> Projection {
    let mut window = Projection::unchanged(conversation.messages.len());
    let mut change = |message: usize, part: usize, change: Change| {
        if let Shown::Changed(changes) = &mut window.messages[message] {
            changes.push((part, change));
            changes.sort_by_key(|(part, _)| *part);
        } else {
            window.messages[message] = Shown::Changed(vec![(part, change)]);
        }
    };
    for operation in operations {
        match operation {
            Operation::Replace(message, part, text) => {
                change(*message, *part, Change::Text(text.clone()));
            }
            Operation::Remove(message, part) => change(*message, *part, Change::Removed),
            Operation::Fold(..) => {}
        }
    }
    for operation in operations {
        let Operation::Fold(ranges, text) = operation else { continue };
        for message in ranges.iter().cloned().flatten() {
            window.messages[message] = Shown::Folded;
        }
        let (before, handle) = (ranges[0].start, Handle::of(["x"]));
        window.block = Some(ShownBlock { before, handle, text: text.clone() });
    }
    window
}

pub(crate) fn graves(conversation: &Conversation) -> Vec<String> {
    conversation.check().iter().filter(|finding| finding.grave).map(ToString::to_string).collect()
}

/// Checks what holds for every compaction of a valid conversation.
pub(crate) fn check_contract(
    compacted: &Compacted,
    budget: &Budget,
    _settings: &PlanSettings,
    meter: &dyn Meter,
) {
    let Compacted { before, plan, text, after, tokens } = compacted;
    let room = budget.room();
    let of_tokens_alone = budget.bytes_max.is_none() && budget.images_max.is_none();
    assert_eq!(graves(after), Vec::<String>::new(), "valid");
    let planned = plan.tokens();
    assert!(*tokens <= planned, "the plan says {planned} and it is {tokens}");
    let (bytes, images) = (text.len() as u64, pictures(after));
    assert!(
        bytes <= plan.size.bytes || before.dialect.is_session_file(),
        "the plan says {} bytes and it is {bytes}",
        plan.size.bytes
    );
    assert!(images <= plan.size.images, "the plan says {} and it is {images}", plan.size.images);
    assert_eq!(plan.fits(), plan.size.is_within(&budget.limits()));
    assert!(
        plan.fits() || plan.floor + Tokens(4) >= planned || !of_tokens_alone,
        "the best there is: {plan}, floor {}",
        plan.floor
    );
    assert!(
        plan.floor > room || plan.fits() || !of_tokens_alone,
        "a reachable budget is reached: {plan}, floor {}",
        plan.floor
    );
    if plan.is_noop() {
        assert_eq!(text, before.bytes());
    } else {
        assert!(*tokens < count(before, meter) || !plan.fits(), "a compaction frees something");
    }
    let path = before.path();
    for edit in &plan.batch.edits {
        let kept = original(&path, edit).expect("every edit of a plan takes something away");
        match edit {
            Edit::Stub { handle, .. } | Edit::Clip { handle, .. } => {
                assert_eq!(Handle::of([kept.as_str()]), *handle);
            }
            Edit::Fold(fold) => {
                let lines = kept.as_str().lines().map(content_hash);
                if fold.blocks.is_empty() && !before.dialect.is_session_file() {
                    let raws = path.messages[path.lead..].iter().zip(path.seqs);
                    let raws = raws.filter(|(_, seq)| fold.contains(**seq));
                    let hashes = raws.map(|(message, _)| content_hash(message.raw.raw()));
                    assert_eq!(hashes.fold(0u128, u128::wrapping_add), fold.sum);
                }
                assert!(lines.count() > 0, "{plan:?}");
            }
            Edit::Insert { .. } => panic!("no plan inserts"),
        }
    }
}

impl Compacted {
    /// The messages that are stubbed.
    pub(crate) fn stubbed(&self) -> Vec<usize> {
        self.edited(|edit| matches!(edit, Edit::Stub { .. }))
    }

    /// The messages that are clipped.
    pub(crate) fn clipped(&self) -> Vec<usize> {
        self.edited(|edit| matches!(edit, Edit::Clip { .. }))
    }

    fn edited(&self, which: impl Fn(&Edit) -> bool) -> Vec<usize> {
        let edits = self.plan.batch.edits.iter().filter(|edit| which(edit));
        edits.filter_map(|edit| self.before.path().message(edit.first())).collect()
    }

    /// The messages that are folded.
    pub(crate) fn folded(&self) -> Vec<usize> {
        let path = self.before.path();
        let Some(fold) = self.plan.batch.fold() else { return Vec::new() };
        let at =
            |(at, seq): (usize, &longhand_core::Seq)| fold.contains(*seq).then_some(at + path.lead);
        path.seqs.iter().enumerate().filter_map(at).collect()
    }
}

/// Prints a window, one line per message.
pub(crate) fn show(conversation: &Conversation) -> String {
    let mut out = String::new();
    for (at, message) in conversation.messages.iter().enumerate() {
        let parts: Vec<String> = message
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) | Part::FixedText(text) => gist(&text.decode()),
                Part::Other(other) => gist(&other.raw.decode()),
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
