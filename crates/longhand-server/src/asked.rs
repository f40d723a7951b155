//! A request that was understood.

use std::sync::Arc;

use axum::body::Bytes;
use longhand::Tokens;
use longhand_core::{Budget, Digest, Meter, Plan, Policy, Scale, clear, plan, plan_with};
use longhand_dialect::{Conversation, Dialect, DialectError, Options, Reply, read};

use crate::archivist::Ticket;
use crate::held::Held;
use crate::recall::Behind;
use crate::recorder::{Answer, Heard};
use crate::route::Fields;
use crate::window::lock;

pub(crate) type SharedMeter = Arc<dyn Meter + Send + Sync>;

/// A request that was understood.
pub(crate) struct Asked {
    pub(crate) heard: Arc<Heard>,
    /// Where it belongs; nowhere if it is only counted.
    pub(crate) session: Option<String>,
    /// Whether it is a side call, whose answer does not go on in the session.
    pub(crate) aside: bool,
    pub(crate) meter: SharedMeter,
    /// What it has besides messages.
    pub(crate) fixed: Tokens,
    pub(crate) fields: Fields,
    /// What it asks of its provider and gets from us.
    pub(crate) options: Options,
    /// Whether it offers our tool.
    pub(crate) recalls: bool,
    /// Whether thinking may be void before any edit, since calls of ours are hidden.
    pub(crate) drops_thinking: bool,
    /// What the provider has of its answer and the client has not.
    pub(crate) behind: std::sync::Mutex<Behind>,
    /// The request without what it asks of its provider and with our tool, if that changes it.
    pub(crate) stripped: Option<Bytes>,
    /// The history before it that the provider holds, if it does.
    pub(crate) held: Option<Held>,
    /// Tell when it is archived.
    pub(crate) tickets: std::sync::Mutex<Vec<Option<Ticket>>>,
}

impl Asked {
    pub(crate) fn conversation(&self) -> &Conversation {
        &self.heard.conversation
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.heard.conversation.dialect
    }

    pub(crate) fn model(&self) -> &str {
        self.heard.conversation.model.as_deref().unwrap_or_default()
    }

    /// The whole request by our count.
    pub(crate) fn total(&self) -> Tokens {
        self.since(0) + self.fixed + Scale::new(&*self.meter).framing().reply
    }

    /// What every window of it has: tools, settings and the system prompt.
    pub(crate) fn overhead(&self) -> Tokens {
        let lead = self.heard.thread.lead;
        self.fixed + self.since(0).saturating_sub(self.since(lead))
    }

    /// What the messages from the one of that index on count for.
    pub(crate) fn since(&self, first: usize) -> Tokens {
        let scale = Scale::new(&*self.meter);
        let mut known = lock(&self.heard.weights);
        let mut weights = match known.take() {
            Some((meter, weights)) if Arc::ptr_eq(&meter, &self.meter) => weights,
            _ => Vec::new(),
        };
        let messages = self.conversation().messages.iter().skip(weights.len());
        weights.extend(messages.map(|message| scale.message(message, Tokens::MAX)));
        let own = weights.iter().skip(first).copied().sum();
        *known = Some((Arc::clone(&self.meter), weights));
        own
    }

    /// What a window of it counts for.
    pub(crate) fn weigh(&self, window: &str) -> Result<Tokens, DialectError> {
        let shown = read(window.as_bytes().to_vec(), Some(self.dialect()))?;
        let settings = longhand_core::Settings::default();
        let budget = Budget::of(Tokens::MAX);
        Ok(plan(&shown.history(self.fixed), &budget, &settings, &*self.meter).tokens())
    }

    pub(crate) fn plan(&self, budget: &Budget, policy: Policy, digest: &dyn Digest) -> Plan {
        let settings = longhand_core::Settings { policy, ..longhand_core::Settings::default() };
        let history = self.conversation().history(self.fixed);
        plan_with(&history, budget, &settings, &*self.meter, digest)
    }

    /// The plan that clears tool uses, if the request asks for that.
    pub(crate) fn cleared(&self) -> Option<Plan> {
        let rule = self.options.clear.as_ref()?;
        Some(clear(&self.conversation().history(self.fixed), rule, &*self.meter))
    }

    /// Whether a window of it is to be cleared further.
    pub(crate) fn wants_clearing(&self, window: &str) -> Result<bool, DialectError> {
        let Some(rule) = &self.options.clear else { return Ok(false) };
        let shown = read(window.as_bytes().to_vec(), Some(self.dialect()))?;
        Ok(!clear(&shown.history(self.fixed), rule, &*self.meter).is_noop())
    }

    /// Reads what a model answered as what comes after the request; `None` if it is nothing.
    pub(crate) fn answer(&self, reply: &Reply, call: longhand::Call) -> Option<Answer> {
        let is_list = reply.message.trim_start().starts_with('[');
        let list = if is_list { reply.message.clone() } else { format!("[{}]", reply.message) };
        let messages = read(list.into_bytes(), Some(self.dialect())).ok()?.messages;
        let mut thread = self.heard.thread.clone();
        thread.append(self.heard.root.start, &messages);
        Some(Answer { messages, thread, call: Some(call), text: reply.text.clone() })
    }
}
