use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use duebox_sqlite::chrono::{DateTime, Utc};
use duebox_sqlite::{Database, DbError, Dialect, ReadThenWrite, Row, Statement, Value};

/// A database that notices which claims began at the start of the queue.
pub(super) struct Watch {
    db: Arc<dyn Database>,
    scanned: AtomicBool,
}

impl Watch {
    pub(super) fn new(db: Arc<dyn Database>) -> Self {
        Self {
            db,
            scanned: AtomicBool::new(false),
        }
    }

    /// Whether the last claim was a full scan: its lower bound is the first
    /// value that it binds, and the empty text then.
    pub(super) fn scanned(&self) -> bool {
        self.scanned.load(Ordering::Relaxed)
    }

    fn look(&self, statement: &Statement) -> Result<(), DbError> {
        let bound = statement.render(self.db.dialect())?;
        let scan = bound.values().first() == Some(&Value::from(""));
        self.scanned.store(scan, Ordering::Relaxed);
        Ok(())
    }
}

#[async_trait]
impl Database for Watch {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.db.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        self.look(statement)?;
        self.db.query(statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.db.batch_atomic(statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.db.now().await
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        self.look(step.read())?;
        self.db.read_then_write(step).await
    }
}
