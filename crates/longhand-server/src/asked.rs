//! A request that was understood.

use std::sync::Arc;

use longhand::Tokens;
use longhand_core::{Budget, Digest, Meter, Plan, Policy, Scale, plan, plan_with};
use longhand_dialect::{Conversation, Dialect, Reply, read};

use crate::archivist::Ticket;
use crate::recorder::{Answer, Heard};
use crate::route::Fields;

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
        let scale = Scale::new(&*self.meter);
        let messages = self.conversation().messages.iter();
        let own: Tokens = messages.map(|message| scale.message(message, Tokens::MAX)).sum();
        own + self.fixed + scale.framing().reply
    }

    /// What a window of it counts for.
    pub(crate) fn weigh(&self, shown: &Conversation) -> Tokens {
        let history = shown.history(self.fixed);
        let settings = longhand_core::Settings::default();
        plan(&history, &Budget::of(Tokens::MAX), &settings, &*self.meter).tokens
    }

    pub(crate) fn plan(&self, budget: &Budget, policy: Policy, digest: &dyn Digest) -> Plan {
        let settings = longhand_core::Settings { policy, ..longhand_core::Settings::default() };
        let history = self.conversation().history(self.fixed);
        plan_with(&history, budget, &settings, &*self.meter, digest)
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
