//! What is known of the models that requests name, looked up once for each name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use longhand::{SharedMeter, Tokens};
use longhand_dialect::{Conversation, Dialect};
use longhand_meter::{ImageProvider, ImageRule, MeterError, ModelFacts, Price};
use longhand_model::Prices;

use crate::Settings;
use crate::lock::lock;

/// How many names are remembered: they come from requests.
const NAMES_MAX: usize = 1_000;

/// The models that requests have named.
pub(crate) struct ModelCatalogue {
    /// The windows that the settings name, before those of the catalogue.
    windows: HashMap<String, Tokens>,
    prices: Prices,
    known: Mutex<HashMap<String, Arc<KnownModel>>>,
    /// Meters by vocabulary and picture formula, which many models share.
    meters: Mutex<HashMap<String, SharedMeter>>,
}

/// What is known of a model.
pub(crate) struct KnownModel {
    pub(crate) facts: ModelFacts,
    pub(crate) price: Option<Price>,
    /// The meter for requests in the other formats, and in Anthropic's.
    meters: [Mutex<Option<SharedMeter>>; 2],
}

impl ModelCatalogue {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            windows: settings.windows.clone(),
            prices: settings.prices.clone(),
            known: Mutex::default(),
            meters: Mutex::default(),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Arc<KnownModel> {
        let mut known = lock(&self.known);
        if let Some(model) = known.get(name) {
            return Arc::clone(model);
        }
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        let facts = ModelFacts::of(name);
        let facts = match self.windows.get(name) {
            Some(window) => facts.with_window(*window),
            None => facts,
        };
        let price = self.prices.named(name);
        let model = Arc::new(KnownModel { facts, price, meters: Default::default() });
        known.insert(name.to_owned(), Arc::clone(&model));
        model
    }

    /// The meter for a request.
    pub(crate) fn meter(&self, conversation: &Conversation) -> Result<SharedMeter, MeterError> {
        let model = conversation.model.as_deref();
        let known = self.get(model.unwrap_or_default());
        let is_anthropic = conversation.dialect == Dialect::Anthropic;
        let mut slot = lock(&known.meters[usize::from(is_anthropic)]);
        if let Some(meter) = &*slot {
            return Ok(Arc::clone(meter));
        }
        let provider = if is_anthropic { ImageProvider::Anthropic } else { ImageProvider::OpenAi };
        let (spec, images) = (known.facts.meter.clone(), ImageRule::for_model(provider, model));
        let name = format!("{spec} {images:?}");
        let mut meters = lock(&self.meters);
        let meter = match meters.get(&name) {
            Some(meter) => Arc::clone(meter),
            None => Arc::from(spec.open(images)?),
        };
        meters.insert(name, Arc::clone(&meter));
        *slot = Some(Arc::clone(&meter));
        Ok(meter)
    }
}
