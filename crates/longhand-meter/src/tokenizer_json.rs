//! Counts with a model's own tokenizer.json.

use std::path::Path;

use longhand_core::{Framing, Image, Meter, Tokens};
use splintr::{Backend, HfJsonError, SpecialMode, Tokenize};

use crate::pieces::count_in_pieces;
use crate::{ImageRule, MeterError};

/// Counts with a tokenizer read from disk.
///
/// Special tokens in a text are ordinary text. A text of more than 4 KiB is counted in pieces: exact
/// for the usual byte-level tokenizers, and up to a token too many for each piece for those that
/// mark the start of a text.
pub struct TokenizerJson {
    tokenizer: Box<dyn Tokenize>,
    images: ImageRule,
}

impl TokenizerJson {
    /// Reads the file that Hugging Face calls tokenizer.json.
    pub fn load(path: &Path, images: ImageRule) -> Result<Self, MeterError> {
        let failed = |error: HfJsonError| MeterError::Tokenizer {
            path: path.to_owned(),
            source: Box::new(error),
        };
        // The backend alone leaves out the template, which would add its tokens to each text.
        let tokenizer: Box<dyn Tokenize> =
            match splintr::from_json_path(path).map_err(failed)?.into_backend() {
                Backend::Bpe(tokenizer) => Box::new(tokenizer),
                Backend::Unigram(tokenizer) => Box::new(tokenizer),
                Backend::WordPiece(tokenizer) => Box::new(tokenizer),
                Backend::Spm(tokenizer) => Box::new(tokenizer),
            };
        Ok(Self { tokenizer, images })
    }

    fn count(&self, piece: &str) -> u64 {
        // Only an allow-list of special tokens can fail; a token has at least a byte.
        self.tokenizer
            .encode_with(piece, &SpecialMode::Ordinary)
            .map_or(piece.len(), |tokens| tokens.len()) as u64
    }
}

impl Meter for TokenizerJson {
    fn weigh(&self, text: &str, limit: u64) -> u64 {
        count_in_pieces(text, limit, |piece| self.count(piece))
    }

    fn image(&self, image: &Image) -> Tokens {
        self.images.tokens(image)
    }

    fn framing(&self) -> Framing {
        // ChatML and Llama 3 alike put five tokens around a message and start the reply with four at
        // most.
        Framing { message: Tokens(5), name: Tokens(1), reply: Tokens(4), ids: true }
    }
}
