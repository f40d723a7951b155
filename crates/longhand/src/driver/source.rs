//! What the windows of a request are made from.

use std::sync::{Arc, Mutex};

use longhand_core::{Batch, Budget, Clear, Meter, Scale, Seq, Tokens, plan};
use longhand_dialect::{Conversation, Dialect, DialectError, read};

use super::live_batch::LiveBatch;
use super::lock;
use super::placed::{PlacedRequest, RequestPlace};
use super::sink::Ticket;
use super::twin::Twin;
use crate::SharedMeter;
use crate::driver::Fitting;

/// The size of a request by a meter, as far as it was counted.
#[derive(Clone)]
pub struct TokenCounts {
    /// The meter.
    pub meter: SharedMeter,
    /// Its messages, from the first on.
    pub messages: Vec<Tokens>,
    /// What it has besides messages.
    pub fixed: Option<Tokens>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The conversation goes on.
    Turn,
    /// A side call: it says nothing new, and must not change what the session sends.
    Aside,
    /// To be counted; it is not archived.
    Count,
    /// The conversation goes on, but the archive cannot take it.
    Untaken,
}

/// What the windows of a placed request are made from, as long as the request takes.
pub struct WindowSource {
    /// Declared before the placed request, whose buffer is used again once nobody else holds the conversation.
    pub twin: Twin<Arc<Conversation>>,
    /// The request.
    pub placed: Arc<PlacedRequest>,
    /// How many of its messages the session had.
    pub known: usize,
    /// What it is for.
    pub purpose: Purpose,
    /// Counts its tokens.
    pub meter: SharedMeter,
    /// How many tokens more its sent form has than its stored one.
    pub hidden: Tokens,
    /// How long nothing was sent of its session before it, in milliseconds; `None` if that is not known.
    pub idle_ms: Option<u64>,
    /// Which old uses of tools it asks to have cleared.
    pub clear: Option<Clear>,
    /// Whether what is left out can be opened: nothing can be where nothing is kept.
    pub has_handles: bool,
    /// Whether the session was compared with the archive for this request.
    pub is_checked: bool,
    /// Tells when the newest batch that was made for it is durable.
    pub batch_ticket: Mutex<Option<Ticket>>,
}

impl WindowSource {
    /// A request in its place, without anything special.
    pub fn new(place: RequestPlace, purpose: Purpose, meter: SharedMeter, hidden: Tokens) -> Self {
        let RequestPlace { placed, twin, known, idle_ms, .. } = place;
        Self {
            twin,
            placed,
            known,
            purpose,
            meter,
            hidden,
            idle_ms,
            clear: None,
            has_handles: true,
            is_checked: false,
            batch_ticket: Mutex::default(),
        }
    }

    /// The conversation as it is stored.
    pub fn conversation(&self) -> &Conversation {
        self.twin.stored()
    }

    /// The conversation as it is sent: windows are written from its bytes.
    pub fn sent(&self) -> &Conversation {
        self.twin.sent()
    }

    /// Whether it is archived.
    pub fn is_recorded(&self) -> bool {
        !matches!(self.purpose, Purpose::Count | Purpose::Untaken)
    }

    /// The format of the conversation.
    pub fn dialect(&self) -> Dialect {
        self.placed.dialect()
    }

    /// The model that it names.
    pub fn model(&self) -> &str {
        self.placed.model()
    }

    /// The size of the request by our count.
    pub fn total(&self) -> Tokens {
        CountedRequest::total(self)
    }

    /// What every window of it has: tools, settings and the system prompt.
    pub fn overhead(&self) -> Tokens {
        CountedRequest::overhead(self)
    }

    /// Counts on from what was counted before by the same meter.
    fn count<T>(&self, count: impl FnOnce(&mut TokenCounts, &Conversation) -> T) -> T {
        let mut known = lock(&self.placed.counts);
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

    /// Waits until the newest batch that was made for it is durable. Says whether it is; one that was refused is not.
    pub async fn is_durable(&self) -> bool {
        let ticket = lock(&self.batch_ticket).take();
        match ticket {
            Some(ticket) => ticket.await == Ok(true),
            None => true,
        }
    }
}

/// A request whose windows are planned, and what is known of its size.
pub(crate) trait CountedRequest {
    /// The conversation as it is stored.
    fn conversation(&self) -> &Conversation;

    /// The conversation as it is sent: windows are written from its bytes.
    fn sent(&self) -> &Conversation {
        self.conversation()
    }

    fn meter(&self) -> &dyn Meter;

    /// What it has besides messages.
    fn fixed(&self) -> Tokens;

    /// The size of the messages from the one of that index on.
    fn since(&self, first: usize) -> Tokens;

    fn purpose(&self) -> Purpose {
        Purpose::Turn
    }

    /// How long nothing was sent of its conversation before it, in milliseconds; `None` if that is not known.
    fn idle_ms(&self) -> Option<u64> {
        None
    }

    /// Which old uses of tools are to be cleared.
    fn clear(&self) -> Option<&Clear> {
        None
    }

    /// Whether what is left out can be opened.
    fn has_handles(&self) -> bool {
        true
    }

    fn model(&self) -> &str {
        self.conversation().model.as_deref().unwrap_or_default()
    }

    /// The size of the request by our count.
    fn total(&self) -> Tokens {
        self.since(0) + self.fixed() + Scale::new(self.meter()).framing().reply
    }

    /// What every window of it has: tools, settings and the system prompt.
    fn overhead(&self) -> Tokens {
        let lead = self.conversation().path().lead;
        self.fixed() + self.since(0).saturating_sub(self.since(lead))
    }

    /// What a window has besides the messages up to the reach of its batches.
    fn beyond(&self, newest: &LiveBatch) -> Tokens {
        self.overhead() + self.since(self.conversation().path().after(newest.reach()))
    }

    /// The size of a window of it.
    fn weigh(&self, window: &str) -> Result<Tokens, DialectError> {
        let shown = read(window.as_bytes().to_vec(), Some(self.conversation().dialect))?;
        let settings = longhand_core::PlanSettings::default();
        let budget = Budget::of(Tokens::MAX);
        Ok(plan(&shown.history(self.fixed()), &budget, &settings, self.meter()).tokens())
    }

    /// The request with the batches that hold for it.
    fn fitting<'a>(&'a self, live: &'a [Batch], pins: &'a [Seq]) -> Fitting<'a> {
        Fitting::of(self.conversation(), live, pins, self.fixed(), self.meter())
    }
}

impl CountedRequest for WindowSource {
    fn conversation(&self) -> &Conversation {
        self.twin.stored()
    }

    fn sent(&self) -> &Conversation {
        self.twin.sent()
    }

    fn meter(&self) -> &dyn Meter {
        &*self.meter
    }

    fn fixed(&self) -> Tokens {
        let counted = self.count(|counts, conversation| {
            let scale = Scale::new(&*self.meter);
            let attributes = || conversation.attributes.iter();
            let count = || attributes().map(|text| scale.text(&text.decode())).sum();
            *counts.fixed.get_or_insert_with(count)
        });
        self.hidden + counted
    }

    fn since(&self, first: usize) -> Tokens {
        self.count(|counts, conversation| {
            let scale = Scale::new(&*self.meter);
            let messages = conversation.messages.iter().skip(counts.messages.len());
            counts.messages.extend(messages.map(|message| scale.message(message, Tokens::MAX)));
            counts.messages.iter().skip(first).copied().sum()
        })
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn idle_ms(&self) -> Option<u64> {
        self.idle_ms
    }

    fn clear(&self) -> Option<&Clear> {
        self.clear.as_ref()
    }

    fn has_handles(&self) -> bool {
        self.has_handles
    }
}
