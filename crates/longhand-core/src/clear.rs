//! Old tool uses cleared by rules that a client chose for its provider.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::auto::{exact, finish};
use crate::draft::{At, Stage};
use crate::opening::Opening;
use crate::plan::{History, Plan, PlanSettings};
use crate::{Budget, Message, Meter, Part, Role, Scale, Size, Tokens};

/// Which tool uses to clear, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clear {
    /// What the conversation must be beyond.
    pub trigger: Trigger,
    /// How many of the newest tool uses stay.
    pub keep: usize,
    /// What clearing must free to be worth it.
    pub at_least: Tokens,
    /// The tools whose uses stay.
    pub exclude: Vec<String>,
    /// Whether arguments go, too.
    pub inputs: bool,
}

impl Default for Clear {
    fn default() -> Self {
        Self {
            trigger: Trigger::default(),
            keep: 3,
            at_least: Tokens::ZERO,
            exclude: Vec::new(),
            inputs: false,
        }
    }
}

/// What sets the clearing off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// More tokens than this.
    Tokens(Tokens),
    /// More tool uses than this.
    Uses(usize),
}

impl Default for Trigger {
    fn default() -> Self {
        Self::Tokens(Tokens(100_000))
    }
}

/// Replaces the results of old tool uses, all of them at once.
///
/// Results that no reply has followed stay: the model has not seen them. The plan has no budget, so that
/// it always fits.
pub fn clear(history: &History, clear: &Clear, meter: &dyn Meter) -> Plan {
    exact(history, &Budget::of(Tokens::MAX), |_| attempt(history, clear, Scale::new(meter)))
}

fn attempt(history: &History, clear: &Clear, scale: Scale) -> (Plan, Size) {
    let count = history.path.messages.len();
    let stage = if clear.inputs { Stage::Arguments } else { Stage::Results };
    let chars_min = PlanSettings::default().chars_min;
    let mut opening = Opening::of(history, scale, chars_min, clear.inputs);
    let around = opening.base + opening.standing();
    let draft = &mut opening.draft;
    draft.allow(0..count);
    let (uses, old) = old_uses(history.path.messages, clear);
    for (message, content) in history.path.messages.iter().enumerate() {
        for at in (0..content.parts.len()).map(|part| (message, part)) {
            if !old.contains(&at) {
                draft.spare(at);
            }
        }
    }
    let mut total =
        |stage| around + draft.total((0..count).rev(), stage, Size::MAX).unwrap_or(Size::MAX);
    let (now, cleared) = (total(Stage::Now), total(stage));
    let edits = draft.edits(0..count, stage);
    let is_beyond = match clear.trigger {
        Trigger::Tokens(tokens) => now.tokens > tokens,
        Trigger::Uses(number) => uses > number,
    };
    let has_edits = !edits.is_empty();
    let floor = if has_edits { cleared } else { now };
    let (plan, thinking) = finish(draft, edits, String::new(), cleared, cleared.tokens, Size::MAX);
    // Thinking before the first edit stays.
    let freed = now.tokens.saturating_sub(cleared.tokens + thinking.tokens);
    if is_beyond && has_edits && freed >= clear.at_least {
        (plan, thinking)
    } else {
        (Plan::none(now, floor.tokens, Size::MAX), Size::ZERO)
    }
}

/// Counts the tool uses and finds the calls and results of those that may go.
fn old_uses(messages: &[Message], clear: &Clear) -> (usize, FxHashSet<At>) {
    let mut uses: Vec<(Vec<At>, String)> = Vec::new();
    let mut asked: FxHashMap<String, usize> = FxHashMap::default();
    let newest_reply = messages.iter().rposition(|message| message.role == Role::Assistant);
    for (at, message) in messages.iter().enumerate() {
        for (part, content) in message.parts.iter().enumerate() {
            let place = (at, part);
            match content {
                Part::Call(call) => {
                    asked.insert(call.id.decode().into_owned(), uses.len());
                    uses.push((vec![place], call.name.decode().into_owned()));
                }
                Part::Result(result) if Some(at) < newest_reply => {
                    if let Some(&call) = asked.get(result.call.decode().as_ref()) {
                        uses[call].0.push(place);
                    }
                }
                _ => {}
            }
        }
    }
    let old = &uses[..uses.len().saturating_sub(clear.keep)];
    let may_go = old.iter().filter(|(_, name)| !clear.exclude.contains(name));
    (uses.len(), may_go.flat_map(|(places, _)| places.iter().copied()).collect())
}
