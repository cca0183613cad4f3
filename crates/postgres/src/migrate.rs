//! The shipped migrations, applied by either driver.

use std::collections::HashSet;

use duebox_core::{DbError, Dialect, Kind, Outbox, Row, Statement, format_time};
use duebox_migrations::{
    BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD, BOOKKEEPING_TABLE, Migration,
};

use crate::error::Failure;
use crate::server::{NOW, read_now};
use crate::session;

/// One file, for one table.
pub(crate) struct Step {
    table: String,
    file: &'static Migration,
}

/// All files, each for its own table.
pub(crate) fn shipped() -> Vec<Step> {
    let files = duebox_migrations::all(Dialect::Postgres);
    files
        .iter()
        .map(|file| Step {
            table: file.table().to_owned(),
            file,
        })
        .collect()
}

/// The files of an outbox, for the table of `outbox`.
pub(crate) fn of_outbox(outbox: &Outbox) -> Vec<Step> {
    let files = duebox_migrations::outbox(Dialect::Postgres);
    files
        .iter()
        .map(|file| Step {
            table: outbox.table().to_owned(),
            file,
        })
        .collect()
}

/// A connection that migrations are run on.
pub(crate) trait Runner {
    /// Runs SQL without values, of one statement or many.
    fn run(&mut self, sql: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs one statement and reads its rows.
    fn ask(
        &mut self,
        statement: &Statement,
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;
}

impl Runner for &deadpool_postgres::ClientWrapper {
    async fn run(&mut self, sql: &str) -> Result<(), Failure> {
        Ok(self.batch_execute(sql).await?)
    }

    async fn ask(&mut self, statement: &Statement) -> Result<Vec<Row>, Failure> {
        let statement = statement.render(Dialect::Postgres)?;
        session::query_unprepared(&***self, &statement).await
    }
}

const COLUMNS: &str = "\
SELECT attname::text AS name
FROM pg_catalog.pg_attribute
WHERE attrelid = to_regclass(?)
    AND attnum > 0
    AND NOT attisdropped";

const BOOKKEEPING: &str = "\
SELECT
    to_regclass(?) IS NOT NULL AS there,
    COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false) AS possible";

/// Applies what is missing, in one transaction that has the advisory lock, and
/// commits it. After an error the caller rolls back.
pub(crate) async fn apply<R: Runner>(connection: &mut R, steps: &[Step]) -> Result<(), Failure> {
    let lock = duebox_migrations::lock(Dialect::Postgres);
    for sql in lock.take {
        connection.run(sql).await.map_err(Failure::not_applied)?;
    }
    in_lock(connection, steps)
        .await
        .map_err(Failure::not_applied)?;
    for sql in lock.release {
        connection.run(sql).await.map_err(Failure::not_again)?;
    }
    Ok(())
}

async fn in_lock<R: Runner>(connection: &mut R, steps: &[Step]) -> Result<(), Failure> {
    let mut books = books(connection).await?;
    for step in steps {
        let columns = columns(connection, &step.table).await?;
        let recorded = books == Books::Kept && recorded(connection, step).await?;
        let expected = step.file.expected_columns();
        let missing = expected.iter().find(|column| !columns.contains(**column));
        let is_done =
            !columns.is_empty() && missing.is_none() && (recorded || !expected.is_empty());
        if !is_done {
            // A step that adds to a table finds it with the columns of those before it.
            let is_first = step.file.number == first_of(step.file);
            if let (true, false, Some(column)) = (is_first, columns.is_empty(), missing) {
                return Err(another_table(&step.table, column).into());
            }
            connection.run(&step.file.render(&step.table)).await?;
        }
        if recorded {
            continue;
        }
        if books == Books::Possible {
            connection.run(BOOKKEEPING_CREATE).await?;
            books = Books::Kept;
        }
        // A role that may not make tables and finds all that it needs is served
        // without a book.
        if books == Books::Kept {
            record(connection, step).await?;
        }
    }
    Ok(())
}

fn first_of(file: &Migration) -> u32 {
    let files = duebox_migrations::all(Dialect::Postgres).iter();
    files
        .filter(|other| other.table() == file.table())
        .map(|other| other.number)
        .min()
        .unwrap_or(file.number)
}

fn another_table(table: &str, column: &str) -> DbError {
    DbError::new(
        Kind::Schema,
        format!(
            "table {table:?} is there and has no column {column:?}; it is another table, or of another version"
        ),
    )
}

/// Whether there is a table that says what was applied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Books {
    Kept,
    Possible,
    Impossible,
}

async fn books<R: Runner>(connection: &mut R) -> Result<Books, Failure> {
    let rows = connection
        .ask(&Statement::new(BOOKKEEPING).bind(BOOKKEEPING_TABLE))
        .await?;
    let told = |name| rows.first().map_or(Ok(false), |row| row.get(name));
    Ok(match (told("there")?, told("possible")?) {
        (true, _) => Books::Kept,
        (false, true) => Books::Possible,
        (false, false) => Books::Impossible,
    })
}

async fn columns<R: Runner>(connection: &mut R, table: &str) -> Result<HashSet<String>, Failure> {
    let rows = connection.ask(&Statement::new(COLUMNS).bind(table)).await?;
    Ok(rows
        .iter()
        .map(|row| row.get("name"))
        .collect::<Result<_, _>>()?)
}

async fn recorded<R: Runner>(connection: &mut R, step: &Step) -> Result<bool, Failure> {
    let rows = connection
        .ask(&Statement::new(BOOKKEEPING_APPLIED).bind(step.table.as_str()))
        .await?;
    for row in &rows {
        if row.get::<u32>("number")? == step.file.number {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn record<R: Runner>(connection: &mut R, step: &Step) -> Result<(), Failure> {
    let now = read_now(&connection.ask(&Statement::new(NOW)).await?)?;
    let statement = Statement::new(BOOKKEEPING_RECORD)
        .bind(step.table.as_str())
        .bind(step.file.number)
        .bind(step.file.name)
        .bind(format_time(now)?);
    connection.ask(&statement).await?;
    Ok(())
}
