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

mod anthropic;
mod binding;
mod chat;
mod check;
mod claude_code;
mod codex;
mod conversation;
mod detect;
mod error;
mod image;
mod mark;
mod model;
mod options;
mod overflow;
mod pi;
mod reasoning;
mod render;
mod repair;
mod reply;
mod responses;
mod session;
mod source;
mod splice;
mod sse;
mod view;
mod write;

pub use binding::{BINDING_BETA, Binding, keep_thinking};
pub use check::Finding;
pub use conversation::{Conversation, Dialect};
pub use error::DialectError;
pub use options::{Options, ThinkingKept, without_options};
pub use overflow::{Overflow, recognise};
pub use reply::{Reply, ReplyError, ReplyReader, Stop, Usage};
use source::Source;
pub use sse::{SseEvent, SseReader, SseTooLarge};
pub use write::{Sourced, write};

/// The most bytes that a source can have: spans are kept in 32 bits.
pub const BYTES_MAX: u64 = u32::MAX as u64;

/// Reads a conversation, in `dialect` or in the one that it is found to be in.
///
/// A Codex session that is compressed with zstd is opened first.
pub fn read(bytes: Vec<u8>, dialect: Option<Dialect>) -> Result<Conversation, DialectError> {
    let bytes = unpack(bytes, UNPACKED_BYTES_MAX)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(DialectError::TooLarge { bytes: bytes.len() as u64, max: BYTES_MAX });
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| DialectError::NotUtf8 { at: error.utf8_error().valid_up_to() })?;
    let source = Source::read(text)?;
    let dialect = match dialect {
        Some(dialect) => dialect,
        None => detect::detect(&source)?,
    };
    Ok(match dialect {
        Dialect::Chat => chat::read(source),
        Dialect::Responses => responses::read(source),
        Dialect::Anthropic => anthropic::read(source),
        Dialect::ClaudeCode => claude_code::read(source),
        Dialect::Codex => codex::read(source),
        Dialect::Pi => pi::read(source),
    })
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The most that a compressed file may unpack to, so that a small file cannot fill the memory.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// Unpacks what is compressed with zstd, to at most `bytes_max`; anything else is given back as it is.
pub fn unpack(bytes: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, DialectError> {
    use std::io::Read;
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let mut rest = bytes.as_slice();
    // A file that was appended to has several frames.
    while !rest.is_empty() && unpacked.len() as u64 <= bytes_max {
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest)
            .map_err(|error| DialectError::Zstd(error.to_string()))?;
        let left = bytes_max - unpacked.len() as u64;
        decoder
            .take(left.saturating_add(1))
            .read_to_end(&mut unpacked)
            .map_err(|error| DialectError::Zstd(error.to_string()))?;
    }
    if unpacked.len() as u64 > bytes_max {
        return Err(DialectError::TooLarge { bytes: unpacked.len() as u64, max: bytes_max });
    }
    Ok(unpacked)
}
