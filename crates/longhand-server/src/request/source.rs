//! What the windows of a request are made from.

use std::sync::{Arc, Mutex};

use longhand::{Fitting, Tokens};
use longhand_core::{Batch, Budget, Meter, Scale, Seq, plan};
use longhand_dialect::{Conversation, Dialect, DialectError, read};

use crate::archivist::Ticket;
use crate::lock::lock;
use crate::request::Recording;
use crate::request::admit::AdmittedRequest;
use crate::request::history::ProviderHistory;
use crate::request::parse::ProviderChanges;
use crate::request::twin::Twin;
use crate::route::RequestFields;
use crate::store::LiveBatch;
use crate::turns::Workers;

pub(crate) type SharedMeter = Arc<dyn Meter + Send + Sync>;

/// The size of a request by a meter, as far as it was counted.
#[derive(Clone)]
pub(crate) struct TokenCounts {
    pub(crate) meter: SharedMeter,
    /// Its messages, from the first on.
    pub(crate) messages: Vec<Tokens>,
    /// What it has besides messages.
    pub(crate) fixed: Option<Tokens>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The conversation goes on.
    Turn,
    /// A side call: it says nothing new, and must not change what the session sends.
    Aside,
    /// To be counted; it is not archived.
    Count,
    /// The conversation goes on, but the archive cannot take it.
    Untaken,
}

impl Purpose {
    pub(crate) fn of(recording: Recording, is_aside: bool) -> Self {
        match (recording, is_aside) {
            (Recording::Counted, _) => Self::Count,
            (Recording::Untaken, _) => Self::Untaken,
            (Recording::Archived, true) => Self::Aside,
            (Recording::Archived, false) => Self::Turn,
        }
    }
}

/// What the windows of an admitted request are made from, as long as the request takes.
pub(crate) struct WindowSource {
    /// Declared before the admitted request, whose buffer is used again once nobody else holds the conversation.
    pub(crate) twin: Twin<Arc<Conversation>>,
    pub(crate) admitted: Arc<AdmittedRequest>,
    pub(crate) purpose: Purpose,
    pub(crate) meter: SharedMeter,
    /// Where it is planned.
    pub(crate) workers: Workers,
    pub(crate) fields: RequestFields,
    /// How many tokens more its sent form has than its stored one.
    pub(crate) hidden: Tokens,
    pub(crate) changes: ProviderChanges,
    /// The history before it that the provider holds, if it does.
    pub(crate) history: Option<ProviderHistory>,
    /// Tell when it is archived.
    pub(crate) tickets: Mutex<Vec<Option<Ticket>>>,
    /// Tells when the newest batch that was made for it is durable.
    pub(crate) batch_ticket: Mutex<Option<Ticket>>,
}

impl WindowSource {
    /// The conversation as it is stored.
    pub(crate) fn conversation(&self) -> &Conversation {
        self.twin.stored()
    }

    /// The conversation as it is sent: windows are written from its bytes.
    pub(crate) fn sent(&self) -> &Conversation {
        self.twin.sent()
    }

    /// Whether it is archived.
    pub(crate) fn is_recorded(&self) -> bool {
        !matches!(self.purpose, Purpose::Count | Purpose::Untaken)
    }

    /// The session as clients are told its name; `None` if nothing of the request is kept in one.
    pub(crate) fn session_name(&self) -> Option<&str> {
        let is_kept = self.purpose != Purpose::Count && !self.admitted.store.forgets;
        is_kept.then_some(self.admitted.session.name.as_str())
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.admitted.dialect()
    }

    pub(crate) fn model(&self) -> &str {
        self.admitted.model()
    }

    /// The size of the request by our count.
    pub(crate) fn total(&self) -> Tokens {
        self.since(0) + self.fixed() + Scale::new(&*self.meter).framing().reply
    }

    /// What every window of it has: tools, settings and the system prompt.
    pub(crate) fn overhead(&self) -> Tokens {
        let lead = self.conversation().path().lead;
        self.fixed() + self.since(0).saturating_sub(self.since(lead))
    }

    /// What a window has besides the messages up to the reach of its batches.
    pub(crate) fn beyond(&self, newest: &LiveBatch) -> Tokens {
        self.overhead() + self.since(self.conversation().path().after(newest.reach()))
    }

    /// What it has besides messages.
    pub(crate) fn fixed(&self) -> Tokens {
        let counted = self.count(|counts, conversation| {
            let scale = Scale::new(&*self.meter);
            let attributes = || conversation.attributes.iter();
            let count = || attributes().map(|text| scale.text(&text.decode())).sum();
            *counts.fixed.get_or_insert_with(count)
        });
        self.hidden + counted
    }

    /// The size of the messages from the one of that index on.
    pub(crate) fn since(&self, first: usize) -> Tokens {
        self.count(|counts, conversation| {
            let scale = Scale::new(&*self.meter);
            let messages = conversation.messages.iter().skip(counts.messages.len());
            counts.messages.extend(messages.map(|message| scale.message(message, Tokens::MAX)));
            counts.messages.iter().skip(first).copied().sum()
        })
    }

    /// Counts on from what was counted before by the same meter.
    fn count<T>(&self, count: impl FnOnce(&mut TokenCounts, &Conversation) -> T) -> T {
        let mut known = lock(&self.admitted.counts);
        let new =
            || TokenCounts { meter: Arc::clone(&self.meter), messages: Vec::new(), fixed: None };
        let mut counts = match known.take() {
            Some(counts) if Arc::ptr_eq(&counts.meter, &self.meter) => counts,
            _ => new(),
        };
        let counted = count(&mut counts, self.conversation());
        *known = Some(counts);
        counted
    }

    /// The size of a window of it.
    pub(crate) fn weigh(&self, window: &str) -> Result<Tokens, DialectError> {
        let shown = read(window.as_bytes().to_vec(), Some(self.dialect()))?;
        let settings = longhand_core::PlanSettings::default();
        let budget = Budget::of(Tokens::MAX);
        Ok(plan(&shown.history(self.fixed()), &budget, &settings, &*self.meter).tokens())
    }

    /// The request with the batches that hold for it.
    pub(crate) fn fitting<'a>(&'a self, live: &'a [Batch], pins: &'a [Seq]) -> Fitting<'a> {
        let (conversation, meter) = (self.conversation(), &*self.meter);
        Fitting::of(conversation, live, pins, self.fixed(), meter)
    }
}
