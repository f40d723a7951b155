//! What a window shows of a path.

use crate::edit::{Batch, Edit, Place, Seq};
use crate::{Handle, Message, Role, Wire};

/// Messages in order, with the entries that they are.
///
/// Folded entries may be missing, since they are not shown.
#[derive(Clone, Copy, Debug)]
pub struct Path<'p> {
    /// The system messages of the preamble, then the entries, oldest first.
    pub messages: &'p [Message],
    /// How many messages the preamble has.
    pub lead: usize,
    /// The entry of each message after the preamble; numbers grow.
    pub seqs: &'p [Seq],
}

impl Path<'_> {
    /// The entry of a message; `None` for one of the preamble.
    pub fn seq(&self, message: usize) -> Option<Seq> {
        self.seqs.get(message.checked_sub(self.lead)?).copied()
    }

    /// The message of an entry, if it is here.
    pub fn message(&self, entry: Seq) -> Option<usize> {
        self.seqs.binary_search(&entry).ok().map(|at| at + self.lead)
    }

    /// The first message that is newer than an entry.
    pub fn after(&self, entry: Seq) -> usize {
        self.seqs.partition_point(|seq| *seq <= entry) + self.lead
    }

    /// The first message that is not older than an entry.
    pub fn from(&self, entry: Seq) -> usize {
        self.seqs.partition_point(|seq| *seq < entry) + self.lead
    }

    /// Where a part is.
    pub fn find(&self, place: Place) -> Option<(usize, usize)> {
        let message = self.message(place.entry)?;
        Some((message, self.messages[message].part_index(place.part)?))
    }

    /// The place of a part; `None` in the preamble.
    pub fn place(&self, message: usize, part: usize) -> Option<Place> {
        let part = self.messages[message].said_before(part);
        Some(Place { entry: self.seq(message)?, part })
    }
}

/// What a window shows of a path: positions are those of the path's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// What is shown of each message.
    pub messages: Vec<Shown>,
    /// The block of the fold.
    pub block: Option<ShownBlock>,
    /// Texts that were inserted, each with the message that it stands before, in order.
    pub inserts: Vec<(usize, String)>,
}

/// The block of a fold in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownBlock {
    /// The message that it stands before.
    pub before: usize,
    /// The address of all that is folded.
    pub handle: Handle,
    /// What it says.
    pub text: String,
}

/// What is shown of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The message as it came.
    #[default]
    Unchanged,
    /// The message with these parts changed, in order.
    Changed(Vec<(usize, Change)>),
    /// Nothing: the block tells of it.
    Folded,
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its body is this text now.
    Text(String),
    /// It is not shown: thinking that an edit voids, or the block of an earlier fold.
    Removed,
}

impl Projection {
    /// A window that shows everything as it came.
    pub fn unchanged(messages: usize) -> Self {
        Self { messages: vec![Shown::Unchanged; messages], ..Self::default() }
    }

    /// What became of a part; `None` if it is as it came.
    pub fn change(&self, message: usize, part: usize) -> Option<&Change> {
        match &self.messages[message] {
            Shown::Changed(changes) => {
                let at = changes.binary_search_by_key(&part, |(part, _)| *part).ok()?;
                Some(&changes[at].1)
            }
            Shown::Unchanged | Shown::Folded => None,
        }
    }

    /// The parts that have another text than they came with.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (usize, usize)> {
        self.messages.iter().enumerate().flat_map(|(at, shown)| {
            let changes = match shown {
                Shown::Changed(changes) => changes.as_slice(),
                Shown::Unchanged | Shown::Folded => &[],
            };
            let replaced = changes.iter().filter(|(_, change)| matches!(change, Change::Text(_)));
            replaced.map(move |(part, _)| (at, *part))
        })
    }

    /// Whether a message is folded.
    pub fn is_folded(&self, message: usize) -> bool {
        self.messages[message] == Shown::Folded
    }

    /// Whether nothing differs from the path.
    pub fn is_unchanged(&self) -> bool {
        self.block.is_none()
            && self.inserts.is_empty()
            && self.messages.iter().all(|shown| *shown == Shown::Unchanged)
    }

    fn set(&mut self, message: usize, part: usize, change: Change) {
        match &mut self.messages[message] {
            Shown::Folded => {}
            Shown::Changed(changes) => {
                match changes.binary_search_by_key(&part, |(part, _)| *part) {
                    Ok(at) => changes[at].1 = change,
                    Err(at) => changes.insert(at, (part, change)),
                }
            }
            shown @ Shown::Unchanged => *shown = Shown::Changed(vec![(part, change)]),
        }
    }
}

/// Shows a path with the live batches that apply to it, oldest first.
///
/// Pure: the same input makes the same window. Of several folds only the newest is shown, since each takes
/// over the text of the one before it. Edits inside a fold are not shown.
pub fn project(path: &Path, live: &[Batch], wire: Wire) -> Projection {
    let mut window = Projection::unchanged(path.messages.len());
    let fold = live.iter().rev().find_map(Batch::fold);
    if let Some(fold) = fold {
        for (at, seq) in path.seqs.iter().enumerate() {
            if fold.contains(*seq) {
                window.messages[path.lead + at] = Shown::Folded;
            }
        }
        let (before, handle, text) = (path.from(fold.first()), fold.handle(), fold.text.clone());
        window.block = Some(ShownBlock { before, handle, text });
        for (message, part) in fold.blocks.iter().filter_map(|place| path.find(*place)) {
            window.set(message, part, Change::Removed);
        }
    }
    for batch in live {
        for edit in &batch.edits {
            match edit {
                Edit::Stub { at, text, .. } | Edit::Clip { at, text, .. } => {
                    if let Some((message, part)) = path.find(*at) {
                        window.set(message, part, Change::Text(text.clone()));
                    }
                }
                Edit::Insert { after, text } => {
                    if !fold.is_some_and(|fold| fold.contains(*after)) {
                        window.inserts.push((path.after(*after), text.clone()));
                    }
                }
                Edit::Fold(_) => {}
            }
        }
    }
    window.inserts.sort_by_key(|(at, _)| *at);
    if wire.binds_thinking {
        for batch in live {
            for (message, part) in voided(path, batch) {
                window.set(message, part, Change::Removed);
            }
        }
    }
    window
}

/// The edits of live batches that a window shows: not those inside the newest fold, nor those that a later
/// one of the same part replaced.
pub fn shown_edits(live: &[Batch]) -> Vec<&Edit> {
    let fold = live.iter().rev().find_map(Batch::fold);
    let mut shown: Vec<&Edit> = Vec::new();
    for edit in live.iter().flat_map(|batch| &batch.edits) {
        match edit {
            Edit::Stub { at, .. } | Edit::Clip { at, .. } => {
                if fold.is_some_and(|fold| fold.contains(at.entry)) {
                    continue;
                }
                let is_same = |other: &&Edit| match other {
                    Edit::Stub { at: other, .. } | Edit::Clip { at: other, .. } => other == at,
                    Edit::Fold(_) | Edit::Insert { .. } => false,
                };
                shown.retain(|other| !is_same(other));
            }
            Edit::Insert { after, .. } if fold.is_some_and(|fold| fold.contains(*after)) => {
                continue;
            }
            Edit::Fold(other) if !fold.is_some_and(|fold| std::ptr::eq(fold, other)) => continue,
            Edit::Insert { .. } | Edit::Fold(_) => {}
        }
        shown.push(edit);
    }
    shown
}

/// The thinking that a batch voids: what lies between its first edit and its head, but for a tool loop
/// that was open then.
fn voided(path: &Path, batch: &Batch) -> Vec<(usize, usize)> {
    let first = batch.edits.iter().map(|edit| match edit {
        // What it follows stays as it is.
        Edit::Insert { after, .. } => path.after(*after),
        edit => path.from(edit.first()),
    });
    let Some(first) = first.min() else { return Vec::new() };
    let end = path.after(batch.head);
    if first < end { voided_between(path.messages, first, end) } else { Vec::new() }
}

/// The thinking that edits from the message `from` on void in the first `end` messages.
///
/// An open tool loop keeps its own: providers refuse a loop without it.
pub(crate) fn voided_between(messages: &[Message], from: usize, end: usize) -> Vec<(usize, usize)> {
    let end = open_loop(&messages[..end]);
    let mut voided = Vec::new();
    for (at, message) in messages.iter().enumerate().take(end).skip(from) {
        if message.role != Role::Assistant {
            continue;
        }
        let parts = message.parts.iter().enumerate().filter(|(_, part)| part.is_thinking());
        voided.extend(parts.map(|(part, _)| (at, part)));
    }
    voided
}

/// Where the open tool loop begins: the model has called tools and not yet answered the user.
pub(crate) fn open_loop(messages: &[Message]) -> usize {
    let has_results = |message: &Message| message.results().next().is_some();
    let is_open = |last: &Message| has_results(last) || last.calls().next().is_some();
    let last = messages.iter().rfind(|message| message.role != Role::System);
    if !last.is_some_and(is_open) {
        return messages.len();
    }
    let opens = |message: &Message| message.is_user_turn() && !has_results(message);
    messages.iter().rposition(opens).map_or(0, |user| user + 1)
}
