//! Computes the vectors that a session lacks.

use std::sync::{Arc, PoisonError};

use longhand_archive::{ArchiveError, Entry, SessionId};
use longhand_core::{Part, Role};
use longhand_recall::{Vector, passages};

use super::stored::{ENTRIES_OF_VALUE, SessionVectors};
use super::{EmbedError, Shared};
use crate::recall::said;

/// So many texts are handed to a model together: between them, the work can end.
const TEXTS_TOGETHER: usize = 4;

impl Shared {
    /// Computes what is missing of a session, the newest entries first: these are asked for most. What is done is kept as it
    /// goes.
    pub(super) fn complete(&self, session: SessionId) -> Result<(), EmbedError> {
        let _computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(info) = self.archive.session(session)? else { return Ok(()) };
        let values = info.entries.div_ceil(ENTRIES_OF_VALUE);
        for value in (0..values).rev() {
            let last = ((value + 1) * ENTRIES_OF_VALUE).min(info.entries);
            let range = value * ENTRIES_OF_VALUE..last;
            let known = self.vectors_of(session)?;
            if range.clone().all(|entry| known.has(entry)) {
                continue;
            }
            let mut vectors = SessionVectors::clone(&known);
            let is_done = self.add(session, range.clone(), &mut vectors)?;
            if vectors != *known {
                let (key, value) = vectors.value_with(range.start);
                match self.archive.put_derived(session, &key, &value) {
                    // It was removed meanwhile.
                    Err(ArchiveError::UnknownSession { .. }) => return Ok(()),
                    put => put?,
                }
                self.know(session, &Arc::new(vectors));
            }
            if !is_done {
                break;
            }
        }
        Ok(())
    }

    /// Adds the vectors of entries; says whether there was time for all.
    fn add(
        &self,
        session: SessionId,
        range: std::ops::Range<u64>,
        vectors: &mut SessionVectors,
    ) -> Result<bool, EmbedError> {
        for entry in self.archive.entries(session, range)? {
            if vectors.has(entry.seq.0) {
                continue;
            }
            let text = spoken(&entry);
            let mut of_entry = Vec::new();
            for texts in passages(&text).chunks(TEXTS_TOGETHER) {
                if self.is_ending() {
                    return Ok(false);
                }
                let made = self.embedder.vectors(texts)?;
                if made.len() != texts.len() {
                    let why = format!("{} vectors for {} texts", made.len(), texts.len());
                    return Err(EmbedError::Model(why));
                }
                of_entry.extend(made.iter().map(|vector| Vector::of(vector)));
            }
            vectors.add(entry.seq.0, of_entry);
        }
        Ok(true)
    }
}

/// What a person or a model says in an entry. What tools print is found by its words.
fn spoken(entry: &Entry) -> String {
    let Some((_, message)) = said(entry) else { return String::new() };
    let is_spoken = matches!(message.role, Role::User | Role::Assistant);
    if !is_spoken || message.results().next().is_some() {
        return String::new();
    }
    let name = message.name.as_ref().map(|name| format!("{}: ", name.decode()));
    let texts = message.parts.iter().filter_map(Part::text).map(|text| text.decode());
    let texts: Vec<_> = texts.collect();
    let text = texts.join("\n");
    if text.trim().is_empty() { text } else { format!("{}{text}", name.unwrap_or_default()) }
}
