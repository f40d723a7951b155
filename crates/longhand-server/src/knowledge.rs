//! What is known of models: from the catalogue and the settings, and from what their answers taught.

use longhand::driver::Sink;
use longhand::{Owner, Tokens};
use longhand_core::CachePrices;
use longhand_dialect::Options;

use crate::Settings;
use crate::cache_reach::CacheReach;
use crate::calibration::{self, Calibration};
use crate::models::ModelCatalogue;
use crate::request::source::RequestSource;
use crate::route::RequestFields;
use crate::store::Store;

/// What is known of the models that requests name.
pub(crate) struct ModelKnowledge {
    pub(crate) models: ModelCatalogue,
    pub(crate) calibration: Calibration,
    pub(crate) cache_reach: CacheReach,
    /// The most tokens of a request by the settings; if not set, the model's window counts.
    budget: Option<Tokens>,
}

impl ModelKnowledge {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            models: ModelCatalogue::new(settings),
            calibration: Calibration::default(),
            cache_reach: CacheReach::default(),
            budget: settings.budget,
        }
    }

    /// Whether the archive was asked what an owner's sessions taught about a model.
    pub(crate) fn is_loaded(&self, owner: Owner, model: &str) -> bool {
        self.calibration.knows(owner, model)
    }

    /// Reads from the archive what an owner's sessions taught about a model, once.
    pub(crate) async fn load(&self, store: &Store, owner: Owner, model: &str) {
        if !self.is_loaded(owner, model) {
            self.calibration.load(store.archive(), owner, model).await;
        }
    }

    /// The most that a request may have, if there is a most.
    pub(crate) fn limit(
        &self,
        owner: Owner,
        model: &str,
        fields: &RequestFields,
        options: &Options,
    ) -> Option<Tokens> {
        let reply = Tokens(fields.reply_max.unwrap_or(0));
        let window = || self.models.get(model).facts.input_limit(reply);
        let limit = self.budget.or_else(window);
        let limit = self.calibration.limit(owner, model, limit, reply.0);
        limit.into_iter().chain(options.compact_at).min()
    }

    /// The most that an admitted request may have, if there is a most.
    pub(crate) fn limit_of(&self, source: &RequestSource) -> Option<Tokens> {
        let owner = source.admitted.caller.owner();
        self.limit(owner, source.model(), &source.fields, &source.changes.options)
    }

    /// How long the provider of a request keeps its prefix if nobody asks for it, in milliseconds; `None` for a model
    /// without prices, which may run on a machine whose cache ends only when it is full.
    pub(crate) fn cache_life_ms(&self, source: &RequestSource) -> Option<u64> {
        let (owner, model) = (source.admitted.caller.owner(), source.model());
        self.models.get(model).price?;
        Some(self.cache_reach.life_ms(owner, model, source.sent().cache_life_ms()))
    }

    /// What a model's input costs from the provider's cache and without it.
    pub(crate) fn cache_prices(&self, model: &str) -> CachePrices {
        let price = self.models.get(model).price;
        price.map_or_else(CachePrices::default, |price| CachePrices {
            cached: price.cached_input,
            uncached: price.cache_write.max(price.input),
        })
    }
}

/// Keeps what a request taught about its model with its session, if that is recorded.
pub(crate) fn keep_learned(source: &RequestSource, learned: Option<String>) {
    if let Some(learned) = learned.filter(|_| source.is_recorded()) {
        let session = source.admitted.session();
        source.admitted.store.derive(session.id, &calibration::key(source.model()), learned);
    }
}
