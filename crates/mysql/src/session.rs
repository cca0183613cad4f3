//! One connection out of the pool, for one piece of work.

use std::sync::Arc;

use duebox_core::{Budget, DbError, Kind, Rendered, Row};
use futures_util::TryStreamExt;
use sqlx::mysql::{MySqlConnection, MySqlStatement};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Connection, Either, Executor, MySql, MySqlPool, SqlSafeStr, Statement};

use crate::error::{Failure, cannot_be_prepared, sort, sort_connect};
use crate::row::{Layout, arguments, packet_len};

/// Statements that bind more values than this are not kept prepared: they come
/// in too many lengths. The longest lists of leases that the outbox binds, which
/// are of few lengths, are below it.
const MOST_VALUES_KEPT: usize = 2_100;

/// Buffers that grew beyond this are given back after the statement.
const LARGE_PACKET: usize = 1024 * 1024;

/// A connection that goes back to the pool only after
/// [`settle`](Session::settle), and is closed otherwise: when a future is dropped
/// half-way, nobody inherits its transaction or the rest of an answer, and the
/// server rolls back.
pub(crate) struct Session {
    connection: Option<PoolConnection<MySql>>,
    /// The pool is the caller's: its sessions have settings of their own.
    borrowed: bool,
    settled: bool,
}

impl Session {
    pub(crate) async fn acquire(pool: &MySqlPool, borrowed: bool) -> Result<Self, Failure> {
        let connection = pool.acquire().await.map_err(|error| match error {
            // Either all connections are in use, or none can be made.
            sqlx::Error::PoolTimedOut => {
                let (kind, message) = if pool.size() >= pool.options().get_max_connections() {
                    (Kind::Busy, "no connection of the pool became free in time")
                } else {
                    (Kind::Unavailable, "the server could not be reached in time")
                };
                Failure::ours(DbError::new(kind, message).not_applied())
            }
            error => sort_connect(&error),
        })?;
        Ok(Self {
            connection: Some(connection),
            borrowed,
            settled: false,
        })
    }

    pub(crate) fn connection(&mut self) -> &mut MySqlConnection {
        self.connection
            .as_mut()
            .expect("it is taken in `drop` alone")
    }

    /// Nothing is open or unread: the connection may serve others.
    pub(crate) fn settle(mut self) {
        self.settled = true;
    }

    /// After an error outside of a transaction.
    pub(crate) async fn settle_after(mut self, failure: &Failure) {
        if failure.broken {
            return;
        }
        // A transaction that was prepared for but never began would leave its
        // isolation to the caller's next one.
        if self.borrowed && self.command(ROLLBACK).await.is_err() {
            return;
        }
        self.settle();
    }

    /// After a statement that may have run others. The session is closed, since it
    /// may be in a transaction, without `autocommit` or in another database.
    ///
    /// The server says whether it is in a transaction by refusing to shape the next.
    pub(crate) async fn close_after_others(mut self) -> Result<(), Failure> {
        match self.command(ISOLATE).await {
            Err(failure) if failure.error.code() == Some(IN_A_TRANSACTION) => {
                Err(Failure::ours(DbError::new(
                    Kind::Unsupported,
                    "a statement left a transaction open, which was rolled back; use \
                     batch_atomic, or a transaction of your own driver",
                )))
            }
            _ => Ok(()),
        }
    }

    /// Runs a text of ours that binds nothing and returns nothing.
    pub(crate) async fn command(&mut self, sql: &'static str) -> Result<(), Failure> {
        let answer = self.connection().execute(sql).await;
        answer.map(drop).map_err(|error| sort(&error))
    }

    /// Makes the next statement a transaction of READ COMMITTED, in which it
    /// locks no gaps that other sessions insert into. Sessions of our own pool
    /// are so from the start.
    pub(crate) async fn isolate(&mut self) -> Result<(), Failure> {
        if self.borrowed {
            self.command(ISOLATE)
                .await
                .map_err(Failure::before_the_work)?;
        }
        Ok(())
    }

    /// Begins a transaction. An error here means that nothing was done.
    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        let sql = if self.borrowed { ISOLATE_BEGIN } else { BEGIN };
        self.command(sql).await.map_err(Failure::before_the_work)
    }

    pub(crate) async fn commit(mut self) -> Result<(), Failure> {
        let answer = self.command(COMMIT).await;
        match &answer {
            Ok(()) => self.settle(),
            Err(failure) if !failure.broken && self.command(ROLLBACK).await.is_ok() => {
                self.settle();
            }
            Err(_) => {}
        }
        answer
    }

    /// Ends the transaction undone: by saying so, or by the end of the session.
    pub(crate) async fn roll_back(mut self, failure: &Failure) {
        if !failure.broken && self.command(ROLLBACK).await.is_ok() {
            self.settle();
        }
    }

    /// Refuses statements that the server would answer by closing the link.
    ///
    /// The limit is asked for on the very connection, because it is a session's
    /// own from its start, and only when it could matter. `limit` is what it was
    /// when first seen.
    pub(crate) async fn check_packets(
        &mut self,
        statements: &[Rendered<'_>],
        limit: u64,
    ) -> Result<(), Failure> {
        let lengths = statements
            .iter()
            .map(|statement| packet_len(statement.sql(), statement.values()) as u64);
        let longest = lengths.max().unwrap_or(0);
        if longest <= (limit / 4).min(512 * 1024) {
            return Ok(());
        }
        let limit = self.max_allowed_packet().await?;
        if longest > limit {
            return Err(Failure::ours(DbError::invalid(format!(
                "a statement of {longest} bytes is larger than the server's max_allowed_packet, \
                 which is {limit}"
            ))));
        }
        Ok(())
    }

    async fn max_allowed_packet(&mut self) -> Result<u64, Failure> {
        let answer: Result<u64, _> =
            sqlx::query_scalar("SELECT CAST(@@max_allowed_packet AS UNSIGNED)")
                .fetch_one(self.connection())
                .await;
        answer.map_err(|error| sort(&error).before_the_work())
    }
}

const ISOLATE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";
/// `ER_CANT_CHANGE_TX_CHARACTERISTICS`
const IN_A_TRANSACTION: &str = "1568";
const BEGIN: &str = "START TRANSACTION READ WRITE";
const ISOLATE_BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION READ WRITE";
// Whatever the session's completion_type.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

impl Drop for Session {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        // Going back to the pool needs a runtime. And the pool must not wait for
        // an orderly end: a server that waits for a lock does not answer.
        if !self.settled || tokio::runtime::Handle::try_current().is_err() {
            drop(connection.detach());
        }
    }
}

/// Runs a statement and says how many rows it touched, 0 if it returned rows.
pub(crate) async fn execute(
    connection: &mut MySqlConnection,
    statement: &Rendered<'_>,
) -> Result<u64, Failure> {
    let arguments = arguments(statement.values()).map_err(Failure::ours)?;
    let sql: Arc<str> = statement.sql().into();
    let kept = statement.values().len() <= MOST_VALUES_KEPT;
    let answer = match prepare(connection, &sql, kept).await {
        Err(error) if cannot_be_prepared(&error) && statement.values().is_empty() => {
            touched(connection, sqlx::raw_sql(AssertSqlSafe(sql))).await
        }
        Err(error) => return Err(sort(&error).before_the_work()),
        Ok(_) => {
            let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(kept);
            touched(connection, query).await
        }
    };
    shrink(connection, statement);
    answer.map_err(|error| sort(&error).map(|error| procedure(statement, error)))
}

/// Prepares what is to be kept prepared, as running it would do first. So an
/// error before anything is done can be told from one after.
async fn prepare(
    connection: &mut MySqlConnection,
    sql: &Arc<str>,
    kept: bool,
) -> Result<Option<MySqlStatement>, sqlx::Error> {
    if !kept {
        return Ok(None);
    }
    let sql = AssertSqlSafe(Arc::clone(sql)).into_sql_str();
    connection.prepare(sql).await.map(Some)
}

async fn touched<'q, E: sqlx::Execute<'q, MySql> + 'q>(
    connection: &mut MySqlConnection,
    query: E,
) -> Result<u64, sqlx::Error> {
    let (mut touched, mut returned) = (0, false);
    let mut answer = connection.fetch_many(query);
    while let Some(part) = answer.try_next().await? {
        match part {
            Either::Left(done) => touched += done.rows_affected(),
            Either::Right(_) => returned = true,
        }
    }
    Ok(if returned { 0 } else { touched })
}

/// Runs a statement and reads its rows, those that the budget admits.
pub(crate) async fn query(
    connection: &mut MySqlConnection,
    statement: &Rendered<'_>,
    mut budget: Option<Budget>,
) -> Result<Vec<Row>, Failure> {
    let arguments = arguments(statement.values()).map_err(Failure::ours)?;
    let sql: Arc<str> = statement.sql().into();
    let kept = statement.values().len() <= MOST_VALUES_KEPT;
    let prepared = prepare(connection, &sql, kept).await;
    if let Some(prepared) = prepared.map_err(|error| sort(&error).before_the_work())? {
        // It tells the types, though not always as they will come.
        Layout::new(prepared.columns()).map_err(|error| Failure::ours(error.not_applied()))?;
    }
    let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(kept);
    let answer = collect(connection, query, &mut budget).await;
    shrink(connection, statement);
    answer.map_err(|failure| failure.map(|error| procedure(statement, error)))
}

async fn collect<'q, E: sqlx::Execute<'q, MySql> + 'q>(
    connection: &mut MySqlConnection,
    query: E,
    budget: &mut Option<Budget>,
) -> Result<Vec<Row>, Failure> {
    use sqlx::Row as _;

    let mut rows = Vec::new();
    let mut layout = None;
    // An error of ours, or enough; what is left of the answer is then read and
    // thrown away, a row at a time, so that the connection can go on.
    let mut refused = None;
    let mut full = false;
    let mut answer = connection.fetch_many(query);
    while let Some(part) = answer.try_next().await.map_err(|error| sort(&error))? {
        let Either::Right(row) = part else {
            // A procedure may answer several results, with other columns.
            layout = None;
            continue;
        };
        if refused.is_some() || full {
            continue;
        }
        let read = match &layout {
            Some(layout) => Layout::read(layout, &row),
            None => {
                Layout::new(row.columns()).and_then(|new| Layout::read(layout.insert(new), &row))
            }
        };
        match read {
            Err(error) => refused = Some(error),
            Ok(row) if budget.as_mut().is_none_or(|budget| budget.admits(&row)) => rows.push(row),
            Ok(_) => full = true,
        }
    }
    match refused {
        Some(error) => Err(Failure::ours(error)),
        None => Ok(rows),
    }
}

fn shrink(connection: &mut MySqlConnection, statement: &Rendered<'_>) {
    if packet_len(statement.sql(), statement.values()) > LARGE_PACKET {
        connection.shrink_buffers();
    }
}

/// What runs others may have committed before it failed.
fn procedure(statement: &Rendered<'_>, error: DbError) -> DbError {
    if statement.runs_others() {
        error.unknown()
    } else {
        error
    }
}
