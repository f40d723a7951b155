//! Taking secrets out of everything that is written.
//!
//! Besides the body of a request these are names in headers, paths, answers, and what a model asks to have brought
//! back. All of it goes through here before an archive, a log or a terminal gets it. The body has two forms (`Twin`).

use std::borrow::Cow;
use std::sync::Arc;

use longhand::Redactor;
use longhand_dialect::Reply;

/// Takes secrets out of texts, if the settings ask for it.
#[derive(Clone, Default)]
pub(crate) struct Redaction(Option<Arc<Redactor>>);

impl Redaction {
    pub(crate) fn new(redactor: Option<&Arc<Redactor>>) -> Self {
        Self(redactor.cloned())
    }

    /// The redactor, if the settings ask for one.
    pub(crate) fn redactor(&self) -> Option<&Redactor> {
        self.0.as_deref()
    }

    /// A text without secrets.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.as_ref().map_or(Cow::Borrowed(text), |redactor| redactor.redact(text))
    }

    /// The same for a text that the caller no longer needs.
    pub(crate) fn owned(&self, text: String) -> String {
        match self.text(&text) {
            Cow::Owned(redacted) => redacted,
            Cow::Borrowed(_) => text,
        }
    }

    /// An answer without secrets; its usage and its end stay as they are.
    pub(crate) fn reply(&self, reply: Reply) -> Reply {
        Reply {
            id: reply.id.map(|id| self.owned(id)),
            model: reply.model.map(|model| self.owned(model)),
            text: self.owned(reply.text),
            message: self.owned(reply.message),
            ..reply
        }
    }
}
