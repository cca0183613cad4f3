//! What both handles do alike around the runs of their statements.

use std::future::Future;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Dialect, Rendered, Row, Statement};

use crate::error::Failure;
use crate::retry::retried;
use crate::server::{self, NOW};

/// A handle that takes a connection for each run, and gives it back or closes it.
pub(crate) trait Runner: Send + Sync {
    /// Runs one statement by itself, and counts the rows that it changed.
    fn run(&self, statement: &Rendered<'_>) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Runs one statement by itself, and reads its rows.
    fn read(
        &self,
        statement: &Rendered<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;

    /// Runs statements in one transaction, and counts the rows that each changed.
    fn run_batch(
        &self,
        statements: &[Rendered<'_>],
    ) -> impl Future<Output = Result<Vec<u64>, Failure>> + Send;

    /// As [`run`](Self::run), with a plan that is made for this one time.
    fn run_once(
        &self,
        statement: &Rendered<'_>,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// As [`read`](Self::read), with a plan that is made for this one time.
    fn read_once(
        &self,
        statement: &Rendered<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send;
}

pub(crate) async fn execute(on: &impl Runner, statement: &Statement) -> Result<u64, DbError> {
    if statement.expected_rows().is_some() {
        let counts = batch_atomic(on, std::slice::from_ref(statement)).await?;
        return Ok(counts.into_iter().sum());
    }
    let statement = statement.render(Dialect::Postgres)?;
    retried(|| on.run(&statement)).await
}

pub(crate) async fn query(on: &impl Runner, statement: &Statement) -> Result<Vec<Row>, DbError> {
    let statement = statement.render(Dialect::Postgres)?;
    retried(|| on.read(&statement)).await
}

pub(crate) async fn batch_atomic(
    on: &impl Runner,
    statements: &[Statement],
) -> Result<Vec<u64>, DbError> {
    let statements = Statement::render_batch(Dialect::Postgres, statements)?;
    match &statements[..] {
        [] => Ok(Vec::new()),
        // Atomic by itself, so one round trip does.
        [one] if one.expected_rows().is_none() && server::is_plain(one.sql()) => {
            let count = retried(|| on.run(one)).await;
            Ok(vec![count.map_err(|error| error.with_statement(0))?])
        }
        all => retried(|| on.run_batch(all)).await,
    }
}

pub(crate) async fn now(on: &impl Runner) -> Result<DateTime<Utc>, DbError> {
    server::read_now(&query(on, &Statement::new(NOW)).await?)
}

pub(crate) async fn count_once(on: &impl Runner, statement: &Statement) -> Result<u64, DbError> {
    let statement = statement.render(Dialect::Postgres)?;
    retried(|| on.run_once(&statement)).await
}

pub(crate) async fn rows_once(
    on: &impl Runner,
    statement: &Statement,
) -> Result<Vec<Row>, DbError> {
    let statement = statement.render(Dialect::Postgres)?;
    retried(|| on.read_once(&statement)).await
}
