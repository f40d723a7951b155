//! Noting what models fetched back: one way for every surface.
//!
//! What is a regret is decided by [`longhand_core::regrets`], from the ledger alone, and plans ask there. A note is for people:
//! it is written once, so that nobody has to read a whole session to list them.

use std::sync::Arc;

use longhand_archive::{Note, NoteContent, RegretNote};
use longhand_core::{Batch, Path, Regret, Role, Scale, Seq, regrets};

use super::live_session::LiveSession;
use super::pending_write::PendingWrite;
use super::placed::PlacedRequest;
use super::sink::Sink;

/// The first message that may tell of something new: of those that the session did not know, and of those after the
/// model's newest words. A request that is placed anew is known already.
pub(crate) fn first_new(path: &Path, known: usize) -> usize {
    let newest = path.messages.iter().rposition(|message| message.role == Role::Assistant);
    let unanswered = newest.map_or(path.lead, |newest| newest + 1);
    (path.lead + known).min(unanswered).max(path.lead)
}

/// What the messages of a path from an index on fetched back, as notes. `number` tells the number of a batch.
pub(crate) fn notes(
    path: &Path,
    live: &[Batch],
    number: impl Fn(usize) -> u64,
    first: usize,
    scale: &Scale,
    at_ms: i64,
) -> Vec<Note> {
    let note = |regret: Regret| {
        let Regret { batch, handle, how, by, tokens, again, .. } = regret;
        let (batch, by, tokens) = (number(batch), Some(by), tokens.0);
        let content = NoteContent::Regret(RegretNote { batch, how, by, tokens, again });
        Note { at_ms, handle, content }
    };
    regrets(path, live, first, scale).into_iter().map(note).collect()
}

/// By what a regret is known: what was regretted, and where.
pub(super) type RegretKey = (u64, longhand_core::Handle, Option<Seq>);

fn key(note: &Note) -> Option<RegretKey> {
    match &note.content {
        NoteContent::Regret(regret) => Some((regret.batch, note.handle, regret.by)),
        NoteContent::Unread(_) => None,
    }
}

impl LiveSession {
    /// Those of some notes that were not made yet.
    pub(crate) fn new_notes(&self, notes: Vec<Note>) -> Vec<Note> {
        if notes.is_empty() {
            return notes;
        }
        let mut memory = self.lock();
        let is_new = |note: &Note| key(note).is_none_or(|key| memory.regrets.insert(key));
        notes.into_iter().filter(is_new).collect()
    }

    /// Has notes written beside a request, each once.
    pub(crate) fn note(&self, sink: &dyn Sink, request: &Arc<PlacedRequest>, notes: Vec<Note>) {
        let notes = self.new_notes(notes);
        if !notes.is_empty() {
            sink.give(PendingWrite::notes(request, notes, sink.now_ms()));
        }
    }
}
