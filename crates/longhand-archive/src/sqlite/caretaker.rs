//! The thread that does the chores.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::chores::Due;
use super::desk::Desk;
use super::{index, open};
use crate::ArchiveError;

/// How long nobody must have written for a time to be quiet.
const QUIET: Duration = Duration::from_millis(250);
/// For how many times its own length a chore leaves the file to others, if there are others.
const STEP_BACK: u32 = 4;

/// Does chores when it is told to; leaves when it is dropped.
#[derive(Debug)]
pub(super) struct Caretaker {
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
}

/// Where the caretaker is told things.
#[derive(Debug)]
struct Post {
    word: Mutex<Word>,
    bell: Condvar,
}

#[derive(Debug)]
struct Word {
    due: Due,
    must_leave: bool,
}

impl Caretaker {
    pub(super) fn start(path: &Path, desk: Arc<Mutex<Desk>>) -> Result<Self, ArchiveError> {
        // Others may have left something to do.
        let word = Mutex::new(Word { due: Due::Now, must_leave: false });
        let post = Arc::new(Post { word, bell: Condvar::new() });
        let reader = open::connect(path, Duration::ZERO).ok();
        let watch = Watch { post: Arc::clone(&post), desk, reader, commits: 0 };
        let thread = thread::Builder::new()
            .name("longhand-archive".to_owned())
            .spawn(move || watch.run())
            .map_err(|source| ArchiveError::Unwritable { path: path.to_owned(), source })?;
        Ok(Self { post, thread: Some(thread) })
    }

    pub(super) fn tell(&self, due: Due) {
        self.post.tell(due);
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        self.post.word().must_leave = true;
        self.post.bell.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Post {
    fn word(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, due: Due) {
        let mut word = self.word();
        if due > word.due {
            word.due = due;
            self.bell.notify_one();
        }
    }

    /// Waits for something to do; `None` if it is time to leave.
    fn take(&self) -> Option<Due> {
        let mut word = self.word();
        while word.due == Due::Never && !word.must_leave {
            word = self.bell.wait(word).unwrap_or_else(PoisonError::into_inner);
        }
        let due = std::mem::replace(&mut word.due, Due::Never);
        (!word.must_leave).then_some(due)
    }

    /// Waits for a while, unless something is pressing or it is time to leave.
    fn wait_for_quiet(&self) {
        let is_calm = |word: &mut Word| word.due < Due::Now && !word.must_leave;
        drop(self.bell.wait_timeout_while(self.word(), QUIET, is_calm));
    }

    /// Waits for a while, unless it is time to leave.
    fn step_back(&self, duration: Duration) {
        let may_stay = |word: &mut Word| !word.must_leave;
        drop(self.bell.wait_timeout_while(self.word(), duration, may_stay));
    }
}

/// What the thread works with.
struct Watch {
    post: Arc<Post>,
    desk: Arc<Mutex<Desk>>,
    /// For reading what the index needs while others write.
    reader: Option<Connection>,
    /// How many transactions there had been when it last looked.
    commits: u64,
}

impl Watch {
    fn run(mut self) {
        while let Some(due) = self.post.take() {
            if due == Due::WhenQuiet {
                self.post.wait_for_quiet();
                if !self.is_quiet() {
                    self.post.tell(Due::WhenQuiet);
                    continue;
                }
            }
            self.do_chore(due);
        }
        let desk = &mut *Desk::locked(&self.desk);
        desk.chores.finish(&desk.db);
    }

    /// Says whether nobody wrote since it last looked.
    fn is_quiet(&mut self) -> bool {
        let commits = Desk::locked(&self.desk).commits;
        std::mem::replace(&mut self.commits, commits) == commits
    }

    fn do_chore(&mut self, due: Due) {
        let is_about_index = {
            let mut desk = Desk::locked(&self.desk);
            desk.chores.due() >= due && desk.chores.are_about_index()
        };
        let reader = self.reader.as_ref().filter(|_| is_about_index);
        let slice = reader.and_then(|reader| index::prepare(reader).ok());
        let started = Instant::now();
        {
            let desk = &mut *Desk::locked(&self.desk);
            if desk.chores.due() >= due {
                desk.chores.do_one(&desk.db, slice);
            }
            self.post.tell(desk.chores.due());
        }
        if !self.is_quiet() {
            self.post.step_back(started.elapsed() * STEP_BACK);
        }
    }
}
