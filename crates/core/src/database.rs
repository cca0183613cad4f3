use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::{DbError, Dialect, Kind, Row, Statement};

/// A database that keeps outboxes: the port that an adapter implements.
///
/// # Contract
///
/// Every method takes a connection, does its work and gives the connection
/// back without an open transaction, whatever happens. A statement that
/// carries an error, or that [`Statement::render`] refuses, is returned as
/// that error before any SQL runs. Values are bound; a text binds to any
/// column that the database can parse from text. Counts are of rows inserted,
/// updated or deleted, rows that were set to what they held included, and 0
/// for a statement that returns rows.
///
/// Single statements commit by themselves. A statement with
/// [`expect_rows`](Statement::expect_rows) given to [`execute`](Self::execute)
/// runs as a batch of one.
///
/// A deadlock or a serialization failure is tried again a bounded number of
/// times while it is certain that nothing was applied, and never once a
/// `COMMIT` was sent. Other errors are returned at once, as a [`DbError`] with
/// its kind and outcome and without any value of a row.
///
/// # Time
///
/// No method reads a clock but [`now`](Self::now), and no SQL of this crate
/// asks the server for the time.
///
/// # Cancellation
///
/// A future that is dropped leaves its work done or not done as a whole, and
/// no connection inside a transaction.
///
/// # Clone
///
/// An adapter's handle is cheap to clone; clones share connections.
#[async_trait]
pub trait Database: Send + Sync {
    /// The SQL that this database speaks.
    fn dialect(&self) -> Dialect;

    /// Runs one statement and returns how many rows it touched.
    ///
    /// # Errors
    ///
    /// Whatever the database answers, as a [`DbError`].
    async fn execute(&self, statement: &Statement) -> Result<u64, DbError>;

    /// Runs one statement and returns its rows, in the order of the database.
    /// A statement without rows to return returns none.
    ///
    /// # Errors
    ///
    /// Whatever the database answers, and [`Kind::Unsupported`] with the name
    /// of the type if a column's type cannot be read; cast it to text.
    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError>;

    /// Runs all statements in order in one transaction, commits, and returns
    /// how many rows each touched. An empty batch returns nothing and touches
    /// nothing.
    ///
    /// # Errors
    ///
    /// After an error nothing of the batch remains, unless its
    /// [`outcome`](DbError::outcome) is unknown: then all of it may, never a
    /// part. [`Kind::RowCount`] if a statement with
    /// [`expect_rows`](Statement::expect_rows) touched another number.
    /// [`Kind::Unsupported`], before anything runs, for a statement that would
    /// begin, end or save a transaction, for `PRAGMA`, `VACUUM`, `ATTACH` and
    /// `DETACH` on SQLite, and on MySQL and MariaDB for whatever commits by
    /// itself, DDL above all.
    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError>;

    /// The server's clock, which is the process's own for SQLite.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    async fn now(&self) -> Result<DateTime<Utc>, DbError>;

    /// Reads rows and writes what follows from them, in one short transaction
    /// in which nobody else changes those rows; returns the rows read.
    ///
    /// Needed where a statement cannot both change rows and return them in
    /// order, thus for [`Dialect::Sqlite`] and [`Dialect::MySql`]; PostgreSQL
    /// needs none. Rows are taken until [`ReadThenWrite::budget`] says stop.
    ///
    /// # Errors
    ///
    /// As for [`batch_atomic`](Self::batch_atomic), and the error of the step
    /// itself, after which nothing was applied. The provided method refuses
    /// with [`Kind::Unsupported`].
    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        let _ = step;
        Err(DbError::new(
            Kind::Unsupported,
            format!(
                "this adapter has no read_then_write, which {} needs",
                self.dialect()
            ),
        )
        .not_applied())
    }
}

macro_rules! forward {
    ($($pointer:ty),+) => {$(
        #[async_trait]
        impl<D: Database + ?Sized> Database for $pointer {
            fn dialect(&self) -> Dialect {
                (**self).dialect()
            }

            async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
                (**self).execute(statement).await
            }

            async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
                (**self).query(statement).await
            }

            async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
                (**self).batch_atomic(statements).await
            }

            async fn now(&self) -> Result<DateTime<Utc>, DbError> {
                (**self).now().await
            }

            async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
                (**self).read_then_write(step).await
            }
        }
    )+};
}

forward!(&D, Arc<D>, Box<D>);

type Then = dyn Fn(&[Row]) -> Result<Vec<Statement>, DbError> + Send + Sync;

/// A locking read and the writes that follow from what it returned.
///
/// Made by [`Outbox`](crate::Outbox), run by
/// [`Database::read_then_write`]. It may be run more than once, if the
/// transaction is tried again. Cheap to clone.
#[derive(Clone)]
pub struct ReadThenWrite {
    read: Statement,
    budget: Option<(&'static str, u64)>,
    then: Arc<Then>,
}

impl ReadThenWrite {
    /// Reads with `read` and writes what `then` makes of the rows.
    ///
    /// If `then` returns no statement there is nothing to write; if it returns
    /// an error the transaction is rolled back and the error returned.
    pub fn new(
        read: Statement,
        then: impl Fn(&[Row]) -> Result<Vec<Statement>, DbError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            read,
            budget: None,
            then: Arc::new(then),
        }
    }

    /// Stops reading before the texts of `column` are more than `bytes` long
    /// together, but not before the first row.
    #[must_use]
    pub fn stop_after(mut self, column: &'static str, bytes: u64) -> Self {
        self.budget = Some((column, bytes));
        self
    }

    /// The locking read.
    #[must_use]
    pub fn read(&self) -> &Statement {
        &self.read
    }

    /// What tells when to stop reading, new for each run.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget {
            limit: self.budget,
            spent: 0,
            asked: false,
        }
    }

    /// The writes that follow from these rows, in order.
    ///
    /// # Errors
    ///
    /// If a row is not what it must be; then the transaction is rolled back.
    pub fn then(&self, rows: &[Row]) -> Result<Vec<Statement>, DbError> {
        (self.then)(rows)
    }
}

impl fmt::Debug for ReadThenWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadThenWrite")
            .field("read", &self.read)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// How many bytes of a column may still be read; see
/// [`ReadThenWrite::stop_after`].
#[derive(Clone, Debug)]
pub struct Budget {
    limit: Option<(&'static str, u64)>,
    spent: u64,
    /// Whether there was a row before.
    asked: bool,
}

impl Budget {
    /// Whether this row still fits. The first row that is asked about always
    /// does; after a `false` no further row is read.
    pub fn admits(&mut self, row: &Row) -> bool {
        let Some((column, limit)) = self.limit else {
            return true;
        };
        let bytes = match row.value(column) {
            Ok(crate::Value::Text(text)) => text.len() as u64,
            _ => 0,
        };
        let first = !std::mem::replace(&mut self.asked, true);
        self.spent = self.spent.saturating_add(bytes);
        first || self.spent <= limit
    }
}
