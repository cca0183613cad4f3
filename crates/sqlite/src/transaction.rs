//! Statements inside the caller's own transaction.

use duebox_core::uuid::Uuid;
use duebox_core::{DbError, Dialect, Row, Statement};
use rusqlite::Connection;

use crate::job::Owned;
use crate::{error, receipts, row};

/// Runs a statement on a connection of the caller's, or in a transaction of
/// it, and returns how many rows it touched.
///
/// That is how a service that has a transaction open enqueues in it, and
/// completes in it. Only the caller's `commit` makes it last.
///
/// ```
/// use duebox_sqlite::{Outbox, rusqlite::Connection};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut conn = Connection::open_in_memory()?;
/// let outbox = Outbox::new("outbox");
/// conn.execute_batch(&outbox.create_table_sql())?;
///
/// let transaction = conn.transaction()?;
/// // … what the service does …
/// let enqueue = outbox.enqueue_statement("a-1", "mail", "{}", None, "2026-01-31T09:30:00Z");
/// duebox_sqlite::execute(&transaction, &enqueue)?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// What SQLite answers, as a [`DbError`]. In a transaction the statement that
/// failed has changed nothing. One that touched another number of rows than
/// [`expect_rows`](Statement::expect_rows) says is an error of
/// [`Kind::RowCount`](crate::Kind::RowCount); its changes are there, and to roll
/// back is the caller's. Outside of a transaction they are undone.
pub fn execute(conn: &Connection, statement: &Statement) -> Result<u64, DbError> {
    let rendered = statement.render(Dialect::Sqlite)?;
    let statement = Owned::new(&rendered);
    if !conn.is_autocommit() {
        return row::execute(conn, rendered.sql(), rendered.values())
            .map_err(DbError::not_applied)
            .and_then(|found| rendered.check_rows(found));
    }
    if rendered.expected_rows().is_none() {
        return statement.execute(conn);
    }
    let step = |sql: &str| conn.execute_batch(sql).map_err(|error| error::sort(&error));
    step("SAVEPOINT duebox")?;
    let done = statement.execute(conn).map_err(DbError::not_applied);
    let ended = done.and_then(|count| step("RELEASE duebox").map(|()| count));
    if ended.is_err() && !conn.is_autocommit() {
        step("ROLLBACK TO duebox; RELEASE duebox").map_err(DbError::unknown)?;
    }
    ended
}

/// Runs a statement on a connection of the caller's, or in a transaction of
/// it, and returns its rows.
///
/// # Errors
///
/// What SQLite answers, as a [`DbError`].
pub fn query(conn: &Connection, statement: &Statement) -> Result<Vec<Row>, DbError> {
    let rendered = statement.render(Dialect::Sqlite)?;
    let found = row::query(conn, rendered.sql(), rendered.values(), None);
    let rows = found.map(|found| found.rows);
    if conn.is_autocommit() {
        rows
    } else {
        rows.map_err(DbError::not_applied)
    }
}

/// Deletes every pending receipt of one owner in the caller's own transaction,
/// and returns how many went: for the deletion of an account that must be whole.
///
/// It does what
/// [`PendingReceiptStore::erase_owner`](crate::PendingReceiptStore::erase_owner)
/// does.
///
/// ```no_run
/// use duebox_sqlite::rusqlite::Connection;
/// use duebox_sqlite::uuid::Uuid;
///
/// fn delete_account(
///     conn: &mut Connection,
///     account: Uuid,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let transaction = conn.transaction()?;
///     transaction.execute("DELETE FROM account WHERE id = ?", [account.as_bytes()])?;
///     duebox_sqlite::erase_owner(&transaction, account)?;
///     transaction.commit()?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As for [`execute`].
pub fn erase_owner(conn: &Connection, owner_id: Uuid) -> Result<u64, DbError> {
    execute(conn, &receipts::erasure(owner_id))
}
