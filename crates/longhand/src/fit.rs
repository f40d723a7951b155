//! A conversation that is made to fit: what every driver does, whatever its conversation comes from.

use longhand_archive::{Archive, SessionId};
use longhand_core::{
    Batch, Budget, Clear, Digest, Edit, EditKind, Handle, History, Message, Meter, Original, Plan,
    Seq, Settings, Tokens, clear, content, original, plan_with,
};
use longhand_dialect::Conversation;

use crate::recall;

/// A conversation with the batches that hold for it.
#[derive(Clone, Copy)]
pub struct Fitting<'f> {
    /// The conversation, numbered.
    pub conversation: &'f Conversation,
    /// The live batches of its path, oldest first.
    pub live: &'f [Batch],
    /// Entries that stay in the window whatever happens.
    pub pins: &'f [Seq],
    /// What the request takes outside its messages.
    pub fixed: Tokens,
    /// Counts tokens.
    pub meter: &'f dyn Meter,
}

impl<'f> Fitting<'f> {
    fn history(&self) -> History<'f> {
        let Self { live, pins, .. } = *self;
        History { live, pins, ..self.conversation.history(self.fixed) }
    }

    /// What to change so that it fits.
    pub fn plan(&self, budget: &Budget, settings: &Settings, digest: &dyn Digest) -> Plan {
        plan_with(&self.history(), budget, settings, self.meter, digest)
    }

    /// What to change to clear old uses of tools; `None` if there is nothing to clear.
    pub fn cleared(&self, rule: &Clear) -> Option<Plan> {
        let plan = clear(&self.history(), rule, self.meter);
        (!plan.is_noop()).then_some(plan)
    }

    /// A batch as it is to be committed: with what it takes out of sight and the archive has in another
    /// form, since a client may send back more than it was given.
    ///
    /// `is_form` says whether the archive has a message byte for byte, where that is known.
    pub fn with_variants(
        &self,
        batch: &Batch,
        archive: &dyn Archive,
        session: SessionId,
        is_form: impl Fn(Seq, &Message) -> Option<bool>,
    ) -> Batch {
        let path = self.conversation.path();
        let variant = |edit: &Edit| -> Option<(Handle, Original)> {
            let (EditKind::Stub(place) | EditKind::Clip(place)) = edit.kind() else { return None };
            let (message, part) = path.find(place)?;
            if is_form(place.entry, &path.messages[message]) == Some(true) {
                return None;
            }
            let archived = recall::part(archive, session, place).ok().flatten();
            let sent = content(&path.messages[message].parts[part]);
            if archived.is_some_and(|(_, archived)| archived == sent) {
                return None;
            }
            Some((edit.handle()?, original(&path, edit)?))
        };
        let variants = batch.edits.iter().filter_map(variant).collect();
        Batch { variants, ..batch.clone() }
    }
}
