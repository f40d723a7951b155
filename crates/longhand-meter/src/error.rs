//! What can go wrong before a meter counts.

use std::path::PathBuf;

use thiserror::Error;

/// What else a meter can be in this build.
const OR_A_PATH: &str =
    if cfg!(feature = "tokenizer-json") { ", or a path to a tokenizer.json" } else { "" };

/// Why there is no meter.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The spec is none of the legal forms.
    #[error(
        "unknown meter `{spec}`: expected o200k, cl100k or chars:N (such as chars:3.5){}",
        OR_A_PATH
    )]
    Unknown {
        /// What was given.
        spec: String,
    },
    /// The number after `chars:` will not do.
    #[error(
        "bad meter `chars:{number}`: expected a decimal above 0 of at most 9 digits, \
         such as chars:3.5"
    )]
    CharsPerToken {
        /// What was given for a number.
        number: String,
    },
    /// The spec is a path, and this build does not read them.
    #[error(
        "cannot count with {}: this build lacks the cargo feature `tokenizer-json`; \
         it knows o200k, cl100k and chars:N (such as chars:3.5)", path.display()
    )]
    FeatureMissing {
        /// The file that was asked for.
        path: PathBuf,
    },
    /// The file is missing or is no tokenizer that we can use.
    #[error("cannot load the tokenizer {}", path.display())]
    Tokenizer {
        /// The file that was asked for.
        path: PathBuf,
        /// What its reader said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
