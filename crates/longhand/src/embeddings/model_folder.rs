//! A small model that is read from a folder when it is first needed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use longhand_recall::embed::MiniLm;

use super::{EmbedError, Embedder};

/// What the weights are called where the model is published.
const WEIGHTS: &[&str] = &["model.safetensors", "model.fp16.safetensors"];
const VOCABULARIES: &[&str] = &["vocab.txt", "tokenizer.json"];

/// all-MiniLM-L6-v2, or a model like it, in a folder: weights as `model.safetensors`, and `vocab.txt` or
/// `tokenizer.json`.
#[derive(Debug)]
pub struct ModelFolder {
    folder: PathBuf,
    model: OnceLock<Box<MiniLm>>,
    reading: Mutex<()>,
}

impl ModelFolder {
    /// The model of a folder, which is read when it is first asked.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), model: OnceLock::new(), reading: Mutex::new(()) }
    }

    /// The same, read at once, so that one that cannot be used is known.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, EmbedError> {
        let model = Self::at(folder);
        model.model()?;
        Ok(model)
    }

    fn model(&self) -> Result<&MiniLm, EmbedError> {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let weights = std::fs::read(self.file(WEIGHTS)?).map_err(|error| self.problem(&error))?;
        let vocabulary = std::fs::read_to_string(self.file(VOCABULARIES)?)
            .map_err(|error| self.problem(&error))?;
        let model = MiniLm::read(&weights, &vocabulary).map_err(|error| self.problem(&error))?;
        Ok(self.model.get_or_init(|| Box::new(model)))
    }

    fn file(&self, names: &[&str]) -> Result<PathBuf, EmbedError> {
        let files = names.iter().map(|name| self.folder.join(name));
        let file = files.into_iter().find(|file| Path::is_file(file));
        file.ok_or_else(|| self.problem(&format!("it has no {}", names.join(" or "))))
    }

    fn problem(&self, why: &dyn std::fmt::Display) -> EmbedError {
        EmbedError::Model(format!("the model in {}: {why}", self.folder.display()))
    }
}

impl Embedder for ModelFolder {
    fn version(&self) -> Result<String, EmbedError> {
        Ok(self.model()?.version().to_owned())
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(self.model()?.vectors(texts))
    }
}
