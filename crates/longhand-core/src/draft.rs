//! The bookkeeping behind a plan: what each part weighs, as it is shown now and replaced.

use std::cell::OnceCell;

use rustc_hash::FxHashSet;

use crate::cut;
use crate::edit::{Edit, Place};
use crate::fold::is_block;
use crate::handle::content_hash;
use crate::json::quoted_len;
use crate::observation::Observations;
use crate::plan::History;
use crate::project::{Change, Projection, voided_between};
use crate::stub::{Stubber, is_bulky};
use crate::worth::Newer;
use crate::{Message, Part, Role, Scale, Size, Text, Tokens, unescape};

/// How far a window has been worked: each stage includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// As the live batches show it.
    Now,
    /// Some edit has been made, so the thinking that it voids is gone.
    Edited,
    /// Tool results are replaced.
    Results,
    /// Bulky arguments are replaced.
    Arguments,
    /// The assistant's prose is replaced.
    Prose,
}

/// What a message or part weighs; text is in grains until a message is rounded to tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    pub(crate) grains: u64,
    pub(crate) bytes: u64,
    pub(crate) images: u64,
}

impl Weight {
    fn plus(self, other: Self) -> Self {
        Self {
            grains: self.grains.saturating_add(other.grains),
            bytes: self.bytes.saturating_add(other.bytes),
            images: self.images.saturating_add(other.images),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            grains: self.grains.saturating_sub(other.grains),
            bytes: self.bytes.saturating_sub(other.bytes),
            images: self.images.saturating_sub(other.images),
        }
    }
}

/// A part's position: its message in the path, and its index there.
pub(crate) type At = (usize, usize);

/// Weights of a history's parts, worked out when they are asked for and only once.
///
/// Sums run newest first and stop at their limit: what must go anyway is never counted.
pub(crate) struct Draft<'h> {
    pub(crate) history: &'h History<'h>,
    pub(crate) scale: Scale<'h>,
    /// The window as the live batches show it.
    pub(crate) now: Projection,
    stubber: Stubber<'h>,
    observations: Observations<'h>,
    chars_min: usize,
    arguments: bool,
    editable: Vec<bool>,
    void: FxHashSet<At>,
    memo: Vec<Vec<Memo>>,
    weights: Vec<Weight>,
    restored: FxHashSet<At>,
    hashes: Vec<OnceCell<u128>>,
}

#[derive(Clone, Default)]
struct Memo {
    now: Option<u64>,
    replacement: KnownReplacement,
}

/// What can stand for a body, once it has been looked for.
#[derive(Clone, Default)]
enum KnownReplacement {
    #[default]
    NotYet,
    Nothing,
    Found(Replacement),
}

#[derive(Clone)]
struct Replacement {
    edit: Edit,
    weight: Weight,
}

impl<'h> Draft<'h> {
    /// Starts a draft in which no message may be changed yet.
    pub(crate) fn new(
        history: &'h History<'h>,
        now: Projection,
        scale: Scale<'h>,
        chars_min: usize,
        arguments: bool,
    ) -> Self {
        let messages = history.path.messages;
        let void = if history.wire.binds_thinking {
            voided_between(messages, 0, messages.len()).into_iter().collect()
        } else {
            FxHashSet::default()
        };
        Self {
            history,
            scale,
            now,
            stubber: Stubber::new(messages),
            observations: Observations::of(messages),
            chars_min,
            arguments,
            editable: vec![false; messages.len()],
            void,
            memo: vec![Vec::new(); messages.len()],
            weights: vec![Weight::default(); messages.len()],
            restored: FxHashSet::default(),
            hashes: vec![OnceCell::new(); messages.len()],
        }
    }

    /// The hash of a message as it was received.
    pub(crate) fn hash(&self, message: usize) -> u128 {
        let raw = || content_hash(self.history.path.messages[message].raw.raw());
        *self.hashes[message].get_or_init(raw)
    }

    /// Allows parts of these messages to be replaced.
    pub(crate) fn allow(&mut self, messages: impl IntoIterator<Item = usize>) {
        for message in messages {
            self.editable[message] = true;
        }
    }

    /// Keeps a part as it is, whatever its message.
    pub(crate) fn spare(&mut self, at: At) {
        self.memo(at).replacement = KnownReplacement::Nothing;
    }

    /// Sums messages at a stage, in the order given; `None` once they are over `limit`.
    pub(crate) fn total(
        &mut self,
        messages: impl IntoIterator<Item = usize>,
        stage: Stage,
        limit: Size,
    ) -> Option<Size> {
        let mut total = Size::ZERO;
        for message in messages {
            total += self.message(message, stage, limit.tokens.saturating_sub(total.tokens));
            if !total.is_within(&limit) {
                return None;
            }
        }
        Some(total)
    }

    /// Counts a message at a stage; tokens above `limit` mean "too much" and no more.
    pub(crate) fn message(&mut self, message: usize, stage: Stage, limit: Tokens) -> Size {
        if self.now.is_folded(message) {
            return Size::ZERO;
        }
        let content = &self.history.path.messages[message];
        let limit_grains = self.scale.grains(limit);
        let mut weight = self.around(content);
        for part in 0..content.parts.len() {
            if weight.grains > limit_grains {
                break;
            }
            let left = limit_grains - weight.grains;
            weight = weight.plus(self.part((message, part), stage, left));
        }
        self.weights[message] = weight;
        self.size(weight)
    }

    fn size(&self, weight: Weight) -> Size {
        Size {
            tokens: self.scale.tokens(weight.grains),
            bytes: weight.bytes,
            images: weight.images,
        }
    }

    /// What is around a message's parts.
    fn around(&self, message: &Message) -> Weight {
        let parts: usize = message.parts.iter().map(raw_len).sum();
        let reasoning = if message.calls().next().is_some() { REASONING_BYTES } else { 0 };
        let around = message.raw.raw_len().saturating_sub(parts) as u64;
        let bytes = around + SEPARATOR_BYTES + reasoning;
        Weight { grains: self.scale.around(message), bytes, images: 0 }
    }

    fn part(&mut self, at: At, stage: Stage, limit: u64) -> Weight {
        if stage >= Stage::Edited && self.void.contains(&at) {
            return Weight::default();
        }
        match self.stage_of(at) {
            Some(replaced_at) if replaced_at <= stage && !self.restored.contains(&at) => {
                match self.replacement(at) {
                    Some(replacement) => replacement.weight,
                    None => self.now(at, limit),
                }
            }
            _ => self.now(at, limit),
        }
    }

    /// Weighs a part as it is shown now.
    pub(crate) fn now(&mut self, at: At, limit: u64) -> Weight {
        let part = &self.history.path.messages[at.0].parts[at.1];
        let (bytes, images) = match self.now.change(at.0, at.1) {
            None => (raw_len(part) as u64, images(part)),
            Some(Change::Removed) => return Weight::default(),
            Some(Change::Text(text)) => (quoted_len(text) as u64 + WRAP_BYTES, 0),
        };
        let known = self.memo(at).now;
        let grains = known.unwrap_or_else(|| match self.now.change(at.0, at.1) {
            Some(Change::Text(text)) => self.scale.replaced(part, text),
            _ => self.scale.part(part, limit),
        });
        if grains <= limit {
            self.memo(at).now = Some(grains);
        }
        Weight { grains, bytes, images }
    }

    /// What a part would weigh with another text for its body.
    pub(crate) fn with_text(&self, at: At, text: &str) -> Weight {
        let part = &self.history.path.messages[at.0].parts[at.1];
        Weight {
            grains: self.scale.replaced(part, text),
            bytes: quoted_len(text) as u64 + WRAP_BYTES,
            images: 0,
        }
    }

    /// Which bodies newer ones replace.
    pub(crate) fn newer(&self) -> &Newer {
        self.stubber.newer()
    }

    /// The parts of messages that are replaced at a stage, in the order of the messages and from the last
    /// part of each.
    pub(crate) fn parts_at(&self, messages: &[usize], stage: Stage) -> Vec<At> {
        let mut found = Vec::new();
        for &message in messages {
            let parts = (0..self.history.path.messages[message].parts.len()).rev();
            let parts = parts.map(|part| (message, part));
            found.extend(parts.filter(|at| self.stage_of(*at) == Some(stage)));
        }
        found
    }

    /// Shows bodies again, in the order given, as long as the sum stays within `limit`.
    ///
    /// `total` must be the sum of their messages at their stage or a later one. Stops once more than `misses_max`
    /// of them are too large.
    pub(crate) fn restore(
        &mut self,
        parts: &[At],
        total: &mut Size,
        limit: Size,
        misses_max: usize,
    ) {
        let mut misses = 0;
        for &at in parts {
            if self.restored.contains(&at) {
                continue;
            }
            let Some(replaced) = self.replacement(at).map(|replacement| replacement.weight) else {
                continue;
            };
            let free = limit.tokens.saturating_sub(total.tokens) + Tokens(1);
            let slack = self.scale.grains(free) + replaced.grains;
            let with = self.weights[at.0].minus(replaced).plus(self.now(at, slack));
            let before = self.size(self.weights[at.0]);
            let after = total.saturating_sub(before) + self.size(with);
            if !after.is_within(&limit) {
                misses += 1;
                if misses > misses_max {
                    return;
                }
                continue;
            }
            *total = after;
            self.weights[at.0] = with;
            self.restored.insert(at);
        }
    }

    /// Counts blocks of earlier folds as gone from the first edit on: the next block takes them up.
    pub(crate) fn absorb(&mut self, blocks: &[At]) {
        self.void.extend(blocks);
    }

    /// What parts take as they are shown now.
    pub(crate) fn parts(&mut self, parts: &[At]) -> Size {
        let mut total = Size::ZERO;
        for at in parts {
            let weight = self.now(*at, u64::MAX);
            total += self.size(weight);
        }
        total
    }

    /// The edits that bring the given messages to a stage, but for what was restored.
    pub(crate) fn edits(
        &mut self,
        messages: impl IntoIterator<Item = usize>,
        stage: Stage,
    ) -> Vec<Edit> {
        let mut edits = Vec::new();
        for message in messages {
            for part in 0..self.history.path.messages[message].parts.len() {
                let at = (message, part);
                let is_replaced = self.stage_of(at).is_some_and(|replaced_at| replaced_at <= stage)
                    && !self.restored.contains(&at);
                if is_replaced {
                    let edit = self.replacement(at).map(|replacement| replacement.edit.clone());
                    edits.extend(edit);
                }
            }
        }
        edits
    }

    /// The parts whose bodies are not shown, with these edits on top of the live ones; oldest first.
    pub(crate) fn hidden(&self, edits: &[Edit]) -> Vec<At> {
        let path = &self.history.path;
        let mut hidden: Vec<At> = self.now.hidden().collect();
        for edit in edits {
            if let Edit::Stub { at, .. } | Edit::Clip { at, .. } = edit {
                hidden.extend(path.find(*at));
            }
        }
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    /// The thinking before a message that no edit from there on voids, which [`Self::total`] left out.
    pub(crate) fn thinking_before(&mut self, message: usize) -> Size {
        let messages = self.history.path.messages;
        let is_thinking = |at: &At| matches!(messages[at.0].parts[at.1], Part::Thinking(_));
        let mut kept: Vec<At> = self.void.iter().copied().filter(|at| at.0 < message).collect();
        kept.retain(|at| is_thinking(at) && !self.now.is_folded(at.0));
        kept.sort_unstable();
        self.parts(&kept)
    }

    /// Where a part is in the ledger.
    pub(crate) fn place(&self, at: At) -> Option<Place> {
        self.history.path.place(at.0, at.1)
    }

    /// The stage at which a part is replaced, if ever.
    fn stage_of(&self, at: At) -> Option<Stage> {
        if !self.editable[at.0] || self.now.is_folded(at.0) {
            return None;
        }
        let message = &self.history.path.messages[at.0];
        match (&message.parts[at.1], message.role) {
            (_, Role::System) => None,
            (Part::Result(_), _) => Some(Stage::Results),
            (Part::Call(_), _) if self.arguments => Some(Stage::Arguments),
            (Part::Text(_), Role::Assistant) => Some(Stage::Prose),
            // Only a policy that also replaces arguments knows of observations.
            (Part::Text(_), Role::User) if self.arguments => Some(Stage::Results),
            _ => None,
        }
    }

    fn replacement(&mut self, at: At) -> Option<&Replacement> {
        if matches!(self.memo(at).replacement, KnownReplacement::NotYet) {
            let made = self.replace(at);
            let lighter = made.filter(|made| self.is_heavier(at, made.weight.grains));
            self.memo(at).replacement =
                lighter.map_or(KnownReplacement::Nothing, KnownReplacement::Found);
        }
        match &self.memo(at).replacement {
            KnownReplacement::Found(replacement) => Some(replacement),
            KnownReplacement::NotYet | KnownReplacement::Nothing => None,
        }
    }

    /// Whether a part weighs more than `grains` as it is shown now.
    fn is_heavier(&mut self, at: At, grains: u64) -> bool {
        let body = match &self.history.path.messages[at.0].parts[at.1] {
            Part::Text(text) => Some(text),
            Part::Result(result) => result.single_text(),
            _ => None,
        };
        // The start of a long text tells without reading all of it.
        if let Some(body) = body.filter(|body| body.raw_len() > START_BYTES * 2) {
            let start = unescape(cut::head(body.raw(), START_BYTES));
            let margin = self.scale.grains(Tokens(8));
            let words = self.scale.grains(Tokens(words(&start)));
            if words > grains.saturating_add(margin) {
                return true;
            }
            if self.scale.meter().weigh(&start, u64::MAX) > grains.saturating_add(margin) {
                return true;
            }
        }
        self.now(at, grains).grains > grains
    }

    fn replace(&self, at: At) -> Option<Replacement> {
        // What was edited once stays as it is until it is folded.
        if self.now.change(at.0, at.1).is_some() {
            return None;
        }
        let edit = self.replace_anyway(at)?;
        let (Edit::Stub { text, .. } | Edit::Clip { text, .. }) = &edit else { return None };
        let weight = self.with_text(at, text);
        Some(Replacement { edit, weight })
    }

    /// The edit that replaces a part's body, if there is one.
    pub(crate) fn replace_anyway(&self, at: At) -> Option<Edit> {
        if is_block(&self.history.path.messages[at.0].parts[at.1]) {
            return None;
        }
        let place = self.place(at)?;
        let messages = self.history.path.messages;
        let message = &messages[at.0];
        match &message.parts[at.1] {
            Part::Result(result) => {
                let is_small =
                    result.single_text().is_some_and(|text| !is_bulky(text, self.chars_min));
                if is_small || result.content.is_empty() || result.fixed {
                    return None;
                }
                Some(self.stubber.result(place, at, result))
            }
            Part::Call(call) => {
                if !is_bulky(&call.arguments, self.chars_min) {
                    return None;
                }
                Stubber::call(place, call, self.chars_min)
            }
            Part::Text(text) if is_bulky(text, self.chars_min) => {
                if message.role == Role::User {
                    Stubber::observation(place, self.observations.at(at.0)?)
                } else {
                    Some(self.stubber.prose(place, at, text))
                }
            }
            _ => None,
        }
    }

    fn memo(&mut self, at: At) -> &mut Memo {
        let parts = self.history.path.messages[at.0].parts.len();
        let memo = &mut self.memo[at.0];
        if memo.is_empty() {
            memo.resize(parts, Memo::default());
        }
        &mut memo[at.1]
    }
}

/// How much of a long text is weighed to see that a stub is lighter.
const START_BYTES: usize = 768;

/// The words of a text: no meter makes one token of two.
fn words(text: &str) -> u64 {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    let mut starts = 0;
    let mut before = false;
    for byte in text.bytes() {
        let letter = is_letter(byte);
        starts += u64::from(letter && !before);
        before = letter;
    }
    starts
}

/// What separates a message from the next.
const SEPARATOR_BYTES: u64 = 2;

/// The empty reasoning that some models want beside a call.
const REASONING_BYTES: u64 = 24;

/// What a text may need around it where a list of blocks stood, or a cache mark.
pub(crate) const WRAP_BYTES: u64 = 96;

/// The bytes of a part's body in the request.
fn raw_len(part: &Part) -> usize {
    match part {
        Part::Text(text) | Part::FixedText(text) => text.raw_len(),
        Part::Media(media) => media.bytes,
        Part::Thinking(thinking) => {
            thinking.text.raw_len() + thinking.seal.as_ref().map_or(0, Text::raw_len)
        }
        Part::Image(image) => image.bytes,
        Part::File(file) => file.bytes,
        Part::Call(call) => call.arguments.raw_len(),
        Part::Result(result) => result.raw.raw_len(),
        Part::Other(other) => other.raw.raw_len(),
    }
}

/// The pictures in a part.
fn images(part: &Part) -> u64 {
    match part {
        Part::Image(_) => 1,
        Part::Result(result) => result.content.iter().map(images).sum(),
        _ => 0,
    }
}
