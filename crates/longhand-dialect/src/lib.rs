//! Provider formats and session files, read as messages and written back byte for byte.
//!
//! A conversation keeps the bytes it was read from. Edits are splices into them, so whatever no edit
//! names comes out as it went in: key order, white space, number forms and unknown fields included.
//!
//! ```
//! let json = r#"[{"role":"user","content":"hello"}]"#;
//! let conversation = longhand_dialect::read(json.into(), None).unwrap();
//! assert_eq!(conversation.dialect, longhand_dialect::Dialect::Chat);
//! assert!(conversation.check().is_empty());
//! assert_eq!(conversation.apply(&[]), json);
//! ```
#![forbid(unsafe_code)]

mod answer;
mod anthropic;
mod binding;
mod cache_life;
mod chat;
mod check;
mod claude_code;
mod codex;
mod compaction;
mod continuation;
mod conversation;
mod copilot;
mod detect;
mod edits;
mod error;
mod history;
mod image;
mod lean;
mod loaded;
mod mark;
mod media;
mod mend;
mod options;
mod overflow;
mod pi;
mod reasoning;
mod render;
mod repair;
mod reply;
mod responses;
mod said;
mod sealed;
mod session;
mod source;
mod splice;
mod sse;
mod tools;
mod transcript;
mod unpack;
mod view;
mod write;
mod write_session;

use std::sync::Arc;

pub use answer::{AnswerReader, ReadAnswer, Unread};
pub use binding::{BINDING_BETA, Binding, keep_thinking};
pub use check::Finding;
pub use compaction::{CompactionOrder, SummaryForm};
pub use continuation::SessionFileStart;
pub use conversation::{Conversation, Dialect};
pub use error::DialectError;
pub use history::{items_of, with_history};
pub use loaded::{AgentSummary, LoadedSession, Opening, UsageReading};
pub use mend::{FaultKind, FileFault, MendedFile, mend};
pub use options::{Options, ThinkingKept, without_options};
pub use overflow::{Overflow, recognise, recognise_for};
pub use render::change_message;
pub use reply::{Reply, ReplyCall, ReplyError, ReplyFilter, ReplyReader, Stop, Usage};
pub use said::SaidText;
pub use sealed::{sealed_content, sealed_references, unsealed};
use source::{BadLines, RequestShape, RequestSource};
pub use sse::{SseEvent, SseReader, SseTooLarge};
pub use tools::{RECALL_TOOL, ToolOffer, has_tools, with_tool};
pub use transcript::{Transcript, TranscriptMessage, TranscriptNote};
pub use unpack::{decode, decode_within, decoder, unpack};
pub use write::{Sourced, write, write_with_sources};
pub use write_session::{TimedMessage, WrittenSession, write_session};

/// The most bytes that a source can have: spans are kept in 32 bits.
pub const BYTES_MAX: u64 = u32::MAX as u64;

/// The most that a compressed file may unpack to, so that a small file cannot fill the memory.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Reads a conversation, in `dialect` or in the one that it is found to be in.
///
/// A Codex session that is compressed with zstd is opened first.
pub fn read(bytes: Vec<u8>, dialect: Option<Dialect>) -> Result<Conversation, DialectError> {
    read_shared(Arc::new(text_of(bytes)?), dialect)
}

/// How much of a session file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// All messages that were said, in whatever branch, and the summaries of its agent.
    #[default]
    Everything,
    /// The messages that its agent sends when it goes on in it.
    AsLoaded,
}

/// Reads a conversation; of a session file, what its agent loads. Lines of a session file that cannot be read are
/// passed over, as agents do; [`Conversation::loaded`] tells how many.
///
/// ```
/// let lines = concat!(
///     r#"{"type":"user","uuid":"1","parentUuid":null,"message":{"role":"user","content":"taken back"}}"#, "\n",
///     r#"{"type":"user","uuid":"2","parentUuid":null,"message":{"role":"user","content":"hello"}}"#, "\n",
///     r#"{"type":"user","uuid":"3","par"#,
/// );
/// let conversation = longhand_dialect::read_as_loaded(lines.into(), None)?;
/// assert_eq!(conversation.messages.len(), 1);
/// assert_eq!(conversation.loaded().unwrap().unread, [3]);
/// # Ok::<(), longhand_dialect::DialectError>(())
/// ```
pub fn read_as_loaded(
    bytes: Vec<u8>,
    dialect: Option<Dialect>,
) -> Result<Conversation, DialectError> {
    read_with(Arc::new(text_of(bytes)?), dialect, Reading::AsLoaded, BadLines::PassedOver)
}

/// Reads all of a conversation. Lines of a session file that cannot be read are passed over: a file that grows may
/// end in half a line.
pub fn read_growing(
    text: Arc<String>,
    dialect: Option<Dialect>,
) -> Result<Conversation, DialectError> {
    read_with(text, dialect, Reading::Everything, BadLines::PassedOver)
}

fn text_of(bytes: Vec<u8>) -> Result<String, DialectError> {
    String::from_utf8(unpack(bytes, UNPACKED_BYTES_MAX)?)
        .map_err(|error| DialectError::NotUtf8 { at: error.utf8_error().valid_up_to() })
}

/// Reads a conversation from a text that others hold, too; it is not copied.
///
/// ```
/// let text = std::sync::Arc::new(r#"[{"role":"user","content":"hello"}]"#.to_owned());
/// let conversation = longhand_dialect::read_shared(text.clone(), None)?;
/// assert_eq!(conversation.bytes().as_ptr(), text.as_ptr());
/// # Ok::<(), longhand_dialect::DialectError>(())
/// ```
pub fn read_shared(
    text: Arc<String>,
    dialect: Option<Dialect>,
) -> Result<Conversation, DialectError> {
    read_with(text, dialect, Reading::Everything, BadLines::Refused)
}

fn read_with(
    text: Arc<String>,
    dialect: Option<Dialect>,
    reading: Reading,
    bad_lines: BadLines,
) -> Result<Conversation, DialectError> {
    let text = measured(text)?;
    let mut source = RequestSource::read_with(Arc::clone(&text), &[], bad_lines)?;
    let is_session_file = || match dialect {
        Some(dialect) => dialect.is_session_file(),
        None if copilot::is_log(&source) => true,
        None => detect::detect(&source).is_ok_and(Dialect::is_session_file),
    };
    // Only agents pass lines over.
    if !source.unread.is_empty() && !is_session_file() {
        source = RequestSource::read(text, &[])?;
    }
    let dialect = match dialect {
        Some(dialect) => dialect,
        None if source.shape == RequestShape::Lines && copilot::is_log(&source) => {
            let told = Transcript::of(&source.text).unwrap_or_default();
            source = RequestSource::read(Arc::new(told.as_list()), &[])?;
            source.unread = told.unread;
            Dialect::Chat
        }
        None => detect::detect(&source)?,
    };
    Ok(match dialect {
        Dialect::Chat => chat::read(source, None),
        Dialect::Responses => responses::read(source, None),
        Dialect::Anthropic => anthropic::read(source, None),
        Dialect::ClaudeCode => claude_code::read(source, reading),
        Dialect::Codex => codex::read(source, reading),
        Dialect::Pi => pi::read(source, reading),
    })
}

/// Reads a request that begins with the same bytes as an earlier one in the same format.
///
/// Messages within those bytes are taken from the earlier request. If that one has a fault, everything is read
/// again.
///
/// ```
/// use std::sync::Arc;
/// let text = |more: &str| Arc::new(format!(r#"{{"messages":[{{"role":"user","content":"a"}}{more}]}}"#));
/// let before = longhand_dialect::read_shared(text(""), None)?;
/// let more = text(r#",{"role":"assistant","content":"b"}"#);
/// let after = longhand_dialect::read_after(more, &before)?;
/// assert_eq!(after.messages.len(), 2);
/// # Ok::<(), longhand_dialect::DialectError>(())
/// ```
pub fn read_after(text: Arc<String>, before: &Conversation) -> Result<Conversation, DialectError> {
    let common = common(&text, before.bytes());
    read_on(text, before, common)
}

/// Like [`read_after`], if it is known how many bytes both texts have in [`common`].
pub fn read_on(
    text: Arc<String>,
    before: &Conversation,
    common: usize,
) -> Result<Conversation, DialectError> {
    let known = before.elements_within(common);
    let source = RequestSource::read(measured(text)?, &known)?;
    Ok(match before.dialect {
        Dialect::Chat => chat::read(source, Some(before)),
        Dialect::Responses => responses::read(source, Some(before)),
        Dialect::Anthropic => anthropic::read(source, Some(before)),
        other => return read_shared(source.text, Some(other)),
    })
}

/// How many bytes two texts have in common at their beginning.
pub fn common(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut same = 0;
    for piece in [4 << 10, 64, 1] {
        let pieces = one[same..].chunks_exact(piece).zip(other[same..].chunks_exact(piece));
        same += pieces.take_while(|(one, other)| one == other).count() * piece;
    }
    same
}

/// A text that is not too long for our spans.
fn measured(text: Arc<String>) -> Result<Arc<String>, DialectError> {
    let bytes = text.len() as u64;
    if bytes > BYTES_MAX {
        return Err(DialectError::TooLarge { bytes, max: BYTES_MAX });
    }
    Ok(text)
}
