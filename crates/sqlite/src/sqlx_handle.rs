//! Statements on the caller's own connections and transactions of sqlx.

use duebox_core::uuid::Uuid;
use duebox_core::{Columns, DbError, Dialect, Kind, Rendered, Row, Statement, Value};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow, SqliteStatement, SqliteValueRef};
use sqlx::{
    Arguments, AssertSqlSafe, Column, Connection, Decode, Either, Executor, Row as _, SqlSafeStr,
    Sqlite, Statement as _, TypeInfo, ValueRef,
};

use crate::error::{has_begun, sort_sqlx};
use crate::job::begins_with;
use crate::{receipts, row};

/// Runs a statement on a connection of sqlx, or in a transaction of it, and
/// returns how many rows it touched.
///
/// That is how a service that has a transaction open enqueues in it, and
/// completes in it. Only the caller's `commit` makes it last. A transaction and a
/// connection of a pool are borrowed as they are: `&mut transaction`.
///
/// ```
/// use duebox_sqlite::Outbox;
/// use duebox_sqlite::sqlx::{self, SqlitePool};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # sqlx::raw_sql("CREATE TABLE account (id TEXT PRIMARY KEY)").execute(&pool).await?;
/// # sqlx::raw_sql(sqlx::AssertSqlSafe(Outbox::new("outbox").create_table_sql())).execute(&pool).await?;
/// # sign_up(&pool, &Outbox::new("outbox"), "2026-01-31T09:30:00Z").await?;
/// # let rows = duebox_sqlite::sqlx_query(&mut *pool.acquire().await?, &duebox_sqlite::Statement::new("SELECT subject FROM outbox")).await?;
/// # assert_eq!(rows[0].get::<String>("subject")?, "a-17");
/// # Ok(())
/// # }
/// #
/// async fn sign_up(pool: &SqlitePool, outbox: &Outbox, now: &str) -> Result<(), Box<dyn std::error::Error>> {
///     // A transaction that reads before it writes must hold the lock from its beginning.
///     let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await?;
///     sqlx::query("INSERT INTO account (id) VALUES (?)")
///         .bind("a-17")
///         .execute(&mut *transaction)
///         .await?;
///     let mail = outbox.enqueue_statement("01JH0000000000000000000000", "mail.welcome", "{}", Some("a-17"), now);
///     duebox_sqlite::sqlx_execute(&mut transaction, &mail).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Cancellation
///
/// In a transaction a dropped future leaves what it did to the caller's end of it.
/// Outside of one the statement is done or not done, and no transaction stays open.
///
/// # Errors
///
/// As [`execute`](crate::execute), with the same codes: one that touched another
/// number of rows than [`expect_rows`](Statement::expect_rows) says is an error of
/// [`Kind::RowCount`](crate::Kind::RowCount), its changes are there, and to roll back
/// is the caller's. Outside of a transaction they are undone. Nothing is run again.
pub async fn sqlx_execute(
    connection: &mut SqliteConnection,
    statement: &Statement,
) -> Result<u64, DbError> {
    let statement = statement.render(Dialect::Sqlite)?;
    if !is_in_transaction(connection).await? {
        if statement.expected_rows().is_none() {
            return count(connection, &statement).await;
        }
        match in_transaction(connection, &statement).await {
            // sqlx does not know of a transaction that was begun by SQL.
            Err(error) if has_begun(&error) => {}
            Err(error) => return Err(sort_sqlx(&error).not_applied()),
            Ok(found) => return found,
        }
    }
    let found = count(connection, &statement).await;
    statement.check_rows(found.map_err(DbError::not_applied)?)
}

/// Runs a statement in a transaction of its own; the outer error is that none could
/// be begun.
async fn in_transaction(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<Result<u64, DbError>, sqlx::Error> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let found = count(&mut transaction, statement).await;
    Ok(match found.and_then(|found| statement.check_rows(found)) {
        Ok(found) => {
            let ended = transaction.commit().await;
            ended.map(|()| found).map_err(|error| sort_sqlx(&error))
        }
        Err(error) => {
            // Or else the connection would still look as if it were in one.
            match transaction.rollback().await {
                Ok(()) => Err(error.not_applied()),
                Err(error) => Err(sort_sqlx(&error).unknown()),
            }
        }
    })
}

/// Runs a statement on a connection of sqlx, or in a transaction of it, and
/// returns its rows.
///
/// # Errors
///
/// As [`query`](crate::query).
pub async fn sqlx_query(
    connection: &mut SqliteConnection,
    statement: &Statement,
) -> Result<Vec<Row>, DbError> {
    let statement = statement.render(Dialect::Sqlite)?;
    let in_transaction = is_in_transaction(connection).await?;
    let rows = rows(connection, &statement).await;
    if in_transaction {
        rows.map_err(DbError::not_applied)
    } else {
        rows
    }
}

/// Deletes every pending receipt of one owner in the caller's own transaction of
/// sqlx, and returns how many went: for the deletion of an account that must be
/// whole.
///
/// It does what
/// [`PendingReceiptStore::erase_owner`](crate::PendingReceiptStore::erase_owner)
/// does.
///
/// ```no_run
/// use duebox_sqlite::sqlx::{self, SqlitePool};
/// use duebox_sqlite::uuid::Uuid;
///
/// async fn delete_account(pool: &SqlitePool, account: Uuid) -> Result<(), Box<dyn std::error::Error>> {
///     let mut transaction = pool.begin().await?;
///     sqlx::query("DELETE FROM account WHERE id = ?")
///         .bind(&account.as_bytes()[..])
///         .execute(&mut *transaction)
///         .await?;
///     duebox_sqlite::sqlx_erase_owner(&mut transaction, account).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As for [`sqlx_execute`].
pub async fn sqlx_erase_owner(
    connection: &mut SqliteConnection,
    owner_id: Uuid,
) -> Result<u64, DbError> {
    sqlx_execute(connection, &receipts::erasure(owner_id)).await
}

/// Whether sqlx has begun one. That is known once the thread of the connection has
/// done what it was told, since the end of a transaction that was dropped waits there.
async fn is_in_transaction(connection: &mut SqliteConnection) -> Result<bool, DbError> {
    let idle = connection.ping().await;
    idle.map_err(|error| sort_sqlx(&error).not_applied())?;
    Ok(connection.is_in_transaction())
}

async fn count(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<u64, DbError> {
    let (prepared, arguments) = prepare(connection, statement).await?;
    let words = ["INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"];
    // What is no such statement leaves SQLite's count as the one before made it.
    let before = if begins_with(statement.sql(), &words) {
        None
    } else {
        Some(total_changes(connection).await?)
    };
    let done = prepared.query_with(arguments).execute(&mut *connection);
    let found = done
        .await
        .map_err(|error| sort_sqlx(&error))?
        .rows_affected();
    let changed = match before {
        Some(before) => total_changes(connection).await? != before,
        None => true,
    };
    Ok(if changed && prepared.columns().is_empty() {
        found
    } else {
        0
    })
}

async fn total_changes(connection: &mut SqliteConnection) -> Result<i64, DbError> {
    sqlx::query_scalar("SELECT total_changes()")
        .fetch_one(connection)
        .await
        .map_err(|error| sort_sqlx(&error))
}

async fn rows(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<Vec<Row>, DbError> {
    let (prepared, arguments) = prepare(connection, statement).await?;
    let found = prepared.query_with(arguments).fetch_all(connection);
    let found = found.await.map_err(|error| sort_sqlx(&error))?;
    let columns = found.first().map_or(prepared.columns(), SqliteRow::columns);
    let columns = Columns::new(columns.iter().map(Column::name));
    found.iter().map(|row| read(row, &columns)).collect()
}

/// The statement prepared, which runs nothing, and its values.
async fn prepare(
    connection: &mut SqliteConnection,
    statement: &Rendered<'_>,
) -> Result<(SqliteStatement, SqliteArguments), DbError> {
    let arguments = arguments(statement.values())?;
    // It comes from a statement's own text, which holds no value.
    let sql = AssertSqlSafe(statement.sql().to_owned()).into_sql_str();
    let prepared = connection.prepare(sql).await;
    let prepared = prepared.map_err(|error| sort_sqlx(&error).not_applied())?;
    // Placeholders with a name or a number would be left NULL.
    match prepared.parameters() {
        Some(Either::Right(places)) if places == statement.values().len() => {
            Ok((prepared, arguments))
        }
        _ => Err(row::other_placeholders()),
    }
}

fn arguments(values: &[Value]) -> Result<SqliteArguments, DbError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Bool(truth) => arguments.add(*truth),
            Value::Integer(number) => arguments.add(*number),
            Value::Real(number) if number.is_nan() => return Err(row::not_a_number()),
            Value::Real(number) => arguments.add(*number),
            Value::Text(text) => arguments.add(text.as_str()),
            Value::Bytes(bytes) => arguments.add(bytes.as_slice()),
            _ => return Err(row::no_type()),
        };
        added.map_err(|_| row::no_type())?;
    }
    Ok(arguments)
}

fn read(row: &SqliteRow, columns: &Columns) -> Result<Row, DbError> {
    let mut values = Vec::with_capacity(row.len());
    for index in 0..row.len() {
        let value = row.try_get_raw(index).map_err(|error| sort_sqlx(&error))?;
        values.push(to_value(value).ok_or_else(|| {
            DbError::new(Kind::Unsupported, "the driver cannot read a value of a row")
        })?);
    }
    Ok(Row::new(columns.clone(), values))
}

/// By the type that the value has, whatever its column says.
fn to_value(value: SqliteValueRef<'_>) -> Option<Value> {
    fn decode<'r, T: Decode<'r, Sqlite>>(value: SqliteValueRef<'r>) -> Option<T> {
        T::decode(value).ok()
    }
    if value.is_null() {
        return Some(Value::Null);
    }
    let ty = value.type_info().name().to_owned();
    match ty.as_str() {
        "INTEGER" => decode(value).map(Value::Integer),
        "REAL" => decode(value).map(Value::Real),
        "TEXT" => decode(value).map(row::text_or_bytes),
        "BLOB" => decode(value).map(Value::Bytes),
        _ => None,
    }
}
