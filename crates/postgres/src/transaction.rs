use async_trait::async_trait;
use duebox_core::uuid::Uuid;
use duebox_core::{DbError, Dialect, Row, Statement};
use tokio_postgres::GenericClient;

use crate::client::Unprepared;
use crate::receipts;
use crate::session::Session;

/// A connection or transaction of the caller's own, on which
/// [`execute`] and [`query`] run.
///
/// Implemented for `&C` where `C` is a tokio-postgres client or transaction, and
/// with the feature `sqlx` for `&mut C` where `C` is a `PgConnection`, a connection
/// of a pool or a transaction of sqlx. A client, object or transaction of deadpool is
/// borrowed as what it holds: `&*transaction`, `&**object`.
#[diagnostic::on_unimplemented(
    message = "no statement can be run on `{Self}`",
    label = "not a borrowed connection or transaction of tokio-postgres or sqlx",
    note = "of deadpool, borrow what it holds: `&*transaction`, `&**client`",
    note = "of tokio-postgres, borrow it: `&transaction`, `&client`",
    note = "of sqlx, with the feature `sqlx`, borrow it to change it: `&mut transaction`, \
            `&mut *transaction`"
)]
#[async_trait]
pub trait Handle: Send + sealed::Sealed {
    #[doc(hidden)]
    async fn run(self, statement: &Statement) -> Result<u64, DbError>;

    #[doc(hidden)]
    async fn read(self, statement: &Statement) -> Result<Vec<Row>, DbError>;
}

pub(crate) mod sealed {
    #[allow(unreachable_pub)]
    pub trait Sealed {}

    impl<C: tokio_postgres::GenericClient> Sealed for &C {}
}

/// Runs a statement in the caller's own transaction, and counts the rows that it
/// changed.
///
/// This is how a service that has a transaction open enqueues in it:
///
/// ```no_run
/// use duebox_postgres::{DbError, Outbox, tokio_postgres};
///
/// async fn sign_up(
///     client: &mut tokio_postgres::Client,
///     outbox: &Outbox,
///     now: &str,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let transaction = client.transaction().await?;
///     transaction.execute("INSERT INTO account (id) VALUES ($1)", &[&"a-17"]).await?;
///     let mail = outbox.enqueue_statement("01JH…", "mail.welcome", "{}", Some("a-17"), now);
///     duebox_postgres::execute(&transaction, &mail).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// Whatever the database answers; and, if the statement has
/// [`expect_rows`](Statement::expect_rows) and changed another number of rows,
/// [`Kind::RowCount`](crate::Kind::RowCount). Nothing is rolled back and nothing
/// run again here: after an error the transaction is the caller's to end.
/// PostgreSQL refuses all that follows in it but its end, except after
/// `Kind::RowCount`, so mind to roll back then.
///
/// Never commit after an error: the server answers the `COMMIT` of a transaction that
/// has failed by rolling back, which is no error to either driver. `commit` is then
/// `Ok`, and nothing that was done in the transaction is there.
pub async fn execute(handle: impl Handle, statement: &Statement) -> Result<u64, DbError> {
    handle.run(statement).await
}

/// Runs a statement in the caller's own transaction, and reads its rows.
///
/// # Errors
///
/// As for [`execute`]; and [`Kind::Unsupported`](crate::Kind::Unsupported) for a
/// column of a type that cannot be read.
pub async fn query(handle: impl Handle, statement: &Statement) -> Result<Vec<Row>, DbError> {
    handle.read(statement).await
}

/// Deletes every pending receipt of one owner in the caller's own transaction, and
/// returns how many went: for the deletion of an account that must be whole.
///
/// It does what
/// [`PendingReceiptStore::erase_owner`](crate::PendingReceiptStore::erase_owner) does.
///
/// ```no_run
/// use duebox_postgres::tokio_postgres;
/// use duebox_postgres::uuid::Uuid;
///
/// async fn delete_account(
///     client: &mut tokio_postgres::Client,
///     account: Uuid,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let transaction = client.transaction().await?;
///     let id = account.to_string();
///     transaction.execute("DELETE FROM account WHERE id = $1::text::uuid", &[&id]).await?;
///     duebox_postgres::erase_owner(&transaction, account).await?;
///     transaction.commit().await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// As for [`execute`].
pub async fn erase_owner(handle: impl Handle, owner_id: Uuid) -> Result<u64, DbError> {
    handle.run(&receipts::erasure(owner_id)).await
}

// Unprepared, which takes one round trip where preparing takes three: the caller's
// connection has no cache of ours. Without the first line the compiler asks for
// `GenericClient` and does not show what `Handle` says.
#[diagnostic::do_not_recommend]
#[async_trait]
impl<C: GenericClient + Sync> Handle for &C {
    async fn run(self, statement: &Statement) -> Result<u64, DbError> {
        count(Unprepared(self), statement).await
    }

    async fn read(self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        rows(Unprepared(self), statement).await
    }
}

pub(crate) async fn count<S: Session>(
    mut session: S,
    statement: &Statement,
) -> Result<u64, DbError> {
    let statement = statement.render(Dialect::Postgres)?;
    let count = session.count(&statement).await;
    statement.check_rows(count.map_err(|failure| failure.alone(&statement).error)?)
}

pub(crate) async fn rows<S: Session>(
    mut session: S,
    statement: &Statement,
) -> Result<Vec<Row>, DbError> {
    let statement = statement.render(Dialect::Postgres)?;
    session
        .rows(&statement)
        .await
        .map_err(|failure| failure.alone(&statement).error)
}
