//! A transaction on tokio-postgres, in as few round trips as are safe: `BEGIN`;
//! all statements; `COMMIT`, which goes out with the statements if nothing has to
//! be looked at before it.
//!
//! `BEGIN` is awaited alone: should it fail, as when a cancellation meant for an
//! earlier statement comes late, what was sent behind it would commit statement
//! by statement.

use deadpool_postgres::ClientWrapper;
use duebox_core::Rendered;

use crate::client::{Prepared, Unprepared, execute_prepared, execute_unprepared, prepare};
use crate::error::Failure;
use crate::pipeline::{Pending, in_order};
use crate::session::{Session, begin, commit, one_by_one};

/// With statements from the connection's cache.
pub(crate) async fn prepared(
    connection: &ClientWrapper,
    statements: &[Rendered<'_>],
) -> Result<Vec<u64>, Failure> {
    let mut session = Prepared(connection);
    // Outside the transaction, which a failure here would end.
    let ready = statements
        .iter()
        .map(|statement| -> Pending<'_, _, _> { Box::pin(prepare(connection, statement)) });
    let ready: Result<Vec<_>, _> = in_order(ready.collect()).await.into_iter().collect();
    let ready = match ready {
        Ok(ready) if ready.len() == statements.len() => ready,
        // Not the server's word, so that nothing makes up for it.
        Err(failure) if failure.broken || failure.error.code().is_none() => return Err(failure),
        // A statement may need what one before it makes.
        _ => {
            begin(&mut session).await?;
            return one_by_one(&mut session, statements).await;
        }
    };
    begin(&mut session).await?;
    let requests = statements
        .iter()
        .zip(&ready)
        .map(|(statement, ready)| -> Pending<'_, _, _> {
            Box::pin(execute_prepared(connection, ready, statement))
        });
    together(session, statements, requests.collect()).await
}

/// With every statement parsed where it runs.
pub(crate) async fn unprepared(
    connection: &ClientWrapper,
    statements: &[Rendered<'_>],
) -> Result<Vec<u64>, Failure> {
    let client: &tokio_postgres::Client = connection;
    let mut session = Unprepared(client);
    begin(&mut session).await?;
    let requests = statements
        .iter()
        .map(|statement| -> Pending<'_, _, _> { Box::pin(execute_unprepared(client, statement)) });
    together(session, statements, requests.collect()).await
}

/// Runs what was begun, and commits.
async fn together<'a, S: Session + 'a>(
    mut session: S,
    statements: &[Rendered<'_>],
    mut requests: Vec<Pending<'a, u64, Failure>>,
) -> Result<Vec<u64>, Failure> {
    let must_look = statements
        .iter()
        .any(|statement| statement.expected_rows().is_some());
    if must_look {
        let answers = in_order(requests).await;
        let counts = counts(statements, answers, false)?;
        commit(&mut session).await?;
        return Ok(counts);
    }
    requests.push(Box::pin(async move {
        commit(&mut session).await?;
        Ok(0)
    }));
    let mut answers = in_order(requests).await;
    let committed = if answers.len() > statements.len() {
        answers.pop()
    } else {
        None
    };
    let counts = counts(statements, answers, committed.is_some())?;
    // It is left out only behind a statement that failed.
    committed.unwrap_or_else(|| Err(Failure::lost("no commit was sent").not_applied()))?;
    Ok(counts)
}

/// The counts, or what went wrong first.
fn counts(
    statements: &[Rendered<'_>],
    answers: Vec<Result<u64, Failure>>,
    commit_was_sent: bool,
) -> Result<Vec<u64>, Failure> {
    let mut counts = Vec::with_capacity(statements.len());
    for (place, (statement, answer)) in statements.iter().zip(answers).enumerate() {
        let count = answer.and_then(|count| Ok(statement.check_rows(count)?));
        counts.push(count.map_err(|failure| {
            let failure = failure.at(place);
            // The server does not commit behind an error that it reported, and not
            // without being asked to. If the connection broke, what was reported may
            // be of that: a pooler's word, or the server's as it went.
            let told = failure.error.code().is_some() && !failure.broken;
            if told || !commit_was_sent {
                failure.not_applied()
            } else {
                failure.not_again()
            }
        })?);
    }
    Ok(counts)
}
