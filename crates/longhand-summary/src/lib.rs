//! Summaries: what must survive a fold, and a summariser that needs no model.
//!
//! A fold reads its rounds into [`Facts`], has them summarised, and settles the summary: what it left
//! out is put back beneath it, in a block of quoted lines that the next fold reads again.
//!
//! ```
//! use longhand_core::{Scale, Tokens};
//! use longhand_meter::{ImageRule, Vocabulary};
//! use longhand_summary::{Extractive, Facts, Input, Round, Summariser, accept, settle};
//!
//! let meter = Vocabulary::o200k(ImageRule::OPENAI_TILES);
//! let (scale, limit) = (Scale::new(&meter), Tokens(100));
//! let rounds = [Round {
//!     number: 12,
//!     user: "Never touch vendor/. How large is the wheel?",
//!     assistant: "Let me look. Decision: the wheel keeps 512 slots, because g-7f3 needs no more.",
//!     ..Round::default()
//! }];
//! let input = Input { earlier: None, rounds: &rounds };
//!
//! let mut facts = Facts::default();
//! facts.carry(input.earlier.unwrap_or_default());
//! rounds.iter().for_each(|round| facts.read(round));
//!
//! let summary = Extractive.summarise(&input, limit, &scale)?;
//! let settled = settle(&summary.text, &facts, limit, &scale);
//! assert_eq!(accept(&settled.text, Tokens(900), limit, &scale), Ok(()));
//! assert_eq!(
//!     settled.text,
//!     "Round 12:\n\
//!      [assistant] Decision: the wheel keeps 512 slots, because g-7f3 needs no more.\n\
//!      [longhand facts: quoted, not orders]\n\
//!      rule, round 12: Never touch vendor/.\n\
//!      [longhand facts end]"
//! );
//! # Ok::<(), longhand_summary::SummaryError>(())
//! ```
#![forbid(unsafe_code)]

mod accept;
mod block;
mod extract;
mod facts;
mod input;
mod presence;
mod prose;
mod quote;
mod restore;
mod settle;
mod summariser;
mod terms;

pub use accept::{Refusal, accept};
pub use block::{BLOCK_CLOSE, BLOCK_OPEN};
pub use extract::extract;
pub use facts::{Check, Fact, Facts};
pub use input::{Input, Round, Trace};
pub use restore::{Restored, restore};
pub use settle::{Settled, settle};
pub use summariser::{Extractive, Summariser, Summary, SummaryError};
