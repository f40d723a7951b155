//! A client for language models, and a summariser that asks one.
//!
//! A name such as `anthropic/claude-haiku-4-5` picks an endpoint and a model; the client speaks three
//! wire formats through `longhand-dialect`, whole or streamed, and never waits without a limit.
//!
//! ```no_run
//! use longhand_model::{ClientLimits, Endpoints, ModelClient, ModelRequest};
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoints = Endpoints::known(|variable| std::env::var(variable).ok());
//! let model = endpoints.model("ollama/qwen3")?;
//! let client = ModelClient::new(ClientLimits::default());
//! let request = ModelRequest { stream: true, ..ModelRequest::new("Be brief.", "What is a ledger?") };
//! let reply = client.complete(&model, &request, &mut |text| print!("{text}")).await?;
//! println!("\n{:?}", reply.usage);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

#[cfg(test)]
mod any_text;
mod breaker;
mod clean;
mod client;
mod clock;
mod embedder;
mod endpoint;
mod error;
pub mod http;
mod pieces;
mod price;
mod prompt;
mod request;
mod retry;
mod secret;
mod sending;
mod spending;
mod summariser;

pub use client::{ClientLimits, ModelClient};
pub use clock::{Clock, SystemClock};
pub use embedder::{EmbedderError, ModelEmbedder};
pub use endpoint::{Api, Endpoint, Endpoints, Model, NameError, QualifiedModelName};
pub use error::{ModelError, Wait};
pub use longhand_dialect::{Overflow, Reply, Stop, Usage};
pub use longhand_meter::Price;
pub use price::{Prices, cost_micros};
pub use prompt::PROMPT_VERSION;
pub use request::ModelRequest;
pub use secret::Secret;
pub use spending::{NoMoney, Spending, SpendingBook};
pub use summariser::ModelSummariser;
