use duebox_core::uuid::Uuid;
use duebox_core::{DbError, Dialect, Row, Statement};
use sqlx::mysql::MySqlConnection;

use crate::receipts;
use crate::session;

/// Runs one statement inside the caller's own transaction and returns how many
/// rows it touched.
///
/// ```no_run
/// use duebox_mysql::{DbError, MySqlDatabase, Outbox};
/// use duebox_mysql::sqlx;
///
/// async fn sign_up(db: &MySqlDatabase, outbox: &Outbox, now: &str) -> Result<(), Box<dyn std::error::Error>> {
///     let mut transaction = db.pool().begin().await?;
///     sqlx::query("INSERT INTO account (id) VALUES (?)")
///         .bind("a-17")
///         .execute(&mut *transaction)
///         .await?;
///     let mail = outbox.enqueue_statement("01JH0000000000000000000000", "mail.welcome", "{}", Some("a-17"), now);
///     duebox_mysql::execute(&mut transaction, &mail).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As [`Database::batch_atomic`](crate::Database::batch_atomic), a missed
/// [`expect_rows`](Statement::expect_rows) among them; but nothing is rolled back
/// and nothing run again here: that is the caller's. After a deadlock the server
/// has rolled back the whole transaction, after any other error only the
/// statement, thus roll back after each.
pub async fn execute(
    connection: &mut MySqlConnection,
    statement: &Statement,
) -> Result<u64, DbError> {
    // What would commit is refused here too.
    let rendered = Statement::render_batch(Dialect::MySql, std::slice::from_ref(statement))?;
    let mut found = 0;
    for statement in &rendered {
        found = session::execute(connection, statement)
            .await
            .and_then(|found| {
                statement
                    .check_rows(found)
                    .map_err(crate::error::Failure::ours)
            })
            .map_err(|failure| failure.error)?;
    }
    Ok(found)
}

/// Runs one statement inside the caller's own transaction and returns its rows.
///
/// # Errors
///
/// As [`execute`].
pub async fn query(
    connection: &mut MySqlConnection,
    statement: &Statement,
) -> Result<Vec<Row>, DbError> {
    let rendered = Statement::render_batch(Dialect::MySql, std::slice::from_ref(statement))?;
    let mut rows = Vec::new();
    for statement in &rendered {
        rows = session::query(connection, statement, None)
            .await
            .map_err(|failure| failure.error)?;
    }
    Ok(rows)
}

/// Deletes every pending receipt of one owner in the caller's own transaction, and
/// returns how many went: for the deletion of an account that must be whole.
///
/// It does what
/// [`PendingReceiptStore::erase_owner`](crate::PendingReceiptStore::erase_owner) does.
///
/// ```no_run
/// use duebox_mysql::MySqlDatabase;
/// use duebox_mysql::sqlx;
/// use duebox_mysql::uuid::Uuid;
///
/// async fn delete_account(db: &MySqlDatabase, account: Uuid) -> Result<(), Box<dyn std::error::Error>> {
///     let mut transaction = db.pool().begin().await?;
///     sqlx::query("DELETE FROM account WHERE id = ?")
///         .bind(&account.as_bytes()[..])
///         .execute(&mut *transaction)
///         .await?;
///     duebox_mysql::erase_owner(&mut transaction, account).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As for [`execute`].
pub async fn erase_owner(connection: &mut MySqlConnection, owner_id: Uuid) -> Result<u64, DbError> {
    execute(connection, &receipts::erasure(owner_id)).await
}
