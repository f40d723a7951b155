//! The thread that does the maintenance.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::maintenance::{self, Due};
use super::place::Place;
use super::sweep::Left;
use super::write_connection::WriteConnection;
use super::{index, open};
use crate::ArchiveError;

/// How long nobody must write until the archive counts as quiet.
const QUIET: Duration = Duration::from_millis(250);
/// After a task, the thread pauses for this many times its duration if others are writing.
const STEP_BACK: u32 = 4;

/// Does maintenance when it is told to; ends when it is dropped.
#[derive(Debug)]
pub(super) struct BackgroundThread {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

/// Passes requests to the thread.
#[derive(Debug)]
struct Signal {
    request: Mutex<MaintenanceRequest>,
    changed: Condvar,
}

#[derive(Debug)]
struct MaintenanceRequest {
    due: Due,
    must_end: bool,
}

impl BackgroundThread {
    pub(super) fn start(
        path: &Path,
        place: Arc<Place>,
        connection: Arc<Mutex<WriteConnection>>,
    ) -> Result<Self, ArchiveError> {
        // Others may have left something to do.
        let request = Mutex::new(MaintenanceRequest { due: Due::Now, must_end: false });
        let signal = Arc::new(Signal { request, changed: Condvar::new() });
        let reader = open::connect(path, Duration::ZERO).ok();
        let worker = MaintenanceWorker {
            signal: Arc::clone(&signal),
            place,
            reader,
            connection,
            commits: 0,
        };
        let thread = thread::Builder::new()
            .name("longhand-archive".to_owned())
            .spawn(move || worker.run())
            .map_err(|source| ArchiveError::Unwritable {
                archive: path.display().to_string(),
                source: source.into(),
            })?;
        Ok(Self { signal, thread: Some(thread) })
    }

    pub(super) fn tell(&self, due: Due) {
        self.signal.tell(due);
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        self.signal.request().must_end = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Signal {
    fn request(&self) -> MutexGuard<'_, MaintenanceRequest> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, due: Due) {
        let mut request = self.request();
        if due > request.due {
            request.due = due;
            self.changed.notify_one();
        }
    }

    /// Waits for something to do; `None` if it is time to end.
    fn take(&self) -> Option<Due> {
        let mut request = self.request();
        while request.due == Due::Never && !request.must_end {
            request = self.changed.wait(request).unwrap_or_else(PoisonError::into_inner);
        }
        let due = std::mem::replace(&mut request.due, Due::Never);
        (!request.must_end).then_some(due)
    }

    /// Waits for a while, unless something is pressing or it is time to end.
    fn wait_for_quiet(&self) {
        let is_calm =
            |request: &mut MaintenanceRequest| request.due < Due::Now && !request.must_end;
        drop(self.changed.wait_timeout_while(self.request(), QUIET, is_calm));
    }

    /// Waits for a while, unless it is time to end.
    fn step_back(&self, duration: Duration) {
        let may_stay = |request: &mut MaintenanceRequest| !request.must_end;
        drop(self.changed.wait_timeout_while(self.request(), duration, may_stay));
    }
}

/// What the thread works with.
struct MaintenanceWorker {
    signal: Arc<Signal>,
    place: Arc<Place>,
    /// Reads what the index needs while others write. It is closed before the connection that writes, which copies
    /// the log into the archive if it is the last one.
    reader: Option<Connection>,
    connection: Arc<Mutex<WriteConnection>>,
    /// The number of transactions at its last look.
    commits: u64,
}

impl MaintenanceWorker {
    fn run(mut self) {
        while let Some(due) = self.signal.take() {
            if due == Due::WhenQuiet {
                self.signal.wait_for_quiet();
                // When it is time to end, nobody has waited for a quiet time.
                if !self.is_quiet() || self.signal.request().must_end {
                    self.signal.tell(Due::WhenQuiet);
                    continue;
                }
            }
            self.do_task(due);
        }
        let connection = &mut *WriteConnection::locked(&self.connection);
        if self.place.check().is_ok() {
            connection.maintenance.finish(&connection.db);
        }
    }

    /// Says whether nobody wrote since it last looked.
    fn is_quiet(&mut self) -> bool {
        let commits = WriteConnection::locked(&self.connection).commits;
        std::mem::replace(&mut self.commits, commits) == commits
    }

    fn do_task(&mut self, due: Due) {
        let is_index_next = {
            let mut connection = WriteConnection::locked(&self.connection);
            connection.maintenance.due() >= due && connection.maintenance.is_index_next(due)
        };
        let reader = self.reader.as_ref().filter(|_| is_index_next);
        let slice = reader.and_then(|reader| index::prepare(reader).ok());
        let started = Instant::now();
        let (is_wiping, is_behind) = {
            let connection = &mut *WriteConnection::locked(&self.connection);
            if connection.maintenance.due() >= due && self.place.check().is_ok() {
                connection.maintenance.do_one(&connection.db, due, slice);
            }
            self.signal.tell(connection.maintenance.due());
            (connection.maintenance.left() != Left::Nothing, connection.maintenance.is_behind())
        };
        if !self.is_quiet() && !is_behind {
            self.signal.step_back(started.elapsed() * STEP_BACK);
        } else if is_wiping {
            // Other processes may be waiting, of which nothing is known here.
            self.signal.step_back(maintenance::LEAVE);
        }
    }
}
