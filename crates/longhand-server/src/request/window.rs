//! What is sent for a request.

use hyper::body::Bytes;
use longhand::Tokens;
use longhand_core::{Batch, shown_edits};
use longhand_dialect::Binding;

use crate::request::source::WindowSource;

/// What is sent for a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestWindow {
    /// The bytes; those of the request if there are none.
    pub(crate) body: Option<Bytes>,
    /// The size of the request, where it was counted.
    pub(crate) before: Option<Tokens>,
    /// The size of the window, where it was counted.
    pub(crate) after: Option<Tokens>,
    /// How many edits it has.
    pub(crate) edits: usize,
    /// The newest batch that it shows; 0 if it shows none.
    pub(crate) batch: u64,
    /// How far it is over its limit.
    pub(crate) shortfall: Tokens,
    /// Whether the provider is told to drop thinking that the edits void.
    pub(crate) drops_thinking: bool,
}

impl RequestWindow {
    /// The request without any edit, and not counted.
    pub(crate) fn untouched(source: &WindowSource) -> Self {
        Self {
            body: source.changes.body.clone(),
            before: None,
            after: None,
            edits: 0,
            batch: 0,
            shortfall: Tokens::ZERO,
            drops_thinking: source.changes.drops_thinking,
        }
    }

    /// The request without any edit, and its size.
    pub(crate) fn counted(source: &WindowSource, limit: Tokens) -> Self {
        let total = source.total();
        let (before, after) = (Some(total), Some(total));
        let shortfall = total.saturating_sub(limit);
        Self { before, after, shortfall, ..Self::untouched(source) }
    }

    /// The text of a window that shows these batches and has so many tokens.
    pub(crate) fn edited(
        source: &WindowSource,
        batches: &[Batch],
        text: String,
        after: Tokens,
        limit: Tokens,
    ) -> Self {
        let edits = shown_edits(batches).len();
        let is_bound = edits > 0 && source.conversation().binding() == Binding::Switch;
        Self {
            body: Some(Bytes::from(text)),
            before: Some(source.total()),
            after: Some(after),
            edits,
            batch: 0,
            shortfall: after.saturating_sub(limit),
            drops_thinking: source.changes.drops_thinking || is_bound,
        }
    }

    /// Whether something was left out.
    pub(crate) fn is_compacted(&self) -> bool {
        self.edits > 0
    }
}
