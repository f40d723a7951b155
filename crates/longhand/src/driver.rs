//! The way of a conversation through its session, for whoever drives one: a file, a library, a proxy, a replay.
//!
//! A request is *admitted*: its messages are found in the ledger of its session or appended there, in memory at once and in
//! the archive through a [`Sink`]. Its *window* is made with the batches that hold for its path, and with a new one if
//! there is no room. When it is *answered*, the answer is appended after it.

mod admit;
mod chained;
mod digests;
mod direct;
mod live_batch;
mod live_session;
mod maker;
mod memory;
mod pending_write;
mod placed;
mod plan;
mod regret;
mod remember;
mod sink;
mod source;
mod twin;
mod window;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use admit::BatchCommit;
pub use chained::{ChainedRequest, shared_messages};
pub use digests::Digests;
pub use direct::Direct;
pub use live_batch::LiveBatch;
pub use live_session::LiveSession;
pub use maker::{Computing, HandedOver, Here, WindowError, WindowMaker};
pub use memory::SessionMemory;
pub use pending_write::{PendingWrite, SessionWrite, WriteOutcome, WriteStep, WriteWeight};
pub use placed::{Keeper, NewAnswer, PlacedRequest, RequestPlace, UnplacedRequest};
pub(crate) use plan::LiveEdits;
pub use plan::{Planner, WindowLimits};
pub(crate) use regret::{first_new, notes as regret_notes};
pub(crate) use remember::{NewWords, RecallRoom};
pub use sink::{Settling, Sink, Ticket};
pub(crate) use source::CountedRequest;
pub use source::{Purpose, TokenCounts, WindowSource};
pub use twin::Twin;
pub use window::{MadeWindow, PlannedEdits};

pub use crate::admit::{Admitted, Fitted, WindowRequest};
pub use crate::digest::Summarised;
pub use crate::entry::{
    entry_of, entry_with, is_form, new_entry, opening, opening_of, searchable, user_words,
};
pub use crate::fit::Fitting;
pub use crate::known_calls::{KnownCalls, Unread};
pub use crate::learned::{Learned, TooLong};
pub use crate::one_request::{image_rule, tokens_outside_messages};
pub use crate::redact::hidden_tokens;
pub use crate::rejoin::{Rejoined, Rejoining, group_of, rejoin};
pub use crate::session::keep_logs;
pub use crate::source::origin_of;
pub use crate::story::Storyteller;
pub use longhand_core::Scale;
pub use longhand_core::session::{Chain, Trail};

/// Locks a mutex, also after a thread panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
