//! What is known of the models that requests name, looked up once for each name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use longhand_dialect::{Conversation, Dialect};
use longhand_meter::{ImageRule, MeterError, ModelFacts, Price, Provider};

use crate::Settings;
use crate::asked::SharedMeter;
use crate::lock::lock;

/// How many names are remembered: they come from requests.
const NAMES_MAX: usize = 1_000;

/// The models that requests have named.
#[derive(Default)]
pub(crate) struct Models {
    known: Mutex<HashMap<String, Arc<KnownModel>>>,
    /// By vocabulary and picture formula, which many models share.
    meters: Mutex<HashMap<String, SharedMeter>>,
}

/// What is known of a model.
pub(crate) struct KnownModel {
    pub(crate) facts: ModelFacts,
    pub(crate) price: Option<Price>,
    /// For requests in the format of Anthropic, and in the others.
    meters: [Mutex<Option<SharedMeter>>; 2],
}

impl Models {
    pub(crate) fn get(&self, name: &str, settings: &Settings) -> Arc<KnownModel> {
        let mut known = lock(&self.known);
        if let Some(model) = known.get(name) {
            return Arc::clone(model);
        }
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        let facts = ModelFacts::of(name);
        let facts = match settings.windows.get(name) {
            Some(window) => facts.with_window(*window),
            None => facts,
        };
        let price = settings.prices.named(name);
        let model = Arc::new(KnownModel { facts, price, meters: Default::default() });
        known.insert(name.to_owned(), Arc::clone(&model));
        model
    }

    /// The meter for a request.
    pub(crate) fn meter(
        &self,
        conversation: &Conversation,
        settings: &Settings,
    ) -> Result<SharedMeter, MeterError> {
        let model = conversation.model.as_deref();
        let known = self.get(model.unwrap_or_default(), settings);
        let is_anthropic = conversation.dialect == Dialect::Anthropic;
        let mut own = lock(&known.meters[usize::from(is_anthropic)]);
        if let Some(meter) = &*own {
            return Ok(Arc::clone(meter));
        }
        let provider = if is_anthropic { Provider::Anthropic } else { Provider::OpenAi };
        let (spec, images) = (known.facts.meter.clone(), ImageRule::for_model(provider, model));
        let name = format!("{spec} {images:?}");
        let mut meters = lock(&self.meters);
        let meter = match meters.get(&name) {
            Some(meter) => Arc::clone(meter),
            None => Arc::from(spec.open(images)?),
        };
        meters.insert(name, Arc::clone(&meter));
        *own = Some(Arc::clone(&meter));
        Ok(meter)
    }
}
