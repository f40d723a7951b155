//! What to change so that a conversation fits.

use std::borrow::Cow;
use std::fmt;

use crate::edit::{Batch, Edit, Seq};
use crate::entering::{clipped_on_entry, planned_on};
use crate::{Budget, Digest, IndexDigest, Meter, Part, Path, Scale, Size, Text, Tokens, ToolCall};
use crate::{auto, elide, rolling, trim};

/// A conversation as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct History<'h> {
    /// The messages with their entries.
    pub path: Path<'h>,
    /// The live batches that apply to the path, oldest first.
    pub live: &'h [Batch],
    /// Entries that always stay in the window, in order.
    pub pins: &'h [Seq],
    /// What the request takes outside its messages, such as tool schemas.
    pub fixed: Size,
    /// How the wire format limits edits.
    pub wire: Wire,
}

/// How a wire format limits edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wire {
    /// Thinking is bound to all that came before it, so that an edit voids it.
    pub binds_thinking: bool,
    /// Roles must alternate, so that a fold block joins the turn before it.
    pub alternates: bool,
    /// The request asks for JSON, which the provider refuses unless a message after the leading system messages
    /// has that word.
    pub needs_json_word: bool,
    /// How its reader can open a handle.
    pub opener: HandleOpener,
}

/// How whoever reads a window can open a handle in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HandleOpener {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// With a tool that the request offers.
    Tool(&'static str),
    /// With a command.
    Command(&'static str),
}

/// How to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSettings {
    /// The policy.
    pub policy: Policy,
    /// How many of the newest messages stay as they are; `None` leaves it to the policy.
    pub keep_tail: Option<usize>,
    /// Bodies of fewer characters stay.
    pub chars_min: usize,
    /// Whether `elide` may clip protected texts when nothing else helps; `auto` always may.
    pub last_resort: bool,
    /// The share of the room, in percent, beyond which a new tool result is clipped as it enters, whether
    /// the window is full or not; `None` leaves it whole.
    pub clip_new_percent: Option<u64>,
}

impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            policy: Policy::Auto,
            keep_tail: None,
            chars_min: 256,
            last_resort: false,
            clip_new_percent: None,
        }
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
    /// Keeps the newest rounds and one summary of the rest.
    Rolling(Rolling),
}

impl Policy {
    /// What it goes by in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Elide => "elide",
            Self::Trim => "trim",
            Self::Rolling(_) => "rolling",
        }
    }
}

/// How much [`Policy::Rolling`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rolling {
    /// The most rounds that stay verbatim.
    pub rounds_max: usize,
    /// The most tokens of the summary.
    pub summary_max: Tokens,
}

impl Default for Rolling {
    fn default() -> Self {
        Self { rounds_max: 10, summary_max: Tokens(4_000) }
    }
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

impl Original {
    /// The content, whatever its form.
    pub fn as_str(&self) -> &str {
        match self {
            Original::Text(content) | Original::Json(content) => content,
        }
    }
}

/// What an edit takes out of sight; `None` if it takes nothing, or if the path does not have it.
pub fn original(path: &Path, edit: &Edit) -> Option<Original> {
    match edit {
        Edit::Stub { at, .. } | Edit::Clip { at, .. } => {
            let (message, part) = path.find(*at)?;
            Some(content(&path.messages[message].parts[part]))
        }
        Edit::Fold(fold) => {
            let mut lines: Vec<String> = Vec::new();
            for place in &fold.blocks {
                let (message, part) = path.find(*place)?;
                let block = content(&path.messages[message].parts[part]);
                lines.push(crate::json::quote(block.as_str()));
            }
            for (at, seq) in path.seqs.iter().enumerate() {
                if fold.contains(*seq) {
                    lines.push(path.messages[path.lead + at].raw.raw().to_owned());
                }
            }
            Some(Original::Json(lines.join("\n")))
        }
        Edit::Insert { .. } => None,
    }
}

/// What a part holds that a marker can stand for.
pub fn content(part: &Part) -> Original {
    let text = |text: &Text| match original_text(text) {
        Cow::Owned(quoted) if !text.is_exact() => Original::Json(quoted),
        decoded => Original::Text(decoded.into_owned()),
    };
    match part {
        Part::Text(part_text) | Part::FixedText(part_text) => text(part_text),
        Part::Other(other) => text(&other.raw),
        Part::Thinking(thinking) => text(&thinking.text),
        Part::Call(call) => arguments(call),
        Part::Result(result) => match result.single_text() {
            Some(part_text) => text(part_text),
            None => Original::Json(result.raw.raw().to_owned()),
        },
        Part::Image(_) | Part::Media(_) | Part::File(_) => Original::Text(String::new()),
    }
}

/// The arguments of a call as they are kept.
pub(crate) fn arguments(call: &ToolCall) -> Original {
    let body = original_text(&call.arguments).into_owned();
    if call.freeform && call.arguments.is_exact() {
        Original::Text(body)
    } else {
        Original::Json(body)
    }
}

/// A text decoded, or as a string in quotes if decoding would lose something.
pub(crate) fn original_text(text: &Text) -> Cow<'_, str> {
    let decoded = text.decode();
    if decoded.contains('\u{fffd}') && !text.is_exact() {
        return Cow::Owned(format!("\"{}\"", text.raw()));
    }
    decoded
}

/// A proposed batch with what it leads to; inert until it is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The new edits, to be made on top of the live batches.
    pub batch: Batch,
    /// The size of the window they make.
    pub size: Size,
    /// The fewest tokens that the policy can reach.
    pub floor: Tokens,
    /// How many tokens the window is over its room; zero if it fits.
    pub shortfall: Tokens,
    /// The room that its block would take with all that matters, if that is more than it has.
    pub(crate) block_wanted: Option<Tokens>,
    limits: Size,
}

impl Plan {
    pub(crate) fn new(batch: Batch, size: Size, floor: Tokens, limits: Size) -> Self {
        let shortfall = size.tokens.saturating_sub(limits.tokens);
        let floor = floor.min(size.tokens);
        Self { batch, size, floor, shortfall, block_wanted: None, limits }
    }

    /// A plan that changes nothing.
    pub(crate) fn none(size: Size, floor: Tokens, limits: Size) -> Self {
        Self::new(Batch::default(), size, floor, limits)
    }

    /// The same judgement of a window of that size without any edit, if none makes it smaller.
    pub(crate) fn replaced_by_nothing(self, size: Size) -> Self {
        Self::none(size, size.tokens, self.limits)
    }

    /// The tokens of the window.
    pub fn tokens(&self) -> Tokens {
        self.size.tokens
    }

    /// Whether the window is within its room in tokens, bytes and pictures.
    pub fn fits(&self) -> bool {
        self.size.is_within(&self.limits)
    }

    /// Whether there is nothing to do.
    pub fn is_noop(&self) -> bool {
        self.batch.edits.is_empty()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = Tally::of(&self.batch.edits);
        let Tally { stubs, clips, folded, .. } = tally;
        write!(
            f,
            "stubs {stubs}, clips {clips}, folds {folded} entries: {} tokens",
            self.tokens()
        )?;
        if !self.fits() {
            write!(f, ", {} over", self.shortfall)?;
        }
        Ok(())
    }
}

/// How many edits of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Stubs.
    pub stubs: usize,
    /// Clips.
    pub clips: usize,
    /// Entries that a fold covers.
    pub folded: u64,
    /// Inserts.
    pub inserts: usize,
}

impl Tally {
    /// Counts edits.
    pub fn of<'e>(edits: impl IntoIterator<Item = &'e Edit>) -> Self {
        let mut tally = Self::default();
        for edit in edits {
            match edit {
                Edit::Stub { .. } => tally.stubs += 1,
                Edit::Clip { .. } => tally.clips += 1,
                Edit::Insert { .. } => tally.inserts += 1,
                Edit::Fold(fold) => {
                    let spans = fold.spans.iter();
                    tally.folded += spans.map(|span| span.last.0 - span.first.0 + 1).sum::<u64>();
                }
            }
        }
        tally
    }
}

/// Chooses the edits that bring a conversation within its budget.
///
/// It always answers: where the budget is out of reach, the plan is the best there is and carries its
/// shortfall. A plan that has edits makes the window smaller.
///
/// ```
/// use longhand_core::{Budget, History, Path, PlanSettings, Size, Tokens, Wire, plan};
/// # struct Words;
/// # impl longhand_core::Meter for Words {
/// #     fn weigh(&self, text: &str, _: u64) -> u64 { text.split(' ').count() as u64 }
/// #     fn image(&self, _: &longhand_core::Image) -> Tokens { Tokens(0) }
/// #     fn framing(&self) -> longhand_core::Framing {
/// #         longhand_core::Framing { message: Tokens(4), name: Tokens(1), reply: Tokens(3), ids: true }
/// #     }
/// # }
/// # let meter = Words;
/// let path = Path { messages: &[], lead: 0, seqs: &[] };
/// let history = History { path, live: &[], pins: &[], fixed: Size::ZERO, wire: Wire::default() };
/// let plan = plan(&history, &Budget::of(Tokens(8_000)), &PlanSettings::default(), &meter);
/// assert!(plan.fits() && plan.is_noop());
/// ```
pub fn plan(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    meter: &dyn Meter,
) -> Plan {
    plan_with(history, budget, settings, meter, &IndexDigest)
}

/// Like [`plan()`], with a digest other than [`IndexDigest`].
pub fn plan_with(
    history: &History,
    budget: &Budget,
    settings: &PlanSettings,
    meter: &dyn Meter,
    digest: &dyn Digest,
) -> Plan {
    let scale = Scale::new(meter);
    let planned = |history: &History| match settings.policy {
        Policy::Auto => auto::auto(history, budget, settings, scale, digest),
        Policy::Elide => elide::elide(history, budget, settings, scale),
        Policy::Trim => trim::trim(history, budget, settings, scale, digest),
        Policy::Rolling(rolling) => {
            rolling::rolling(history, budget, settings, rolling, scale, digest)
        }
    };
    match clipped_on_entry(history, budget, settings, &scale) {
        Some(clips) => planned_on(clips, history, planned),
        None => planned(history),
    }
}
