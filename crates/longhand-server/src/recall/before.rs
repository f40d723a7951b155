//! Whether a session had the tool before this process knew of it.

use longhand::driver::LiveSession;
use longhand_archive::{ArchiveError, Key, Page, RequestFilter, Storage};

use super::NAME;

/// How many of the newest requests are looked at: some have no tools for once.
const REQUESTS_MAX: usize = 32;

/// Whether one of the newest requests of a session offered the tool; `None` if it has had none.
pub(crate) async fn offered_before(
    archive: &(impl Storage + ?Sized),
    session: &LiveSession,
) -> Result<Option<bool>, ArchiveError> {
    let of = RequestFilter::Session(session.id);
    let requests = archive.list_requests(of, Page::first(REQUESTS_MAX)).await?;
    let turns = requests.items.into_iter().filter(|(_, request)| !request.is_aside);
    let mut preambles: Vec<_> = turns.map(|(_, request)| request.preamble).collect();
    if preambles.is_empty() && requests.next.is_none() {
        return Ok(None);
    }
    preambles.dedup();
    let key = |id| Key::Preamble(session.owner, id);
    let preambles = archive.get(preambles.into_iter().flatten().map(key).collect()).await?;
    let names_it = |preamble: &String| preamble.contains(NAME);
    Ok(Some(preambles.iter().flatten().any(names_it)))
}
