//! Changes to what a model sees, addressed by entries of the ledger.

use crate::{Handle, Original};

/// The number of an entry in its session's ledger, from 0.
///
/// Numbers grow along every path, since an entry is appended after its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

/// A part of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The entry.
    pub entry: Seq,
    /// The part's index in it, without thinking: clients send that back or do not.
    pub part: usize,
}

/// The entries of a path from one to another, both included.
///
/// The path to the last entry is unique, so two numbers name all entries between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The oldest.
    pub first: Seq,
    /// The newest.
    pub last: Seq,
}

impl Span {
    /// Whether an entry of the path lies within.
    pub fn contains(&self, entry: Seq) -> bool {
        self.first <= entry && entry <= self.last
    }
}

/// One change to what the model sees, with the text that stands there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A part's body becomes a marker; the arguments of a call keep their shape.
    Stub {
        /// Where.
        at: Place,
        /// The handle of the original body.
        handle: Handle,
        /// What stands there now.
        text: String,
    },
    /// A part's text is cut to its head and tail.
    Clip {
        /// Where.
        at: Place,
        /// The address of the whole text.
        handle: Handle,
        /// What stands there now.
        text: String,
    },
    /// Entries make way for one block.
    Fold(Fold),
    /// Quoted text follows an entry: something that was recalled.
    Insert {
        /// The entry before it.
        after: Seq,
        /// The text.
        text: String,
    },
}

/// Entries that make way for one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The entries, oldest first.
    pub spans: Vec<Span>,
    /// Blocks of earlier folds that a client sent back inside messages that stay. They are removed, and this
    /// block takes over their text.
    pub blocks: Vec<Place>,
    /// The sum of the contents; see [`Handle::of_sum`].
    pub sum: u128,
    /// The block.
    pub text: String,
}

impl Fold {
    /// The address of all that it takes out of sight.
    pub fn handle(&self) -> Handle {
        Handle::of_sum(self.sum)
    }

    /// The entry that its block stands before: the first that is folded, or else the first that holds the
    /// block of an earlier fold.
    pub fn first(&self) -> Seq {
        let first = self.spans.first().map(|span| span.first);
        first.or_else(|| self.blocks.iter().map(|at| at.entry).min()).unwrap_or_default()
    }

    /// Whether an entry is folded.
    pub fn contains(&self, entry: Seq) -> bool {
        self.spans.iter().any(|span| span.contains(entry))
    }
}

/// Edits that were made together, for one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The newest entry of the path that it was made for.
    pub head: Seq,
    /// The edits, by the place of each.
    pub edits: Vec<Edit>,
    /// What the digest of its fold leaves for the next one; empty without a fold.
    pub state: String,
    /// Contents that it takes out of sight and that the entries have in another form: a client may send
    /// back more than it was given.
    pub variants: Vec<(Handle, Original)>,
}

impl Batch {
    /// A batch that has a text follow an entry, the newest of its path or one shortly before.
    pub fn inserting(head: Seq, text: String) -> Self {
        Self { head, edits: vec![Edit::Insert { after: head, text }], ..Self::default() }
    }

    /// A batch that only folds; `state` is what the digest leaves for the next fold.
    pub fn folding(head: Seq, fold: Fold, state: String) -> Self {
        Self { head, edits: vec![Edit::Fold(fold)], state, variants: Vec::new() }
    }

    /// The same batch with texts that name no handles, where nothing is kept that one could open.
    #[must_use]
    pub fn without_handles(mut self) -> Self {
        let without = |text: &mut String, handle: Handle| {
            *text = text.replace(&format!(" {handle}:"), ":").replace(&format!(" {handle}"), "");
        };
        for edit in &mut self.edits {
            match edit {
                Edit::Stub { handle, text, .. } | Edit::Clip { handle, text, .. } => {
                    without(text, *handle);
                }
                Edit::Fold(fold) => {
                    let handle = fold.handle();
                    without(&mut fold.text, handle);
                }
                Edit::Insert { .. } => {}
            }
        }
        self
    }

    /// Whether it inserts this very text.
    pub fn inserts(&self, text: &str) -> bool {
        self.edits
            .iter()
            .any(|edit| matches!(edit, Edit::Insert { text: inserted, .. } if inserted == text))
    }

    /// The entries that it edits, each once, newest first.
    pub fn edited(&self) -> Vec<Seq> {
        let mut entries = Vec::new();
        for edit in &self.edits {
            match edit {
                Edit::Stub { at, .. } | Edit::Clip { at, .. } => entries.push(at.entry),
                Edit::Insert { after, .. } => entries.push(*after),
                Edit::Fold(fold) => {
                    entries.extend(fold.spans.iter().flat_map(|span| [span.first, span.last]));
                    entries.extend(fold.blocks.iter().map(|at| at.entry));
                }
            }
        }
        entries.sort_unstable_by(|one, other| other.cmp(one));
        entries.dedup();
        entries
    }

    /// Its fold, if it has one.
    pub fn fold(&self) -> Option<&Fold> {
        self.edits.iter().find_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold),
            _ => None,
        })
    }
}

/// What an edit does and where, without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind<'e> {
    /// A part's body is a marker.
    Stub(Place),
    /// A part's text is cut.
    Clip(Place),
    /// Entries are folded.
    Fold(&'e [Span]),
    /// Text is inserted.
    Insert,
}

impl EditKind<'_> {
    /// The part that it changes; `None` if it changes more than a part.
    pub fn place(self) -> Option<Place> {
        match self {
            EditKind::Stub(place) | EditKind::Clip(place) => Some(place),
            EditKind::Fold(_) | EditKind::Insert => None,
        }
    }
}

impl Edit {
    /// What it does, for reports.
    pub fn kind(&self) -> EditKind<'_> {
        match self {
            Edit::Stub { at, .. } => EditKind::Stub(*at),
            Edit::Clip { at, .. } => EditKind::Clip(*at),
            Edit::Fold(fold) => EditKind::Fold(&fold.spans),
            Edit::Insert { .. } => EditKind::Insert,
        }
    }

    /// What stands there now.
    pub fn text(&self) -> &str {
        match self {
            Edit::Stub { text, .. } | Edit::Clip { text, .. } | Edit::Insert { text, .. } => text,
            Edit::Fold(fold) => &fold.text,
        }
    }

    /// The address of what it takes out of sight; `None` for an insert, which takes nothing.
    pub fn handle(&self) -> Option<Handle> {
        match self {
            Edit::Stub { handle, .. } | Edit::Clip { handle, .. } => Some(*handle),
            Edit::Fold(fold) => Some(fold.handle()),
            Edit::Insert { .. } => None,
        }
    }

    /// The oldest entry that it changes.
    pub fn first(&self) -> Seq {
        match self {
            Edit::Stub { at, .. } | Edit::Clip { at, .. } => at.entry,
            Edit::Insert { after, .. } => *after,
            Edit::Fold(fold) => {
                let spans = fold.spans.iter().map(|span| span.first);
                spans.chain(fold.blocks.iter().map(|at| at.entry)).min().unwrap_or_default()
            }
        }
    }
}
