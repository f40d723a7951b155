//! The bookkeeping behind a plan: what each body weighs, whole and replaced.

use rustc_hash::FxHashSet;

use crate::clip::clip_to;
use crate::observation::observation;
use crate::plan::{Edit, History, Original, Place, content};
use crate::stub::{describe_call, is_bulky, stub, stub_arguments};
use crate::{Handle, Message, Part, Role, Scale, Tokens};

/// How far a window has been worked: each stage includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// As it came.
    Untouched,
    /// Some edit has been made, so reasoning that it voids is gone.
    Edited,
    /// Tool results are replaced.
    Results,
    /// Bulky arguments are replaced.
    Arguments,
    /// The assistant's prose is replaced.
    Prose,
}

/// How much an old observation keeps of itself.
const OBSERVATION_BYTES: usize = 600;

/// Weights of a history's parts, worked out when they are asked for and only once.
///
/// Sums run newest first and stop at their limit: what must go anyway is never counted.
pub(crate) struct Draft<'h> {
    pub(crate) history: &'h History<'h>,
    pub(crate) scale: Scale<'h>,
    chars_min: usize,
    arguments: bool,
    editable: Vec<bool>,
    newest_reply: Option<usize>,
    memo: Vec<Vec<Memo>>,
    grains: Vec<u64>,
    restored: FxHashSet<Place>,
}

#[derive(Clone, Default)]
struct Memo {
    full: Option<u64>,
    replacement: Sought,
}

/// What can stand for a body, once it has been looked for.
#[derive(Clone, Default)]
enum Sought {
    #[default]
    NotYet,
    Nothing,
    Found(Replacement),
}

#[derive(Clone)]
struct Replacement {
    edit: Edit,
    grains: u64,
}

impl<'h> Draft<'h> {
    /// Starts a draft in which `editable` messages may have parts replaced.
    pub(crate) fn new(
        history: &'h History<'h>,
        scale: Scale<'h>,
        chars_min: usize,
        arguments: bool,
    ) -> Self {
        let count = history.messages.len();
        Self {
            history,
            scale,
            chars_min,
            arguments,
            editable: vec![false; count],
            newest_reply: history
                .messages
                .iter()
                .rposition(|message| message.role == Role::Assistant),
            memo: vec![Vec::new(); count],
            grains: vec![0; count],
            restored: FxHashSet::default(),
        }
    }

    /// Allows parts of these messages to be replaced.
    pub(crate) fn allow(&mut self, messages: &[usize]) {
        for &message in messages {
            self.editable[message] = true;
        }
    }

    /// Keeps a part as it is, whatever its message.
    pub(crate) fn spare(&mut self, place: Place) {
        self.memo(place).replacement = Sought::Nothing;
    }

    /// Sums messages at a stage, in the order given; `None` once they are over `limit`.
    pub(crate) fn total(
        &mut self,
        messages: impl IntoIterator<Item = usize>,
        stage: Stage,
        limit: Tokens,
    ) -> Option<Tokens> {
        let mut total = Tokens::ZERO;
        for message in messages {
            total += self.message(message, stage, limit.saturating_sub(total));
            if total > limit {
                return None;
            }
        }
        Some(total)
    }

    /// Counts a message at a stage; anything above `limit` means "too much" and no more.
    pub(crate) fn message(&mut self, message: usize, stage: Stage, limit: Tokens) -> Tokens {
        let own = &self.history.messages[message];
        let limit_grains = self.scale.grains(limit);
        let mut grains = self.scale.around(own);
        for part in 0..own.parts.len() {
            if grains > limit_grains {
                break;
            }
            let place = Place { message, part };
            grains = grains.saturating_add(self.part(place, stage, limit_grains - grains));
        }
        self.grains[message] = grains;
        self.scale.tokens(grains)
    }

    fn part(&mut self, place: Place, stage: Stage, limit: u64) -> u64 {
        if stage >= Stage::Edited && self.is_void(place) {
            return 0;
        }
        match self.stage_of(place) {
            Some(own) if own <= stage => match self.replacement(place) {
                Some(replacement) => replacement.grains,
                None => self.full(place, limit),
            },
            _ => self.full(place, limit),
        }
    }

    /// Weighs a part as it came.
    pub(crate) fn full(&mut self, place: Place, limit: u64) -> u64 {
        if let Some(grains) = self.memo(place).full {
            return grains;
        }
        let grains =
            self.scale.part(&self.history.messages[place.message].parts[place.part], limit);
        if grains <= limit {
            self.memo(place).full = Some(grains);
        }
        grains
    }

    /// Gives bodies of one stage back, newest first, for as long as the sum stays within `limit`.
    ///
    /// The messages must have been summed at `stage` or a later one, to `total`.
    pub(crate) fn restore(
        &mut self,
        newest_first: &[usize],
        stage: Stage,
        total: &mut Tokens,
        limit: Tokens,
    ) {
        for &message in newest_first {
            for part in (0..self.history.messages[message].parts.len()).rev() {
                let place = Place { message, part };
                if self.stage_of(place) != Some(stage) || self.restored.contains(&place) {
                    continue;
                }
                let Some(replaced) = self.replacement(place).map(|replacement| replacement.grains)
                else {
                    continue;
                };
                let slack = self.scale.grains(limit.saturating_sub(*total) + Tokens(1));
                let without = self.grains[message] - replaced;
                let with = without.saturating_add(self.full(place, slack + replaced));
                let before = self.scale.tokens(self.grains[message]);
                let after = *total - before + self.scale.tokens(with);
                if after > limit {
                    return;
                }
                *total = after;
                self.grains[message] = with;
                self.restored.insert(place);
            }
        }
    }

    /// The edits that bring the given messages to a stage, but for what was restored.
    pub(crate) fn edits(
        &mut self,
        messages: impl IntoIterator<Item = usize>,
        stage: Stage,
    ) -> Vec<Edit> {
        let mut edits = Vec::new();
        for message in messages {
            for part in 0..self.history.messages[message].parts.len() {
                let place = Place { message, part };
                if stage >= Stage::Edited && self.is_void(place) {
                    edits.push(Edit::Unthink { at: place });
                } else if self.stage_of(place).is_some_and(|own| own <= stage)
                    && !self.restored.contains(&place)
                {
                    edits.extend(
                        self.replacement(place).map(|replacement| replacement.edit.clone()),
                    );
                }
            }
        }
        edits
    }

    /// Whether a part is reasoning that any edit voids.
    ///
    /// The newest reply keeps its own: providers refuse an open tool loop without it. So does a message
    /// that is nothing else, since none may be empty.
    pub(crate) fn is_void(&self, place: Place) -> bool {
        let parts = &self.history.messages[place.message].parts;
        let is_thinking = |part: &Part| matches!(part, Part::Thinking(_));
        self.history.wire.binds_thinking
            && self.history.messages[place.message].role == Role::Assistant
            && Some(place.message) != self.newest_reply
            && is_thinking(&parts[place.part])
            && !parts.iter().all(is_thinking)
    }

    /// The stage at which a part is replaced, if ever.
    fn stage_of(&self, place: Place) -> Option<Stage> {
        if !self.editable[place.message] {
            return None;
        }
        let message = &self.history.messages[place.message];
        match (&message.parts[place.part], message.role) {
            (_, Role::System) => None,
            (Part::Result(_), _) => Some(Stage::Results),
            (Part::Call(_), _) if self.arguments => Some(Stage::Arguments),
            (Part::Text(_), Role::Assistant) => Some(Stage::Prose),
            // Only a policy that also replaces arguments knows of observations.
            (Part::Text(_), Role::User) if self.arguments => Some(Stage::Results),
            _ => None,
        }
    }

    fn replacement(&mut self, place: Place) -> Option<&Replacement> {
        if matches!(self.memo(place).replacement, Sought::NotYet) {
            let made = self.replace(place);
            let lighter = made.filter(|made| self.full(place, made.grains) > made.grains);
            self.memo(place).replacement = lighter.map_or(Sought::Nothing, Sought::Found);
        }
        match &self.memo(place).replacement {
            Sought::Found(replacement) => Some(replacement),
            Sought::NotYet | Sought::Nothing => None,
        }
    }

    fn replace(&self, at: Place) -> Option<Replacement> {
        let messages = self.history.messages;
        let message = &messages[at.message];
        let weigh = |text: &str| self.scale.meter().weigh(text, u64::MAX);
        let part = &message.parts[at.part];
        match part {
            Part::Result(result) => {
                if result.single_text().is_some_and(|text| !is_bulky(text, self.chars_min))
                    || result.content.is_empty()
                    || result.fixed
                {
                    return None;
                }
                let (Original::Text(body) | Original::Json(body)) = content(part);
                let handle = Handle::of([body.as_str()]);
                let source = caller(messages, at.message, &result.call.decode());
                let text = stub(handle, &body, &source);
                let grains = self.scale.id(&result.call) + weigh(&text);
                Some(Replacement { edit: Edit::Stub { at, handle, text }, grains })
            }
            Part::Call(call) => {
                if !is_bulky(&call.arguments, self.chars_min) {
                    return None;
                }
                let (Original::Text(body) | Original::Json(body)) = content(part);
                let handle = Handle::of([body.as_str()]);
                let text = if call.freeform {
                    stub(handle, &body, &format!("the input of {}", call.name.decode()))
                } else {
                    stub_arguments(handle, &body, self.chars_min)?
                };
                let grains = self.scale.id(&call.id) + weigh(&call.name.decode()) + weigh(&text);
                Some(Replacement { edit: Edit::Stub { at, handle, text }, grains })
            }
            Part::Text(text) if is_bulky(text, self.chars_min) => {
                if message.role == Role::User {
                    let before = at.message.checked_sub(1).map(|before| &messages[before]);
                    let body = observation(before, message)?.decode();
                    let (Original::Text(whole) | Original::Json(whole)) = content(part);
                    let handle = Handle::of([whole.as_str()]);
                    let text = clip_to(handle, &body, OBSERVATION_BYTES)?;
                    let grains = weigh(&text);
                    return Some(Replacement { edit: Edit::Clip { at, handle, text }, grains });
                }
                let (Original::Text(body) | Original::Json(body)) = content(part);
                let handle = Handle::of([body.as_str()]);
                let text = stub(handle, &body, "assistant text");
                let grains = weigh(&text);
                Some(Replacement { edit: Edit::Stub { at, handle, text }, grains })
            }
            _ => None,
        }
    }

    fn memo(&mut self, place: Place) -> &mut Memo {
        let parts = self.history.messages[place.message].parts.len();
        let memo = &mut self.memo[place.message];
        if memo.is_empty() {
            memo.resize(parts, Memo::default());
        }
        &mut memo[place.part]
    }
}

/// Describes the call that a result answers: it is rarely more than a few messages back.
fn caller(messages: &[Message], result: usize, id: &str) -> String {
    messages[..=result]
        .iter()
        .rev()
        .take(64)
        .flat_map(super::message::Message::calls)
        .find(|call| call.id.decode() == id)
        .map_or_else(|| "a tool result".to_owned(), describe_call)
}
