//! Makes a conversation fit: the part that files, sessions and the proxy share.

use longhand_core::{
    Batch, Budget, CachePrices, Clear, Digest, Economy, Edit, EditKind, History, Message, Meter,
    Place, Plan, PlanSettings, Scale, Seq, Tokens, brought_back, clear, clipped_on_entry, content,
    handed_over, original, plan_with, project, requests,
};
use longhand_dialect::{Conversation, Dialect};
use rustc_hash::FxHashMap;

/// A conversation with the batches that hold for it, and what counts its tokens.
#[derive(Clone, Copy)]
pub struct Fitting<'f> {
    history: History<'f>,
    meter: &'f dyn Meter,
}

impl<'f> Fitting<'f> {
    /// A conversation that is numbered, with the live batches of its path and the entries that always stay in the
    /// window. `fixed` is what the request takes outside its messages.
    pub fn of(
        conversation: &'f Conversation,
        live: &'f [Batch],
        pins: &'f [Seq],
        fixed: Tokens,
        meter: &'f dyn Meter,
    ) -> Self {
        Self::new(History { live, pins, ..conversation.history(fixed) }, meter)
    }

    /// A conversation that is no request of its own.
    pub fn new(history: History<'f>, meter: &'f dyn Meter) -> Self {
        Self { history, meter }
    }

    /// What to change so that it fits.
    pub fn plan(&self, budget: &Budget, settings: &PlanSettings, digest: &dyn Digest) -> Plan {
        plan_with(&self.history, budget, settings, self.meter, digest)
    }

    /// The plan whose batch is due, now that the window has `shown` tokens; `None` as long as there is room, or
    /// if no batch is worth the break of the prefix.
    pub fn due(
        &self,
        shown: Tokens,
        budget: &Budget,
        settings: &PlanSettings,
        digest: &dyn Digest,
    ) -> Option<Plan> {
        if !self.is_due(shown, budget, settings) {
            return None;
        }
        let plan = self.plan(budget, settings, digest);
        (!plan.is_noop() && self.is_worth(&plan, shown)).then_some(plan)
    }

    /// Whether a plan is to be made for a window of `shown` tokens: it is full, or a new result is larger
    /// than its share.
    pub fn is_due(&self, shown: Tokens, budget: &Budget, settings: &PlanSettings) -> bool {
        shown > budget.high()
            || clipped_on_entry(&self.history, budget, settings, &Scale::new(self.meter)).is_some()
    }

    /// Whether a plan is worth the break of the prefix: it fits, or saves at least a tenth.
    pub fn is_worth(&self, plan: &Plan, shown: Tokens) -> bool {
        let saves = plan.tokens().0.saturating_mul(10) < shown.0.saturating_mul(9);
        plan.fits() || self.history.live.is_empty() || saves
    }

    /// A fold of everything, for whoever goes on without the messages.
    pub fn handed_over(&self, limit: Tokens, digest: &dyn Digest) -> Option<Batch> {
        handed_over(&self.history, limit, self.meter, digest)
    }

    /// A batch that brings back what the newest results refer to and the live batches leave out.
    pub fn brought_back(&self, bytes_max: usize) -> Option<Batch> {
        let History { path, live, wire, .. } = &self.history;
        brought_back(path, &project(path, live, *wire), bytes_max)
    }

    /// The prices of coming requests: the conversation has grown to `total` tokens, with `overhead` in every request.
    pub fn economy(&self, prices: CachePrices, total: Tokens, overhead: Tokens) -> Economy {
        let requests = requests(self.history.path.messages);
        Economy::of(prices, total.saturating_sub(overhead), requests)
    }

    /// What to change to clear old uses of tools; `None` if there is nothing to clear.
    pub fn cleared(&self, rule: &Clear) -> Option<Plan> {
        let plan = clear(&self.history, rule, self.meter);
        (!plan.is_noop()).then_some(plan)
    }

    /// The entries of which a batch hides something that the archive may have in another form: a client may send
    /// back more than it was given.
    ///
    /// `is_form` says whether the archive has a message byte for byte; `None` if that is not known.
    pub fn unsure(
        &self,
        batch: &Batch,
        is_form: impl Fn(Seq, &Message) -> Option<bool>,
    ) -> Vec<Seq> {
        let path = &self.history.path;
        let unsure = batch.edits.iter().filter_map(|edit| {
            let place = hidden_place(edit)?;
            let (message, _) = path.find(place)?;
            let is_same = is_form(place.entry, &path.messages[message]) == Some(true);
            (!is_same).then_some(place.entry)
        });
        unsure.collect()
    }

    /// Adds the originals that a batch hides of entries that were unsure and that the archive has in another form, or
    /// not at all.
    pub fn with_variants(
        &self,
        batch: &Batch,
        unsure: &[Seq],
        archived: &FxHashMap<Seq, (Dialect, Message)>,
    ) -> Batch {
        let path = &self.history.path;
        let variants = batch.edits.iter().filter_map(|edit| {
            let place = hidden_place(edit).filter(|place| unsure.contains(&place.entry))?;
            let (message, part) = path.find(place)?;
            let content_of = |(_, message): &(Dialect, Message)| {
                Some(content(&message.parts[message.part_index(place.part)?]))
            };
            let sent = content(&path.messages[message].parts[part]);
            if archived.get(&place.entry).and_then(content_of).is_some_and(|known| known == sent) {
                return None;
            }
            Some((edit.handle()?, original(path, edit)?))
        });
        Batch { variants: variants.collect(), ..batch.clone() }
    }
}

/// The part that an edit takes out of sight, if it is one part.
fn hidden_place(edit: &Edit) -> Option<Place> {
    match edit.kind() {
        EditKind::Stub(place) | EditKind::Clip(place) => Some(place),
        EditKind::Fold(_) | EditKind::Insert => None,
    }
}
