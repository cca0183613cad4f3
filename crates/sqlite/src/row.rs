//! Values in, values out.

use duebox_core::{Budget, Columns, DbError, Row, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};

use crate::error;

/// Runs a statement to its end and returns how many rows it touched; an error
/// of the statement leaves its own changes undone.
pub(crate) fn execute(conn: &Connection, sql: &str, values: &[Value]) -> Result<u64, DbError> {
    let mut statement = prepare(conn, sql)?;
    bind(&mut statement, values)?;
    let before = conn.total_changes();
    let returns_rows = statement.column_count() > 0;
    let mut rows = statement.raw_query();
    while rows.next().map_err(|error| error::sort(&error))?.is_some() {}
    // `changes` stays at what the statement before said if this one was DDL;
    // changes made by triggers are in the total and not in `changes`.
    if returns_rows || conn.total_changes() == before {
        Ok(0)
    } else {
        Ok(conn.changes())
    }
}

/// Rows, and about how many bytes they hold.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    pub(crate) bytes: usize,
}

/// Runs a statement and returns its rows, as far as `budget` admits them.
pub(crate) fn query(
    conn: &Connection,
    sql: &str,
    values: &[Value],
    budget: Option<Budget>,
) -> Result<Found, DbError> {
    let mut statement = prepare(conn, sql)?;
    read(&mut statement, values, budget)
}

pub(crate) fn prepare<'conn>(
    conn: &'conn Connection,
    sql: &str,
) -> Result<rusqlite::CachedStatement<'conn>, DbError> {
    conn.prepare_cached(sql)
        .map_err(|error| error::sort(&error).not_applied())
}

/// The rows of a prepared statement, which is reset when this returns.
pub(crate) fn read(
    statement: &mut Statement<'_>,
    values: &[Value],
    mut budget: Option<Budget>,
) -> Result<Found, DbError> {
    bind(statement, values)?;
    let mut found = Found::default();
    let mut known = None;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| error::sort(&error))? {
        // Not before the first step, which prepares anew if the schema changed.
        let (columns, count) = known.get_or_insert_with(|| {
            let names = row.as_ref().column_names();
            let count = names.len();
            (Columns::new(names), count)
        });
        let count = *count;
        let mut values = Vec::with_capacity(count);
        let mut bytes = 0;
        for index in 0..count {
            let value = row.get_ref(index).map_err(|error| error::sort(&error))?;
            values.push(to_value(value, &mut bytes));
        }
        let row = Row::new(columns.clone(), values);
        if budget.as_mut().is_some_and(|budget| !budget.admits(&row)) {
            break;
        }
        found.bytes += bytes;
        found.rows.push(row);
    }
    Ok(found)
}

fn bind(statement: &mut Statement<'_>, values: &[Value]) -> Result<(), DbError> {
    // Placeholders with a name or a number would be left NULL.
    if statement.parameter_count() != values.len() {
        return Err(other_placeholders());
    }
    for (index, value) in values.iter().enumerate() {
        let value = match value {
            Value::Null => ValueRef::Null,
            Value::Bool(truth) => ValueRef::Integer((*truth).into()),
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) if number.is_nan() => {
                return Err(not_a_number());
            }
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
            _ => return Err(no_type()),
        };
        statement
            .raw_bind_parameter(index + 1, ToSqlOutput::Borrowed(value))
            .map_err(|error| error::sort(&error).not_applied())?;
    }
    Ok(())
}

pub(crate) fn other_placeholders() -> DbError {
    DbError::invalid("a statement has placeholders other than ?")
}

pub(crate) fn not_a_number() -> DbError {
    DbError::invalid("a number to bind is NaN, which SQLite would keep as NULL")
}

pub(crate) fn no_type() -> DbError {
    DbError::invalid("SQLite has no type for a value to bind")
}

/// SQLite has values of five types, whatever the columns say.
fn to_value(value: ValueRef<'_>, bytes: &mut usize) -> Value {
    *bytes += match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Blob(blob) => blob.len(),
        _ => 8,
    };
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => text_or_bytes(text.to_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
    }
}

/// Text that is none is bytes, so that one such row does not hide the others.
pub(crate) fn text_or_bytes(text: Vec<u8>) -> Value {
    String::from_utf8(text).map_or_else(|no| Value::Bytes(no.into_bytes()), Value::Text)
}
