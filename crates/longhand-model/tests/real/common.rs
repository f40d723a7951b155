use std::sync::Arc;
use std::time::Duration;

use longhand_model::{Api, ClientLimits, Endpoint, Model, ModelClient, ModelRequest, Reply};
use tokio::runtime::Runtime;

pub(crate) const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Anthropic];

/// The window that `cargo xtask model` gives the model.
pub(crate) const WINDOW: u64 = 8_192;

/// The server's address, up to `/v1`.
pub(crate) fn server() -> Option<String> {
    let url = std::env::var("LONGHAND_MODEL_URL").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        println!("skipped: LONGHAND_MODEL_URL is not set; `cargo xtask test-model` sets it");
    }
    url
}

pub(crate) fn name(api: Api) -> &'static str {
    match api {
        Api::Chat => "chat",
        Api::Responses => "responses",
        Api::Anthropic => "anthropic",
    }
}

pub(crate) fn model(api: Api, url: &str) -> Model {
    let endpoint = Endpoint::new(name(api), api, url);
    Model { endpoint: Arc::new(endpoint), name: "smollm2-135m".to_owned() }
}

/// Nothing waits longer than this for one answer.
pub(crate) fn client(total: Duration) -> ModelClient {
    let limits = ClientLimits { first_byte: total, idle: total, total, ..ClientLimits::default() };
    ModelClient::new(limits)
}

/// Asks once and returns the answer with the text that came piece by piece.
pub(crate) fn complete(
    client: &ModelClient,
    model: &Model,
    request: &ModelRequest,
) -> (Result<Reply, longhand_model::ModelError>, Vec<String>) {
    let mut deltas = Vec::new();
    let mut note = |delta: &str| deltas.push(delta.to_owned());
    let reply = Runtime::new().unwrap().block_on(client.complete(model, request, &mut note));
    (reply, deltas)
}
