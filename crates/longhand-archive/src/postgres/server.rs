//! Connections to the server, and what is done when they are lost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use futures_channel::oneshot;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use super::address::Address;
use super::fault::Fault;
use super::{PostgresSettings, ServerError, tls};
use crate::storage::Answer;
use crate::{ArchiveError, Cause};

/// What asking the server comes to.
pub(super) type Asked<'c, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'c>>;

/// A connection that was idle for so long is not trusted.
const LIFETIME_MAX: Duration = Duration::from_mins(30);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A server with the connections to it, and threads that wait for them.
pub(super) struct Server {
    pool: Pool,
    /// What errors call the archive.
    pub(super) name: String,
    pub(super) settings: PostgresSettings,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Server {
    pub(super) fn new(address: &Address, settings: PostgresSettings) -> Result<Self, ArchiveError> {
        let manager = Manager::from_config(
            address.config.clone(),
            tls::connector(address)?,
            // A round trip for every connection that is taken would be one too many; one that was lost is replaced.
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let is_old = Hook::sync_fn(|_, metrics| {
            let is_old = metrics.created.elapsed() > LIFETIME_MAX;
            if is_old { Err(HookError::message("it is old")) } else { Ok(()) }
        });
        let name = address.to_string();
        let pool = Pool::builder(manager)
            .max_size(settings.connections_max)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(settings.wait_max))
            .create_timeout(Some(settings.wait_max.max(Duration::from_secs(5))))
            .pre_recycle(is_old)
            .build();
        let unfit = |error: &dyn fmt::Display| ServerError::Unfit {
            archive: name.clone(),
            reason: error.to_string(),
        };
        let pool = pool.map_err(|error| unfit(&error))?;
        Ok(Self { pool, name, settings })
    }

    pub(super) fn error(&self, fault: Fault) -> ArchiveError {
        fault.into_error(&self.name, self.settings.wait_max)
    }

    async fn connection(&self) -> Result<Object, Fault> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Fault::NoConnection(error.into()),
            PoolError::Timeout(_) => Fault::Late,
            other => Fault::NoConnection(Cause::from(other.to_string())),
        })
    }

    /// Works on a connection once. One that is lost in the middle of something is not used again.
    pub(super) async fn once<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c Client) -> Asked<'c, T>,
    ) -> Result<T, Fault> {
        let limit = self.settings.statement_max;
        self.unbounded(|db| {
            let work = work(db);
            Box::pin(async move { timeout(limit, work).await.unwrap_or(Err(Fault::Late)) })
        })
        .await
    }

    /// The same for work that has a limit of its own.
    pub(super) async fn unbounded<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c Client) -> Asked<'c, T>,
    ) -> Result<T, Fault> {
        let connection = self.connection().await?;
        let outcome = work(&connection).await;
        // A server that takes no writes may not be the primary any more; its address may lead to another one by now.
        if outcome.as_ref().is_err_and(|fault| fault.is_lost() || fault.is_read_only()) {
            drop(Object::take(connection));
        }
        outcome
    }

    /// Works on a connection, and again on another one if the connection is lost or others are in the way: what is done
    /// can be done twice.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c Client) -> Asked<'c, T>,
    ) -> Result<T, Fault> {
        let mut patience = Patience::new(self.settings.wait_max);
        loop {
            match self.once(&work).await {
                Err(fault) if patience.bears(&fault) => patience.pause().await,
                outcome => return outcome,
            }
        }
    }

    /// Works within a transaction, as [`Server::ask`] does.
    pub(super) async fn transact<T: Send + 'static>(
        &self,
        begin: &'static str,
        work: impl for<'c> Fn(&'c Client) -> Asked<'c, T>,
    ) -> Result<T, Fault> {
        let work = &work;
        self.ask(|db| {
            let inside = work(db);
            Box::pin(async move {
                let answers = both(db.batch_execute(begin), inside).await;
                let outcome = match answers {
                    (Ok(()), Ok(done)) => Ok(done),
                    (Err(error), _) => Err(error.into()),
                    (_, Err(fault)) => Err(fault),
                };
                match outcome {
                    Ok(done) => {
                        db.batch_execute("COMMIT").await.map(|()| done).map_err(Fault::from)
                    }
                    Err(fault) => rolled_back(db, fault).await,
                }
            })
        })
        .await
    }
}

/// Begins a transaction that sees one state of everything.
pub(super) const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Ends a transaction that failed; a connection that cannot even do that is lost.
pub(super) async fn rolled_back<T>(db: &Client, fault: Fault) -> Result<T, Fault> {
    if !fault.is_lost()
        && let Err(error) = db.batch_execute("ROLLBACK").await
    {
        return Err(error.into());
    }
    Err(fault)
}

/// Waits for two things; the first one is begun first, so that both are on their way together.
pub(super) async fn both<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    futures_util::future::join(one, other).await
}

/// A statement that is on its way.
type Sent<'c> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send + 'c>>;

/// Statements that are on their way together: each is sent before the one before it is answered.
#[derive(Default)]
pub(super) struct Pipeline<'c> {
    statements: Vec<Sent<'c>>,
}

impl<'c> Pipeline<'c> {
    pub(super) fn add(
        &mut self,
        statement: impl Future<Output = Result<(), tokio_postgres::Error>> + Send + 'c,
    ) {
        self.statements.push(Box::pin(statement));
    }

    /// Waits until all are answered; returns the first error.
    pub(super) async fn run(mut self) -> Result<(), tokio_postgres::Error> {
        let mut outcome = Ok(());
        let mut is_done = vec![false; self.statements.len()];
        futures_util::future::poll_fn(|context| {
            let mut left = false;
            for (statement, is_done) in self.statements.iter_mut().zip(&mut is_done) {
                if *is_done {
                    continue;
                }
                match statement.as_mut().poll(context) {
                    Poll::Ready(answer) => {
                        *is_done = true;
                        if outcome.is_ok() {
                            outcome = answer;
                        }
                    }
                    Poll::Pending => left = true,
                }
            }
            if left { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        outcome
    }
}

/// How long something is tried again.
pub(super) struct Patience {
    begun: Instant,
    wait_max: Duration,
    pause: Duration,
}

impl Patience {
    pub(super) fn new(wait_max: Duration) -> Self {
        Self { begun: Instant::now(), wait_max, pause: PAUSE_MIN }
    }

    /// Whether something can be tried again after a fault.
    pub(super) fn bears(&self, fault: &Fault) -> bool {
        (fault.is_lost() || fault.is_in_the_way()) && self.begun.elapsed() < self.wait_max
    }

    /// Waits for a random time, which gets longer: all nodes come back after an outage, and not at once.
    pub(super) async fn pause(&mut self) {
        sleep(self.pause.mul_f64(0.5 + fastrand::f64())).await;
        self.pause = self.pause.saturating_mul(2).min(PAUSE_MAX);
    }
}

/// Threads that wait for the server, whatever runtime the callers have.
#[derive(Debug)]
pub(super) struct Waiting(Option<tokio::runtime::Runtime>);

impl Waiting {
    pub(super) fn new(archive: &str) -> Result<Self, ArchiveError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("longhand-postgres")
            .enable_all()
            .build();
        let failed = |error: std::io::Error| ArchiveError::Failed {
            archive: archive.to_owned(),
            source: error.into(),
        };
        Ok(Self(Some(runtime.map_err(failed)?)))
    }

    /// Runs something to its end there, also if nobody waits for it any more.
    pub(super) fn run<T: Send + 'static>(
        &self,
        server: &Arc<Server>,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Answer<'static, T> {
        let (reply, answer) = oneshot::channel();
        let (server, archive) = (Arc::clone(server), server.name.clone());
        if let Some(runtime) = &self.0 {
            runtime.spawn(async move {
                let _ = reply.send(work.await.map_err(|fault| server.error(fault)));
            });
        }
        Box::pin(async move { answer.await.unwrap_or(Err(ArchiveError::Closed { archive })) })
    }

    /// Begins something that nobody waits for.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(work);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A runtime that is dropped inside of another one would panic if it waited.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
