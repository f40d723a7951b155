//! The order in which old bodies are replaced: superseded ones first, those that recent steps refer to last.

use std::fmt;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::anchor::identifiers;
use crate::cut;
use crate::draft::{At, Draft, Stage};
use crate::edit::{Batch, Edit};
use crate::handle::content_hash;
use crate::plan::History;
use crate::subject::{CallSubject, same_call};
use crate::{Message, Part, Path, Text, ToolCall};

/// Why an edit was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The same call was made again, or the file was read or written as a whole again.
    Superseded,
    /// A newer result has the same text.
    Duplicate,
    /// It was the oldest result that was still shown.
    OldResult,
    /// The arguments of an old call hold a file or a patch.
    BulkyArguments,
    /// It is old prose of the assistant.
    OldProse,
    /// The steps are the oldest, and there was no room for them even without their bodies.
    OldSteps,
    /// The protected messages alone did not fit.
    LastResort,
    /// Something was brought back.
    Recalled,
}

impl Reason {
    /// What receipts say.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Superseded => "superseded",
            Reason::Duplicate => "duplicate",
            Reason::OldResult => "old result",
            Reason::BulkyArguments => "bulky arguments",
            Reason::OldProse => "old prose",
            Reason::OldSteps => "old steps",
            Reason::LastResort => "last resort",
            Reason::Recalled => "recalled",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why each edit of a batch was made, in their order.
pub fn reasons(path: &Path, batch: &Batch) -> Vec<Reason> {
    let newer = Newer::of(path.messages);
    let reason = |edit: &Edit| match edit {
        Edit::Fold(_) => Reason::OldSteps,
        Edit::Insert { .. } => Reason::Recalled,
        Edit::Clip { at, .. } => {
            // An observation is a result that a text-action agent put into a user turn.
            let found = path.find(*at).map(|(message, part)| &path.messages[message].parts[part]);
            let is_text = matches!(found, Some(Part::Text(_)));
            let is_tail = at.entry.0 + 1 >= batch.head.0;
            if is_text && !is_tail { Reason::OldResult } else { Reason::LastResort }
        }
        Edit::Stub { at, .. } => {
            let Some(at) = path.find(*at) else { return Reason::OldResult };
            newer.replaces(path.messages, at).unwrap_or(match path.messages[at.0].parts[at.1] {
                Part::Call(_) => Reason::BulkyArguments,
                Part::Text(_) => Reason::OldProse,
                _ => Reason::OldResult,
            })
        }
    };
    batch.edits.iter().map(reason).collect()
}

/// How many of the newest messages are looked at; older ones are folded soon anyway.
const MESSAGES_MAX: usize = 2_000;

/// Which calls and results newer ones replace.
#[derive(Default)]
pub(crate) struct Newer {
    /// What each call is about, by its id.
    calls: FxHashMap<String, KnownCall>,
    /// The newest message with the same call, and with all of a file.
    same: FxHashMap<u128, usize>,
    whole: FxHashMap<u128, usize>,
    /// The newest message with a result of this text.
    texts: FxHashMap<u128, usize>,
}

#[derive(Clone, Copy)]
struct KnownCall {
    message: usize,
    /// Tool and arguments.
    call: u128,
    /// The file, if one is named.
    file: Option<u128>,
}

impl Newer {
    pub(crate) fn of(messages: &[Message]) -> Self {
        let mut newer = Self::default();
        let first = messages.len().saturating_sub(MESSAGES_MAX);
        for (message, content) in messages.iter().enumerate().skip(first) {
            for part in &content.parts {
                match part {
                    Part::Call(call) => newer.call(message, call),
                    Part::Result(result) => {
                        if let Some(text) = result.single_text() {
                            newer.texts.insert(content_hash(text.raw()), message);
                        }
                    }
                    _ => {}
                }
            }
        }
        newer
    }

    fn call(&mut self, message: usize, call: &ToolCall) {
        let same = same_call(call);
        self.same.insert(same, message);
        let subject = CallSubject::of(call);
        if let Some(file) = subject.file.filter(|_| subject.has_all) {
            self.whole.insert(file, message);
        }
        let known = KnownCall { message, call: same, file: subject.file };
        self.calls.insert(call.id.decode().into_owned(), known);
    }

    /// Whether something newer replaces a call's arguments or a result, and what that is.
    pub(crate) fn replaces(&self, messages: &[Message], at: At) -> Option<Reason> {
        let (id, text) = match messages.get(at.0)?.parts.get(at.1)? {
            Part::Call(call) => (&call.id, None),
            Part::Result(result) => (&result.call, result.single_text()),
            _ => return None,
        };
        let is_newer =
            |known: Option<&usize>, than: usize| known.is_some_and(|newest| *newest > than);
        let subject = self.calls.get(&*id.decode());
        if let Some(subject) = subject {
            let file = subject.file.and_then(|file| self.whole.get(&file));
            if is_newer(self.same.get(&subject.call), subject.message)
                || is_newer(file, subject.message)
            {
                return Some(Reason::Superseded);
            }
        }
        let text = text.filter(|text| text.raw_len() >= DUPLICATE_BYTES_MIN)?;
        is_newer(self.texts.get(&content_hash(text.raw())), at.0).then_some(Reason::Duplicate)
    }
}

/// Short answers are alike by chance.
const DUPLICATE_BYTES_MIN: usize = 64;

/// Ranks bodies by what is lost with them.
pub(crate) struct Worth {
    /// The identifiers of the recent steps, by their hashes.
    recent: FxHashSet<u128>,
}

/// How much of each recent text and of each old body is read for identifiers.
const RECENT_BYTES_MAX: usize = 16 * 1024;
const OLD_BYTES_MAX: usize = 8 * 1024;

/// How many old bodies are read.
const READ_MAX: usize = 300;

/// How many identifiers a body must share with the recent steps to be kept for longer.
const SHARED_MIN: usize = 3;

impl Worth {
    /// The messages from `recent` on are the recent steps.
    pub(crate) fn of(history: &History, recent: usize) -> Self {
        let messages = history.path.messages.iter().skip(recent);
        let mut names = FxHashSet::default();
        for text in messages.flat_map(|message| &message.parts).filter_map(talk) {
            names.extend(identifiers(&head(text, RECENT_BYTES_MAX)).map(content_hash));
        }
        Self { recent: names }
    }

    /// The parts of messages that are replaced at a stage, the worthiest first.
    ///
    /// Newer parts are worth more. A part that shares names with the recent steps counts as half as old;
    /// superseded parts come last.
    pub(crate) fn ranked(&self, draft: &Draft, newest_first: &[usize], stage: Stage) -> Vec<At> {
        let messages = draft.history.path.messages;
        let parts = draft.parts_at(newest_first, stage);
        let mut ranked: Vec<(bool, usize, At)> = Vec::with_capacity(parts.len());
        for (number, at) in parts.into_iter().enumerate() {
            let is_replaced = draft.newer().replaces(messages, at).is_some();
            let age = messages.len() - at.0;
            let is_shared = !is_replaced
                && number < READ_MAX
                && !self.recent.is_empty()
                && self.shares(&messages[at.0].parts[at.1]);
            ranked.push((is_replaced, if is_shared { age / 2 } else { age }, at));
        }
        ranked.sort_by_key(|(is_replaced, age, _)| (*is_replaced, *age));
        ranked.into_iter().map(|(_, _, at)| at).collect()
    }

    fn shares(&self, part: &Part) -> bool {
        let text = match part {
            Part::Result(result) => result.single_text(),
            part => talk(part),
        };
        let Some(text) = text else { return false };
        let text = head(text, OLD_BYTES_MAX);
        let mut shared = FxHashSet::default();
        identifiers(&text).map(content_hash).any(|name| {
            if self.recent.contains(&name) {
                shared.insert(name);
            }
            shared.len() >= SHARED_MIN
        })
    }
}

/// The text of a part, or the arguments of a call.
fn talk(part: &Part) -> Option<&Text> {
    match part {
        Part::Text(text) => Some(text),
        Part::Call(call) => Some(&call.arguments),
        _ => None,
    }
}

/// The first bytes of a text, decoded.
fn head(text: &Text, bytes: usize) -> String {
    crate::unescape(cut::head(text.raw(), bytes))
}
