//! A small language model that says what a text means: MiniLM, read from the files that it is published as.
//!
//! What it says is a vector. Texts that mean the same have vectors that point the same way.

mod bert;
mod tensors;
mod wordpiece;

use self::bert::Bert;
use self::tensors::Tensors;
use self::wordpiece::WordPieces;

/// More pieces of a text are not read: the model has learned from texts of this length.
const PIECES_MAX: usize = 256;
/// So many pieces go through the model together.
const PIECES_TOGETHER: usize = 512;

/// Why a model cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelFileError {
    /// The weights are not a file of tensors, or are cut off.
    Tensors(String),
    /// A tensor is missing, or has another shape than this kind of model has.
    Shape(String),
    /// The list of word pieces cannot be read, or does not belong to the weights.
    Vocabulary(String),
}

impl std::fmt::Display for ModelFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tensors(why) => write!(f, "the weights cannot be read: {why}"),
            Self::Shape(what) => write!(f, "the weights are not those of a MiniLM model: {what}"),
            Self::Vocabulary(why) => write!(f, "the vocabulary cannot be read: {why}"),
        }
    }
}

impl std::error::Error for ModelFileError {}

/// A model in memory.
pub struct MiniLm {
    pieces: WordPieces,
    bert: Bert,
    version: String,
}

impl std::fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MiniLm").field("version", &self.version).finish_non_exhaustive()
    }
}

impl MiniLm {
    /// Reads a model: its weights in the safetensors format, and its vocabulary as `vocab.txt`, one piece on each line, or
    /// as `tokenizer.json`.
    pub fn read(weights: &[u8], vocabulary: &str) -> Result<Self, ModelFileError> {
        let bert = Bert::read(&Tensors::read(weights)?)?;
        let pieces = WordPieces::read(vocabulary)?;
        if pieces.count() > bert.vocabulary_size() {
            let (listed, known) = (pieces.count(), bert.vocabulary_size());
            let why = format!("it lists {listed} pieces, the weights have {known}");
            return Err(ModelFileError::Vocabulary(why));
        }
        let hash = blake3::hash(weights).to_hex();
        Ok(Self { pieces, bert, version: format!("minilm-{}", &hash[..16]) })
    }

    /// Names the model: vectors of models with different names cannot be compared.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What each text means, as a vector of length 1. Only the beginning of a text is read, some 200 words.
    pub fn vectors(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let pieces: Vec<Vec<u32>> =
            texts.iter().map(|text| self.pieces.of(text, PIECES_MAX)).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut from = 0;
        while from < pieces.len() {
            let mut sum = 0;
            let together = pieces[from..].iter().take_while(|pieces| {
                sum += pieces.len();
                sum <= PIECES_TOGETHER
            });
            let to = from + together.count().max(1);
            vectors.extend(self.bert.vectors(&pieces[from..to]));
            from = to;
        }
        vectors
    }
}
