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

mod fold;
mod prompt;
mod round;
mod session;
pub mod time;

pub use longhand_archive::{Archive, ArchiveError, MemoryArchive, SqliteArchive};
pub use longhand_core::{Rolling, Tokens};
pub use longhand_summary::{Extractive, Summariser};
pub use prompt::{Placement, Prompt, Window};
pub use round::{Round, searchable};
pub use session::{PlainRound, Recorded, Session, SessionError, Settings};
