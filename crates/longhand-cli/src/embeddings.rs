//! The model that says what messages mean, as far as one is wanted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use longhand::embeddings::{EmbedError, Embedder, Embeddings, Tell};
use longhand::{Archive, Redactor};
use longhand_model::ModelEmbedder;

use crate::args::ArchiveArgs;
use crate::config::Config;
use crate::models::ModelSetup;
use crate::store;

/// What the settings name: the folder of a model, or a model at an endpoint. `tell` takes what goes wrong later, each
/// problem once.
pub(crate) fn configured(
    config: &Config,
    archive: &Arc<dyn Archive>,
    args: &ArchiveArgs,
    tell: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Option<Arc<Embeddings>>> {
    let named = config.text("models.embeddings").filter(|named| *named != "none");
    let Some(named) = named else { return Ok(None) };
    let embedder = match as_folder(named) {
        Some(folder) => of_folder(&folder)?,
        None => of_endpoint(config, archive, args, named)?,
    };
    let told = Mutex::new(Vec::new());
    let tell: Tell = Box::new(move |error: &EmbedError| {
        let problem = format!("what was said in other words is not found: {error}");
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(&problem) {
            tell(&problem);
            told.push(problem);
        }
    });
    let embeddings = Embeddings::new(Arc::clone(archive), embedder, tell);
    Ok(Some(Arc::new(embeddings.context("cannot start a thread")?)))
}

/// A path, unless it is the name of a model: `openai/text-embedding-3-small`.
fn as_folder(named: &str) -> Option<PathBuf> {
    let path = match named.strip_prefix("~/") {
        Some(rest) => PathBuf::from(std::env::var_os("HOME")?).join(rest),
        None => PathBuf::from(named),
    };
    let is_path = path.is_absolute() || named.starts_with('.') || path.is_dir();
    is_path.then_some(path)
}

/// The model in a folder, read.
#[cfg(feature = "embeddings")]
pub(crate) fn of_folder(folder: &Path) -> Result<Arc<dyn Embedder>> {
    Ok(Arc::new(longhand::embeddings::ModelFolder::open(folder)?))
}

#[cfg(not(feature = "embeddings"))]
pub(crate) fn of_folder(folder: &Path) -> Result<Arc<dyn Embedder>> {
    let problem = format!("this build cannot read the model in {}", folder.display());
    let hint = "`cargo build --release --features embeddings` makes one that can";
    Err(crate::hinted(problem, hint))
}

fn of_endpoint(
    config: &Config,
    archive: &Arc<dyn Archive>,
    args: &ArchiveArgs,
    named: &str,
) -> Result<Arc<dyn Embedder>> {
    // It lives as long as the program.
    let setup = Box::leak(Box::new(ModelSetup::new(config, Arc::clone(archive))?));
    let model = setup.embedder(named)?;
    let redactor = store::redactor_if(true, args)?;
    Ok(Arc::new(EndpointEmbedder { model, redactor }))
}

/// A model at an endpoint, which sees no secrets.
struct EndpointEmbedder {
    model: ModelEmbedder,
    redactor: Option<Arc<Redactor>>,
}

impl Embedder for EndpointEmbedder {
    fn version(&self) -> Result<String, EmbedError> {
        Ok(self.model.name())
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let redacted: Vec<_> = texts
            .iter()
            .map(|text| match &self.redactor {
                Some(redactor) => redactor.redact(text),
                None => (*text).into(),
            })
            .collect();
        let redacted: Vec<&str> = redacted.iter().map(AsRef::as_ref).collect();
        self.model.vectors(&redacted).map_err(|error| EmbedError::Model(error.to_string()))
    }
}
