//! What search calls a word, what a query asks for, and which entries fit it best.
//!
//! Pure: storage tells which terms it has and how often entries have them; all that is decided about them is decided
//! here, so that every storage finds the same in the same order.

mod asked_date;
mod best;
mod calls;
#[cfg(feature = "embeddings")]
pub mod embed;
mod expansion;
mod filler;
#[cfg(test)]
mod laws;
mod likeness;
pub mod memory;
mod order;
mod passage;
mod query;
mod question;
mod rank;
mod snippet;
mod spelling;
mod standing;
mod stem;
mod terms;
mod texts;
mod vocabulary;
mod walk;
mod words;

pub use asked_date::Day;
pub use best::Best;
pub use calls::readable;
pub use expansion::Expansion;
pub use likeness::{Likeness, Vector, passages};
pub use order::{PlacedEntry, ReadEntry};
pub use query::{Needle, Query, Strictness};
pub use question::Question;
pub use rank::{FoundTerm, Measure, RankedTerm, Ranker, Totals};
pub use snippet::{excerpt, snippet};
pub use standing::{STANDING_WORDS, standing};
pub use terms::{is_opaque, term, term_beginning};
pub use texts::{PLACES_OF_ENTRY_MAX, TextPosting, Texts};
pub use vocabulary::{KnownTerm, SoughtTerms, TermRange};
pub use walk::Walk;
pub use words::{Folded, Word, fold};
