//! A request that was understood.

use std::sync::Arc;

use hyper::body::Bytes;
use longhand::{Fitting, Tokens};
use longhand_core::{Batch, Budget, Meter, Scale, Seq, plan};
use longhand_dialect::{Conversation, Dialect, DialectError, Options, Reply, read};

use crate::archivist::Ticket;
use crate::held::Held;
use crate::lock::lock;
use crate::route::Fields;
use crate::store::{AdmittedRequest, Answer, LiveBatch};

pub(crate) type SharedMeter = Arc<dyn Meter + Send + Sync>;

/// What a request counts for by a meter, as far as that was asked for.
#[derive(Clone)]
pub(crate) struct Weights {
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

/// A request that was understood.
pub(crate) struct Asked {
    pub(crate) heard: Arc<AdmittedRequest>,
    pub(crate) purpose: Purpose,
    pub(crate) meter: SharedMeter,
    pub(crate) fields: Fields,
    /// The request as it came, and how many tokens it has more, if what was heard is its redacted twin.
    pub(crate) original: Option<(Conversation, Tokens)>,
    /// What it asks of its provider and gets from us.
    pub(crate) options: Options,
    /// Whether it offers our tool.
    pub(crate) recalls: bool,
    /// Whether thinking may be void before any edit, since calls of ours are hidden.
    pub(crate) drops_thinking: bool,
    /// The request without what it asks of its provider and with our tool, if that changes it.
    pub(crate) stripped: Option<Bytes>,
    /// The history before it that the provider holds, if it does.
    pub(crate) held: Option<Held>,
    /// Tell when it is archived.
    pub(crate) tickets: std::sync::Mutex<Vec<Option<Ticket>>>,
    /// Tells when the newest batch that was made for it is durable.
    pub(crate) batch_ticket: std::sync::Mutex<Option<Ticket>>,
}

impl Asked {
    pub(crate) fn conversation(&self) -> &Conversation {
        &self.heard.conversation
    }

    /// What a window is written from: the request's own bytes.
    pub(crate) fn shown(&self) -> &Conversation {
        self.original.as_ref().map_or(self.conversation(), |(original, _)| original)
    }

    /// Whether it is archived.
    pub(crate) fn is_recorded(&self) -> bool {
        !matches!(self.purpose, Purpose::Count | Purpose::Untaken)
    }

    /// Where it belongs; nowhere if it is only counted.
    pub(crate) fn session_name(&self) -> Option<&str> {
        let is_kept = self.purpose != Purpose::Count && !self.heard.store.forgets;
        is_kept.then_some(self.heard.session.name.as_str())
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.heard.conversation.dialect
    }

    pub(crate) fn model(&self) -> &str {
        self.heard.conversation.model.as_deref().unwrap_or_default()
    }

    /// The whole request by our count.
    pub(crate) fn total(&self) -> Tokens {
        self.since(0) + self.fixed() + Scale::new(&*self.meter).framing().reply
    }

    /// What every window of it has: tools, settings and the system prompt.
    pub(crate) fn overhead(&self) -> Tokens {
        let lead = self.conversation().path().lead;
        self.fixed() + self.since(0).saturating_sub(self.since(lead))
    }

    /// What a window counts for besides the messages up to the reach of its batches.
    pub(crate) fn beyond(&self, newest: &LiveBatch) -> Tokens {
        self.overhead() + self.since(self.conversation().path().after(newest.reach()))
    }

    /// What it has besides messages.
    pub(crate) fn fixed(&self) -> Tokens {
        let hidden = self.original.as_ref().map_or(Tokens::ZERO, |(_, hidden)| *hidden);
        hidden
            + self.weights(|weights, conversation| {
                let scale = Scale::new(&*self.meter);
                let attributes = || conversation.attributes.iter();
                let count = || attributes().map(|text| scale.text(&text.decode())).sum();
                *weights.fixed.get_or_insert_with(count)
            })
    }

    /// What the messages from the one of that index on count for.
    pub(crate) fn since(&self, first: usize) -> Tokens {
        self.weights(|weights, conversation| {
            let scale = Scale::new(&*self.meter);
            let messages = conversation.messages.iter().skip(weights.messages.len());
            weights.messages.extend(messages.map(|message| scale.message(message, Tokens::MAX)));
            weights.messages.iter().skip(first).copied().sum()
        })
    }

    /// Counts with what was counted before.
    fn weights<T>(&self, count: impl FnOnce(&mut Weights, &Conversation) -> T) -> T {
        let mut known = lock(&self.heard.weights);
        let new = || Weights { meter: Arc::clone(&self.meter), messages: Vec::new(), fixed: None };
        let mut weights = match known.take() {
            Some(weights) if Arc::ptr_eq(&weights.meter, &self.meter) => weights,
            _ => new(),
        };
        let counted = count(&mut weights, self.conversation());
        *known = Some(weights);
        counted
    }

    /// What a window of it counts for.
    pub(crate) fn weigh(&self, window: &str) -> Result<Tokens, DialectError> {
        let shown = read(window.as_bytes().to_vec(), Some(self.dialect()))?;
        let settings = longhand_core::Settings::default();
        let budget = Budget::of(Tokens::MAX);
        Ok(plan(&shown.history(self.fixed()), &budget, &settings, &*self.meter).tokens())
    }

    /// The request with the batches that hold for it.
    pub(crate) fn fitting<'a>(&'a self, live: &'a [Batch], pins: &'a [Seq]) -> Fitting<'a> {
        let (conversation, meter) = (self.conversation(), &*self.meter);
        Fitting { conversation, live, pins, fixed: self.fixed(), meter }
    }

    /// Reads what a model answered as what comes after the request; `None` if it is nothing.
    pub(crate) fn answer(&self, reply: Reply) -> Option<Answer> {
        let is_list = reply.message.trim_start().starts_with('[');
        let list = if is_list { reply.message } else { format!("[{}]", reply.message) };
        let messages = read(list.into_bytes(), Some(self.dialect())).ok()?.messages;
        let mut chain = self.heard.chain.clone();
        chain.extend(&messages);
        Some(Answer { messages, chain, text: reply.text, unread: None })
    }

    /// An answer without any message.
    pub(crate) fn no_answer(&self) -> Answer {
        let chain = self.heard.chain.clone();
        Answer { messages: Vec::new(), chain, text: String::new(), unread: None }
    }
}
