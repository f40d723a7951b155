//! One node at a time asks models about a session.
//!
//! Where several nodes serve a session, two of them may fold it at once, and each would pay a model for the same rounds. A node
//! therefore claims the session before it asks, keeps what the model wrote at once, and gives the claim back. The claim of a
//! node that died ends by itself.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhand_archive::{Archive, ArchiveError, Key, SessionId, wait};

use super::{Storyteller, WrittenStory};

/// The key under which an archive has the claim: the node, and when it ends in milliseconds since 1970.
const KEY: &str = "story claim";

/// How long a claim lasts: longer than a model is waited for.
const CLAIM_TIME: Duration = Duration::from_mins(10);

/// The session may still be on its way into the archive.
const TRIES: usize = 25;
const PAUSE: Duration = Duration::from_millis(200);

/// The right to ask models about a session, as long as it is held.
#[derive(Clone)]
pub(crate) struct StoryClaim {
    archive: Arc<dyn Archive>,
    session: SessionId,
    node: u64,
}

/// Who asks a model about rounds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// This node does.
    Ours,
    /// Another one does, or nobody can tell.
    Theirs,
    /// Another one has, and this is what the model wrote.
    Told(WrittenStory),
}

impl StoryClaim {
    /// A claim of this process; `None` if no other node serves the sessions of the archive.
    pub(crate) fn of(archive: &Arc<dyn Archive>, session: SessionId) -> Option<Self> {
        static NODE: OnceLock<u64> = OnceLock::new();
        let node = *NODE.get_or_init(|| RandomState::new().build_hasher().finish());
        let archive = Arc::clone(archive);
        archive.is_shared().then_some(Self { archive, session, node })
    }

    fn key(&self, key: &str) -> Key {
        Key::Derived(self.session, key.to_owned())
    }

    /// Claims the session to have its rounds summarised, from one of them up to another. It waits for the archive.
    pub(super) fn claim(&self, rounds: Range<u64>) -> Claimed {
        for _ in 0..TRIES {
            match self.claim_at(&rounds, now_ms()) {
                Ok(claimed) => return claimed,
                Err(_) => thread::sleep(PAUSE),
            }
        }
        Claimed::Theirs
    }

    fn claim_at(&self, rounds: &Range<u64>, now_ms: i64) -> Result<Claimed, ArchiveError> {
        let mut values = wait(self.archive.get(vec![self.key(Storyteller::KEY), self.key(KEY)]))?;
        let (claim, story) = (values.pop().flatten(), values.pop().flatten());
        let story = story.map(|story| WrittenStory::parse(&story));
        match story {
            Some(story) if story.rounds >= rounds.end => return Ok(Claimed::Told(story)),
            // These rounds were folded otherwise elsewhere, and some of them are paid for.
            Some(story) if story.rounds > rounds.start => return Ok(Claimed::Theirs),
            _ => {}
        }
        if claim
            .as_deref()
            .and_then(read)
            .is_some_and(|(node, ends)| node != self.node && ends > now_ms)
        {
            return Ok(Claimed::Theirs);
        }
        let ends = now_ms + CLAIM_TIME.as_millis() as i64;
        let ours = format!("{:016x} {ends}", self.node);
        // If another node was faster, it has the claim now.
        let is_ours = wait(self.archive.put(self.key(KEY), claim, ours))?;
        Ok(if is_ours { Claimed::Ours } else { Claimed::Theirs })
    }

    /// Keeps what a model wrote, if it did, and gives the claim back.
    pub(super) fn end(&self, story: Option<&WrittenStory>) {
        if let Some(story) = story {
            for _ in 0..TRIES {
                match self.archive.put_derived(self.session, Storyteller::KEY, &story.write()) {
                    Ok(()) | Err(ArchiveError::UnknownSession { .. }) => break,
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        }
        // A claim that cannot be given back ends by itself.
        let known = wait(self.archive.get(vec![self.key(KEY)])).ok();
        let known = known.and_then(|mut known| known.pop().flatten());
        if known.as_deref().and_then(read).is_some_and(|(node, _)| node == self.node) {
            let _ = wait(self.archive.put(self.key(KEY), known, String::new()));
        }
    }
}

fn read(claim: &str) -> Option<(u64, i64)> {
    let (node, ends) = claim.split_once(' ')?;
    Some((u64::from_str_radix(node, 16).ok()?, ends.parse().ok()?))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as i64
}

#[cfg(test)]
mod tests {
    use longhand_archive::{MemoryArchive, NewSession, Owner};

    use super::*;

    fn story(rounds: u64) -> WrittenStory {
        WrittenStory { rounds, until: rounds, text: "It went well.".to_owned(), account: None }
    }

    #[test]
    fn one_node_asks_and_the_others_take_what_it_was_told() {
        let archive: Arc<dyn Archive> = Arc::new(MemoryArchive::new());
        let session = SessionId::named(Owner::LOCAL, "s");
        let claims = [1, 2].map(|node| StoryClaim { archive: Arc::clone(&archive), session, node });
        assert!(claims[0].claim_at(&(0..5), 0).is_err(), "the session is not there yet");
        archive.begin(session, &NewSession::default()).unwrap();
        assert_eq!(claims[0].claim_at(&(0..5), 0).unwrap(), Claimed::Ours);
        assert_eq!(claims[1].claim_at(&(0..5), 1).unwrap(), Claimed::Theirs);
        claims[0].end(Some(&story(5)));
        assert_eq!(claims[1].claim_at(&(0..5), 2).unwrap(), Claimed::Told(story(5)));
        assert_eq!(claims[1].claim_at(&(0..7), 3).unwrap(), Claimed::Theirs, "a part is paid for");
        // What comes after it is nobody's yet.
        assert_eq!(claims[1].claim_at(&(5..9), 3).unwrap(), Claimed::Ours);
        // The claim of a node that died ends by itself, and does not take back the one that follows it.
        let later = 4 + CLAIM_TIME.as_millis() as i64;
        assert_eq!(claims[0].claim_at(&(5..9), later).unwrap(), Claimed::Ours);
        claims[1].end(None);
        assert_eq!(claims[1].claim_at(&(5..9), later).unwrap(), Claimed::Theirs);
        claims[0].end(None);
        assert_eq!(claims[1].claim_at(&(5..9), later).unwrap(), Claimed::Ours);
        assert!(StoryClaim::of(&archive, session).is_none(), "nobody else serves it");
    }
}
