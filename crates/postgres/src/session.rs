//! A connection of either driver, and what is done on it alike.

use std::future::Future;

use duebox_core::{Rendered, Row};

use crate::error::Failure;

/// A connection that one piece of work has for itself.
pub(crate) trait Session: Send {
    /// Runs SQL without values, of one statement or many.
    fn command(&mut self, sql: &str) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs a statement and counts the rows that it changed.
    fn count(
        &mut self,
        statement: &Rendered<'_>,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Runs a statement and reads its rows.
    fn rows(
        &mut self,
        statement: &Rendered<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;
}

/// Fails where a transaction was open before it, and so ends that for all that follows.
///
/// Another user of the pool may have left it open, and what is run in it is committed
/// by nobody. A statement that comes alone has its transaction begin with it.
pub(crate) const NO_TRANSACTION: &str = "\
SELECT (CASE
    WHEN pg_catalog.now() = pg_catalog.statement_timestamp() THEN '0'
    ELSE 'somebody gave this connection back with a transaction open'
END)::pg_catalog.int4";

/// Begins a transaction.
pub(crate) async fn begin<S: Session>(session: &mut S) -> Result<(), Failure> {
    session.command("BEGIN").await.map_err(Failure::not_applied)
}

/// Commits. Both drivers hide that a server answers `ROLLBACK` to the `COMMIT` of
/// a transaction that has failed; so this is only called, and its success only
/// believed, where every statement was answered to its end without an error.
pub(crate) async fn commit<S: Session>(session: &mut S) -> Result<(), Failure> {
    session.command("COMMIT").await.map_err(Failure::not_again)
}

/// What to send after a failure, on a connection that is as good as before.
///
/// The server reports an error before it lets go of the rows that it had locked, so
/// that whoever looks at once from another connection finds them locked. The answer
/// to anything that is sent next comes behind that.
pub(crate) fn end_of_failed(failure: &Failure, in_transaction: bool) -> Option<&'static str> {
    if in_transaction {
        return Some("ROLLBACK");
    }
    failure.error.code().is_some().then_some("")
}

/// Runs the statements of a transaction that has begun, each after the one
/// before it, and commits. After an error the caller rolls back.
pub(crate) async fn one_by_one<S: Session>(
    session: &mut S,
    statements: &[Rendered<'_>],
) -> Result<Vec<u64>, Failure> {
    let mut counts = Vec::with_capacity(statements.len());
    for (place, statement) in statements.iter().enumerate() {
        let count = session.count(statement).await;
        let count = count.and_then(|count| Ok(statement.check_rows(count)?));
        counts.push(count.map_err(|failure| failure.at(place).not_applied())?);
    }
    commit(session).await?;
    Ok(counts)
}
