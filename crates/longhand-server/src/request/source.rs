//! A request as long as it takes.

use std::sync::{Arc, Mutex};

use longhand::driver::{Purpose, Ticket, WindowSource};
use longhand_dialect::{Conversation, Dialect};

use crate::request::admit::AdmittedRequest;
use crate::request::history::ProviderHistory;
use crate::request::parse::ProviderChanges;
use crate::route::RequestFields;
use crate::turns::Workers;

/// An admitted request with what its windows are made from, as long as the request takes.
pub(crate) struct RequestSource {
    /// Declared before the admitted request, whose buffer is used again once nobody else holds the conversation.
    pub(crate) window: Arc<WindowSource>,
    pub(crate) admitted: Arc<AdmittedRequest>,
    /// Where it is planned.
    pub(crate) workers: Workers,
    pub(crate) fields: RequestFields,
    pub(crate) changes: ProviderChanges,
    /// The history before it that the provider holds, if it does.
    pub(crate) history: Option<ProviderHistory>,
    /// Tell when it is archived.
    pub(crate) tickets: Mutex<Vec<Option<Ticket>>>,
}

impl RequestSource {
    /// The conversation as it is stored.
    pub(crate) fn conversation(&self) -> &Conversation {
        self.window.conversation()
    }

    /// The conversation as it is sent.
    pub(crate) fn sent(&self) -> &Conversation {
        self.window.sent()
    }

    /// Whether it is archived.
    pub(crate) fn is_recorded(&self) -> bool {
        self.window.is_recorded()
    }

    /// The session as clients are told its name; `None` if nothing of the request is kept in one.
    pub(crate) fn session_name(&self) -> Option<&str> {
        let is_kept = self.window.purpose != Purpose::Count && !self.admitted.store.forgets;
        is_kept.then_some(self.admitted.session().name.as_str())
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.window.dialect()
    }

    pub(crate) fn model(&self) -> &str {
        self.window.model()
    }
}
