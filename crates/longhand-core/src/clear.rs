//! Old tool uses cleared by rules that a client chose for its provider.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::draft::{Draft, Stage};
use crate::plan::{Edit, History, Place, Plan, Settings};
use crate::{Message, Meter, Part, Role, Scale, Tokens};

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
    let scale = Scale::new(meter);
    let count = history.messages.len();
    let around = history.fixed + scale.framing().reply;
    let stage = if clear.inputs { Stage::Arguments } else { Stage::Results };
    let mut draft = Draft::new(history, scale, Settings::default().chars_min, clear.inputs);
    draft.allow(&(0..count).collect::<Vec<_>>());
    let (uses, old) = old_uses(history.messages, clear);
    for (message, own) in history.messages.iter().enumerate() {
        for part in 0..own.parts.len() {
            let place = Place { message, part };
            if !old.contains(&place) {
                draft.spare(place);
            }
        }
    }
    let mut total =
        |stage| around + draft.total((0..count).rev(), stage, Tokens::MAX).unwrap_or(Tokens::MAX);
    let (whole, cleared) = (total(Stage::Untouched), total(stage));
    let edits = draft.edits(0..count, stage);
    let is_beyond = match clear.trigger {
        Trigger::Tokens(tokens) => whole > tokens,
        Trigger::Uses(number) => uses > number,
    };
    // What is left may be nothing but thinking that is void only if something is cleared.
    let frees = edits.iter().any(|edit| matches!(edit, Edit::Stub { .. }));
    if is_beyond && frees && whole.saturating_sub(cleared) >= clear.at_least {
        Plan::new(edits, cleared, cleared, Tokens::MAX)
    } else {
        let floor = if frees { cleared } else { whole };
        Plan::new(Vec::new(), whole, floor, Tokens::MAX)
    }
}

/// Counts the tool uses and finds the calls and results of those that may go.
fn old_uses(messages: &[Message], clear: &Clear) -> (usize, FxHashSet<Place>) {
    let mut uses: Vec<(Vec<Place>, String)> = Vec::new();
    let mut asked: FxHashMap<String, usize> = FxHashMap::default();
    let newest_reply = messages.iter().rposition(|message| message.role == Role::Assistant);
    for (at, message) in messages.iter().enumerate() {
        for (part, own) in message.parts.iter().enumerate() {
            let place = Place { message: at, part };
            match own {
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
