//! An endless conversation for any LLM agent.
//!
//! Every word is kept in an archive; what the model sees is a window that fits.
//!
//! ```
//! use std::sync::Arc;
//! use longhand::{MemoryArchive, Prompt, Round, Session};
//!
//! let archive = Arc::new(MemoryArchive::default());
//! let mut session = Session::open(archive, "demo")?;
//! session.record(&Round::new("Where is the config?", "In etc/app.toml.", 0))?;
//! let window = session.window("And the log?", &Prompt::default(), 0)?;
//! assert!(window.json.contains("etc/app.toml"));
//! # Ok::<(), longhand::SessionError>(())
//! ```
#![forbid(unsafe_code)]

mod admit;
mod digest;
mod entry;
mod fit;
mod fold;
mod ledger;
mod prompt;
mod quote;
pub mod recall;
mod round;
mod said;
mod session;
mod story;
pub mod time;

pub use admit::{Admitted, Fitted, Request};
pub use digest::Summarised;
pub use entry::{entry_of, entry_with, is_form, new_entry, searchable};
pub use fit::Fitting;
pub use ledger::{Chain, Ledger, Trail};
pub use longhand_archive::{Archive, ArchiveError, MemoryArchive, Owner, SessionId, SqliteArchive};
pub use longhand_core::anchor::{Miner, Pattern};
pub use longhand_core::{Policy, Rolling, Tokens};
pub use longhand_summary::{Extractive, Summariser};
pub use prompt::{Placement, Prompt, Window};
pub use round::{Call, Round};
pub use session::{Folding, PlainRound, Recorded, Session, SessionError, Settings};
pub use story::Storyteller;
