//! Models as they are configured.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use longhand::{Extractive, Summariser};
use longhand_model::{
    Api, Client, Endpoint, Endpoints, Limits, Model, ModelSummariser, Price, Prices, Secret,
    Spending,
};
use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::hinted;

/// The most that summaries may spend in an hour where nothing is said, in dollars.
const SPENDING_DEFAULT: f64 = 1.0;

/// What is needed to ask models.
pub(crate) struct Models {
    pub(crate) runtime: Runtime,
    pub(crate) client: Arc<Client>,
    pub(crate) endpoints: Endpoints,
    pub(crate) prices: Arc<Prices>,
    spending: Arc<Spending>,
}

impl Models {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let usd = config.number("models.summary_usd_per_hour").unwrap_or(SPENDING_DEFAULT);
        Ok(Self {
            runtime: runtime.context("cannot start the network's thread")?,
            client: Arc::new(Client::new(Limits::default())?),
            endpoints: endpoints(config)?,
            prices: Arc::new(prices(config)),
            spending: Arc::new(Spending::per_hour((usd * 1_000_000.0) as u64)),
        })
    }

    /// Finds a model by its name.
    pub(crate) fn model(&self, name: &str) -> Result<Model> {
        self.endpoints.model(name).map_err(|error| {
            hinted(error.to_string(), "`longhand doctor` shows the endpoints and their keys")
        })
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
            let mut own = ModelSummariser::on(Arc::clone(&self.client), self.model(name)?, handle)
                .with_prices(Arc::clone(&self.prices))
                .with_spending(Arc::clone(&self.spending));
            if let Some(instructions) = instructions {
                own = own.with_instructions(instructions);
            }
            ladder.push(Arc::new(own));
        }
        ladder.push(Arc::new(Extractive));
        Ok(ladder)
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
        let Some(url) = field("url").or(before.as_ref().map(|own| own.base_url.as_str())) else {
            bail!("endpoint {name} has no url: endpoints.{name}.url");
        };
        let api = match field("api") {
            Some(api) => api.parse::<Api>().map_err(anyhow::Error::msg)?,
            None => before.as_ref().map_or(Api::Chat, |own| own.api),
        };
        let mut endpoint = Endpoint::new(&name, api, url);
        let (variable, file) = (field("key_env"), field("key_file"));
        let wants_key = variable.is_some() || file.is_some();
        if wants_key && !config.may_use_keys() && !endpoint.is_loopback() {
            return Err(hinted(
                format!(
                    "endpoint {name} takes a key to another host, and its file came with a folder"
                ),
                "put it into your own longhand.toml, in the platform's folder for settings",
            ));
        }
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
