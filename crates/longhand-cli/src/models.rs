//! Models as they are configured.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use longhand::{Archive, Extractive, Summariser};
use longhand_archive::{Reserved, Wish};
use longhand_model::{
    Api, ClientLimits, Endpoint, Endpoints, Model, ModelClient, ModelEmbedder, ModelSummariser,
    NoMoney, Price, Prices, Secret, Spending, SpendingBook,
};
use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::hinted;

/// The most that summaries may spend in an hour where nothing is said, in dollars.
const SPENDING_DEFAULT: f64 = 1.0;

/// What is needed to ask models.
pub(crate) struct ModelSetup {
    pub(crate) runtime: Runtime,
    pub(crate) client: Arc<ModelClient>,
    /// A client without a breaker, for `chat`: the user decides when to try again.
    pub(crate) patient: ModelClient,
    pub(crate) endpoints: Endpoints,
    pub(crate) prices: Arc<Prices>,
    spending: Arc<Spending>,
}

impl ModelSetup {
    /// Reads the settings. The cost of summaries is kept in the archive.
    pub(crate) fn new(config: &Config, archive: Arc<dyn Archive>) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let usd = config.number("models.summary_usd_per_hour").unwrap_or(SPENDING_DEFAULT);
        Ok(Self {
            runtime: runtime.context("cannot start the network thread")?,
            client: Arc::new(ModelClient::new(ClientLimits::default())),
            patient: ModelClient::new(ClientLimits {
                failures_max: u32::MAX,
                ..ClientLimits::default()
            }),
            endpoints: endpoints(config)?,
            prices: Arc::new(prices(config)),
            spending: Arc::new(Spending::per_hour(
                (usd * 1_000_000.0) as u64,
                Arc::new(ArchiveBook(archive)),
            )),
        })
    }

    /// Finds a model by its name.
    pub(crate) fn model(&self, name: &str) -> Result<Model> {
        self.endpoints.model(name).map_err(|error| {
            hinted(error.to_string(), "`longhand doctor` shows the endpoints and their keys")
        })
    }

    /// Asks a model what texts mean, within the same cap as summaries.
    pub(crate) fn embedder(&self, name: &str) -> Result<ModelEmbedder> {
        let (model, handle) = (self.model(name)?, self.runtime.handle().clone());
        Ok(ModelEmbedder::on(Arc::clone(&self.client), model, handle)
            .with_prices(Arc::clone(&self.prices))
            .with_spending(Arc::clone(&self.spending)))
    }

    /// Summarisers in the order they are tried; a model always has the built-in one behind it.
    pub(crate) fn summarisers(
        &self,
        names: &[String],
        instructions: Option<&str>,
    ) -> Result<Vec<Arc<dyn Summariser>>> {
        let mut ladder: Vec<Arc<dyn Summariser>> = Vec::new();
        for name in names.iter().filter(|name| !is_built_in(name)) {
            let handle = self.runtime.handle().clone();
            let mut summariser =
                ModelSummariser::on(Arc::clone(&self.client), self.model(name)?, handle)
                    .with_prices(Arc::clone(&self.prices))
                    .with_spending(Arc::clone(&self.spending));
            if let Some(instructions) = instructions {
                summariser = summariser.with_instructions(instructions);
            }
            ladder.push(Arc::new(summariser));
        }
        ladder.push(Arc::new(Extractive));
        Ok(ladder)
    }
}

/// Keeps what was spent in an archive, so that the cap holds for all processes that share it.
struct ArchiveBook(Arc<dyn Archive>);

impl SpendingBook for ArchiveBook {
    fn reserve(&self, at_ms: i64, micros: u64, cap_micros: u64) -> Result<u64, NoMoney> {
        match self.0.reserve(&Wish { at_ms, micros, cap_micros }) {
            Ok(Reserved::Granted(number)) => Ok(number),
            Ok(Reserved::Full { until_ms }) => Err(NoMoney::Full { until_ms }),
            Err(error) => Err(NoMoney::Book(error.to_string())),
        }
    }

    fn settle(&self, reservation: u64, micros: u64) {
        // What is not settled counts for what was reserved.
        let _ = self.0.settle(reservation, micros);
    }
}

impl std::fmt::Debug for ArchiveBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveBook").finish_non_exhaustive()
    }
}

/// Whether a summariser needs no model.
pub(crate) fn is_built_in(name: &str) -> bool {
    matches!(name, "extractive" | "none")
}

fn endpoints(config: &Config) -> Result<Endpoints> {
    let mut endpoints = Endpoints::known(|variable| std::env::var(variable).ok());
    for name in config.names("endpoints") {
        let field = |key: &str| config.text(&format!("endpoints.{name}.{key}"));
        let before = endpoints.get(&name).cloned();
        let Some(url) = field("url").or(before.as_ref().map(|endpoint| endpoint.base_url.as_str()))
        else {
            bail!("endpoint {name} has no url: endpoints.{name}.url");
        };
        let api = match field("api") {
            Some(api) => api.parse::<Api>().map_err(anyhow::Error::msg)?,
            None => before.as_ref().map_or(Api::Chat, |endpoint| endpoint.api),
        };
        let mut endpoint = Endpoint::new(&name, api, url);
        let (variable, file) = (field("key_env"), field("key_file"));
        if let Some(variable) = variable {
            endpoint.key = std::env::var(variable).ok().and_then(|key| Secret::new(&key));
            endpoint.key_variable = Some(variable.to_owned());
        }
        if let Some(path) = file {
            let key = std::fs::read_to_string(path)
                .with_context(|| format!("endpoint {name}: cannot read its key from {path}"))?;
            endpoint.key = Secret::new(key.trim());
        }
        endpoints.insert(endpoint);
    }
    Ok(endpoints)
}

/// The table with what is configured, in dollars for a million tokens.
pub(crate) fn prices(config: &Config) -> Prices {
    let mut prices = Prices::default();
    for name in config.names("prices") {
        let micros = |key: &str| {
            let usd = config.number(&format!("prices.{name}.{key}"))?;
            Some((usd * 1_000_000.0) as u64)
        };
        let input = micros("input").unwrap_or(0);
        let price = Price {
            input,
            cached_input: micros("cached_input").unwrap_or(0),
            // Providers that charge for writing to a cache charge a quarter more.
            cache_write: micros("cache_write").unwrap_or(input + input / 4),
            output: micros("output").unwrap_or(0),
        };
        prices.set(&name, price);
    }
    prices
}
