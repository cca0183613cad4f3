use std::sync::Arc;

use duebox_core::{
    Database, DbError, Dialect, Kind, Lease, LeaseOutcome, Outbox, OutboxEntry, OutboxRecord, Row,
    Statement,
};

use crate::{Harness, Sandbox, Schema};

/// What a test works with: its own database, with an empty outbox.
pub struct Context {
    pub(crate) sandbox: Box<dyn Sandbox>,
    pub(crate) db: Arc<dyn Database>,
    pub(crate) outbox: Outbox,
    pub(crate) schema: Schema,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

/// A time so many seconds into the tests' day, as the outbox writes it.
pub(crate) fn at(seconds: u64) -> String {
    at_micros(seconds * 1_000_000)
}

/// A time so many microseconds into the tests' day, which is 2026-03-01.
pub(crate) fn at_micros(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    format!(
        "2026-03-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        1 + seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        micros % 1_000_000
    )
}

/// The ids of records, in their order.
pub(crate) fn ids(records: &[OutboxRecord]) -> Vec<&str> {
    records.iter().map(|record| record.id.as_str()).collect()
}

impl Context {
    pub(crate) async fn open(harness: &dyn Harness, schema: Schema) -> Self {
        let sandbox = harness.open().await;
        let db = sandbox.database();
        let context = Self {
            sandbox,
            db,
            outbox: Outbox::new("outbox"),
            schema,
        };
        context.make(&context.outbox).await;
        context
    }

    pub(crate) async fn close(self) {
        drop(self.db);
        self.sandbox.close().await;
    }

    /// Makes the table of another outbox the way this test's was made.
    pub(crate) async fn make(&self, outbox: &Outbox) {
        match self.schema {
            Schema::Portable => {
                let statement = Statement::new(outbox.create_table_sql());
                self.db.execute(&statement).await.expect("make the table");
            }
            Schema::Shipped => self.sandbox.migrate_outbox(outbox).await.expect("migrate"),
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    /// Enqueues a row of topic `t` with its id as the payload.
    pub(crate) async fn enqueue(&self, id: &str, at: &str) {
        let statement = self.outbox.enqueue_statement(id, "t", id, None, at);
        self.db.batch_atomic(&[statement]).await.expect("enqueue");
    }

    /// Enqueues a row for a subject.
    pub(crate) async fn enqueue_for(&self, id: &str, subject: &str, at: &str) {
        let statement = self
            .outbox
            .enqueue_statement(id, "t", id, Some(subject), at);
        self.db.batch_atomic(&[statement]).await.expect("enqueue");
    }

    /// Enqueues `r000`, `r001`, … of one time.
    pub(crate) async fn enqueue_numbered(&self, rows: usize, at: &str) {
        let work = (0..rows).map(|number| {
            let time = duebox_core::parse_time(at).expect("a time");
            duebox_core::Enqueue::new("t")
                .id(numbered(number))
                .payload("p")
                .at(time)
        });
        let statement = self.outbox.enqueue_many_statement(work);
        self.db
            .batch_atomic(&[statement])
            .await
            .expect("enqueue many");
    }

    pub(crate) async fn claim(&self, now: &str, until: &str, limit: u64) -> Vec<OutboxRecord> {
        self.outbox
            .claim_due(&*self.db, now, until, limit)
            .await
            .expect("claim")
    }

    /// Claims one row that must be there.
    pub(crate) async fn claim_one(&self, now: &str, until: &str) -> OutboxRecord {
        let mut records = self.claim(now, until, 1).await;
        assert_eq!(records.len(), 1, "one row is due at {now}");
        records.remove(0)
    }

    pub(crate) async fn complete(&self, lease: &Lease) -> LeaseOutcome {
        let leases = [lease.clone()];
        self.outbox
            .complete_claimed(&*self.db, &leases)
            .await
            .expect("complete")[0]
    }

    pub(crate) async fn row(&self, id: &str) -> Option<OutboxEntry> {
        self.outbox.get(&*self.db, id).await.expect("get")
    }

    /// How many rows the table of the outbox holds.
    pub(crate) async fn count(&self) -> i64 {
        self.count_in(self.outbox.table()).await
    }

    pub(crate) async fn count_in(&self, table: &str) -> i64 {
        let statement = Statement::new(format!("SELECT COUNT(*) AS n FROM {table}"));
        let rows = self.db.query(&statement).await.expect("count");
        rows[0].get("n").expect("a count")
    }

    /// Makes a table `account (id, name)` of the caller's own.
    pub(crate) async fn make_account(&self) {
        let sql = "CREATE TABLE account (id VARCHAR(64) NOT NULL PRIMARY KEY, name VARCHAR(255), version BIGINT NOT NULL DEFAULT 0)";
        self.execute(sql).await;
    }

    /// Runs SQL that has no values.
    pub(crate) async fn execute(&self, sql: &str) {
        self.db
            .execute(&Statement::new(sql.to_owned()))
            .await
            .expect("the test's own SQL");
    }
}

/// `r007` for 7.
pub(crate) fn numbered(number: usize) -> String {
    format!("r{number:03}")
}

/// An insert into the table of [`Context::make_account`].
pub(crate) fn account(id: &str) -> Statement {
    Statement::new("INSERT INTO account (id, name) VALUES (?, ?)")
        .bind(id)
        .bind("someone")
}

/// Fails unless the error is of this kind and certain that nothing was done.
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(answer: Result<T, DbError>, kind: Kind) {
    let error = answer.expect_err("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.outcome(), duebox_core::Outcome::NotApplied, "{error}");
}

/// Waits for `future`, and fails rather than hang if it waits for what never
/// comes, such as a lock that nobody gives back. It measures nothing.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let limit = std::time::Duration::from_mins(2);
    tokio::time::timeout(limit, future)
        .await
        .expect("the call hangs")
}

impl Context {
    /// Enqueues rows of topic `t`, each with its time, in one batch.
    pub(crate) async fn enqueue_each(&self, rows: impl IntoIterator<Item = (String, String)>) {
        let work = rows.into_iter().map(|(id, at)| {
            let time = duebox_core::parse_time(&at).expect("a time");
            duebox_core::Enqueue::new("t").payload("p").id(id).at(time)
        });
        let statement = self.outbox.enqueue_many_statement(work);
        self.db
            .batch_atomic(&[statement])
            .await
            .expect("enqueue many");
    }

    /// The row, which must be there.
    pub(crate) async fn entry(&self, id: &str) -> OutboxEntry {
        self.row(id).await.expect("the row is there")
    }
}

impl Context {
    /// Runs a batch of the test's own.
    pub(crate) async fn batch(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.db.batch_atomic(statements).await
    }

    /// Runs a query of the test's own.
    pub(crate) async fn query(&self, statement: Statement) -> Vec<Row> {
        self.db
            .query(&statement)
            .await
            .expect("the test's own query")
    }

    /// Whether a table can be read.
    pub(crate) async fn has_table(&self, table: &str) -> bool {
        let statement = Statement::new(format!("SELECT COUNT(*) AS n FROM {table}"));
        match self.db.query(&statement).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Schema, "{error}");
                false
            }
        }
    }

    /// Fails unless a batch with this statement is refused, by this kind of
    /// error, before any SQL of it runs.
    pub(crate) async fn refuses(&self, statement: Statement, kind: Kind, what: &str) {
        // If any of it ran, the answer would be that this table is missing.
        let first = Statement::new("DELETE FROM nowhere");
        let error = self
            .batch(&[first, statement])
            .await
            .expect_err(&format!("refuse {what}"));
        assert_eq!(error.kind(), kind, "{what}: {error}");
        assert_eq!(error.statement(), Some(1), "{what}: {error}");
        assert_eq!(
            error.outcome(),
            duebox_core::Outcome::NotApplied,
            "{what}: {error}"
        );
    }
}
