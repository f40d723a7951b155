//! Has an endpoint say what texts mean.

use std::sync::{Arc, mpsc};

use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::summariser::UNKNOWN_PRICE;
use crate::{Model, ModelClient, ModelError, Prices, Spending, Usage, cost_micros};

/// A token has so many bytes at the least, where it matters that calls do not cost more than was reserved.
const BYTES_OF_TOKEN_MIN: usize = 2;

/// Asks a model for vectors, as `/v1/embeddings` of `OpenAI` has them.
///
/// It blocks until the model has answered, so it belongs on a thread that may wait.
#[derive(Clone, Debug)]
pub struct ModelEmbedder {
    model: Model,
    client: Arc<ModelClient>,
    runtime: Handle,
    prices: Arc<Prices>,
    spending: Option<Arc<Spending>>,
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedderError {
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Nothing may be asked now.
    #[error("{0}")]
    Unavailable(String),
}

#[derive(Deserialize)]
struct EmbeddingsAnswer {
    data: Vec<EmbeddingItem>,
    #[serde(default)]
    usage: Option<EmbeddingUsage>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingUsage {
    prompt_tokens: u64,
}

impl ModelEmbedder {
    /// An embedder on a runtime that must outlive it.
    pub fn on(client: Arc<ModelClient>, model: Model, runtime: Handle) -> Self {
        Self { model, client, runtime, prices: Arc::default(), spending: None }
    }

    /// The same with other prices.
    #[must_use]
    pub fn with_prices(self, prices: Arc<Prices>) -> Self {
        Self { prices, ..self }
    }

    /// The same within a cap.
    #[must_use]
    pub fn with_spending(self, spending: Arc<Spending>) -> Self {
        Self { spending: Some(spending), ..self }
    }

    /// The model's full name.
    pub fn name(&self) -> String {
        self.model.to_string()
    }

    /// A vector for each text, in their order.
    pub fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedderError> {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let most = Usage { input: (bytes / BYTES_OF_TOKEN_MIN) as u64 + 1, ..Usage::default() };
        let price = self.prices.of(&self.model).unwrap_or(UNKNOWN_PRICE);
        let reserved = self.spending.as_ref().map(|spending| {
            let date = self.client.clock().date();
            spending.reserve(date, cost_micros(&price, &most))
        });
        let reservation = reserved.transpose().map_err(EmbedderError::Unavailable)?.flatten();
        let settle = |micros: u64| {
            if let Some(spending) = &self.spending {
                spending.settle(reservation, micros);
            }
        };
        let body = json!({"model": self.model.name, "input": texts, "encoding_format": "float"});
        let answer = match self.ask(body.to_string())? {
            Ok(answer) => answer,
            Err(error) => {
                if !error.is_perhaps_billed() {
                    settle(0);
                }
                return Err(error.into());
            }
        };
        let answer: EmbeddingsAnswer = serde_json::from_str(&answer)
            .map_err(|error| self.unusable(&format!("its answer has no vectors: {error}")))?;
        let input = answer.usage.map_or(most.input, |usage| usage.prompt_tokens);
        settle(cost_micros(&price, &Usage { input, ..Usage::default() }));
        self.in_order(answer.data, texts.len())
    }

    fn in_order(
        &self,
        mut items: Vec<EmbeddingItem>,
        expected: usize,
    ) -> Result<Vec<Vec<f32>>, EmbedderError> {
        items.sort_by_key(|item| item.index);
        let width = items.first().map_or(0, |item| item.embedding.len());
        let is_usable = items.len() == expected
            && width > 0
            && items.iter().all(|item| item.embedding.len() == width);
        if !is_usable {
            return Err(self.unusable("it did not answer with one vector for each text"));
        }
        Ok(items.into_iter().map(|item| item.embedding).collect())
    }

    /// Sends a request from this thread and waits; the runtime does the work.
    fn ask(&self, body: String) -> Result<Result<String, ModelError>, EmbedderError> {
        let (done, answer) = mpsc::sync_channel(1);
        let (client, endpoint) = (Arc::clone(&self.client), self.model.endpoint.clone());
        self.runtime.spawn(async move {
            let _ = done.send(client.embeddings(&endpoint, body).await);
        });
        answer.recv().map_err(|_| self.unusable("its runtime has ended"))
    }

    fn unusable(&self, why: &str) -> EmbedderError {
        EmbedderError::Unavailable(format!("{}: {why}", self.model))
    }
}
