use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Kind, ReadThenWrite, Row, Statement};

use super::fault::Fault;

/// A good database behind a fault.
#[derive(Clone)]
pub(super) struct Faulty {
    inner: Arc<dyn Database>,
    fault: Fault,
    loses: Arc<AtomicBool>,
}

impl Faulty {
    pub(super) fn new(inner: Arc<dyn Database>, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            loses: Arc::default(),
        }
    }

    /// The answer to the next batch is lost.
    pub(super) fn lose_an_answer(&self) {
        self.loses.store(true, Ordering::SeqCst);
    }

    fn sent(&self, statement: &Statement) -> Statement {
        self.fault.statement(self.inner.dialect(), statement)
    }

    fn error(&self, statements: &[Statement], error: DbError) -> DbError {
        if self.fault != Fault::QuotesRows || error.kind() == Kind::InvalidArgument {
            return error;
        }
        let values = statements.iter().filter_map(|one| one.values().ok());
        let quoted: Vec<&str> = values.flatten().filter_map(super::fault::text).collect();
        let quoting = DbError::new(error.kind(), format!("{error}: {}", quoted.join(", ")));
        match error.outcome() {
            duebox_core::Outcome::NotApplied => quoting.not_applied(),
            duebox_core::Outcome::Unknown => quoting,
        }
    }

    fn rows(
        &self,
        sent: &Statement,
        answer: Result<Vec<Row>, DbError>,
    ) -> Result<Vec<Row>, DbError> {
        match answer {
            Ok(rows) => Ok(self.fault.rows(sent, rows)),
            Err(_) if self.fault == Fault::HidesErrors => Ok(Vec::new()),
            Err(error) => Err(self.error(std::slice::from_ref(sent), error)),
        }
    }
}

#[async_trait]
impl Database for Faulty {
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        let sent = self.sent(statement);
        match self.inner.execute(&sent).await {
            Ok(count) => Ok(self.fault.count(&sent, count)),
            Err(error) => Err(self.error(&[sent], error)),
        }
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let sent = self.sent(statement);
        let answer = self.inner.query(&sent).await;
        self.rows(&sent, answer)
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        if self.fault == Fault::CommitsHalves {
            let mut counts = Vec::new();
            for statement in statements {
                counts.push(self.inner.execute(statement).await?);
                // Where a call that is dropped leaves a half, however fast the other is.
                tokio::task::yield_now().await;
            }
            return Ok(counts);
        }
        let sent: Vec<Statement> = statements.iter().map(|one| self.sent(one)).collect();
        let counts = match self.inner.batch_atomic(&sent).await {
            Ok(counts) => counts,
            Err(error) => return Err(self.error(&sent, error)),
        };
        if self.loses.swap(false, Ordering::SeqCst) {
            return Err(DbError::new(Kind::Unavailable, "the connection was lost").not_applied());
        }
        let counted = sent.iter().zip(counts);
        Ok(counted
            .map(|(sent, count)| self.fault.count(sent, count))
            .collect())
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.inner.now().await
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        let (fault, dialect) = (self.fault, self.inner.dialect());
        let read = self.sent(step.read());
        let then = step.clone();
        // The budget of the step is not kept: no test of bytes is to be believed here.
        let sent = ReadThenWrite::new(read.clone(), move |rows| {
            let rows = fault.rows_read(rows.to_vec());
            let writes = then.then(&rows)?;
            Ok(writes
                .iter()
                .map(|write| fault.statement(dialect, write))
                .collect())
        });
        let answer = self.inner.read_then_write(&sent).await;
        self.rows(&read, answer.map(|rows| fault.rows_read(rows)))
    }
}
