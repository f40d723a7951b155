//! Token counting: exact vocabularies, a model's own tokenizer.json, and estimates.
//!
//! ```
//! use longhand_core::{Scale, Tokens};
//! use longhand_meter::{ImageRule, MeterSpec};
//!
//! let meter = "o200k".parse::<MeterSpec>()?.open(ImageRule::OPENAI_TILES)?;
//! assert_eq!(Scale::new(&*meter).text("hello world"), Tokens(2));
//! # Ok::<(), longhand_meter::MeterError>(())
//! ```
#![forbid(unsafe_code)]

mod cache;
mod catalogue;
mod error;
mod estimate;
mod image;
#[cfg(feature = "tokenizer-json")]
mod pieces;
mod price;
mod scaled;
mod spec;
#[cfg(feature = "tokenizer-json")]
mod tokenizer_json;
mod vocabulary;

pub use cache::Cached;
pub use catalogue::ModelFacts;
pub use error::MeterError;
pub use estimate::{Chars, CharsPerToken};
pub use image::{ImageProvider, ImageRule};
pub use price::Price;
pub use scaled::Scaled;
pub use spec::MeterSpec;
#[cfg(feature = "tokenizer-json")]
pub use tokenizer_json::TokenizerJson;
pub use vocabulary::Vocabulary;
