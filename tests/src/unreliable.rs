use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, Kind, ReadThenWrite, Row, Statement};

/// A database that does the work and loses every other answer, as a
/// connection does that breaks before the reply.
#[derive(Clone)]
pub struct Unreliable {
    inner: Arc<dyn Database>,
    calls: Arc<AtomicU64>,
}

impl std::fmt::Debug for Unreliable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unreliable")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Unreliable {
    /// Loses the first answer, the third, and so on.
    #[must_use]
    pub fn new(inner: Arc<dyn Database>) -> Self {
        Self {
            inner,
            calls: Arc::default(),
        }
    }

    /// The answer, or that it was lost.
    fn lose<T>(&self, answer: Result<T, DbError>) -> Result<T, DbError> {
        let answer = answer?;
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Err(DbError::new(Kind::Unavailable, "the answer was lost"));
        }
        Ok(answer)
    }
}

#[async_trait]
impl Database for Unreliable {
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.lose(self.inner.execute(statement).await)
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        self.lose(self.inner.query(statement).await)
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.lose(self.inner.batch_atomic(statements).await)
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.lose(self.inner.now().await)
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        self.lose(self.inner.read_then_write(step).await)
    }
}
