//! Statements and values to sqlx, counts and rows from it.

use duebox_core::{Budget, Columns, DbError, Kind, Rendered, Row, Value};
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow, SqliteStatement};
use sqlx::{
    Arguments, AssertSqlSafe, Column, Either, Executor, Row as _, SqlSafeStr, Statement as _,
    TypeInfo, ValueRef,
};

use crate::error::sort;

/// Runs a statement, and counts the rows that it changed.
pub(crate) async fn count(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<u64, DbError> {
    let (prepared, arguments) = prepare(connection, statement).await?;
    let done = prepared.query_with(arguments).execute(connection).await;
    let count = done.map_err(|error| sort(&error))?.rows_affected();
    // What changes no row leaves SQLite's count as the statement before made it.
    let first = statement.sql().split_ascii_whitespace().next();
    let changes = ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"];
    let changes = first.is_some_and(|word| changes.contains(&&*word.to_uppercase()));
    Ok(count * u64::from(changes && prepared.columns().is_empty()))
}

/// Runs a statement, and reads its rows as far as the budget admits them.
pub(crate) async fn rows(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
    mut budget: Option<Budget>,
) -> Result<Vec<Row>, DbError> {
    let (prepared, arguments) = prepare(connection, statement).await?;
    let columns = Columns::new(prepared.columns().iter().map(Column::name));
    let mut found = prepared.query_with(arguments).fetch(connection);
    let mut rows = Vec::new();
    while let Some(row) = found.try_next().await.map_err(|error| sort(&error))? {
        let row = Row::new(columns.clone(), read(&row)?);
        if budget.as_mut().is_some_and(|budget| !budget.admits(&row)) {
            break;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Preparing runs nothing.
async fn prepare(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<(SqliteStatement, SqliteArguments), DbError> {
    let arguments = arguments(statement.values())?;
    // The text is the statement's own and holds no value.
    let sql = AssertSqlSafe(statement.sql().to_owned()).into_sql_str();
    let prepared = connection.prepare(sql).await;
    let prepared = prepared.map_err(|error| sort(&error).not_applied())?;
    match prepared.parameters() {
        Some(Either::Right(places)) if places == statement.values().len() => {
            Ok((prepared, arguments))
        }
        // sqlx would leave them NULL.
        _ => Err(DbError::invalid(
            "a statement has placeholders other than ?",
        )),
    }
}

fn arguments(values: &[Value]) -> Result<SqliteArguments, DbError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Bool(truth) => arguments.add(*truth),
            Value::Integer(number) => arguments.add(*number),
            Value::Real(number) if number.is_nan() => return Err(DbError::invalid("NaN is NULL")),
            Value::Real(number) => arguments.add(*number),
            Value::Text(text) => arguments.add(text.as_str()),
            Value::Bytes(bytes) => arguments.add(bytes.as_slice()),
            _ => return Err(DbError::invalid("SQLite has no type for a value")),
        };
        added.map_err(|_| DbError::invalid("sqlx cannot bind a value"))?;
    }
    Ok(arguments)
}

/// Each by the type that it has, whatever its column says.
fn read(row: &SqliteRow) -> Result<Vec<Value>, DbError> {
    let value = |index| {
        let value = row.try_get_raw(index)?;
        let ty = value.type_info().name().to_owned();
        Ok(match ty.as_str() {
            _ if value.is_null() => Value::Null,
            "INTEGER" => Value::Integer(row.try_get(index)?),
            "REAL" => Value::Real(row.try_get(index)?),
            "BLOB" => Value::Bytes(row.try_get(index)?),
            // A text that is none comes as bytes, and hides no other row.
            _ => match String::from_utf8(row.try_get_unchecked(index)?) {
                Ok(text) => Value::Text(text),
                Err(no) => Value::Bytes(no.into_bytes()),
            },
        })
    };
    let values: Result<_, sqlx::Error> = (0..row.len()).map(value).collect();
    values.map_err(|_| DbError::new(Kind::Unsupported, "sqlx cannot read a value"))
}
