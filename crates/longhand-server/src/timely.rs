//! An archive on a server, as requests read it: none of them waits for long.
//!
//! While the server is away or slow, reading fails at once, so that requests go on with what is in memory, or are refused,
//! as it is set up. One task asks the server until it answers again. Writing is not limited: it is done in the background.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use longhand::{Archive, Owner, SessionId};
use longhand_archive::{
    Answer, ArchiveError, BatchRecord, EntryRecord, FoldStates, Key, KnownPath, Layer, Listing,
    Node, Opened, Page, RequestFilter, RequestRecord, SessionFilter, SessionInfo, Storage, Version,
};
use longhand_core::Link;
use tokio::time::{sleep, timeout};

/// How long a request waits for one answer.
const READ_TIME_MAX: Duration = Duration::from_millis(500);

/// How long to wait before the server is asked again whether it is back; up to twice as long, since all nodes ask.
const PROBE_PAUSE: Duration = Duration::from_millis(250);

/// An archive whose reading ends in time.
pub(crate) struct TimelyArchive {
    beneath: Arc<dyn Archive>,
    is_away: Arc<AtomicBool>,
}

impl TimelyArchive {
    /// The same archive for requests: limited if it is on a server.
    pub(crate) fn over(archive: Arc<dyn Archive>) -> Arc<dyn Archive> {
        if !archive.is_shared() {
            return archive;
        }
        Arc::new(Self { beneath: archive, is_away: Arc::default() })
    }

    /// Waits for an answer, but not for long, and not at all while the server is away.
    fn limited<'a, T: Send + 'a>(
        &'a self,
        limit: Duration,
        ask: impl FnOnce() -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        if self.is_away.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(late(Duration::ZERO))));
        }
        let (asked, answer) = (Instant::now(), ask());
        Box::pin(async move {
            let answer = timeout(limit, answer).await;
            let answer = answer.unwrap_or_else(|_| Err(late(asked.elapsed())));
            if answer.as_ref().is_err_and(is_outage) {
                self.went_away();
            }
            answer
        })
    }

    fn went_away(&self) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            let archive = Arc::downgrade(&self.beneath);
            tokio::spawn(come_back(archive, Arc::clone(&self.is_away)));
        }
    }
}

/// Asks a server that is away until it answers, or nobody needs it any more.
async fn come_back(archive: Weak<dyn Archive>, is_away: Arc<AtomicBool>) {
    loop {
        let nanos = u64::from(
            std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos(),
        );
        sleep(PROBE_PAUSE + Duration::from_millis(nanos % PROBE_PAUSE.as_millis() as u64)).await;
        let Some(archive) = archive.upgrade() else { return };
        let asked = archive.open(SessionId::default(), Version::default());
        if matches!(timeout(READ_TIME_MAX, asked).await, Ok(Ok(_))) {
            is_away.store(false, Ordering::Relaxed);
            return;
        }
    }
}

fn late(waited: Duration) -> ArchiveError {
    ArchiveError::Busy { archive: "the archive".to_owned(), waited }
}

/// Whether an error says that the server cannot be asked, and not what is wrong with one session.
fn is_outage(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::Unusable(_)
            | ArchiveError::Busy { .. }
            | ArchiveError::Failed { .. }
            | ArchiveError::Closed { .. }
    )
}

impl Layer for TimelyArchive {
    fn beneath(&self) -> &dyn Storage {
        &*self.beneath
    }

    fn open(&self, id: SessionId, since: Version) -> Answer<'_, Option<Opened>> {
        self.limited(READ_TIME_MAX, || self.beneath.open(id, since))
    }

    fn nodes(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<Node>> {
        self.limited(READ_TIME_MAX, || self.beneath.nodes(id, seqs))
    }

    fn bodies(&self, id: SessionId, seqs: Vec<Range<u64>>) -> Answer<'_, Vec<EntryRecord>> {
        // Long messages take their time; a request has a deadline of its own.
        self.limited(Duration::MAX, || self.beneath.bodies(id, seqs))
    }

    fn read_batches(
        &self,
        id: SessionId,
        numbers: Vec<u64>,
        states: FoldStates,
    ) -> Answer<'_, Vec<BatchRecord>> {
        self.limited(READ_TIME_MAX, || self.beneath.read_batches(id, numbers, states))
    }

    fn links(&self, owner: Owner, links: Vec<Link>) -> Answer<'_, Vec<KnownPath>> {
        self.limited(READ_TIME_MAX, || self.beneath.links(owner, links))
    }

    fn list_sessions(&self, of: SessionFilter, page: Page) -> Answer<'_, Listing<SessionInfo>> {
        self.limited(READ_TIME_MAX, || self.beneath.list_sessions(of, page))
    }

    fn list_requests(
        &self,
        of: RequestFilter,
        page: Page,
    ) -> Answer<'_, Listing<(SessionId, RequestRecord)>> {
        self.limited(READ_TIME_MAX, || self.beneath.list_requests(of, page))
    }

    fn get(&self, keys: Vec<Key>) -> Answer<'_, Vec<Option<String>>> {
        self.limited(READ_TIME_MAX, || self.beneath.get(keys))
    }
}

#[cfg(test)]
mod tests {
    use longhand::MemoryArchive;
    use longhand_testkit::faulty::{Fault, Faulty};

    use super::*;

    /// An archive that says that others write to it.
    struct Shared(Arc<Faulty>);

    impl Layer for Shared {
        fn beneath(&self) -> &dyn Storage {
            &*self.0
        }

        fn is_shared(&self) -> bool {
            true
        }
    }

    async fn asked(archive: &Arc<dyn Archive>) -> (bool, Duration) {
        let asked = Instant::now();
        let answer = archive.open(SessionId::default(), Version::default()).await;
        (answer.is_ok(), asked.elapsed())
    }

    #[tokio::test]
    async fn a_server_that_is_slow_is_waited_for_once_and_comes_back() {
        let faulty = Arc::new(Faulty::new(
            Arc::new(MemoryArchive::new()),
            Fault::Slow(Duration::from_secs(10)),
        ));
        let archive = TimelyArchive::over(Arc::new(Shared(Arc::clone(&faulty))));
        let (is_there, waited) = asked(&archive).await;
        assert!(!is_there && waited < Duration::from_secs(2), "{waited:?}");
        for _ in 0..100 {
            let (is_there, waited) = asked(&archive).await;
            assert!(!is_there && waited < Duration::from_millis(50), "{waited:?}");
        }
        faulty.set(Fault::None);
        let begun = Instant::now();
        while !asked(&archive).await.0 {
            assert!(begun.elapsed() < Duration::from_secs(20));
            sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_file_is_not_limited() {
        let faulty = Arc::new(Faulty::new(Arc::new(MemoryArchive::new()), Fault::None));
        let archive: Arc<dyn Archive> = faulty;
        assert!(Arc::ptr_eq(&TimelyArchive::over(Arc::clone(&archive)), &archive));
    }
}
