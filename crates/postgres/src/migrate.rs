//! The shipped migrations, applied by either driver.

use std::collections::HashSet;

use duebox_core::{DbError, Dialect, Kind, Outbox, Row, Statement, format_time};
use duebox_migrations::{
    BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD, BOOKKEEPING_TABLE, Migration,
};

use crate::error::Failure;
use crate::server::{NOW, read_now};
use crate::session::Session;

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
pub(crate) async fn apply<S: Session>(session: &mut S, steps: &[Step]) -> Result<(), Failure> {
    let lock = duebox_migrations::lock(Dialect::Postgres);
    for sql in lock.take {
        session.command(sql).await.map_err(Failure::not_applied)?;
    }
    in_lock(session, steps)
        .await
        .map_err(Failure::not_applied)?;
    for sql in lock.release {
        session.command(sql).await.map_err(Failure::not_again)?;
    }
    Ok(())
}

async fn ask<S: Session>(session: &mut S, statement: &Statement) -> Result<Vec<Row>, Failure> {
    session.rows(&statement.render(Dialect::Postgres)?).await
}

async fn in_lock<S: Session>(session: &mut S, steps: &[Step]) -> Result<(), Failure> {
    let mut books = books(session).await?;
    for step in steps {
        let columns = columns(session, &step.table).await?;
        let recorded = books == Books::Kept && recorded(session, step).await?;
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
            session.command(&step.file.render(&step.table)).await?;
        }
        if recorded {
            continue;
        }
        if books == Books::Possible {
            session.command(BOOKKEEPING_CREATE).await?;
            books = Books::Kept;
        }
        // A role that may not make tables and finds all that it needs is served
        // without a book.
        if books == Books::Kept {
            record(session, step).await?;
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

async fn books<S: Session>(session: &mut S) -> Result<Books, Failure> {
    let rows = ask(
        session,
        &Statement::new(BOOKKEEPING).bind(BOOKKEEPING_TABLE),
    )
    .await?;
    let told = |name| rows.first().map_or(Ok(false), |row| row.get(name));
    Ok(match (told("there")?, told("possible")?) {
        (true, _) => Books::Kept,
        (false, true) => Books::Possible,
        (false, false) => Books::Impossible,
    })
}

async fn columns<S: Session>(session: &mut S, table: &str) -> Result<HashSet<String>, Failure> {
    let rows = ask(session, &Statement::new(COLUMNS).bind(table)).await?;
    Ok(rows
        .iter()
        .map(|row| row.get("name"))
        .collect::<Result<_, _>>()?)
}

async fn recorded<S: Session>(session: &mut S, step: &Step) -> Result<bool, Failure> {
    let rows = ask(
        session,
        &Statement::new(BOOKKEEPING_APPLIED).bind(step.table.as_str()),
    )
    .await?;
    for row in &rows {
        if row.get::<u32>("number")? == step.file.number {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn record<S: Session>(session: &mut S, step: &Step) -> Result<(), Failure> {
    let now = read_now(&ask(session, &Statement::new(NOW)).await?)?;
    let statement = Statement::new(BOOKKEEPING_RECORD)
        .bind(step.table.as_str())
        .bind(step.file.number)
        .bind(step.file.name)
        .bind(format_time(now)?);
    ask(session, &statement).await?;
    Ok(())
}
