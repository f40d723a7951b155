//! An endless conversation for any LLM agent: every word is kept in an archive, and what the model sees is a
//! window that always fits.
//!
//! # Guide
//!
//! **One request that is too long.** [`fit`] makes it fit, in the format it came in. What it leaves out is marked
//! with a *handle*, and [`expand`] brings that back.
//!
//! ```
//! let request = r#"[{"role":"user","content":"Where is the log?"}]"#;
//! let window = longhand::fit(request, longhand::Tokens(8_000))?;
//! assert_eq!(window.json, request, "it fits, so nothing is changed");
//! # Ok::<(), longhand::SessionError>(())
//! ```
//!
//! **A conversation that never ends.** A [`Session`] keeps rounds in an [`Archive`]: [`SqliteArchive`], a file that
//! survives crashes and that processes share, or [`MemoryArchive`]. [`Session::window`] returns the messages to send.
//! Nothing is left out while there is room; when the window is full, old tool results become stubs and old messages
//! are folded into one block, a work log with the user's words, decisions, open questions, files and names.
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
//!
//! **An agent in the middle of its work.** [`Session::fit`] takes the request that the agent would send, with all its
//! messages, in the format of Chat Completions, Responses or Anthropic Messages, and returns the one to send;
//! [`Session::answered`] takes the reply. All of it is archived, and each has a form that blocks no thread
//! ([`Session::fit_async`]). Here `send` stands for the provider, and `run` for the tools:
//!
//! ```
//! use std::sync::Arc;
//! use longhand::{MemoryArchive, Session, SessionSettings, Tokens};
//! use serde_json::{Value, json};
//!
//! fn work(
//!     session: &mut Session,
//!     task: &str,
//!     send: &mut dyn FnMut(&str) -> String,
//!     run: &dyn Fn(&Value) -> String,
//! ) -> Result<String, Box<dyn std::error::Error>> {
//!     let mut messages = vec![json!({"role": "user", "content": task})];
//!     for now_ms in 0.. {
//!         let request = json!({"model": "gpt-4o", "messages": messages}).to_string();
//!         let window = session.fit(&request, now_ms)?;
//!         let reply = send(&window.json);
//!         session.answered(&reply, now_ms)?;
//!         let mut reply: Value = serde_json::from_str(&reply)?;
//!         let message = reply["choices"][0]["message"].take();
//!         let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
//!         messages.push(message);
//!         if calls.is_empty() {
//!             break;
//!         }
//!         for call in &calls {
//!             let (id, content) = (&call["id"], run(&call["function"]));
//!             messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
//!         }
//!     }
//!     Ok(messages.pop().unwrap_or_default()["content"].as_str().unwrap_or_default().to_owned())
//! }
//!
//! let settings = SessionSettings { budget: Tokens(2_000), ..SessionSettings::new()? };
//! let mut session = Session::open_with(Arc::new(MemoryArchive::default()), "task", settings)?;
//! let (mut calls, mut largest) = (0, 0);
//! let mut send = |window: &str| {
//!     calls += 1;
//!     largest = largest.max(window.len());
//!     let call = json!([{"id": format!("call_{calls}"), "type": "function",
//!         "function": {"name": "read_log", "arguments": "{}"}}]);
//!     let message = match calls {
//!         40 => json!({"role": "assistant", "content": "The disk is full."}),
//!         _ => json!({"role": "assistant", "content": null, "tool_calls": call}),
//!     };
//!     json!({"choices": [{"message": message}]}).to_string()
//! };
//! let log = |_: &Value| "a line of a long log\n".repeat(40);
//! assert_eq!(work(&mut session, "Why does it fail?", &mut send, &log)?, "The disk is full.");
//! assert!(calls == 40 && largest < 10_000, "all windows were small: {largest} bytes");
//! assert!(!session.search("disk", 1)?.is_empty(), "every word is kept");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Your own parts.** Each is a trait, and this crate re-exports all that its methods mention:
//!
//! | trait | what it does | see |
//! |---|---|---|
//! | [`Summariser`] | writes how the work went, for a fold | `examples/own_summariser.rs` |
//! | [`Meter`] | counts tokens for one model | below |
//! | [`Archive`] | keeps sessions; [`archive::Layer`] changes one that is there | `examples/own_archive.rs` |
//!
//! ```
//! use std::sync::Arc;
//! use longhand::{Fit, Framing, Image, Meter, Tokens};
//!
//! /// Counts words.
//! struct Words;
//!
//! impl Meter for Words {
//!     fn weigh(&self, text: &str, _limit: u64) -> u64 {
//!         text.split_whitespace().count() as u64
//!     }
//!     fn image(&self, _: &Image) -> Tokens {
//!         Tokens(500)
//!     }
//!     fn framing(&self) -> Framing {
//!         Framing { message: Tokens(4), name: Tokens(1), reply: Tokens(3), ids: false }
//!     }
//! }
//!
//! let fit = Fit { meter: Some(Arc::new(Words)), ..Fit::within(Tokens(100)) };
//! let window = fit.request(r#"[{"role":"user","content":"three short words"}]"#)?;
//! assert_eq!(window.tokens, Tokens(3 + 4 + 3));
//! # Ok::<(), longhand::SessionError>(())
//! ```
//!
//! **What is in an archive.** [`app`] answers what people and programs ask: which sessions there are, where something was
//! said, what a window shows and why, what it cost; it pins, undoes, removes, exports and imports. `examples/console.rs`
//! draws a page with it, `examples/binding.rs` serves another language.
//!
//! **What holds always.** A window fits or says by how much it does not ([`Window::shortfall`]); it is valid for its
//! provider; bytes that no edit names come out as they went in; and between two edits a window only grows at its
//! end, so that the provider's cache keeps hitting. No clock is read: every call that needs the time takes it.
//!
//! The crates behind this one are its modules [`archive`], [`core`], [`dialect`], [`meter`] and [`summary`].
#![forbid(unsafe_code)]

mod admit;
pub mod agent_files;
pub mod app;
pub mod clean;
pub mod context;
mod digest;
pub mod driver;
pub mod embeddings;
mod entry;
pub mod eval;
mod fit;
mod known_calls;
mod learned;
pub mod memory;
mod one_request;
pub mod preamble;
mod prompt;
mod quote;
mod readable;
pub mod recall;
pub mod receipt;
mod redact;
mod rejoin;
pub mod replay;
mod round;
mod said;
mod session;
mod source;
mod story;
pub mod time;
pub mod transfer;
pub mod unread;

pub use longhand_archive::{
    self as archive, Archive, ArchiveError, MemoryArchive, Owner, SessionId, SqliteArchive,
};
pub use longhand_core::anchor::{Miner, Pattern};
pub use longhand_core::{
    self as core, Budget, CachePrices, Framing, Handle, Image, Meter, Policy, Rolling, Seq, Tokens,
};
pub use longhand_dialect::{self as dialect, Conversation, Dialect};
pub use longhand_meter::{self as meter, MeterSpec};
pub use longhand_summary::{self as summary, Extractive, Summariser, Summary, SummaryError};
pub use one_request::{Fit, SharedMeter, expand, fit, meter_for};
pub use prompt::{Placement, Prompt, Window};
pub use recall::RecallReach;
pub use receipt::Receipt;
pub use redact::Redactor;
pub use round::{ModelCall, Round};
pub use session::{
    Answered, Folding, PlainRound, Recorded, Session, SessionError, SessionSettings,
};

/// The Rust in the README, which is compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
