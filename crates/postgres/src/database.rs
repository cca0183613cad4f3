use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use deadpool_postgres::{ClientWrapper, Object, Pool};
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Outbox, Rendered, Row, Statement};
use futures_util::future;
use tokio_postgres::error::SqlState;

use crate::checkout::Checkout;
use crate::client::{Prepared, Unprepared};
use crate::error::{self, Failure, Rerun};
use crate::plans::Plans;
use crate::retry::retried;
use crate::runner::{self, Runner};
use crate::server;
use crate::session::{self, Session};
use crate::{PostgresOptions, batch, migrate};

/// A PostgreSQL database by tokio-postgres and a deadpool pool.
///
/// # Clone
///
/// Cheap: clones share the pool.
#[derive(Clone)]
pub struct PostgresDatabase {
    pool: Pool,
    prepared: bool,
    /// Others take connections of the pool too.
    borrowed: bool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The server was asked once whether it is one that we know.
    known: AtomicBool,
    plans: Plans,
}

impl PostgresDatabase {
    /// Connects to the database of `url`, with a pool of its own.
    ///
    /// `postgres://user:password@host:port/database?sslmode=verify-full`; for
    /// what a URL can say, and for all that it cannot, see [`PostgresOptions`].
    /// One connection is made at once, so that what is wrong shows here.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the URL cannot
    /// be read; otherwise why the server cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, DbError> {
        PostgresOptions::new(url)?.connect().await
    }

    /// Works with the connections of a pool that the service has already.
    ///
    /// The server is looked at when the first connection is taken. See
    /// [`with_prepared_statements`](Self::with_prepared_statements) for a pool
    /// that leads to PgBouncer.
    ///
    /// A connection that others gave back with a transaction open, as after a `BEGIN`
    /// of their own that nothing ended, is closed, and another one taken: what ran on
    /// it would be committed by nobody. A call looks for that in its own round trip.
    ///
    /// The driver logs what the server says unasked, at the level `INFO` of `log`. The
    /// notice of a trigger may hold values of a row, so let such a pool connect with
    /// `client_min_messages` set to `error`.
    #[must_use]
    pub fn from_pool(pool: Pool) -> Self {
        Self {
            borrowed: true,
            ..Self::with_own_pool(pool)
        }
    }

    /// With a pool that was made for this handle.
    pub(crate) fn with_own_pool(pool: Pool) -> Self {
        Self {
            pool,
            prepared: true,
            borrowed: false,
            shared: Arc::default(),
        }
    }

    /// Whether statements are prepared once a connection and kept, which is the
    /// default.
    ///
    /// Behind a pooler that lends connections by transaction, such as PgBouncer
    /// with `pool_mode = transaction`, this must be `false`. Each statement is
    /// then parsed and planned when it is run, still in one round trip.
    #[must_use]
    pub fn with_prepared_statements(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// The pool that the connections come from.
    ///
    /// Give its connections back with no transaction open: in one that
    /// [`connect`](Self::connect) made nobody looks for that, and what this handle
    /// runs on such a connection is not committed. To share a pool use
    /// [`from_pool`](Self::from_pool), with a clone of this one if need be.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Applies the shipped migrations, for the outbox `outbox` and for pending
    /// receipts, as far as they were not applied before.
    ///
    /// Many processes may do so at once: one applies them and the others wait.
    ///
    /// # Errors
    ///
    /// [`Kind::Schema`](crate::Kind::Schema) if a table of the same name has
    /// other columns, or if the role may not make tables; otherwise what the
    /// database says. Nothing is then changed.
    pub async fn migrate(&self) -> Result<(), DbError> {
        self.apply(migrate::shipped()).await
    }

    /// Applies the shipped migrations for the table of `outbox`, as
    /// [`migrate`](Self::migrate) does for the default table. The schema that
    /// its name may have must be there.
    ///
    /// # Errors
    ///
    /// As for [`migrate`](Self::migrate).
    pub async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.apply(migrate::of_outbox(outbox)).await
    }

    async fn apply(&self, steps: Vec<migrate::Step>) -> Result<(), DbError> {
        retried(|| async {
            let connection = self.checkout().await?;
            let mut session = Unprepared(&**connection);
            let outcome = self
                .alone(&connection, migrate::apply(&mut session, &steps))
                .await;
            self.ended(connection, outcome, true).await
        })
        .await
        .map_err(|error| error.context("migrate"))
    }

    /// A connection of the pool, to a server that can be worked with.
    async fn checkout(&self) -> Result<Checkout<Object>, Failure> {
        let connection = Checkout::new(self.pool.get().await.map_err(error::pool)?);
        if self.shared.plans.are_old() {
            self.pool.manager().statement_caches.clear();
        }
        if self.shared.known.load(Ordering::Relaxed) {
            return Ok(connection);
        }
        let question = Statement::new(server::QUESTION);
        let question = question.render(Dialect::Postgres)?;
        let answer = Unprepared(&**connection).rows(&question).await;
        match answer
            .map_err(Failure::not_applied)
            .and_then(|rows| Ok(server::examine(&rows)?))
        {
            Ok(()) => {
                self.shared.known.store(true, Ordering::Relaxed);
                Ok(connection)
            }
            Err(failure) => self.ended(connection, Err(failure), false).await,
        }
    }

    pub(crate) async fn check(&self) -> Result<(), DbError> {
        match self.checkout().await {
            Ok(connection) => {
                connection.give_back();
                Ok(())
            }
            Err(failure) => Err(failure.error),
        }
    }

    /// Gives the connection back, or closes it if it is not as it was; rolls back
    /// first if there may be a transaction open on it.
    async fn ended<T>(
        &self,
        connection: Checkout<Object>,
        outcome: Result<T, Failure>,
        in_transaction: bool,
    ) -> Result<T, Failure> {
        if let Err(failure) = &outcome {
            if failure.broken || failure.rerun == Rerun::Elsewhere || connection.is_closed() {
                return outcome;
            }
            let end = session::end_of_failed(failure, in_transaction);
            if let Some(end) = end
                && connection.batch_execute(end).await.is_err()
            {
                return outcome;
            }
        }
        connection.give_back();
        outcome
    }

    /// Does `work`, unless somebody else's transaction is open on the connection.
    ///
    /// Looking takes no round trip: both are sent in this order, and in a transaction
    /// the look fails, upon which the server refuses what comes behind.
    async fn alone<T>(
        &self,
        connection: &ClientWrapper,
        work: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Failure> {
        if !self.borrowed {
            return work.await;
        }
        let look = connection.batch_execute(session::NO_TRANSACTION);
        let (looked, outcome) = future::join(look, work).await;
        let found = looked.as_ref().err().and_then(tokio_postgres::Error::code);
        match found {
            Some(&SqlState::INVALID_TEXT_REPRESENTATION | &SqlState::IN_FAILED_SQL_TRANSACTION) => {
                Err(Failure::occupied())
            }
            _ => outcome,
        }
    }

    async fn count(&self, on: &ClientWrapper, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let count = if self.prepared {
            Prepared(on).count(statement).await
        } else {
            Unprepared(&**on).count(statement).await
        };
        count.map_err(|failure| failure.alone(statement))
    }

    async fn rows(
        &self,
        on: &ClientWrapper,
        statement: &Rendered<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let rows = if self.prepared {
            Prepared(on).rows(statement).await
        } else {
            Unprepared(&**on).rows(statement).await
        };
        rows.map_err(|failure| failure.alone(statement))
    }

    async fn batch(
        &self,
        on: &ClientWrapper,
        statements: &[Rendered<'_>],
    ) -> Result<Vec<u64>, Failure> {
        if self.prepared {
            batch::prepared(on, statements).await
        } else {
            batch::unprepared(on, statements).await
        }
    }

    /// Whether it failed over what the connection keeps of before a migration.
    /// Nothing of it was done, and it is done again once, on that connection: every
    /// other one of the pool may be no better.
    fn is_stale<T>(&self, outcome: &Result<T, Failure>) -> bool {
        self.prepared && matches!(outcome, Err(failure) if failure.rerun == Rerun::StalePlan)
    }
}

impl Runner for PostgresDatabase {
    async fn run(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let connection = self.checkout().await?;
        let work = async {
            let outcome = self.count(&connection, statement).await;
            if !self.is_stale(&outcome) {
                return outcome;
            }
            connection.statement_cache.clear();
            self.count(&connection, statement).await
        };
        let outcome = self.alone(&connection, work).await;
        self.ended(connection, outcome, false).await
    }

    async fn read(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let connection = self.checkout().await?;
        let work = async {
            let outcome = self.rows(&connection, statement).await;
            if !self.is_stale(&outcome) {
                return outcome;
            }
            connection.statement_cache.clear();
            self.rows(&connection, statement).await
        };
        let outcome = self.alone(&connection, work).await;
        self.ended(connection, outcome, false).await
    }

    async fn run_batch(&self, statements: &[Rendered<'_>]) -> Result<Vec<u64>, Failure> {
        let connection = self.checkout().await?;
        let work = async {
            let outcome = self.batch(&connection, statements).await;
            if !self.is_stale(&outcome) || connection.batch_execute("ROLLBACK").await.is_err() {
                return outcome;
            }
            connection.statement_cache.clear();
            self.batch(&connection, statements).await
        };
        let outcome = self.alone(&connection, work).await;
        self.ended(connection, outcome, true).await
    }

    async fn run_once(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let connection = self.checkout().await?;
        let mut session = Unprepared(&**connection);
        let outcome = self.alone(&connection, session.count(statement)).await;
        self.ended(connection, outcome, false).await
    }

    async fn read_once(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let connection = self.checkout().await?;
        let mut session = Unprepared(&**connection);
        let outcome = self.alone(&connection, session.rows(statement)).await;
        self.ended(connection, outcome, false).await
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        runner::execute(self, statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        runner::query(self, statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        runner::batch_atomic(self, statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        runner::now(self).await
    }
}

impl fmt::Debug for PostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresDatabase")
            .field("connections", &self.pool.status().size)
            .field("prepared_statements", &self.prepared)
            .finish_non_exhaustive()
    }
}
