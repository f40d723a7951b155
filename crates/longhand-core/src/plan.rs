//! What to change so that a conversation fits.

use std::fmt;
use std::ops::Range;

use crate::{Budget, Digest, Handle, Index, Message, Meter, Part, Scale, Text, Tokens};
use crate::{auto, elide, rolling, trim};

/// A conversation as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct History<'h> {
    /// The messages, oldest first, system prompts included.
    pub messages: &'h [Message],
    /// Tokens of the request outside its messages, such as tool schemas.
    pub fixed: Tokens,
    /// What the wire format makes of edits.
    pub wire: Wire,
}

/// What a wire format makes of edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wire {
    /// Thinking is bound to all that came before it, so that an edit voids it.
    pub binds_thinking: bool,
    /// Roles must alternate, so that a fold block joins the turn before it.
    pub alternates: bool,
}

/// How to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy.
    pub policy: Policy,
    /// How many of the newest messages stay as they are; `None` leaves it to the policy.
    pub keep_tail: Option<usize>,
    /// Bodies of fewer characters stay.
    pub chars_min: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { policy: Policy::Auto, keep_tail: None, chars_min: 256 }
    }
}

/// A way to make a conversation fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Stubs old results, then arguments, then prose; then folds old steps.
    #[default]
    Auto,
    /// Stubs old results, then prose; no more than needed.
    Elide,
    /// Keeps the newest steps that fit, and a note on the rest.
    Trim,
    /// Keeps the newest rounds, at most so many, and one summary of the rest.
    Rolling(usize),
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The message's index.
    pub message: usize,
    /// The part's index in it.
    pub part: usize,
}

/// One change to what the model sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A part's body becomes a marker; arguments keep their shape.
    Stub {
        /// Where.
        at: Place,
        /// The address of what was there.
        handle: Handle,
        /// What stands there now.
        text: String,
    },
    /// A part's text is cut to head and tail.
    Clip {
        /// Where.
        at: Place,
        /// The address of the whole text.
        handle: Handle,
        /// What stands there now.
        text: String,
    },
    /// Messages make way for one block.
    Fold {
        /// Which ones.
        messages: Vec<Range<usize>>,
        /// The address of all of them.
        handle: Handle,
        /// What stands in their place.
        text: String,
    },
    /// Reasoning that an earlier edit voids is taken out.
    Unthink {
        /// Where.
        at: Place,
    },
}

/// Content that an edit takes out of sight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Original {
    /// Plain text.
    Text(String),
    /// JSON as it was received; folded messages stand one after another. A text that cannot be decoded
    /// without loss is a string in quotes.
    Json(String),
}

impl Edit {
    /// What the edit takes out of sight, with its address; `None` for reasoning, which is void.
    pub fn original(&self, messages: &[Message]) -> Option<(Handle, Original)> {
        match self {
            Edit::Stub { at, handle, .. } | Edit::Clip { at, handle, .. } => {
                Some((*handle, content(&messages[at.message].parts[at.part])))
            }
            Edit::Fold { messages: ranges, handle, .. } => {
                let raws = ranges.iter().flat_map(|range| &messages[range.clone()]);
                let lines: Vec<&str> = raws.map(|message| message.raw.raw()).collect();
                Some((*handle, Original::Json(lines.join("\n"))))
            }
            Edit::Unthink { .. } => None,
        }
    }
}

/// What a part holds that a marker can stand for.
pub(crate) fn content(part: &Part) -> Original {
    let form = |own: &Text, form: fn(String) -> Original| {
        let decoded = own.decode();
        if decoded.contains('\u{fffd}') && !own.is_exact() {
            Original::Json(format!("\"{}\"", own.raw()))
        } else {
            form(decoded.into_owned())
        }
    };
    let text = |own: &Text| form(own, Original::Text);
    match part {
        Part::Text(own) | Part::FixedText(own) => text(own),
        Part::Other(other) => text(&other.raw),
        Part::Thinking(thinking) => text(&thinking.text),
        Part::Call(call) if call.freeform => text(&call.arguments),
        Part::Call(call) => form(&call.arguments, Original::Json),
        Part::Result(result) => match result.single_text() {
            Some(own) => text(own),
            None => Original::Json(result.raw.raw().to_owned()),
        },
        Part::Image(_) | Part::Media(_) | Part::File(_) => Original::Text(String::new()),
    }
}

/// Proposed edits with what they lead to; inert until applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The edits, oldest place first.
    pub edits: Vec<Edit>,
    /// The size of the window they make.
    pub tokens: Tokens,
    /// The smallest size that the policy can reach.
    pub floor: Tokens,
    /// How far the window is over its room; zero if it fits.
    pub shortfall: Tokens,
}

impl Plan {
    pub(crate) fn new(mut edits: Vec<Edit>, tokens: Tokens, floor: Tokens, room: Tokens) -> Self {
        edits.sort_by_key(|edit| match edit {
            Edit::Stub { at, .. } | Edit::Clip { at, .. } | Edit::Unthink { at } => {
                (at.message, at.part)
            }
            Edit::Fold { messages, .. } => (messages.first().map_or(0, |range| range.start), 0),
        });
        Self { edits, tokens, floor: floor.min(tokens), shortfall: tokens.saturating_sub(room) }
    }

    /// Whether the window is within its room.
    pub fn fits(&self) -> bool {
        self.shortfall == Tokens::ZERO
    }

    /// Whether there is nothing to do.
    pub fn is_noop(&self) -> bool {
        self.edits.is_empty()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut stubs, mut clips, mut folded) = (0, 0, 0);
        for edit in &self.edits {
            match edit {
                Edit::Stub { .. } => stubs += 1,
                Edit::Clip { .. } => clips += 1,
                Edit::Fold { messages, .. } => {
                    folded += messages.iter().map(ExactSizeIterator::len).sum::<usize>();
                }
                Edit::Unthink { .. } => {}
            }
        }
        write!(f, "stubs {stubs}, clips {clips}, folds {folded} messages: {} tokens", self.tokens)?;
        if !self.fits() {
            write!(f, ", {} over", self.shortfall)?;
        }
        Ok(())
    }
}

/// Chooses the edits that bring a conversation within its budget.
///
/// It always answers: where the budget is out of reach, the plan is the best there is and carries its
/// shortfall.
///
/// ```
/// use longhand_core::{Budget, Settings, Tokens, Wire, plan, History};
/// # struct Words;
/// # impl longhand_core::Meter for Words {
/// #     fn weigh(&self, text: &str, _: u64) -> u64 { text.split(' ').count() as u64 }
/// #     fn image(&self, _: &longhand_core::Image) -> Tokens { Tokens(0) }
/// #     fn framing(&self) -> longhand_core::Framing {
/// #         longhand_core::Framing { message: Tokens(4), name: Tokens(1), reply: Tokens(3), ids: true }
/// #     }
/// # }
/// # let meter = Words;
/// let history = History { messages: &[], fixed: Tokens(0), wire: Wire::default() };
/// let plan = plan(&history, &Budget::of(Tokens(8_000)), &Settings::default(), &meter);
/// assert!(plan.fits() && plan.is_noop());
/// ```
pub fn plan(history: &History, budget: &Budget, settings: &Settings, meter: &dyn Meter) -> Plan {
    plan_with(history, budget, settings, meter, &Index)
}

/// Like [`plan()`], with a digest of what is folded other than an index.
pub fn plan_with(
    history: &History,
    budget: &Budget,
    settings: &Settings,
    meter: &dyn Meter,
    digest: &dyn Digest,
) -> Plan {
    let scale = Scale::new(meter);
    match settings.policy {
        Policy::Auto => auto::auto(history, budget, settings, scale, digest),
        Policy::Elide => elide::elide(history, budget, settings, scale),
        Policy::Trim => trim::trim(history, budget, scale, digest),
        Policy::Rolling(rounds_max) => rolling::rolling(history, budget, rounds_max, scale, digest),
    }
}
