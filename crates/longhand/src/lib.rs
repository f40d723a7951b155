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
//! let window = session.window("And the log?", &Prompt::default())?;
//! assert!(window.json.contains("etc/app.toml"));
//! # Ok::<(), longhand::SessionError>(())
//! ```
#![forbid(unsafe_code)]

mod digest;
mod fold;
mod note;
mod pending;
mod prompt;
mod round;
mod said;
mod session;
pub mod time;

pub use digest::Summarised;
pub use longhand_archive::{Archive, ArchiveError, MemoryArchive, SqliteArchive};
pub use longhand_core::anchor::{Miner, Pattern};
pub use longhand_core::{Rolling, Tokens};
pub use longhand_summary::{Extractive, Summariser};
pub use note::Note;
pub use prompt::{Placement, Prompt, Window};
pub use round::{Call, Round, is_form, searchable};
pub use session::{Folded, PlainRound, Recorded, Session, SessionError, Settings};
