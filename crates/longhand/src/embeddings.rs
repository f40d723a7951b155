//! What messages mean, as a model of language says it: computed in the background and kept with their sessions.
//!
//! With this, recall also finds what was said in other words. All works without: what is not computed yet, or cannot be,
//! is found by its words alone.

#[cfg(feature = "embeddings")]
mod model_folder;
mod stored;
mod worker;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use longhand_archive::{Archive, ArchiveError, SessionId};
use longhand_recall::Likeness;
use tokio::sync::oneshot;

#[cfg(feature = "embeddings")]
pub use self::model_folder::ModelFolder;
use self::stored::SessionVectors;

/// The vectors of so many sessions stay in memory.
const SESSIONS_MAX: usize = 8;

/// Says what texts mean.
///
/// It may take its time: it is called from a thread that waits for it.
pub trait Embedder: Send + Sync {
    /// Names what makes the vectors. Those of another name are not compared with them.
    fn version(&self) -> Result<String, EmbedError>;

    /// A vector for each text, all of the same length.
    fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why there are no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model cannot be used, or did not answer.
    #[error("{0}")]
    Model(String),
    /// The archive cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Is told what goes wrong in the background.
pub type Tell = Box<dyn Fn(&EmbedError) + Send + Sync>;

/// Knows what the messages of an archive mean, as far as that is computed.
pub struct Embeddings {
    shared: Arc<Shared>,
    queues: Option<Queues>,
    threads: Vec<JoinHandle<()>>,
}

struct Queues {
    questions: Sender<AskedQuestion>,
    sessions: Sender<SessionId>,
}

/// What both threads use.
struct Shared {
    archive: Arc<dyn Archive>,
    embedder: Arc<dyn Embedder>,
    known: Mutex<VecDeque<(SessionId, Arc<SessionVectors>)>>,
    tell: Tell,
    is_ending: AtomicBool,
    /// One thread at a time computes, or two would compute the same.
    computing: Mutex<()>,
}

struct AskedQuestion {
    session: SessionId,
    text: String,
    answer: oneshot::Sender<Likeness>,
}

impl Embeddings {
    /// Vectors for the sessions of an archive. It has threads, which end with it.
    pub fn new(
        archive: Arc<dyn Archive>,
        embedder: Arc<dyn Embedder>,
        tell: Tell,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(archive, embedder, tell));
        let (questions, asked) = channel();
        let (sessions, late) = channel();
        let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(format!("longhand-{name}")).spawn(work)
        };
        let (answering, catching_up) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            thread("meanings", Box::new(move || answering.answer(&asked)))?,
            thread("vectors", Box::new(move || catching_up.catch_up(&late)))?,
        ];
        Ok(Self { shared, queues: Some(Queues { questions, sessions }), threads })
    }

    /// How much the messages of a session mean what a text does, as far as that is known; `None` if nothing is. What is
    /// missing is computed in the background.
    pub async fn likeness(&self, session: SessionId, text: &str) -> Option<Likeness> {
        let queues = self.queues.as_ref()?;
        let (answer, answered) = oneshot::channel();
        let question = AskedQuestion { session, text: text.to_owned(), answer };
        queues.questions.send(question).ok()?;
        let likeness = answered.await.ok();
        queues.sessions.send(session).ok()?;
        likeness
    }

    /// Computes what is missing of a session, and waits for it.
    pub fn complete(&self, session: SessionId) -> Result<(), EmbedError> {
        self.shared.complete(session)
    }

    /// The vectors of a session, all of which are computed when this returns.
    pub(crate) fn of_session(
        archive: Arc<dyn Archive>,
        embedder: Arc<dyn Embedder>,
        session: SessionId,
    ) -> Result<Self, EmbedError> {
        let shared = Arc::new(Shared::new(archive, embedder, Box::new(|_| {})));
        shared.complete(session)?;
        Ok(Self { shared, queues: None, threads: Vec::new() })
    }

    /// How much the messages of a session mean what a text does; this thread waits for it.
    pub(crate) fn likeness_now(
        &self,
        session: SessionId,
        text: &str,
    ) -> Result<Option<Likeness>, EmbedError> {
        self.shared.likeness(session, text)
    }
}

impl Drop for Embeddings {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        self.queues = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has told so on standard error.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embeddings").finish_non_exhaustive()
    }
}

impl Shared {
    fn new(archive: Arc<dyn Archive>, embedder: Arc<dyn Embedder>, tell: Tell) -> Self {
        let (known, is_ending) = (Mutex::default(), AtomicBool::new(false));
        Self { archive, embedder, known, tell, is_ending, computing: Mutex::new(()) }
    }

    /// Answers questions; one that nobody waits for any longer is passed over.
    fn answer(&self, questions: &Receiver<AskedQuestion>) {
        for AskedQuestion { session, text, answer } in questions {
            if answer.is_closed() {
                continue;
            }
            match self.likeness(session, &text) {
                Ok(likeness) => _ = likeness.map(|likeness| answer.send(likeness)),
                Err(error) => (self.tell)(&error),
            }
        }
    }

    fn likeness(&self, session: SessionId, text: &str) -> Result<Option<Likeness>, EmbedError> {
        let vectors = self.vectors_of(session)?;
        let Some(text) = longhand_recall::passages(text).first().copied() else { return Ok(None) };
        if vectors.is_empty() {
            return Ok(None);
        }
        let asked = self.embedder.vectors(&[text])?.pop();
        Ok(asked.map(|asked| Likeness::of(&asked, vectors.iter())))
    }

    /// Computes what is missing of one session after the other; each is taken once, however often it was asked for.
    fn catch_up(&self, sessions: &Receiver<SessionId>) {
        while let Ok(first) = sessions.recv() {
            let mut late = vec![first];
            late.extend(sessions.try_iter());
            late.sort_unstable();
            late.dedup();
            for session in late {
                if let Err(error) = self.complete(session) {
                    (self.tell)(&error);
                }
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// The vectors that are known of a session; at first these are read from the archive.
    fn vectors_of(&self, session: SessionId) -> Result<Arc<SessionVectors>, EmbedError> {
        let known = |of: &(SessionId, Arc<SessionVectors>)| of.0 == session;
        let vectors = self.known().iter().find(|of| known(of)).map(|(_, of)| Arc::clone(of));
        if let Some(vectors) = vectors
            && vectors.is_kept(&*self.archive, session)?
        {
            return Ok(vectors);
        }
        let version = self.embedder.version()?;
        let vectors = Arc::new(SessionVectors::read(&*self.archive, session, &version)?);
        self.know(session, &vectors);
        Ok(vectors)
    }

    fn know(&self, session: SessionId, vectors: &Arc<SessionVectors>) {
        let mut known = self.known();
        known.retain(|of| of.0 != session);
        known.push_back((session, Arc::clone(vectors)));
        while known.len() > SESSIONS_MAX {
            known.pop_front();
        }
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<(SessionId, Arc<SessionVectors>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
