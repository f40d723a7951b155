//! Why an input cannot be read.

use thiserror::Error;

/// Why an input cannot be read as a conversation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DialectError {
    /// There is nothing in it.
    #[error("the input is empty")]
    Empty,
    /// It is not text.
    #[error("byte {at}: the input is not UTF-8")]
    NotUtf8 {
        /// The first byte that is no part of a character.
        at: usize,
    },
    /// It is more than a source can hold.
    #[error("the input has {bytes} bytes; at most {max} are read")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The most that is read.
        max: u64,
    },
    /// It is compressed, and not well.
    #[error("the input is not a sound zstd file: {0}")]
    Zstd(String),
    /// It is compressed in another way, and not well.
    #[error("the input is not sound {coding}: {what}")]
    Coding {
        /// The name of the coding.
        coding: &'static str,
        /// What is wrong.
        what: String,
    },
    /// It is compressed in a way that we do not know.
    #[error("the coding {0:?} is not known")]
    UnknownCoding(String),
    /// It is not JSON.
    #[error("line {line}, column {column}{}: {what}", inside(within))]
    Json {
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// What is wrong.
        what: &'static str,
        /// The message it happened in, if known.
        within: String,
    },
    /// It is JSON, but no conversation that we know.
    #[error("this is JSON, but no conversation: {0}")]
    NotAConversation(String),
}

fn inside(within: &str) -> String {
    if within.is_empty() { String::new() } else { format!(" (in {within})") }
}
