use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use deadpool_postgres::Pool;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Outbox, Rendered, Row, Statement};

use crate::checkout::Checkout;
use crate::error::{self, Failure, Rerun};
use crate::pipeline::{Pending, in_order};
use crate::retry::retried;
use crate::server::{self, NOW};
use crate::{PostgresOptions, migrate, session};

/// A PostgreSQL database by tokio-postgres and a deadpool pool.
///
/// # Clone
///
/// Cheap: clones share the pool.
#[derive(Clone)]
pub struct PostgresDatabase {
    pool: Pool,
    prepared: bool,
    /// The server was asked once whether it is one that we know.
    known: Arc<AtomicBool>,
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
    #[must_use]
    pub fn from_pool(pool: Pool) -> Self {
        Self {
            pool,
            prepared: true,
            known: Arc::default(),
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
            let outcome = migrate::apply(&mut &*connection, &steps).await;
            self.ended(connection, outcome, true).await
        })
        .await
        .map_err(|error| error.context("migrate"))
    }

    /// A connection of the pool, to a server that can be worked with.
    async fn checkout(&self) -> Result<Checkout, Failure> {
        let connection = Checkout::new(self.pool.get().await.map_err(error::pool)?);
        if self.known.load(Ordering::Relaxed) {
            return Ok(connection);
        }
        let question = Statement::new(server::QUESTION);
        let question = question.render(Dialect::Postgres)?;
        let answer = session::query_unprepared(&**connection, &question).await;
        match answer
            .map_err(Failure::not_applied)
            .and_then(|rows| Ok(server::examine(&rows)?))
        {
            Ok(()) => {
                self.known.store(true, Ordering::Relaxed);
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
        connection: Checkout,
        outcome: Result<T, Failure>,
        in_transaction: bool,
    ) -> Result<T, Failure> {
        if let Err(failure) = &outcome {
            if failure.broken || failure.rerun == Rerun::Elsewhere || connection.is_closed() {
                return outcome;
            }
            if failure.rerun == Rerun::StalePlan {
                connection.statement_cache.clear();
            }
            if in_transaction && connection.batch_execute("ROLLBACK").await.is_err() {
                return outcome;
            }
        }
        connection.give_back();
        outcome
    }

    async fn run(&self, statement: &Rendered<'_>) -> Result<u64, Failure> {
        let connection = self.checkout().await?;
        let outcome = async {
            if !self.prepared {
                return session::execute_unprepared(&**connection, statement).await;
            }
            let prepared = session::prepare(&connection, statement)
                .await
                .map_err(Failure::not_applied)?;
            session::execute_prepared(&connection, &prepared, statement).await
        };
        let outcome = outcome.await;
        self.ended(connection, outcome, false).await
    }

    async fn read(&self, statement: &Rendered<'_>) -> Result<Vec<Row>, Failure> {
        let connection = self.checkout().await?;
        let outcome = async {
            if !self.prepared {
                return session::query_unprepared(&**connection, statement).await;
            }
            let prepared = session::prepare(&connection, statement)
                .await
                .map_err(Failure::not_applied)?;
            session::query_prepared(&connection, &prepared, statement).await
        };
        let outcome = outcome.await;
        self.ended(connection, outcome, false).await
    }

    async fn run_batch(&self, statements: &[Rendered<'_>]) -> Result<Vec<u64>, Failure> {
        let connection = self.checkout().await?;
        let outcome = self.transaction(&connection, statements).await;
        self.ended(connection, outcome, true).await
    }

    /// One transaction in as few round trips as are safe: `BEGIN`; all
    /// statements; `COMMIT`, which goes out with the statements if nothing has to
    /// be looked at before it.
    ///
    /// `BEGIN` is awaited alone: should it fail, as when a cancellation meant for
    /// an earlier statement comes late, what was sent behind it would commit
    /// statement by statement.
    async fn transaction(
        &self,
        connection: &Checkout,
        statements: &[Rendered<'_>],
    ) -> Result<Vec<u64>, Failure> {
        // Outside the transaction, which a failure here would end. A statement may
        // need what one before it makes; then each is prepared when its turn comes.
        let ready = if self.prepared {
            let prepare = |statement| -> Pending<'_, _, _> {
                Box::pin(session::prepare(connection, statement))
            };
            let all = in_order(statements.iter().map(prepare).collect()).await;
            match all.into_iter().collect::<Result<Vec<_>, _>>() {
                Ok(all) if all.len() == statements.len() => Some(all),
                Err(failure) if failure.broken || failure.error.code().is_none() => {
                    return Err(failure.not_applied());
                }
                _ => None,
            }
        } else {
            None
        };
        connection
            .batch_execute("BEGIN")
            .await
            .map_err(|error| Failure::from(error).not_applied())?;
        if self.prepared && ready.is_none() {
            return self.one_by_one(connection, statements).await;
        }

        let must_look = statements
            .iter()
            .any(|statement| statement.expected_rows().is_some());
        let mut requests: Vec<Pending<'_, u64, Failure>> = Vec::with_capacity(statements.len() + 1);
        for (place, statement) in statements.iter().enumerate() {
            requests.push(match &ready {
                Some(ready) => Box::pin(session::execute_prepared(
                    connection,
                    &ready[place],
                    statement,
                )),
                None => Box::pin(session::execute_unprepared(&***connection, statement)),
            });
        }
        if !must_look {
            requests.push(Box::pin(commit(connection)));
        }
        let mut answers = in_order(requests).await;
        let committed = if answers.len() > statements.len() {
            answers.pop()
        } else {
            None
        };
        let mut counts = Vec::with_capacity(statements.len());
        for (place, answer) in answers.into_iter().enumerate() {
            let of = |failure: Failure| at(failure, place);
            match answer {
                Ok(count) => counts.push(
                    statements[place]
                        .check_rows(count)
                        .map_err(|error| of(error.into()).not_applied())?,
                ),
                // The server said so, and does not commit behind an error; or the
                // connection broke before COMMIT was sent. Otherwise nothing is sure.
                Err(failure) if committed.is_none() || failure.error.code().is_some() => {
                    return Err(of(failure).not_applied());
                }
                Err(failure) => return Err(of(failure).not_again()),
            }
        }
        match committed {
            Some(answer) => answer.map_err(Failure::not_again)?,
            None => commit(connection).await.map_err(Failure::not_again)?,
        };
        Ok(counts)
    }

    /// The statements of a transaction that has begun, each prepared when it is
    /// its turn.
    async fn one_by_one(
        &self,
        connection: &Checkout,
        statements: &[Rendered<'_>],
    ) -> Result<Vec<u64>, Failure> {
        let mut counts = Vec::with_capacity(statements.len());
        for (place, statement) in statements.iter().enumerate() {
            let run = async {
                let prepared = session::prepare(connection, statement).await?;
                let count = session::execute_prepared(connection, &prepared, statement).await?;
                Ok::<_, Failure>(statement.check_rows(count)?)
            };
            counts.push(
                run.await
                    .map_err(|failure| at(failure, place).not_applied())?,
            );
        }
        commit(connection).await.map_err(Failure::not_again)?;
        Ok(counts)
    }
}

/// Commits. The driver hides that a server answers `ROLLBACK` to the `COMMIT` of a
/// transaction that has failed; so this is only called, and its success only
/// believed, where every statement was answered to its end without an error.
async fn commit(connection: &Checkout) -> Result<u64, Failure> {
    connection.batch_execute("COMMIT").await?;
    Ok(0)
}

fn at(failure: Failure, place: usize) -> Failure {
    Failure {
        error: failure.error.with_statement(place),
        ..failure
    }
}

#[async_trait]
impl Database for PostgresDatabase {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        if statement.expected_rows().is_some() {
            let counts = self.batch_atomic(std::slice::from_ref(statement)).await?;
            return Ok(counts.into_iter().sum());
        }
        let statement = statement.render(Dialect::Postgres)?;
        retried(|| self.run(&statement)).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let statement = statement.render(Dialect::Postgres)?;
        retried(|| self.read(&statement)).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        let statements = Statement::render_batch(Dialect::Postgres, statements)?;
        match &statements[..] {
            [] => Ok(Vec::new()),
            // Atomic by itself, so one round trip does.
            [one] if one.expected_rows().is_none() && server::is_plain(one.sql()) => {
                let count = retried(|| self.run(one)).await;
                Ok(vec![count.map_err(|error| error.with_statement(0))?])
            }
            all => retried(|| self.run_batch(all)).await,
        }
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        let rows = self.query(&Statement::new(NOW)).await?;
        server::read_now(&rows)
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
