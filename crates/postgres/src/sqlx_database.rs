use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Outbox, Rendered, Row, Statement};
use sqlx::Connection;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgPool, Postgres};

use crate::checkout::Checkout;
use crate::error::{self, Failure, Rerun};
use crate::migrate;
use crate::retry::retried;
use crate::runner::{self, Runner};
use crate::server;
use crate::session::{self, Session};
use crate::sqlx_client::{Learnt, SqlxPrepared, SqlxUnprepared};

/// A PostgreSQL database by the sqlx pool of a service, so that there is one pool
/// and one set-up of TLS. Needs the feature `sqlx`.
///
/// It does what [`PostgresDatabase`](crate::PostgresDatabase) does. A batch takes
/// one round trip a statement, since sqlx sends one at a time.
///
/// # Clone
///
/// Cheap: clones share the pool.
#[derive(Clone)]
pub struct SqlxPostgresDatabase {
    pool: PgPool,
    prepared: bool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The server was asked once whether it is one that we know.
    known: AtomicBool,
    learnt: Learnt,
}

impl SqlxPostgresDatabase {
    /// Works with the connections of a pool that the service has already.
    ///
    /// Use sqlx's transactions on its connections, which end when they are dropped, and
    /// send no `BEGIN` as SQL: where nothing ended that, what this handle runs on the
    /// connection is not committed. sqlx does not tell, and to look would take a round
    /// trip a call.
    ///
    /// sqlx logs what the server says unasked, and the notice of a trigger may hold
    /// values of a row: set `client_min_messages` to `error`, as by
    /// `PgConnectOptions::options`.
    #[must_use]
    pub fn from_pool(pool: PgPool) -> Self {
        Self {
            pool,
            prepared: true,
            shared: Arc::default(),
        }
    }

    /// Whether statements are prepared once a connection and kept, which is the
    /// default.
    ///
    /// It must be `false` behind a pooler that lends connections by transaction,
    /// such as PgBouncer with `pool_mode = transaction`, and for a pool with
    /// `statement_cache_capacity(0)`. Every statement with values then runs in a
    /// transaction and takes four round trips.
    #[must_use]
    pub fn with_prepared_statements(mut self, prepared: bool) -> Self {
        self.prepared = prepared;
        self
    }

    /// The pool that the connections come from.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// As [`PostgresDatabase::migrate`](crate::PostgresDatabase::migrate).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn migrate(&self) -> Result<(), DbError> {
        self.apply(migrate::shipped()).await
    }

    /// As [`PostgresDatabase::migrate_outbox`](crate::PostgresDatabase::migrate_outbox).
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.apply(migrate::of_outbox(outbox)).await
    }

    async fn apply(&self, steps: Vec<migrate::Step>) -> Result<(), DbError> {
        retried(|| async {
            let mut connection = self.checkout().await?;
            let outcome = migrate::apply(&mut self.unprepared(&mut connection), &steps).await;
            self.ended(connection, outcome, true).await
        })
        .await
        .map_err(|error| error.context("migrate"))
    }

    fn prepared<'a>(&'a self, connection: &'a mut PgConnection) -> SqlxPrepared<'a> {
        SqlxPrepared {
            connection,
            learnt: &self.shared.learnt,
        }
    }

    fn unprepared<'a>(&'a self, connection: &'a mut PgConnection) -> SqlxUnprepared<'a> {
        SqlxUnprepared {
            connection,
            learnt: &self.shared.learnt,
        }
    }

    /// A connection of the pool, to a server that can be worked with.
    async fn checkout(&self) -> Result<Checkout<PoolConnection<Postgres>>, Failure> {
        let mut connection = match self.pool.acquire().await {
            Ok(connection) => Checkout::new(connection),
            Err(error) => {
                let full = self.pool.size() >= self.pool.options().get_max_connections();
                return Err(error::sqlx_pool(&error, full).into());
            }
        };
        if self.shared.known.load(Ordering::Relaxed) {
            return Ok(connection);
        }
        let question = Statement::new(server::QUESTION);
        let question = question.render(Dialect::Postgres)?;
        let answer = async {
            let mut session = self.unprepared(&mut connection);
            session.command("BEGIN READ ONLY").await?;
            let rows = session.rows(&question).await?;
            session.command("COMMIT").await?;
            Ok(server::examine(&rows)?)
        };
        match answer.await {
            Ok(()) => {
                self.shared.known.store(true, Ordering::Relaxed);
                Ok(connection)
            }
            Err(failure) => {
                self.ended(connection, Err(Failure::not_applied(failure)), true)
                    .await
            }
        }
    }

    /// Gives the connection back, or closes it if it is not as it was; rolls back
    /// first if there may be a transaction open on it.
    async fn ended<T>(
        &self,
        mut connection: Checkout<PoolConnection<Postgres>>,
        outcome: Result<T, Failure>,
        in_transaction: bool,
    ) -> Result<T, Failure> {
        if let Err(failure) = &outcome {
            if failure.broken || failure.rerun == Rerun::Elsewhere {
                return outcome;
            }
            let end = session::end_of_failed(failure, in_transaction);
            if let Some(end) = end
                && self.unprepared(&mut connection).command(end).await.is_err()
            {
                return outcome;
            }
        }
        connection.give_back();
        outcome
    }

    async fn count(&self, on: &mut PgConnection, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let count = self.prepared(on).count(statement).await;
        count.map_err(|failure| failure.alone(statement))
    }

    async fn rows(
        &self,
        on: &mut PgConnection,
        statement: &Rendered<'_>,
    ) -> Result<Vec<Row>, Failure> {
        if self.prepared {
            let rows = self.prepared(on).rows(statement).await;
            return rows.map_err(|failure| failure.alone(statement));
        }
        let mut session = self.unprepared(on);
        session::begin(&mut session).await?;
        let rows = session
            .rows(statement)
            .await
            .map_err(Failure::not_applied)?;
        session::commit(&mut session).await?;
        Ok(rows)
    }

    async fn batch(
        &self,
        on: &mut PgConnection,
        statements: &[Rendered<'_>],
    ) -> Result<Vec<u64>, Failure> {
        if self.prepared {
            transaction(self.prepared(on), statements).await
        } else {
            transaction(self.unprepared(on), statements).await
        }
    }

    async fn is_rolled_back(&self, on: &mut PgConnection, in_transaction: bool) -> bool {
        !in_transaction || self.unprepared(on).command("ROLLBACK").await.is_ok()
    }

    /// Forgets what was prepared on this connection and what is known of types.
    async fn forget(&self, on: &mut PgConnection) -> Result<(), Failure> {
        self.shared.learnt.forget();
        Ok(on.clear_cached_statements().await?)
    }
}

impl Runner for SqlxPostgresDatabase {
    async fn run(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        if !self.prepared {
            let counts = self.run_batch(std::slice::from_ref(statement)).await?;
            return Ok(counts.into_iter().sum());
        }
        let mut connection = self.checkout().await?;
        let mut outcome = self.count(&mut connection, statement).await;
        if is_stale(&outcome) {
            self.forget(&mut connection).await?;
            outcome = self.count(&mut connection, statement).await;
        }
        self.ended(connection, outcome, false).await
    }

    async fn read(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let mut connection = self.checkout().await?;
        let mut outcome = self.rows(&mut connection, statement).await;
        if is_stale(&outcome) && self.is_rolled_back(&mut connection, !self.prepared).await {
            self.forget(&mut connection).await?;
            outcome = self.rows(&mut connection, statement).await;
        }
        self.ended(connection, outcome, !self.prepared).await
    }

    async fn run_batch(&self, statements: &[Rendered<'_>]) -> Result<Vec<u64>, Failure> {
        let mut connection = self.checkout().await?;
        let mut outcome = self.batch(&mut connection, statements).await;
        if is_stale(&outcome) && self.is_rolled_back(&mut connection, true).await {
            self.forget(&mut connection).await?;
            outcome = self.batch(&mut connection, statements).await;
        }
        self.ended(connection, outcome, true).await
    }

    async fn run_once(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        if !self.prepared {
            return self.run(statement).await;
        }
        let mut connection = self.checkout().await?;
        let outcome = self.unprepared(&mut connection).count(statement).await;
        self.ended(connection, outcome, false).await
    }

    async fn read_once(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        if !self.prepared {
            return self.read(statement).await;
        }
        let mut connection = self.checkout().await?;
        let outcome = self.unprepared(&mut connection).rows(statement).await;
        self.ended(connection, outcome, false).await
    }
}

/// Whether it failed over what is kept of before a migration. Nothing of it was
/// done, and it is done again once, on that connection: every other one of the pool
/// may be no better.
fn is_stale<T>(outcome: &Result<T, Failure>) -> bool {
    matches!(outcome, Err(failure) if failure.rerun == Rerun::StalePlan)
}

async fn transaction<S: Session>(
    mut session: S,
    statements: &[Rendered<'_>],
) -> Result<Vec<u64>, Failure> {
    session::begin(&mut session).await?;
    session::one_by_one(&mut session, statements).await
}

#[async_trait]
impl Database for SqlxPostgresDatabase {
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

impl fmt::Debug for SqlxPostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlxPostgresDatabase")
            .field("connections", &self.pool.size())
            .field("prepared_statements", &self.prepared)
            .finish_non_exhaustive()
    }
}
