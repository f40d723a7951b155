//! Fairness: no owner and no conversation takes all threads that parse and plan.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use longhand::Owner;
use longhand::driver::Computing;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::lock::lock;

/// How many requests of conversations that begin alike are worked on at a time.
const ALIKE_MAX: usize = 2;

/// How many requests of one owner are worked on at a time; a proxy has twice as many threads for it.
const OWNER_MAX: usize = 8;

/// How many semaphores are kept before the unused ones are dropped.
const REMEMBERED_MAX: usize = 1_000;

/// An owner, or one of the owner's conversations by how it begins.
type TurnKey = (Owner, Option<u64>);

/// The turns of all owners and conversations.
#[derive(Default)]
pub(crate) struct Turns {
    turns: Mutex<FxHashMap<TurnKey, Arc<Semaphore>>>,
}

/// The right to use a thread, until it is dropped.
pub(crate) struct ThreadTurn {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Turns {
    /// Waits for a turn of an owner in a conversation, which is identified by a hash of its beginning.
    pub(crate) async fn wait(&self, owner: Owner, opening: u64) -> ThreadTurn {
        let alike = self.of((owner, Some(opening)), ALIKE_MAX).acquire_owned().await.ok();
        let by_owner = self.of((owner, None), OWNER_MAX).acquire_owned().await.ok();
        ThreadTurn { _permits: [alike, by_owner] }
    }

    fn of(&self, key: TurnKey, most: usize) -> Arc<Semaphore> {
        let mut turns = lock(&self.turns);
        if turns.len() > REMEMBERED_MAX {
            turns.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        Arc::clone(turns.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most))))
    }
}

/// What a request computes, in turn with the others of its owner and its conversation.
///
/// Nobody has a turn while waiting for the archive: one slow session holds up no other.
#[derive(Clone)]
pub(crate) struct Workers {
    turns: Arc<Turns>,
    owner: Owner,
    /// How the conversation begins.
    opening: u64,
}

impl Workers {
    pub(crate) fn new(turns: &Arc<Turns>, owner: Owner, opening: u64) -> Self {
        Self { turns: Arc::clone(turns), owner, opening }
    }
}

impl Computing for Workers {
    /// Computes something on a thread that may take its time. A panic goes on here.
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = self.turns.wait(self.owner, self.opening).await;
        let done = spawn_blocking(move || {
            // Work that nobody waits for any more still takes a thread.
            let _turn = turn;
            work()
        });
        match done.await {
            Ok(done) => done,
            Err(error) => resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new(()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn neither_a_conversation_nor_an_owner_takes_all_turns() {
        let turns = Turns::default();
        let (one, other) = (Owner::of("one"), Owner::of("other"));
        let mut held = Vec::new();
        let mut take = |owner, opening| {
            let turn = turns.wait(owner, opening).now_or_never();
            let is_taken = turn.is_some();
            held.extend(turn);
            is_taken
        };
        assert_eq!([take(one, 1), take(one, 1), take(one, 1)], [true, true, false]);
        let more: Vec<bool> = (2..10).map(|opening| take(one, opening)).collect();
        assert_eq!(more.iter().filter(|is_taken| **is_taken).count(), OWNER_MAX - ALIKE_MAX);
        assert!(take(other, 1));
        held.clear();
        assert!(turns.wait(one, 1).now_or_never().is_some());
    }
}
