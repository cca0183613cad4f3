use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, ReadThenWrite, Row, Statement, Value};

/// A database that remembers the statements it was given, those inside a
/// [`ReadThenWrite`] included.
#[derive(Clone)]
pub(crate) struct Recording {
    inner: Arc<dyn Database>,
    seen: Arc<Mutex<Vec<Statement>>>,
}

impl Recording {
    pub(crate) fn new(inner: Arc<dyn Database>) -> Self {
        Self {
            inner,
            seen: Arc::default(),
        }
    }

    /// The statements since the last call.
    pub(crate) fn take(&self) -> Vec<Statement> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lower bound on when rows fell due of the last claim seen, empty if
    /// it read from the start of the queue; `None` if no claim was seen.
    pub(crate) fn claim_bound(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = seen.iter().rfind(|statement| is_claim(statement))?;
        match claim.values() {
            Ok([Value::Text(bound), ..]) => Some(bound.clone()),
            _ => panic!("a claim binds its lower bound first"),
        }
    }

    fn see(&self, statements: &[Statement]) {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(statements);
    }
}

/// Whether this reads the rows of a claim.
pub(crate) fn is_claim(statement: &Statement) -> bool {
    statement
        .sql()
        .is_ok_and(|sql| sql.contains("visible_at AS due_at"))
}

#[async_trait]
impl Database for Recording {
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.see(std::slice::from_ref(statement));
        self.inner.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        self.see(std::slice::from_ref(statement));
        self.inner.query(statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.see(statements);
        self.inner.batch_atomic(statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.inner.now().await
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        self.see(std::slice::from_ref(step.read()));
        let rows = self.inner.read_then_write(step).await?;
        // What follows from rows depends on nothing else, so it can be asked again.
        self.see(&step.then(&rows)?);
        Ok(rows)
    }
}
