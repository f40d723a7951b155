//! What search calls a word, what a query asks for, and which entries fit it best.
//!
//! Pure: storage tells which terms it has and how often entries have them; all that is decided about them is decided
//! here, so that every storage finds the same in the same order.

mod query;
mod snippet;
mod terms;
mod words;

pub use query::{Needle, Query, Strictness};
pub use snippet::snippet;
pub use terms::{is_opaque, term, term_beginning};
pub use words::{Folded, Word, fold};
