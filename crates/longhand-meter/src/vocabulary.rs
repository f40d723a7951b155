//! Exact counts with a published vocabulary.

use longhand_core::{Framing, Image, Meter, Tokens};
use tiktoken::CoreBpe;

use crate::ImageRule;
use crate::pieces::count_in_pieces;

/// Counts with a published vocabulary.
///
/// Special tokens in a text are ordinary text. The count is exact but for runs of more than 3 KiB
/// that have no place to cut, such as a page of one repeated letter: those are counted in pieces,
/// which gives a little more.
#[derive(Clone, Copy)]
pub struct Vocabulary {
    encoding: &'static CoreBpe,
    images: ImageRule,
}

impl Vocabulary {
    /// Counts for GPT-4o and later.
    pub fn o200k(images: ImageRule) -> Self {
        Self::named("o200k_base", images)
    }

    /// Counts for GPT-4 and GPT-3.5.
    pub fn cl100k(images: ImageRule) -> Self {
        Self::named("cl100k_base", images)
    }

    fn named(name: &str, images: ImageRule) -> Self {
        let encoding = tiktoken::get_encoding(name).expect("the manifest names the vocabulary");
        Self { encoding, images }
    }
}

impl Meter for Vocabulary {
    fn weigh(&self, text: &str, limit: u64) -> u64 {
        count_in_pieces(text, limit, |piece| self.encoding.count(piece) as u64)
    }

    fn image(&self, image: &Image) -> Tokens {
        self.images.tokens(image)
    }

    fn framing(&self) -> Framing {
        // OpenAI counts 3 a message, and a role is one token.
        Framing { message: Tokens(4), name: Tokens(1), reply: Tokens(3), ids: true }
    }
}
