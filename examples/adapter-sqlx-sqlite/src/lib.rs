//! Duebox on SQLite through sqlx: an adapter of one's own.

mod error;
mod sql;

use std::path::Path;
use std::slice::from_ref;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, SubsecRound, Utc};
use duebox_core::{
    Database, DbError, Dialect, Outbox, ReadThenWrite, Rendered, Row, Statement, format_time,
};
use duebox_migrations::{BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{Connection, Sqlite, pool::PoolConnection};

use crate::error::sort;

/// A database in a file, on one connection, on which all calls take turns.
#[derive(Clone, Debug)]
pub struct SqlxSqlite(SqlitePool);

/// What is done in one transaction.
enum Work<'a> {
    Batch(&'a [Rendered<'a>]),
    Query(&'a Rendered<'a>),
    Step(&'a ReadThenWrite),
    Migrate(&'a Outbox),
}

/// The counts of statements, or the rows of a query.
#[derive(Default)]
struct Done {
    counts: Vec<u64>,
    rows: Vec<Row>,
}

impl SqlxSqlite {
    /// Opens the file, and makes it if it is not there.
    ///
    /// # Errors
    ///
    /// What SQLite says.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DbError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .connect_with(options);
        pool.await
            .map(Self)
            .map_err(|error| sort(&error).not_applied())
    }

    /// Applies the shipped migrations for the table of this outbox.
    ///
    /// # Errors
    ///
    /// What SQLite says; after an error nothing was applied.
    pub async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        let done = self.in_transaction(Work::Migrate(outbox)).await;
        let doing = format!("migrate {}", outbox.table());
        done.map(drop).map_err(|error| error.context(doing))
    }

    async fn in_transaction(&self, work: Work<'_>) -> Result<Done, DbError> {
        let mut connection = self.acquire().await?;
        // Now, since a transaction that has read may not be let to write later.
        let begun = connection.begin_with("BEGIN IMMEDIATE").await;
        let mut transaction = begun.map_err(|error| sort(&error).not_applied())?;
        let done = work.run(&mut transaction).await;
        let ended = match &done {
            Ok(_) => transaction.commit().await,
            Err(_) => transaction.rollback().await,
        };
        // As long as no COMMIT was sent, nothing was done.
        let done = done.map_err(DbError::not_applied);
        let Err(error) = ended else { return done };
        // Where SQLite has ended the transaction by itself, sqlx does not know.
        let _ = connection.close().await;
        done.and(Err(sort(&error)))
    }

    async fn acquire(&self) -> Result<PoolConnection<Sqlite>, DbError> {
        let connection = self.0.acquire().await;
        connection.map_err(|error| sort(&error).not_applied())
    }
}

impl Work<'_> {
    async fn run(&self, connection: &mut SqliteConnection) -> Result<Done, DbError> {
        let mut done = Done::default();
        match self {
            Self::Batch(statements) => {
                for (index, statement) in statements.iter().enumerate() {
                    let count = sql::count(connection, statement).await;
                    let count = count.and_then(|count| statement.check_rows(count));
                    done.counts
                        .push(count.map_err(|error| error.with_statement(index))?);
                }
            }
            Self::Query(statement) => done.rows = sql::rows(connection, statement, None).await?,
            Self::Step(step) => {
                let read = step.read().render(Dialect::Sqlite)?;
                done.rows = sql::rows(connection, &read, Some(step.budget())).await?;
                let writes = step.then(&done.rows)?;
                for write in Statement::render_batch(Dialect::Sqlite, &writes)? {
                    write.check_rows(sql::count(connection, &write).await?)?;
                }
            }
            Self::Migrate(outbox) => migrate(connection, outbox.table()).await?,
        }
        Ok(done)
    }
}

/// What of the shipped SQL was not applied to the table yet.
async fn migrate(connection: &mut SqliteConnection, table: &str) -> Result<(), DbError> {
    run(connection, &Statement::new(BOOKKEEPING_CREATE)).await?;
    let applied = Statement::new(BOOKKEEPING_APPLIED).bind(table);
    let applied = sql::rows(connection, &applied.render(Dialect::Sqlite)?, None).await?;
    for migration in duebox_migrations::outbox(Dialect::Sqlite) {
        let number = Ok(i64::from(migration.number));
        if applied.iter().any(|row| row.get("number") == number) {
            continue;
        }
        for statement in duebox_migrations::split(&migration.render(table)) {
            run(connection, &Statement::new(statement.to_owned())).await?;
        }
        let note = Statement::new(BOOKKEEPING_RECORD).bind(table);
        let note = note.bind(migration.number).bind(migration.name);
        run(connection, &note.bind(format_time(clock())?)).await?;
    }
    Ok(())
}

async fn run(connection: &mut SqliteConnection, statement: &Statement) -> Result<u64, DbError> {
    sql::count(connection, &statement.render(Dialect::Sqlite)?).await
}

fn clock() -> DateTime<Utc> {
    DateTime::from(SystemTime::now()).trunc_subsecs(6)
}

#[async_trait]
impl Database for SqlxSqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        // As a batch of one, so that a failure leaves no part of it.
        if let Ok(one) = Statement::render_batch(Dialect::Sqlite, from_ref(statement)) {
            return Ok(self.in_transaction(Work::Batch(&one)).await?.counts[0]);
        }
        // Such as VACUUM, which no transaction can hold.
        let alone = statement.render(Dialect::Sqlite)?;
        let count = sql::count(&mut *self.acquire().await?, &alone).await;
        alone.check_rows(count?)
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        if let Ok(one) = Statement::render_batch(Dialect::Sqlite, from_ref(statement)) {
            return Ok(self.in_transaction(Work::Query(&one[0])).await?.rows);
        }
        let alone = statement.render(Dialect::Sqlite)?;
        sql::rows(&mut *self.acquire().await?, &alone, None).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        let all = Statement::render_batch(Dialect::Sqlite, statements)?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.in_transaction(Work::Batch(&all)).await?.counts)
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        Ok(clock())
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        step.read().render(Dialect::Sqlite)?;
        Ok(self.in_transaction(Work::Step(step)).await?.rows)
    }
}
