//! What is sent for a request.

use hyper::body::Bytes;
use longhand::Tokens;
use longhand::driver::MadeWindow;

use crate::request::source::RequestSource;

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
    pub(crate) fn untouched(source: &RequestSource) -> Self {
        Self::of(source, MadeWindow::untouched())
    }

    /// A window of a request as it is sent.
    pub(crate) fn of(source: &RequestSource, made: MadeWindow) -> Self {
        let changes = &source.changes;
        let MadeWindow { text, before, after, edits, batch, shortfall, voids_thinking, planned } =
            made;
        // If the provider holds the history with the same edits, it is not sent again.
        let is_held = source.history.as_ref().is_some_and(|history| history.batch == batch);
        let text = text.filter(|_| !is_held || planned.is_some());
        Self {
            body: text.map(Bytes::from).or_else(|| changes.body.clone()),
            before,
            after,
            edits,
            batch,
            shortfall,
            drops_thinking: changes.drops_thinking || voids_thinking,
        }
    }

    /// Whether something was left out.
    pub(crate) fn is_compacted(&self) -> bool {
        self.edits > 0
    }
}
