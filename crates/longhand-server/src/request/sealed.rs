//! References to folds that clients carry in compaction items, which only we can read.

use std::sync::Arc;

use hyper::body::Bytes;
use longhand::driver::Sink;
use longhand::{Owner, SessionId};
use longhand_archive::{Archive, FoldStates, Page, SessionFilter};
use longhand_dialect::{Dialect, sealed_references, unsealed};

use crate::passage::Passage;
use crate::request::RequestContext;
use crate::request::collect::CollectedBody;

/// What signatures are made for: the same words mean nothing elsewhere.
const DOMAIN: &str = "longhand 2026 reference to a fold in a compaction item";

/// How many digits of a signature a reference has.
const SIGNATURE_DIGITS: usize = 32;

/// The reference to a fold, for its owner alone: nobody can make one who does not know the text.
pub(crate) fn reference(owner: Owner, session: SessionId, batch: u64, text: &str) -> String {
    format!("{:032x}.{batch:x}.{}", session.0, signature(owner, session, batch, text))
}

fn signature(owner: Owner, session: SessionId, batch: u64, text: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
    for number in [owner.0, session.0, u128::from(batch)] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(text.as_bytes());
    hasher.finalize().to_hex()[..SIGNATURE_DIGITS].to_owned()
}

/// The text of a fold by its reference, if it is one of the owner's.
async fn text_of(archive: &dyn Archive, owner: Owner, reference: &str) -> Option<String> {
    let mut pieces = reference.split('.');
    let session = SessionId(u128::from_str_radix(pieces.next()?, 16).ok()?);
    let batch = u64::from_str_radix(pieces.next()?, 16).ok()?;
    let signed = pieces.next()?;
    let found =
        archive.list_sessions(SessionFilter::Session(session), Page::first(1)).await.ok()?;
    found.items.first().filter(|info| info.owner == owner)?;
    let records = archive.read_batches(session, vec![batch], FoldStates::Last).await.ok()?;
    let logged = records.into_iter().next()?.logged(batch, true);
    let text = logged.batch.fold()?.text.clone();
    (signature(owner, session, batch, &text) == signed).then_some(text)
}

impl Passage<'_> {
    /// Puts the folds in the place of the references to them, so that the upstream sees what they say. A request with
    /// one that cannot be opened stays as it came.
    pub(crate) async fn open_sealed(&self, context: &RequestContext, body: &mut CollectedBody) {
        if context.dialect != Dialect::Responses {
            return;
        }
        let Ok(text) = &body.text else { return };
        let references = sealed_references(text);
        if references.is_empty() {
            return;
        }
        let store = &self.shared.stores.archived;
        let mut texts = Vec::with_capacity(references.len());
        for reference in &references {
            match text_of(store.archive(), context.caller.owner(), reference).await {
                Some(text) => texts.push(text),
                None => {
                    self.shared.warnings.once(
                        "a compaction item of ours cannot be opened: its session is not in this archive, or is not \
                         the caller's",
                    );
                    return;
                }
            }
        }
        let opened = unsealed(text, &texts);
        body.bytes = Bytes::from(opened.clone());
        body.text = Ok(Arc::new(opened));
    }
}
